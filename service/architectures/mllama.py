"""Llama 3.2 Vision: a Llama decoder with layers of its own that attend to image tokens."""

from typing import Final

from service.architectures.architecture import CacheEntry, Mixer, Split
from service.architectures.attention import AttentionTraits, Heads, grouped_query_attention, read_heads
from service.architectures.decoder import Dialect
from service.architectures.fields import MAX_LAYERS, Fields
from service.architectures.weights import Part

#: Image tokens that a cross-attention layer caches for one image: 4 tiles of 40 x 40 patches and a class token each.
IMAGE_TOKENS: Final = 4 * (40 * 40 + 1)


def cross_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Self-attention, and cross-attention in the layers of cross_attention_layers.

    The keys and values of one image at full size are counted, whatever the length of the text (none for text alone).
    """
    del dialect
    heads = read_heads(fields)
    full, cross = grouped_query_attention(heads), _cross_attention(heads)
    chosen = fields.counts("cross_attention_layers", at_most=MAX_LAYERS)
    if chosen is None:
        raise fields.refuse("cross_attention_layers", "This key is missing.", "List the cross-attention layers.")
    return [cross if index in chosen else full for index in range(num_layers)]


def _cross_attention(heads: Heads) -> Part:
    traits = AttentionTraits(module="cross_attn", qk_norm="head")
    part = grouped_query_attention(heads, traits, window_tokens=IMAGE_TOKENS, mixer=Mixer.CROSS)
    elements = heads.num_kv_heads * (heads.query_key_head_dim + heads.value_head_dim)
    cache = CacheEntry("cross_kv", float(elements), Split.KV_HEADS, fixed_entries=IMAGE_TOKENS)
    return Part(weights=part.weights, mixer=Mixer.CROSS, cache=(cache,), attention=part.attention)


MLLAMA: Final = Dialect(
    reader="mllama",
    mixing=cross_mixing,
    defaults={"num_key_value_heads": 8},
)
