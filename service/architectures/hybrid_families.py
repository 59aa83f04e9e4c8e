"""Decoders that mix attention with recurrent layers, each layer one of both and a feed-forward part.

Layouts follow transformers 5.24; Kimi-K3 follows the keys of its published configuration.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from service.architectures.architecture import Mixer
from service.architectures.attention import (
    grouped_query_attention,
    latent_attention,
    read_heads,
    read_latent,
)
from service.architectures.decoder import Dialect, ExpertTraits, attention_traits
from service.architectures.feed_forward import Mlp, mlp_weights
from service.architectures.fields import MAX_HEADS, MAX_LAYERS, Fields
from service.architectures.recurrent import (
    DeltaAttention,
    Mamba1,
    Mamba2,
    gated_delta_net,
    kimi_delta_attention,
    lightning_attention,
    mamba1,
    mamba2,
    read_delta_net,
    short_convolution,
)
from service.architectures.weights import Part, Weight

_ATTENTION_NAMES: Final = ("full_attention", "attention")
_MAMBA_NAMES: Final = ("linear_attention", "mamba", "mamba2")


def pick(fields: Fields, names: list[str], attention: Part, recurrent: Part, recurrent_names: tuple[str, ...]) -> list[Part]:
    """The part that each layer type names; refuses a name that the family does not have."""
    known = dict.fromkeys(_ATTENTION_NAMES, attention) | dict.fromkeys(recurrent_names, recurrent)
    for name in names:
        if name not in known:
            raise fields.refuse("layer_types", f"The layer type {name[:40]!r} is not known.", f"Use one of {', '.join(known)}.")
    return [known[name] for name in names]


def delta_net_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Qwen3-Next and Qwen3.5: gated delta nets, and full attention with an output gate in every fourth layer."""
    traits = replace(attention_traits(fields, dialect), qk_norm="head", gate=fields.flag("attn_output_gate", True))
    full = grouped_query_attention(read_heads(fields), traits)
    linear = gated_delta_net(read_delta_net(fields))
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        return pick(fields, types, full, linear, ("linear_attention",))
    period = fields.count("full_attention_interval", 4, at_most=MAX_LAYERS)
    return [linear if (index + 1) % period else full for index in range(num_layers)]


def minimax_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """MiniMax-Text-01 and M1: attn_type_list says 1 for softmax attention, 0 for lightning attention."""
    heads = read_heads(fields)
    full = grouped_query_attention(heads, attention_traits(fields, dialect))
    linear = lightning_attention(heads.hidden_size, heads.num_query_heads, heads.query_key_head_dim)
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        return pick(fields, types, full, linear, ("linear_attention",))
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
        return pick(fields, types, full, conv, ("conv",))
    chosen = fields.counts("full_attn_idxs", at_most=MAX_LAYERS)
    return [full if chosen is None or index in chosen else conv for index in range(num_layers)]


