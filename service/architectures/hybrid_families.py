"""Decoders that mix attention with recurrent layers, each layer one of both and a feed-forward part.

Layouts follow transformers 5.24.
"""

from collections.abc import Mapping
from typing import Final

from service.architectures.attention import AttentionTraits, grouped_query_attention, read_heads
from service.architectures.decoder import Dialect, ExpertTraits, attention_traits
from service.architectures.fields import MAX_LAYERS, Fields
from service.architectures.recurrent import (
    gated_delta_net,
    lightning_attention,
    read_delta_net,
    short_convolution,
)
from service.architectures.weights import Part


def delta_net_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Qwen3-Next and Qwen3.5: gated delta nets, and full attention with an output gate in every fourth layer."""
    traits = attention_traits(fields, dialect)
    gated = AttentionTraits(
        module=traits.module, qkv_bias=traits.qkv_bias, o_bias=traits.o_bias, qk_norm="head",
        gate=fields.flag("attn_output_gate", True),
    )  # fmt: skip
    full = grouped_query_attention(read_heads(fields), gated)
    linear = gated_delta_net(read_delta_net(fields))
    types = fields.texts("layer_types", length=num_layers)
    if types is None:
        period = fields.count("full_attention_interval", 4, at_most=MAX_LAYERS)
        return [linear if (index + 1) % period else full for index in range(num_layers)]
    return [pick(fields, name, {"linear_attention": linear, "full_attention": full}) for name in types]


def pick(fields: Fields, name: str, known: Mapping[str, Part]) -> Part:
    """The part that a layer type names; refuses a name that the family does not have."""
    part = known.get(name)
    if part is None:
        raise fields.refuse(
            "layer_types", f"The layer type {name[:40]!r} is not known.", f"Use one of {', '.join(known)}."
        )
    return part


def minimax_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """MiniMax-Text-01 and M1: attn_type_list says 1 for softmax attention, 0 for lightning attention."""
    heads = read_heads(fields)
    full = grouped_query_attention(heads, attention_traits(fields, dialect))
    linear = lightning_attention(heads.hidden_size, heads.num_query_heads, heads.query_key_head_dim)
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        return [pick(fields, name, {"linear_attention": linear, "full_attention": full}) for name in types]
    flags = fields.counts("attn_type_list", length=num_layers, at_most=1)
    if flags is None:
        raise fields.refuse("attn_type_list", "This key is missing.", "Say 0 or 1 for every layer.")
    return [full if flag else linear for flag in flags]


def lfm2_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """LFM2: short convolutions, and attention in the layers of full_attn_idxs or layer_types."""
    full = grouped_query_attention(read_heads(fields), attention_traits(fields, dialect))
    conv = short_convolution(
        fields.count("hidden_size"), fields.count("conv_L_cache", 3, at_most=1_000), bias=fields.flag("conv_bias")
    )
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        return [pick(fields, name, {"conv": conv, "full_attention": full}) for name in types]
    chosen = fields.counts("full_attn_idxs", at_most=MAX_LAYERS)
    if chosen is None:
        return [full] * num_layers
    return [full if index in chosen else conv for index in range(num_layers)]


def lfm2_width(fields: Fields) -> int:
    """LFM2's MLP width: two thirds of block_ff_dim, scaled and rounded up to a multiple (transformers Lfm2MLP)."""
    width = fields.maybe_count("block_ff_dim") or fields.count("intermediate_size")
    if not fields.flag("block_auto_adjust_ff_dim", True):
        return width
    scaled = int(fields.number("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
    multiple = fields.count("block_multiple_of", 256)
    return -(-scaled // multiple) * multiple


_QWEN_EXPERTS: Final = ExpertTraits(shared="width_gated", shared_module="shared_expert")
_DELTA_DEFAULTS: Final[Mapping[str, object]] = {
    "head_dim": 256, "num_key_value_heads": 2, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "shared_expert_intermediate_size": 512,
}  # fmt: skip

HYBRID_DIALECTS: Final[Mapping[str, Dialect]] = {
    "qwen3_next": Dialect(
        reader="qwen3_next", mixing=delta_net_mixing, qkv_bias="attention_bias", o_bias="attention_bias",
        experts=_QWEN_EXPERTS, defaults=_DELTA_DEFAULTS,
    ),
    "qwen3_5_text": Dialect(
        reader="qwen3_5", mixing=delta_net_mixing, qkv_bias="attention_bias", o_bias="attention_bias",
        defaults=dict(_DELTA_DEFAULTS) | {"num_key_value_heads": 4},
    ),
    "qwen3_5_moe_text": Dialect(
        reader="qwen3_5", mixing=delta_net_mixing, qkv_bias="attention_bias", o_bias="attention_bias",
        experts=_QWEN_EXPERTS, defaults=_DELTA_DEFAULTS,
    ),
    "minimax": Dialect(
        reader="minimax", mixing=minimax_mixing, defaults={"num_key_value_heads": 8},
        experts=ExpertTraits(module="block_sparse_moe", names=("w1", "w3", "w2"), width_key="intermediate_size"),
    ),
    "lfm2": Dialect(
        reader="lfm2", mixing=lfm2_mixing, mlp="feed_forward", mlp_names=("w1", "w3", "w2"), qk_norm="head",
        intermediate=lfm2_width, defaults={"num_key_value_heads": 8, "tie_word_embeddings": True},
        aliases={"tie_word_embeddings": ("tie_embedding", "tie_word_embeddings")},
    ),
}  # fmt: skip
