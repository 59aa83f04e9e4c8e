"""Families of decoders with grouped-query attention and routed experts, one entry each.

Class defaults stand here where published checkpoints leave the key out; layouts follow transformers 5.24, or the
checkpoint's own code for families that are not in it (Arctic, Bailing, Grok, Hunyuan-Large, Step).
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from service.architectures.architecture import Role
from service.architectures.decoder import Dialect, ExpertTraits
from service.architectures.feed_forward import Mlp, mlp_weights
from service.architectures.fields import MAX_EXPERTS, MAX_HEADS, Fields
from service.architectures.layered_attention import (
    MIMO_V2_DEFAULTS,
    hunyuan_mixing,
    laguna_mixing,
    mimo_v2_mixing,
    minimax_m3_mixing,
    step3_mixing,
    step_mixing,
)
from service.architectures.patterns import layer_windows, switched_windows
from service.architectures.weights import Weight, norm

_W: Final = ("w1", "w3", "w2")


def _dbrx(fields: Fields) -> Mapping[str, object]:
    """DBRX nests what others keep at the top: attn_config and ffn_config."""
    attention, feeding = fields.section("attn_config"), fields.section("ffn_config")
    if attention is None or feeding is None:
        name = "attn_config" if attention is None else "ffn_config"
        raise fields.refuse(name, "This key is missing.", f"Add {name} to the configuration.")
    return {
        "num_key_value_heads": attention.count("kv_n_heads", at_most=MAX_HEADS),
        "moe_intermediate_size": feeding.count("ffn_hidden_size"),
        "num_experts": feeding.count("moe_num_experts", at_most=MAX_EXPERTS),
        "num_experts_per_tok": feeding.count("moe_top_k", at_most=MAX_EXPERTS),
    }


def _hunyuan(fields: Fields) -> Mapping[str, object]:
    """Hunyuan may give experts, their width and the shared ones as one number a layer."""
    found = {
        "num_experts": fields.uniform("num_experts", at_least=1, at_most=MAX_EXPERTS),
        "num_experts_per_tok": fields.uniform("num_experts_per_tok", at_least=1, at_most=MAX_EXPERTS),
        "moe_intermediate_size": fields.uniform("moe_intermediate_size", at_least=1) or fields.maybe_count("intermediate_size"),
        "n_shared_experts": fields.uniform("n_shared_experts", at_most=1_000),
    }
    return {name: value for name, value in found.items() if value is not None}


def _ernie(fields: Fields) -> Mapping[str, object]:
    """ERNIE 4.5 VL lists text experts first and vision experts second; text tokens pass the first alone."""
    found: dict[str, object] = {}
    for name in ("num_experts", "moe_intermediate_size"):
        if isinstance(fields.given(name), list | tuple):
            values = fields.counts(name, at_least=1)
            if not values:
                raise fields.refuse(name, "It is empty.", "Give the number of text experts first.")
            found[name] = values[0]
            if len(values) > 1:
                found[f"vision_{name}"] = values[1]
    return found


def _ernie_vision_experts(fields: Fields, hidden: int) -> tuple[Weight, ...]:
    number = fields.maybe_count("vision_num_experts", at_most=MAX_EXPERTS)
    if number is None:
        return ()
    width = fields.count("vision_moe_intermediate_size", fields.count("moe_intermediate_size"))
    return mlp_weights(Mlp(hidden, width * number, module="mlp.vision_experts"), Role.VISION)


def _grok(fields: Fields) -> Mapping[str, object]:
    width = fields.maybe_count("moe_intermediate_size") or fields.count("intermediate_size")
    return {"moe_intermediate_size": width}


def _grok_residual(fields: Fields, hidden: int) -> tuple[Weight, ...]:
    """Grok-2 runs a dense MLP of intermediate_size beside the experts."""
    return mlp_weights(Mlp(hidden, fields.count("intermediate_size"))) if fields.flag("residual_moe") else ()


def _arctic_residual(fields: Fields, hidden: int) -> tuple[Weight, ...]:
    """Arctic runs a dense MLP as wide as the model beside the experts, behind a norm of its own."""
    if not fields.flag("parallel_attn_mlp_res"):
        return ()
    return (*mlp_weights(Mlp(hidden, hidden, module="residual_mlp")), norm("residual_layernorm", hidden))


_MIXTRAL_EXPERTS: Final = ExpertTraits(module="block_sparse_moe", names=_W, width_key="intermediate_size")
_MIXTRAL: Final = Dialect(
    reader="mixtral", experts=_MIXTRAL_EXPERTS, windows=layer_windows, defaults={"num_key_value_heads": 8}
)
_QWEN3_MOE: Final = Dialect(
    reader="qwen3_moe", qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head", windows=switched_windows,
    experts=ExpertTraits(), defaults={"num_key_value_heads": 4},
)  # fmt: skip
_COUNTED: Final = ExpertTraits(router_bias=True, shared="count")
_DEEPSEEK: Final = Dialect(
    reader="deepseek", qkv_bias="attention_bias", o_bias="attention_bias", experts=ExpertTraits(shared="count")
)
_GLM4_MOE: Final = Dialect(
    reader="glm4_moe", qkv_bias="attention_bias", qk_norm="head", qk_norm_switch="use_qk_norm", experts=_COUNTED,
    defaults={"first_k_dense_replace": 1, "num_key_value_heads": 8, "n_shared_experts": 1},
)  # fmt: skip
_GRANITE_MOE: Final = Dialect(
    reader="granitemoe", qkv_bias="attention_bias", o_bias="attention_bias",
    experts=ExpertTraits(module="block_sparse_moe", router="router.layer", width_key="intermediate_size"),
)  # fmt: skip
_BAILING: Final = Dialect(
    reader="bailing", attention="attention", qkv_bias="use_qkv_bias", o_bias="use_bias", mlp_bias="use_bias",
    qk_norm="head", qk_norm_switch="use_qk_norm", experts=replace(_COUNTED, router_bias="moe_router_enable_expert_bias"),
)  # fmt: skip
_HUNYUAN: Final = Dialect(
    reader="hunyuan", qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head", adapt=_hunyuan,
    mixing=hunyuan_mixing, experts=ExpertTraits(router="gate.wg", shared="count", shared_module="shared_mlp"),
    aliases={"head_dim": ("head_dim", "attention_head_dim")},
)  # fmt: skip
_STEP: Final = Dialect(
    reader="step3p5", mixing=step_mixing, qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head",
    experts=ExpertTraits(
        module="moe", router_bias=True, shared="width", shared_width_key="share_expert_dim", shared_module="share_expert"
    ),
    defaults={"num_key_value_heads": 8, "head_dim": 128, "first_k_dense_replace": 3},
    aliases={"share_expert_dim": ("share_expert_dim", "share_expert_dims")},
)  # fmt: skip

EXPERT_DIALECTS: Final[Mapping[str, Dialect]] = {
    "mixtral": _MIXTRAL,
    "qwen2_moe": Dialect(
        reader="qwen2_moe", qkv_bias="qkv_bias", windows=switched_windows, defaults={"qkv_bias": True},
        experts=ExpertTraits(shared="width_gated", shared_module="shared_expert"),
    ),
    "qwen3_moe": _QWEN3_MOE,
    "mellum": replace(_QWEN3_MOE, reader="mellum", windows=layer_windows, defaults={"head_dim": 128}),
    "gpt_oss": Dialect(
        reader="gpt_oss", qkv_bias="attention_bias", o_bias="attention_bias", sinks=True,
        windows=partial(layer_windows, period=2),
        experts=ExpertTraits(router="router", width_key="intermediate_size", bias=True, router_bias=True),
        defaults={"attention_bias": True, "head_dim": 64, "num_key_value_heads": 8, "sliding_window": 128},
    ),
    "phimoe": Dialect(
        reader="phimoe", qkv_bias="attention_bias", o_bias="attention_bias", norm_bias=True,
        lm_head_bias="lm_head_bias", windows=layer_windows, experts=_MIXTRAL_EXPERTS,
        defaults={"num_key_value_heads": 8},
    ),
    "minimax_m2": Dialect(
        reader="minimax_m2", qk_norm="all", qk_norm_switch="use_qk_norm",
        experts=replace(_MIXTRAL_EXPERTS, router_bias=True), defaults={"head_dim": 128, "use_qk_norm": True},
    ),
    "minimax_m3_vl_text": Dialect(
        reader="minimax_m3", mixing=minimax_m3_mixing, qk_norm="head", qk_norm_switch="use_qk_norm",
        intermediate=lambda fields: fields.count("dense_intermediate_size"),
        experts=replace(
            _MIXTRAL_EXPERTS, router_bias=True, shared="width", shared_width_key="shared_intermediate_size"
        ),
        defaults={"head_dim": 128, "num_key_value_heads": 4, "use_qk_norm": True},
    ),
    "deepseek": _DEEPSEEK,  # DeepSeekMoE: multi-head attention, not latent
    "dots1": replace(_DEEPSEEK, reader="dots1", qk_norm="head", experts=_COUNTED, windows=layer_windows),
    "glm4_moe": _GLM4_MOE,
    "solar_open": replace(_GLM4_MOE, reader="solar_open", defaults={
        "first_k_dense_replace": 0, "num_key_value_heads": 8, "n_shared_experts": 1, "head_dim": 128,
    }),
    "hy_v3": replace(_DEEPSEEK, reader="hy_v3", qk_norm="head", experts=_COUNTED, defaults={
        "first_k_dense_replace": 1, "head_dim": 128, "num_key_value_heads": 8,
    }),
    "hunyuan_v1_moe": _HUNYUAN,
    "hunyuan": replace(_HUNYUAN, qk_norm_switch="use_qk_norm", defaults={"tie_word_embeddings": True}),
    "ernie4_5_moe": Dialect(
        reader="ernie4_5", qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias", adapt=_ernie,
        experts=replace(_COUNTED, beside=_ernie_vision_experts),
        defaults={"tie_word_embeddings": True, "first_k_dense_replace": 1, "n_shared_experts": 2},
    ),
    "olmoe": Dialect(
        reader="olmoe", qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="all",
        experts=ExpertTraits(width_key="intermediate_size"),
    ),
    "flex_olmo": Dialect(
        reader="olmoe", qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="all",
        experts=ExpertTraits(width_key="intermediate_size"),
    ),
    "granitemoe": _GRANITE_MOE,
    "granitemoeshared": replace(
        _GRANITE_MOE,
        experts=ExpertTraits(
            module="block_sparse_moe", router="router.layer", width_key="intermediate_size", shared="width",
            shared_width_key="shared_intermediate_size", shared_module="shared_mlp",
        ),
    ),
    "dbrx": Dialect(
        reader="dbrx", attention="norm_attn_norm.attn", adapt=_dbrx,
        experts=ExpertTraits(module="ffn", router="router.layer", names=("w1", "v1", "w2")),
    ),
    "grok": Dialect(
        reader="grok", norms=4, adapt=_grok, defaults={"num_key_value_heads": 8},
        experts=ExpertTraits(module="block_sparse_moe", names=_W, beside=_grok_residual),
    ),
    "arctic": Dialect(
        reader="arctic",
        experts=ExpertTraits(
            module="block_sparse_moe", names=_W, width_key="intermediate_size", beside=_arctic_residual
        ),
    ),
    "afmoe": Dialect(
        reader="afmoe", norms=4, qk_norm="head", output_gate=True, experts=_COUNTED,
        windows=partial(layer_windows, period=4), defaults={
            "head_dim": 128, "sliding_window": 1024, "first_k_dense_replace": 1, "n_shared_experts": 2,
        },
    ),
    "exaone_moe": Dialect(
        reader="exaone_moe", qk_norm="head", experts=_COUNTED, windows=partial(layer_windows, period=4),
        defaults={"sliding_window": 4096, "first_k_dense_replace": 1, "n_shared_experts": 1},
    ),
    "cohere2_moe": Dialect(
        reader="cohere2_moe", qkv_bias="attention_bias", o_bias="attention_bias", norms=1,
        windows=partial(layer_windows, period=4),
        experts=ExpertTraits(width_key="intermediate_size", shared="count"),
        intermediate=lambda fields: fields.maybe_count("prefix_dense_intermediate_size")
        or fields.count("intermediate_size"),
        defaults={"tie_word_embeddings": True, "sliding_window": 4096, "head_dim": 128},
    ),
    "laguna": Dialect(
        reader="laguna", mixing=laguna_mixing, qkv_bias="attention_bias", o_bias="attention_bias",
        experts=ExpertTraits(router_bias=True, shared="width", shared_module="shared_expert"),
        defaults={"head_dim": 128, "num_key_value_heads": 8, "sliding_window": 512},
    ),
    "bailing_moe": _BAILING,
    "bailing_moe_v2": replace(_BAILING, defaults={"use_qk_norm": True}),
    "sarvam_moe": replace(_BAILING, reader="sarvam_moe", experts=_COUNTED, defaults={
        "use_qk_norm": True, "first_k_dense_replace": 1, "n_shared_experts": 1, "head_dim": 64,
    }),
    "mimo_v2_flash": Dialect(
        reader="mimo_v2", mixing=mimo_v2_mixing, experts=_COUNTED, defaults=MIMO_V2_DEFAULTS
    ),
    "step3p5": _STEP,
    "step3_text": replace(_STEP, reader="step3", mixing=step3_mixing, defaults={"head_dim": 256}),
}  # fmt: skip