def lfm2_width(fields: Fields) -> int:
    """LFM2's MLP width: two thirds of block_ff_dim, scaled and rounded up to a multiple (transformers Lfm2MLP)."""
    width = fields.maybe_count("block_ff_dim") or fields.count("intermediate_size")
    if not fields.flag("block_auto_adjust_ff_dim", True):
        return width
    scaled = int(fields.number("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
    multiple = fields.count("block_multiple_of", 256)
    return max(1, -(-scaled // multiple)) * multiple


def jamba_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Jamba: Mamba mixers, and attention in every attn_layer_period-th layer."""
    hidden = fields.count("hidden_size")
    dims = Mamba1(
        hidden_size=hidden,
        inner_size=fields.count("mamba_expand", 2, at_most=1_000) * hidden,
        state_size=fields.count("mamba_d_state", 16, at_most=65_536),
        kernel=fields.count("mamba_d_conv", 4, at_most=1_000),
        rank=time_step_rank(fields, "mamba_dt_rank", hidden),
        conv_bias=fields.flag("mamba_conv_bias", True),
        projection_bias=fields.flag("mamba_proj_bias"),
        inner_norms=True,
        module="mamba",
    )
    full = grouped_query_attention(read_heads(fields), attention_traits(fields, dialect))
    linear = mamba1(dims)
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        return pick(fields, types, full, linear, _MAMBA_NAMES)
    period = fields.count("attn_layer_period", 8, at_most=MAX_LAYERS)
    offset = fields.count("attn_layer_offset", 4, at_least=0, at_most=MAX_LAYERS)
    return [full if index % period == offset else linear for index in range(num_layers)]


def time_step_rank(fields: Fields, name: str, hidden: int) -> int:
    """The rank of Mamba's time step: a number, or "auto" for a sixteenth of the hidden size, rounded up."""
    if fields.given(name) in (None, "auto"):
        return -(-hidden // 16)
    return fields.count(name)


def _mamba2_of_d_keys(fields: Fields, *, inner: int | None = None, gated_norm: bool = True) -> Part:
    """Mamba-2 from mamba_d_* keys (Bamba, Granite 4, Falcon-H1); mamba_d_head may be "auto"."""
    hidden = fields.count("hidden_size")
    width = inner or int(fields.number("mamba_expand", 2.0) * hidden)
    heads = fields.count("mamba_n_heads", at_most=MAX_HEADS)
    if fields.given("mamba_d_head") in (None, "auto"):
        if width % heads or not width:
            raise fields.refuse("mamba_n_heads", f"{width} does not divide over {heads} heads.", "Give mamba_d_head.")
        head_dim = width // heads
    else:
        head_dim = fields.count("mamba_d_head", at_most=65_536)
    return mamba2(
        Mamba2(
            hidden_size=hidden,
            num_heads=heads,
            head_dim=head_dim,
            state_size=fields.count("mamba_d_state", at_most=65_536),
            num_groups=fields.count("mamba_n_groups", 1, at_most=MAX_HEADS),
            kernel=fields.count("mamba_d_conv", 4, at_most=1_000),
            conv_bias=fields.flag("mamba_conv_bias", True),
            projection_bias=fields.flag("mamba_proj_bias"),
            gated_norm=gated_norm,
            module="mamba",
        )
    )


def bamba_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Bamba and Granite 4: Mamba-2, and attention where attn_layer_indices or layer_types say so."""
    full = grouped_query_attention(read_heads(fields), attention_traits(fields, dialect))
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        all_full = all(name in _ATTENTION_NAMES for name in types)
        return pick(fields, types, full, full if all_full else _mamba2_of_d_keys(fields), _MAMBA_NAMES)
    chosen = fields.counts("attn_layer_indices", at_most=MAX_LAYERS) or []
    linear = _mamba2_of_d_keys(fields)
    return [full if index in chosen else linear for index in range(num_layers)]


def falcon_h1_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Falcon-H1: attention and Mamba-2 side by side in every layer, both with their caches."""
    attention = grouped_query_attention(read_heads(fields), attention_traits(fields, dialect))
    recurrent = _mamba2_of_d_keys(fields, inner=fields.maybe_count("mamba_d_ssm"), gated_norm=fields.flag("mamba_rms_norm"))
    both = Part(
        weights=attention.weights + recurrent.weights,
        mixer=Mixer.FULL,
        cache=attention.cache + recurrent.cache,
        attention=attention.attention,
        divided=recurrent.divided,
    )
    return [both] * num_layers


def kimi_linear_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Kimi Linear and K3: Kimi delta attention, and latent attention in every fourth layer or so.

    linear_attn_config lists the layers of each kind, counted from 1; transformers' own configurations have
    layer_types and linear_* keys instead.
    """
    latent = latent_attention(read_latent(fields, module=dialect.attention))
    section = fields.section("linear_attn_config")
    keys = fields if section is None else section
    prefix = "linear_" if section is None else ""
    kernel = "linear_conv_kernel_dim" if section is None else "short_conv_kernel_size"
    linear = kimi_delta_attention(
        DeltaAttention(
            hidden_size=fields.count("hidden_size"),
            num_heads=keys.count(f"{prefix}num_heads", at_most=MAX_HEADS),
            head_dim=keys.count(f"{prefix}head_dim", at_most=65_536),
            kernel=keys.count(kernel, 4, at_most=1_000),
            full_rank_gate=keys.flag("use_full_rank_gate"),
        )
    )
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        return pick(fields, types, latent, linear, ("linear_attention",))
    chosen = keys.counts("full_attn_layers", at_least=1, at_most=MAX_LAYERS)
    if chosen is None:
        raise keys.refuse("full_attn_layers", "This key is missing.", "List the layers of full attention, from 1.")
    return [latent if index + 1 in chosen else linear for index in range(num_layers)]


def _shared_mlp(fields: Fields, hidden: int) -> tuple[Weight, ...]:
    """Granite 4's dense MLP, beside the experts or instead of them."""
    return mlp_weights(Mlp(hidden, fields.count("shared_intermediate_size"), module="shared_mlp"))


def _granite_hybrid(fields: Fields) -> Mapping[str, object]:
    """Without experts (num_local_experts 0) the shared MLP is the layer's own."""
    if fields.given("num_experts") == 0:
        return {"intermediate_size": fields.count("shared_intermediate_size"), "moe_layers": []}
    return {}


_QWEN_EXPERTS: Final = ExpertTraits(shared="width_gated", shared_module="shared_expert")
_DELTA_DEFAULTS: Final[Mapping[str, object]] = {
    "head_dim": 256, "num_key_value_heads": 2, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "shared_expert_intermediate_size": 512,
}  # fmt: skip
_QWEN3_NEXT: Final = Dialect(
    reader="qwen3_next", mixing=delta_net_mixing, qkv_bias="attention_bias", o_bias="attention_bias",
    experts=_QWEN_EXPERTS, defaults=_DELTA_DEFAULTS,
)  # fmt: skip
_LFM2: Final = Dialect(
    reader="lfm2", mixing=lfm2_mixing, mlp="feed_forward", mlp_names=("w1", "w3", "w2"), qk_norm="head",
    intermediate=lfm2_width, defaults={"num_key_value_heads": 8, "tie_word_embeddings": True},
    aliases={"tie_word_embeddings": ("tie_embedding", "tie_word_embeddings")},
)  # fmt: skip
_KIMI_EXPERTS: Final = ExpertTraits(
    module="block_sparse_moe", names=("w1", "w3", "w2"), router_bias=True, shared="count",
    latent_key="routed_expert_hidden_size", latent_names=("routed_expert_down_proj", "routed_expert_up_proj"),
)  # fmt: skip

HYBRID_DIALECTS: Final[Mapping[str, Dialect]] = {
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5_text": replace(
        _QWEN3_NEXT, reader="qwen3_5", experts=None, defaults=dict(_DELTA_DEFAULTS) | {"num_key_value_heads": 4}
    ),
    "qwen3_5_moe_text": replace(_QWEN3_NEXT, reader="qwen3_5"),
    "minimax": Dialect(
        reader="minimax", mixing=minimax_mixing, defaults={"num_key_value_heads": 8},
        experts=ExpertTraits(module="block_sparse_moe", names=("w1", "w3", "w2"), width_key="intermediate_size"),
    ),
    "lfm2": _LFM2,
    "lfm2_moe": replace(
        _LFM2, intermediate=None, defaults=dict(_LFM2.defaults) | {"first_k_dense_replace": 2, "use_expert_bias": True},
        experts=ExpertTraits(module="feed_forward", names=("w1", "w3", "w2"), router_bias="use_expert_bias"),
    ),
    "jamba": Dialect(
        reader="jamba", mixing=jamba_mixing, mlp="feed_forward",
        experts=ExpertTraits(module="feed_forward", router="router", width_key="intermediate_size"),
        defaults={"num_key_value_heads": 8},
    ),
    "bamba": Dialect(
        reader="bamba", mixing=bamba_mixing, mlp="feed_forward", qkv_bias="attention_bias", o_bias="attention_bias",
        mlp_bias="mlp_bias", defaults={"num_key_value_heads": 8},
    ),
    "granitemoehybrid": Dialect(
        reader="granitemoehybrid", mixing=bamba_mixing, mlp="shared_mlp", adapt=_granite_hybrid,
        qkv_bias="attention_bias", o_bias="attention_bias",
        experts=ExpertTraits(
            module="block_sparse_moe", router="router.layer", width_key="intermediate_size", beside=_shared_mlp
        ),
    ),
    "falcon_h1": Dialect(
        reader="falcon_h1", mixing=falcon_h1_mixing, mlp="feed_forward", qkv_bias="attention_bias",
        o_bias="attention_bias", mlp_bias="mlp_bias", defaults={"num_key_value_heads": 8},
    ),
    "kimi_linear": Dialect(
        reader="kimi_linear", mixing=kimi_linear_mixing, experts=_KIMI_EXPERTS,
        defaults={"first_k_dense_replace": 1, "n_shared_experts": 1},
    ),
}  # fmt: skip
