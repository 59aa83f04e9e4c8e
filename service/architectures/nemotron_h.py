"""Nemotron-H: every layer is one thing only, a Mamba-2 mixer, attention, an MLP, or experts, with one norm before it.

Layouts follow transformers 5.24 NemotronH; Nemotron-3 Super and Ultra route to experts of a latent width.
"""

from collections.abc import Mapping
from typing import Final

from service.architectures.architecture import Architecture, Experts, FeedForward, Role, Split
from service.architectures.assembly import Model, Source, assemble
from service.architectures.attention import AttentionTraits, grouped_query_attention, read_heads
from service.architectures.feed_forward import ExpertBlock, Mlp, dense, expert_weights, mlp_weights, read_experts
from service.architectures.fields import MAX_HEADS, MAX_LAYERS, Fields
from service.architectures.recurrent import Mamba2, mamba2, state_precision
from service.architectures.weights import Layer, Part, layer, matrix, norm

_KINDS: Final[Mapping[str, str]] = {
    "M": "mamba", "*": "attention", "-": "mlp", "E": "moe", "mamba": "mamba", "linear_attention": "mamba",
    "attention": "attention", "full_attention": "attention", "mlp": "mlp", "moe": "moe",
}  # fmt: skip
_UNGATED: Final = ("", "up_proj", "down_proj")
_NOTHING: Final = Part(weights=())
_DEFAULTS: Final[Mapping[str, object]] = {
    "head_dim": 128, "num_key_value_heads": 8, "ssm_state_size": 128, "mamba_num_heads": 128, "mamba_head_dim": 64,
    "n_groups": 8, "conv_kernel": 4, "use_conv_bias": True,
}  # fmt: skip
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "head_dim": ("head_dim", "attention_head_dim"),
    "n_groups": ("mamba_n_groups", "n_groups"),
    "conv_kernel": ("mamba_d_conv", "conv_kernel"),
    "use_conv_bias": ("mamba_conv_bias", "use_conv_bias"),
}


def read_nemotron_h(source: Source) -> Architecture:
    """The architecture of a Nemotron-H or Nemotron-3 model."""
    fields = source.text.with_defaults(_DEFAULTS, _ALIASES)
    hidden = fields.count("hidden_size")
    kinds = _layer_kinds(fields)
    experts = read_experts(fields) if "moe" in kinds else None
    mlp_width = fields.count("intermediate_size") if "mlp" in kinds else None
    made = {kind: _layer(fields, kind, hidden, experts, mlp_width) for kind in dict.fromkeys(kinds)}
    number = fields.count("num_nextn_predict_layers", 0, at_least=0, at_most=100)
    prediction = [_layer(fields, kind, hidden, experts, mlp_width) for kind in _prediction_kinds(fields)] if number else []
    joined = (matrix("eh_proj", Role.MLP, 2 * hidden, hidden), norm("mtp.norms", 3 * hidden))
    return assemble(
        source,
        Model(
            reader="nemotron_h",
            fields=fields,
            hidden_size=hidden,
            vocab_size=fields.count("vocab_size"),
            layers=[made[kind] for kind in kinds],
            tied=fields.flag("tie_word_embeddings"),
            outer=(norm("norm_f", hidden),),
            experts=experts,
            intermediate_size=mlp_width,
            prediction=prediction * number,
            prediction_weights=joined * number,
        ),
    )


def _layer_kinds(fields: Fields) -> list[str]:
    given = fields.given("layer_types")
    if given is None:
        pattern = fields.text("hybrid_override_pattern")
        if not 0 < len(pattern) <= MAX_LAYERS:
            raise fields.refuse("hybrid_override_pattern", "Its length is out of range.", "Give one letter a layer.")
        return [_kind(fields, "hybrid_override_pattern", letter) for letter in pattern]
    kinds = [_kind(fields, "layer_types", name) for name in fields.texts("layer_types") or []]
    if not kinds:
        raise fields.refuse("layer_types", "It is empty.", "Give one entry a layer.")
    return kinds


def _prediction_kinds(fields: Fields) -> list[str]:
    if fields.has("mtp_layers_block_type"):
        return [_kind(fields, "mtp_layers_block_type", name) for name in fields.texts("mtp_layers_block_type") or []]
    pattern = fields.text("mtp_hybrid_override_pattern", "*E")[:MAX_LAYERS]
    return [_kind(fields, "mtp_hybrid_override_pattern", letter) for letter in pattern]


def _kind(fields: Fields, key: str, name: str) -> str:
    kind = _KINDS.get(name)
    if kind is None:
        raise fields.refuse(key, f"The layer type {name[:40]!r} is not known.", "Use mamba, attention, mlp or moe.")
    return kind


def _layer(fields: Fields, kind: str, hidden: int, experts: Experts | None, mlp_width: int | None) -> Layer:
    before = (norm("norm", hidden),)
    if kind == "mamba":
        return layer(mamba2(_mamba_dims(fields, hidden)), _NOTHING, before)
    if kind == "attention":
        traits = AttentionTraits(module="mixer", qkv_bias=fields.flag("attention_bias"))
        return layer(grouped_query_attention(read_heads(fields), traits), _NOTHING, before)
    if kind == "moe" and experts is not None:
        return layer(_NOTHING, _experts(fields, hidden, experts), before)
    width = mlp_width or fields.count("intermediate_size")
    mlp = Mlp(hidden, width, False, fields.flag("mlp_bias"), "mixer", _UNGATED)
    return layer(_NOTHING, dense(mlp), before)


def _mamba_dims(fields: Fields, hidden: int) -> Mamba2:
    return Mamba2(
        hidden_size=hidden,
        num_heads=fields.count("mamba_num_heads", at_most=MAX_HEADS),
        head_dim=fields.count("mamba_head_dim", at_most=65_536),
        state_size=fields.count("ssm_state_size", at_most=65_536),
        num_groups=fields.count("n_groups", at_most=MAX_HEADS),
        kernel=fields.count("conv_kernel", at_most=1_000),
        conv_bias=fields.flag("use_conv_bias"),
        projection_bias=fields.flag("use_bias"),
        state_precision=state_precision(fields, "mamba_ssm_cache_dtype"),
    )


def _experts(fields: Fields, hidden: int, experts: Experts) -> Part:
    latent = fields.maybe_count("moe_latent_size")
    block = ExpertBlock(
        hidden_size=hidden,
        experts=experts,
        module="mixer",
        names=_UNGATED,
        gated=False,
        router_bias=True,
        expert_hidden_size=latent,
    )
    weights = expert_weights(block)
    width = fields.count("moe_shared_expert_intermediate_size", 0, at_least=0)
    if width and fields.count("n_shared_experts", 1, at_least=0):
        shared = Mlp(hidden, width, False, fields.flag("mlp_bias"), "mixer.shared_experts", _UNGATED)
        weights += mlp_weights(shared, Role.SHARED_EXPERTS)
    if latent is not None:
        weights += (
            matrix("mixer.fc1_latent_proj", Role.MLP, hidden, latent, Split.REPLICATED),
            matrix("mixer.fc2_latent_proj", Role.MLP, latent, hidden, Split.REPLICATED),
        )
    return Part(weights=weights, feed_forward=FeedForward.EXPERTS)
