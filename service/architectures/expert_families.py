"""Families of decoders with grouped-query attention and routed experts, one entry each.

Class defaults stand here where published checkpoints leave the key out; layouts follow transformers 5.24, or the
checkpoint's own code for families that are not in it.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from service.architectures.decoder import Dialect, ExpertTraits
from service.architectures.patterns import layer_windows, switched_windows

_MIXTRAL_EXPERTS: Final = ExpertTraits(
    module="block_sparse_moe", names=("w1", "w3", "w2"), width_key="intermediate_size"
)
_MIXTRAL: Final = Dialect(
    reader="mixtral", experts=_MIXTRAL_EXPERTS, windows=layer_windows, defaults={"num_key_value_heads": 8}
)
_QWEN3_MOE: Final = Dialect(
    reader="qwen3_moe",
    qkv_bias="attention_bias",
    o_bias="attention_bias",
    qk_norm="head",
    windows=switched_windows,
    experts=ExpertTraits(),
    defaults={"num_key_value_heads": 4},
)
_DEEPSEEK_EXPERTS: Final = ExpertTraits(shared="count")

EXPERT_DIALECTS: Final[Mapping[str, Dialect]] = {
    "mixtral": _MIXTRAL,
    "qwen2_moe": Dialect(
        reader="qwen2_moe", qkv_bias="qkv_bias", windows=switched_windows, defaults={"qkv_bias": True},
        experts=ExpertTraits(shared="width_gated", shared_module="shared_expert"),
    ),
    "qwen3_moe": _QWEN3_MOE,
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
    # DeepSeekMoE: multi-head attention, not latent.
    "deepseek": Dialect(
        reader="deepseek", qkv_bias="attention_bias", o_bias="attention_bias", experts=_DEEPSEEK_EXPERTS
    ),
}  # fmt: skip
