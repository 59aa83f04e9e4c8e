"""A reader for decoders of unknown families whose keys are all of the usual kind.

It reads what the keys say, notes that it did, and refuses where a key shows a structure that it cannot know (recurrent
layers, pruned blocks, encoders), since a plain decoder of the same size would have another cache and other weights.
"""

from typing import Final

from msgspec.structs import replace

from service.architectures.architecture import Architecture
from service.architectures.assembly import Source
from service.architectures.decoder import Dialect, ExpertTraits, read_decoder
from service.architectures.fields import Fields
from service.architectures.latent import has_latent_keys, latent_mixing, sparse_latent_mixing
from service.architectures.patterns import layer_windows, switched_windows
from service.architectures.refusal import UnreadableConfig
from service.architectures.vision import tower_weights

_NEEDED: Final = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")

#: Keys of structures that the plain decoder does not have.
_FOREIGN: Final = (
    "ssm_state_size", "state_size", "mamba_d_state", "mamba_d_ssm", "mamba_num_heads", "mamba_d_conv", "conv_L_cache",
    "linear_num_value_heads", "linear_attn_config", "attn_type_list", "hybrid_override_pattern", "block_configs",
    "lru_width", "compress_ratios", "cross_attention_layers", "num_kv_shared_layers", "hidden_size_per_layer_input",
    "attn_config", "ffn_config", "zero_expert_num", "moe_latent_size", "num_global_key_value_heads", "lightning_config",
    "encoder_layers", "num_decoder_layers", "type_vocab_size", "mb_per_layer", "layer_group_size",
)  # fmt: skip


def read_generic(source: Source) -> Architecture:
    """The architecture of a decoder of an unknown family, from its keys alone."""
    fields = source.text
    _refuse_foreign(source.family, fields)
    sparse = fields.has("num_experts") and fields.count("num_experts", at_least=0, at_most=100_000) > 1
    for name in (*_NEEDED, *(("num_experts_per_tok",) if sparse else ("intermediate_size",))):
        if not fields.has(name):
            raise UnreadableConfig(
                fields.place("model_type"),
                f"{_unknown(source.family)} and the configuration has no {name}.",
                f"Add {name}, or give the model_type of a known family.",
            )
    towers, tower_notes = tower_weights(source.top, fields.count("hidden_size"))
    architecture = read_decoder(source, _dialect(fields, sparse=sparse), towers=towers)
    return replace(architecture, notes=(*_notes(source), *architecture.notes, *tower_notes))


def _notes(source: Source) -> tuple[str, ...]:
    """What reading without knowing the family had to assume."""
    fields = source.text
    found = [f"{_unknown(source.family)}: read generically, as gated MLPs and two norms a layer."]
    if not fields.has("tie_word_embeddings") and not source.top.has("tie_word_embeddings"):
        found.append("tie_word_embeddings is absent: the lm_head is taken to be stored apart from the embedding.")
    if fields.has("sliding_window") and not fields.has("layer_types") and not fields.has("use_sliding_window"):
        found.append("layer_types is absent: sliding_window is taken to hold in every layer.")
    return tuple(found)


def _dialect(fields: Fields, *, sparse: bool) -> Dialect:
    latent = has_latent_keys(fields)
    indexed = latent and fields.has("index_topk")
    width_key = "moe_intermediate_size" if fields.has("moe_intermediate_size") else "intermediate_size"
    experts = None
    if sparse:
        counted = ExpertTraits(width_key=width_key, shared="count")
        experts = counted if fields.has("n_shared_experts") else replace(counted, shared="width")
    return Dialect(
        reader="generic",
        mixing=sparse_latent_mixing if indexed else latent_mixing if latent else None,
        qkv_bias="qkv_bias" if fields.has("qkv_bias") else "attention_bias",
        o_bias="attention_bias",
        mlp_bias="mlp_bias",
        qk_norm="head" if fields.flag("use_qk_norm") or fields.flag("qk_norm") else "",
        windows=switched_windows if fields.has("use_sliding_window") else layer_windows,
        experts=experts,
    )


def _unknown(family: str) -> str:
    return f"The family {family[:60]!r} is not known" if family else "No model_type is given"


def _refuse_foreign(family: str, fields: Fields) -> None:
    for name in _FOREIGN:
        if fields.values.get(name) not in (None, 0, False, []):
            raise UnreadableConfig(
                fields.path + name,
                f"{_unknown(family)}, and this key shows layers that a plain decoder does not have.",
                "Give the model_type of a known family with the same structure, or the sizes of the model directly.",
            )
    if fields.values.get("is_encoder_decoder") is True:
        raise UnreadableConfig(
            fields.path + "is_encoder_decoder", "Encoder-decoder models are not read.", "Give a decoder-only model."
        )
