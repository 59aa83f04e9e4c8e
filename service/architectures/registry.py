"""Which reader reads which model_type."""

from collections.abc import Callable, Mapping
from typing import Final

from service.architectures.architecture import Architecture
from service.architectures.assembly import Source
from service.architectures.decoder import Dialect
from service.architectures.dense_families import DENSE_DIALECTS
from service.architectures.early_families import EARLY_DIALECTS
from service.architectures.expert_families import EXPERT_DIALECTS
from service.architectures.latent import LATENT_DIALECTS
from service.architectures.deepseek_v4 import DEEPSEEK_V4
from service.architectures.gemma4 import read_gemma4
from service.architectures.hybrid_families import HYBRID_DIALECTS
from service.architectures.llama4 import LLAMA4
from service.architectures.mllama import MLLAMA
from service.architectures.nemotron_h import read_nemotron_h
from service.architectures.rwkv import read_rwkv5

DIALECTS: Final[Mapping[str, Dialect]] = {
    **DENSE_DIALECTS,
    **EARLY_DIALECTS,
    **EXPERT_DIALECTS,
    **LATENT_DIALECTS,
    **HYBRID_DIALECTS,
    "deepseek_v4": DEEPSEEK_V4,
    "llama4_text": LLAMA4,
    "mllama_text_model": MLLAMA,
}

#: model_type → the model_type whose reader it shares.
SAME_AS: Final[Mapping[str, str]] = {
    "kimi_k2": "deepseek_v3",
    "gemma3": "gemma3_text",
    "exaone4_5_text": "exaone4",
    "phi-msft": "phi",
    "phi3_v": "phi3",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "llama4": "llama4_text",
    "minimax_m1": "minimax",
    "minimax_text_01": "minimax",
}

READERS: Final[Mapping[str, Callable[[Source], Architecture]]] = {
    "gemma4_text": read_gemma4,
    "nemotron_h": read_nemotron_h,
    "rwkv5": read_rwkv5,
}

#: Names under which multimodal configurations keep their text decoder.
TEXT_SECTIONS: Final = ("text_config", "llm_config", "language_config")
