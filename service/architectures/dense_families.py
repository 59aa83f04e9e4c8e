"""Families of dense decoders with grouped-query attention and gated MLPs, one entry each.

Class defaults stand here where published checkpoints leave the key out; they, and what has a bias or a norm, follow the
configuration and modelling code of transformers 5.24, or the checkpoint's own code for families that are not in it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from service.architectures.architecture import Role
from service.architectures.decoder import Dialect
from service.architectures.fields import Fields
from service.architectures.layered_attention import deci_mixing
from service.architectures.patterns import layer_windows, switched_windows
from service.architectures.weights import Weight, vector

_LLAMA: Final = Dialect(reader="llama", qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
_GEMMA: Final = Dialect(
    reader="gemma",
    qkv_bias="attention_bias",
    o_bias="attention_bias",
    defaults={"head_dim": 256, "tie_word_embeddings": True},
)
_GEMMA2_DEFAULTS: Final = {"head_dim": 256, "tie_word_embeddings": True, "sliding_window": 4096}
_OLMO: Final = replace(_LLAMA, reader="olmo", mlp_bias=False, norm_weights=False)
_EXAONE4: Final = Dialect(
    reader="exaone4",
    qk_norm="head",
    windows=partial(layer_windows, period=4),
    defaults={"sliding_window": 4096},
)
_COHERE: Final = Dialect(
    reader="cohere",
    qkv_bias="attention_bias",
    o_bias="attention_bias",
    norms=1,  # attention and MLP in parallel
    qk_norm="all",
    qk_norm_switch="use_qk_norm",
    defaults={"tie_word_embeddings": True},
)
_GLM: Final = Dialect(
    reader="glm",
    qkv_bias="attention_bias",
    defaults={"attention_bias": True, "num_key_value_heads": 2, "head_dim": 128},
)


def _molmo_tokens(fields: Fields) -> tuple[Weight, ...]:
    """Molmo keeps the rows of its added tokens apart from the embedding (additional_vocab_size, 128)."""
    rows = fields.count("additional_vocab_size", 128, at_least=1)
    return (vector("new_embedding", Role.EMBEDDING, rows * fields.count("hidden_size")),)


def _halved(fields: Fields) -> int:
    """Qwen (the first) and Molmo count gate and up together as intermediate_size."""
    return fields.count("intermediate_size", at_least=2) // 2


DENSE_DIALECTS: Final[Mapping[str, Dialect]] = {
    "llama": _LLAMA,
    # Llama in all that counts here; tied by the class default of PreTrainedConfig in MiniCPM's own code.
    "minicpm": replace(_LLAMA, reader="minicpm", defaults={"tie_word_embeddings": True}),
    "baichuan": replace(_LLAMA, reader="baichuan", attention="self_attn", qkv_bias=False, o_bias=False),
    "xverse": replace(_LLAMA, reader="xverse"),
    "granite": replace(_LLAMA, reader="granite"),
    "granite_swa": replace(
        _LLAMA, reader="granite", windows=layer_windows, defaults={"tie_word_embeddings": True}
    ),
    "cwm": replace(_LLAMA, reader="cwm", windows=layer_windows, defaults={"head_dim": 128, "num_key_value_heads": 8}),
    "iquestcoder": replace(_LLAMA, reader="llama", defaults={"head_dim": 128, "num_key_value_heads": 8}),
    "helium": replace(_LLAMA, reader="helium", o_bias=False, defaults={"head_dim": 128}),
    "exaone": replace(_LLAMA, reader="exaone", mlp_names=("c_fc_0", "c_fc_1", "c_proj")),
    "internlm2": replace(
        _LLAMA, reader="internlm", attention="attention", mlp="feed_forward", qkv_bias="bias", o_bias="bias",
        mlp_bias=False, mlp_names=("w1", "w3", "w2"), defaults={"bias": True},
    ),
    "internlm3": replace(
        _LLAMA, reader="internlm", qkv_bias="qkv_bias", o_bias="bias", mlp_bias="bias",
        defaults={"head_dim": 128, "num_key_value_heads": 2},
    ),
    "mistral": Dialect(
        reader="mistral", windows=layer_windows, defaults={"num_key_value_heads": 8, "sliding_window": 4096}
    ),
    "ministral": Dialect(
        reader="mistral", windows=layer_windows, defaults={"num_key_value_heads": 8, "sliding_window": 4096}
    ),
    "ministral3": Dialect(
        reader="mistral", windows=layer_windows, defaults={"num_key_value_heads": 8, "head_dim": 128}
    ),
    "qwen": Dialect(
        reader="qwen", attention="attn", qkv_bias=True, mlp_names=("w2", "w1", "c_proj"), intermediate=_halved,
        aliases={"head_dim": ("head_dim", "kv_channels")},
    ),
    "qwen2": Dialect(reader="qwen2", qkv_bias=True, windows=switched_windows),
    "qwen3": Dialect(
        reader="qwen3", qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head", windows=switched_windows,
        defaults={"head_dim": 128},
    ),
    "gemma": _GEMMA,
    "gemma2": replace(
        _GEMMA, reader="gemma2", norms=4, windows=partial(layer_windows, period=2), defaults=_GEMMA2_DEFAULTS
    ),
    "vaultgemma": replace(
        _GEMMA, reader="gemma2", windows=partial(layer_windows, period=2), defaults=_GEMMA2_DEFAULTS
    ),
    "gemma3_text": replace(
        _GEMMA, reader="gemma3", norms=4, qk_norm="head", windows=partial(layer_windows, period=6),
        # Published text sections leave out what equals Gemma3TextConfig's defaults, sizes included.
        defaults=_GEMMA2_DEFAULTS | {
            "vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "hidden_size": 2304,
            "intermediate_size": 9216, "num_hidden_layers": 26, "max_position_embeddings": 131_072,
        },
    ),
    "phi3": Dialect(reader="phi3", windows=layer_windows),
    "smollm3": replace(
        _LLAMA, reader="smollm3", windows=switched_windows,
        defaults={"tie_word_embeddings": True, "num_key_value_heads": 4},
    ),
    "olmo": _OLMO,
    "olmo2": replace(_OLMO, reader="olmo2", norm_weights=True, qk_norm="all"),
    "olmo3": replace(
        _OLMO, reader="olmo3", norm_weights=True, qk_norm="all", windows=partial(layer_windows, period=4),
        defaults={"sliding_window": 4096},
    ),
    "exaone4": _EXAONE4,
    "cohere": _COHERE,
    "cohere2": replace(
        _COHERE, reader="cohere2", qk_norm="", windows=partial(layer_windows, period=4),
        defaults={"tie_word_embeddings": True, "sliding_window": 4096},
    ),
    "glm": _GLM,
    "glm4": replace(_GLM, reader="glm4", norms=4, defaults=dict(_GLM.defaults) | {"attention_bias": False}),
    "seed_oss": Dialect(
        reader="seed_oss", qkv_bias="attention_bias", o_bias="attention_out_bias", mlp_bias="mlp_bias",
        defaults={"attention_bias": True, "head_dim": 128, "num_key_value_heads": 8},
    ),
    "hunyuan_v1_dense": Dialect(
        reader="hunyuan", qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head",
        aliases={"head_dim": ("head_dim", "attention_head_dim")},
    ),
    "ernie4_5": Dialect(
        reader="ernie4_5", qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias",
        defaults={"tie_word_embeddings": True, "head_dim": 128},
    ),
    "apertus": Dialect(
        reader="apertus", gated=False, qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head"
    ),
    "arcee": replace(_LLAMA, reader="arcee", gated=False),
    "orion": replace(_LLAMA, reader="orion", norm_bias=True),
    "deci": replace(_LLAMA, reader="deci", mixing=deci_mixing),
    # Molmo counts gate and up together as intermediate_size, like the first Qwen.
    "molmo": Dialect(
        reader="molmo", attention="att", mlp="", mlp_names=("ff_proj.gate", "ff_proj", "ff_out"), qkv_bias="qkv_bias",
        qk_norm="all", qk_norm_switch="attention_layer_norm", intermediate=_halved, outer_additions=_molmo_tokens,
        aliases={
            "vocab_size": ("embedding_size", "vocab_size"),
            "tie_word_embeddings": ("weight_tying", "tie_word_embeddings"),
        },
    ),
    "stablelm": Dialect(
        reader="stablelm", qkv_bias="use_qkv_bias", norm_bias=True, qk_norm="all", qk_norm_switch="qk_layernorm"
    ),
    "nemotron": replace(_LLAMA, reader="nemotron", gated=False, norm_bias=True),
    "jais2": replace(
        _LLAMA, reader="jais2", gated=False, norm_bias=True, defaults={"attention_bias": True, "mlp_bias": True}
    ),
    "starcoder2": Dialect(
        reader="starcoder2", gated=False, qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias", norm_bias=True,
        windows=layer_windows, mlp_names=("", "c_fc", "c_proj"),
        defaults={"use_bias": True, "tie_word_embeddings": True, "num_key_value_heads": 2},
    ),
}  # fmt: skip
