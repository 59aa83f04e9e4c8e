"""Llama 4: chunked attention in three layers of four, one shared expert, and in Maverick experts in every other layer."""

from typing import Final

from service.architectures.architecture import Mixer
from service.architectures.attention import grouped_query_attention, read_heads
from service.architectures.decoder import Dialect, ExpertTraits, attention_traits
from service.architectures.fields import MAX_TOKENS, Fields
from service.architectures.weights import Part


def chunked_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Layers with rotary positions attend within a chunk, the others (every fourth) to everything.

    ``no_rope_layers`` says 1 where a layer has rotary positions, whatever its name suggests (transformers 5.24
    Llama4TextConfig). At most one chunk is needed in the cache.
    """
    heads = read_heads(fields)
    traits = attention_traits(fields, dialect)
    full = grouped_query_attention(heads, traits)
    chunk = fields.maybe_count("attention_chunk_size", at_most=MAX_TOKENS)
    if chunk is None:
        return [full] * num_layers
    chunked = grouped_query_attention(heads, traits, window_tokens=chunk, mixer=Mixer.CHUNKED)
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        return [chunked if name == "chunked_attention" else full for name in types]
    given = fields.counts("no_rope_layers", at_most=1)
    if given:
        rotary = fields.counts("no_rope_layers", length=num_layers, at_most=1) or []
    else:
        period = fields.count("no_rope_layer_interval", at_most=1_000)
        rotary = [int((index + 1) % period != 0) for index in range(num_layers)]
    return [chunked if has_rope else full for has_rope in rotary]


LLAMA4: Final = Dialect(
    reader="llama4",
    mixing=chunked_mixing,
    qkv_bias="attention_bias",
    o_bias="attention_bias",
    mlp="feed_forward",
    intermediate=lambda fields: fields.count("intermediate_size_mlp"),
    experts=ExpertTraits(
        module="feed_forward",
        router="router",
        width_key="intermediate_size",
        shared="one",
        shared_module="shared_expert",
    ),
    # transformers 5.24 Llama4TextConfig
    defaults={
        "attention_chunk_size": 8192,
        "no_rope_layer_interval": 4,
        "head_dim": 128,
        "num_key_value_heads": 8,
        "interleave_moe_layer_step": 1,
        "num_experts_per_tok": 1,
        "num_local_experts": 16,
        "intermediate_size_mlp": 16384,
        "vocab_size": 202048,
    },
)
