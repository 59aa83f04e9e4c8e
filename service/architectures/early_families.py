"""The first generation of decoders (GPT-2 to Falcon): two-matrix MLPs, biases, one KV head or as many as queries.

Layouts follow transformers 5.24, or for ChatGLM and Qwen the code published with the checkpoints.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architectures.attention import grouped_query_attention, heads_of, read_heads
from service.architectures.decoder import Dialect, attention_traits
from service.architectures.fields import MAX_HEADS, Fields
from service.architectures.patterns import layer_windows
from service.architectures.weights import Part


def four_times(fields: Fields) -> int:
    """intermediate_size where it is given, else four times the hidden size."""
    return fields.maybe_count("intermediate_size") or 4 * fields.count("hidden_size")


def multi_query_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """One KV head where ``multi_query`` says so (no field gives their number), else one a query head."""
    heads = fields.count("num_attention_heads", at_most=MAX_HEADS)
    kv_heads = 1 if fields.flag("multi_query", True) else heads
    shape = heads_of(fields, fields.count("hidden_size"), heads, kv_heads)
    return [grouped_query_attention(shape, attention_traits(fields, dialect))] * num_layers


def falcon_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Falcon: num_kv_heads counts only in the new decoder architecture (40B, 180B); 7B has one KV head."""
    if fields.flag("new_decoder_architecture"):
        heads = read_heads(fields)
        return [grouped_query_attention(heads, attention_traits(fields, dialect))] * num_layers
    return multi_query_mixing(fields, dialect, num_layers)


def mpt_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """MPT: attn_config may group the KV heads (kv_n_heads) or name one (multiquery_attention)."""
    heads = fields.count("num_attention_heads", at_most=MAX_HEADS)
    attention = fields.section("attn_config")
    kv_heads = heads
    if attention is not None:
        single = attention.text("attn_type", "") == "multiquery_attention"
        kv_heads = 1 if single else attention.count("kv_n_heads", heads, at_most=MAX_HEADS)
    shape = heads_of(fields, fields.count("hidden_size"), heads, kv_heads)
    return [grouped_query_attention(shape, attention_traits(fields, dialect))] * num_layers


def chatglm_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """ChatGLM2 and later: multi_query_group_num KV heads where multi_query_attention is on."""
    heads = fields.count("num_attention_heads", at_most=MAX_HEADS)
    grouped = fields.flag("multi_query_attention")
    kv_heads = fields.count("multi_query_group_num", at_most=MAX_HEADS) if grouped else heads
    shape = heads_of(fields, fields.count("hidden_size"), heads, kv_heads)
    return [grouped_query_attention(shape, attention_traits(fields, dialect))] * num_layers


def _expanded(fields: Fields) -> int:
    return int(fields.number("expansion_ratio", 4.0) * fields.count("hidden_size"))


_GPT2: Final = Dialect(
    reader="gpt2", attention="attn", mlp_names=("", "c_fc", "c_proj"), gated=False, intermediate=four_times,
    qkv_bias=True, o_bias=True, mlp_bias=True, norm_bias=True, positions=0, defaults={"tie_word_embeddings": True},
)  # fmt: skip
_GPTJ: Final = replace(
    _GPT2, reader="gptj", qkv_bias=False, o_bias=False, norms=1, positions=None, lm_head_bias=True, defaults={}
)

EARLY_DIALECTS: Final[Mapping[str, Dialect]] = {
    "gpt2": _GPT2,
    "gpt_bigcode": replace(_GPT2, reader="gpt_bigcode", mixing=multi_query_mixing),
    "gpt_neo": replace(
        _GPT2, reader="gpt_neo", qkv_bias=False,
        aliases={"num_attention_heads": ("num_heads",), "num_hidden_layers": ("num_layers",)},
    ),
    "gptj": _GPTJ,
    "codegen": replace(_GPTJ, reader="codegen"),
    "gpt_neox": Dialect(
        reader="gpt_neox", attention="attention", gated=False, qkv_bias="attention_bias", o_bias="attention_bias",
        mlp_bias=True, norm_bias=True, mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"),
        defaults={"attention_bias": True},
    ),
    "bloom": Dialect(
        reader="bloom", attention="self_attention", gated=False, qkv_bias=True, o_bias=True, mlp_bias=True,
        norm_bias=True, embedding_norm=True, intermediate=four_times,
        mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"), defaults={"tie_word_embeddings": True},
    ),
    "mpt": Dialect(
        reader="mpt", attention="attn", mlp="ffn", gated=False, intermediate=_expanded, mixing=mpt_mixing,
        mlp_names=("", "up_proj", "down_proj"), defaults={"tie_word_embeddings": True},
    ),
    "falcon": Dialect(
        reader="falcon", attention="self_attention", gated=False, qkv_bias="bias", o_bias="bias", mlp_bias="bias",
        norm_bias=True, intermediate=four_times, mixing=falcon_mixing,
        mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"), defaults={"tie_word_embeddings": True},
    ),
    "persimmon": Dialect(
        reader="persimmon", gated=False, qkv_bias=True, o_bias=True, mlp_bias=True, norm_bias=True,
        mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"), qk_norm="head", qk_norm_switch="qk_layernorm",
        defaults={"qk_layernorm": True},
    ),
    "phi": Dialect(
        reader="phi", gated=False, qkv_bias=True, o_bias=True, mlp_bias=True, norm_bias=True, norms=1,
        lm_head_bias=True, intermediate=four_times, mlp_names=("", "fc1", "fc2"),
    ),
    "chatglm": Dialect(
        reader="chatglm", attention="self_attention", qkv_bias="add_qkv_bias", o_bias="add_bias_linear",
        mlp_bias="add_bias_linear", mixing=chatglm_mixing, aliases={"head_dim": ("head_dim", "kv_channels")},
        mlp_names=("dense_h_to_4h_gate", "dense_h_to_4h", "dense_4h_to_h"),
    ),
    # ChatGLM-6B, the first: two-matrix MLP, biases everywhere, an lm_head of its own.
    "chatglm_1": Dialect(
        reader="chatglm", attention="attention", gated=False, qkv_bias=True, o_bias=True, mlp_bias=True,
        norm_bias=True, intermediate=four_times, mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"),
        aliases={"intermediate_size": ("inner_hidden_size",)},
    ),
}  # fmt: skip
