"""Which reader reads which model_type."""

from collections.abc import Callable, Mapping
from typing import Final

from service.architectures.architecture import Architecture
from service.architectures.assembly import Source
from service.architectures.decoder import Dialect
from service.architectures.deepseek_v4 import DEEPSEEK_V4
from service.architectures.dense_families import DENSE_DIALECTS
from service.architectures.early_families import EARLY_DIALECTS
from service.architectures.expert_families import EXPERT_DIALECTS
from service.architectures.gemma3n import read_gemma3n
from service.architectures.gemma4 import read_gemma4
from service.architectures.hybrid_families import HYBRID_DIALECTS
from service.architectures.latent import LATENT_DIALECTS
from service.architectures.llama4 import LLAMA4
from service.architectures.longcat import read_longcat
from service.architectures.mamba_families import RECURRENT_GEMMA, read_mamba, read_mamba2
from service.architectures.mllama import MLLAMA
from service.architectures.nemotron_h import read_nemotron_h
from service.architectures.nemotron_nas import read_nemotron_nas
from service.architectures.rwkv import read_rwkv5
from service.architectures.zamba import read_zamba, read_zamba2

DIALECTS: Final[Mapping[str, Dialect]] = {
    **DENSE_DIALECTS,
    **EARLY_DIALECTS,
    **EXPERT_DIALECTS,
    **LATENT_DIALECTS,
    **HYBRID_DIALECTS,
    "deepseek_v4": DEEPSEEK_V4,
    "llama4_text": LLAMA4,
    "mllama_text_model": MLLAMA,
    "recurrent_gemma": RECURRENT_GEMMA,
}

#: model_type → the model_type whose reader it shares.
SAME_AS: Final[Mapping[str, str]] = {
    # one family under several names
    "kimi_k2": "deepseek_v3", "kimi_k3": "kimi_linear", "minimax_m1": "minimax", "minimax_text_01": "minimax",
    "phi-msft": "phi", "phi3_v": "phi3", "phi4mm": "phi3", "phi4_multimodal": "phi3", "mimo": "qwen2",
    "mimo_v2": "mimo_v2_flash", "step3p7": "step3p5", "step3": "step3_text", "exaone4_5_text": "exaone4",
    "internlm": "internlm2", "falcon_mamba": "mamba", "Yi": "llama", "aquila": "llama", "grok-1": "grok",
    "nemotron-nas": "nemotron_nas", "decilm": "deci",
    # text sections of multimodal families
    "gemma3": "gemma3_text", "gemma3n": "gemma3n_text", "gemma4": "gemma4_text", "llama4": "llama4_text",
    "gemma4_unified_text": "gemma4_text", "gemma4_unified": "gemma4_text",
    "mllama": "mllama_text_model", "mllama_text": "mllama_text_model",
    "qwen2_vl": "qwen2", "qwen2_vl_text": "qwen2", "qwen2_5_vl": "qwen2", "qwen2_5_vl_text": "qwen2",
    "qwen2_5_omni_text": "qwen2", "qwen2_5_omni_thinker": "qwen2",
    "qwen3_vl": "qwen3", "qwen3_vl_text": "qwen3", "qwen3_vl_moe": "qwen3_moe", "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_omni_moe_text": "qwen3_moe", "qwen3_omni_moe_thinker": "qwen3_moe",
    "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text",
    "glm4v_text": "glm4", "glm4v": "glm4", "glm_ocr_text": "glm4", "glm4v_moe_text": "glm4_moe", "glm4v_moe": "glm4_moe",
    "ernie4_5_moe_vl": "ernie4_5_moe", "ernie4_5_vl_moe_text": "ernie4_5_moe", "ernie4_5_vl_moe": "ernie4_5_moe",
    "minimax_m3_vl": "minimax_m3_vl_text", "cohere2_vision": "cohere2", "hunyuan_vl_text": "hunyuan_v1_dense",
    "kimi_vl": "deepseek_v3", "deepseek_vl_v2": "deepseek_v2", "deepseek_ocr": "deepseek_v2",
    "mistral3": "mistral", "pixtral": "mistral", "nemotron_h_omni": "nemotron_h",
}  # fmt: skip

#: Class names by which some configurations are told apart, where their model_type does not say it.
BY_CLASS: Final[Mapping[str, str]] = {
    "Grok1ForCausalLM": "grok",
    "Grok1ModelForCausalLM": "grok",
    "DeciLMForCausalLM": "nemotron_nas",
    "LongcatFlashForCausalLM": "longcat_flash",
}

#: Families that need more than a table entry.
READERS: Final[Mapping[str, Callable[[Source], Architecture]]] = {
    "gemma3n_text": read_gemma3n,
    "gemma4_text": read_gemma4,
    "longcat_flash": read_longcat,
    "mamba": read_mamba,
    "mamba2": read_mamba2,
    "nemotron_h": read_nemotron_h,
    "nemotron_nas": read_nemotron_nas,
    "rwkv5": read_rwkv5,
    "zamba": read_zamba,
    "zamba2": read_zamba2,
}

#: Names under which multimodal configurations keep their text decoder.
TEXT_SECTIONS: Final = ("text_config", "llm_config", "language_config")

#: Sizes of transformers' configuration classes: text sections of multimodal models leave out what equals them.
NESTED_DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "llama": {
        "max_position_embeddings": 2048,
        "vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
    "mistral": {
        "max_position_embeddings": 131_072,
        "vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "sliding_window": 4096,
    },
    "mixtral": {
        "max_position_embeddings": 131_072,
        "vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "num_experts": 8, "num_experts_per_tok": 2,
    },
    "qwen2": {
        "max_position_embeddings": 32_768,
        "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22_016, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32,
    },
    "qwen3": {
        "max_position_embeddings": 32_768,
        "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22_016, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
    },
    "gemma": {
        "max_position_embeddings": 8192,
        "vocab_size": 256_000, "hidden_size": 3072, "intermediate_size": 24_576, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "tie_word_embeddings": True,
    },
    "gemma2": {
        "max_position_embeddings": 8192,
        "vocab_size": 256_000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
        "tie_word_embeddings": True,
    },
    "cohere2": {
        "max_position_embeddings": 8192,
        "vocab_size": 256_000, "hidden_size": 8192, "intermediate_size": 22_528, "num_hidden_layers": 40,
        "num_attention_heads": 64, "sliding_window": 4096, "tie_word_embeddings": True,
    },
    "llama4": {
        "max_position_embeddings": 131_072,
        "hidden_size": 5120, "intermediate_size": 8192, "num_hidden_layers": 48, "num_attention_heads": 40,
        "vocab_size": 202_048,
    },
}  # fmt: skip
