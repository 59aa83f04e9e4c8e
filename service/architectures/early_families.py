"""The first generation of decoders (GPT-2 to Falcon): two-matrix MLPs, biases, one KV head or as many as queries.

Layouts follow transformers 5.24, or for ChatGLM and Qwen the code published with the checkpoints.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from service.architectures.architecture import Role
from service.architectures.decoder import Dialect
from service.architectures.fields import MAX_HEADS, Fields
from service.architectures.weights import Weight, matrix


def four_times(fields: Fields) -> int:
    """intermediate_size where it is given, else four times the hidden size."""
    return fields.maybe_count("intermediate_size") or 4 * fields.count("hidden_size")


def _kv_heads(fields: Fields, number: int | None) -> Mapping[str, object]:
    return {"num_key_value_heads": number or fields.count("num_attention_heads", at_most=MAX_HEADS)}


def multi_query(fields: Fields) -> Mapping[str, object]:
    """One KV head where ``multi_query`` says so (no field gives their number), else one a query head."""
    return _kv_heads(fields, 1 if fields.flag("multi_query", True) else None)


def _falcon(fields: Fields) -> Mapping[str, object]:
    """num_kv_heads counts only in the new decoder architecture (40B, 180B); 7B has one KV head."""
    if fields.flag("new_decoder_architecture"):
        return _kv_heads(fields, fields.maybe_count("num_key_value_heads", at_most=MAX_HEADS))
    return multi_query(fields)


def _falcon_norms(fields: Fields) -> int:
    """Two norms, or one where attention and MLP run in parallel behind the same one."""
    if fields.flag("new_decoder_architecture"):
        return fields.count("num_ln_in_parallel_attn", 2, at_most=2)
    return 1 if fields.flag("parallel_attn", True) else 2


def _mpt(fields: Fields) -> Mapping[str, object]:
    """attn_config may group the KV heads (kv_n_heads) or name one (multiquery_attention)."""
    attention = fields.section("attn_config")
    if attention is None:
        return _kv_heads(fields, None)
    if attention.text("attn_type", "") == "multiquery_attention":
        return _kv_heads(fields, 1)
    return _kv_heads(fields, attention.maybe_count("kv_n_heads", at_most=MAX_HEADS))


def _chatglm(fields: Fields) -> Mapping[str, object]:
    """ChatGLM2 and later: multi_query_group_num KV heads where multi_query_attention is on."""
    if not fields.flag("multi_query_attention"):
        return _kv_heads(fields, None)
    return _kv_heads(fields, fields.count("multi_query_group_num", at_most=MAX_HEADS))


def _mpt_width(fields: Fields) -> int:
    width = int(fields.number("expansion_ratio", 4.0) * fields.count("hidden_size"))
    if width < 1:
        raise fields.refuse("expansion_ratio", "It leaves the MLP no width.", "Give 4, say.")
    return width


def _opt_projections(fields: Fields) -> tuple[Weight, ...]:
    """OPT-350m embeds at a width of its own and projects to and from it."""
    hidden = fields.count("hidden_size")
    width = fields.count("word_embed_proj_dim", hidden)
    if width == hidden:
        return ()
    return matrix("project_in", Role.EMBEDDING, width, hidden), matrix("project_out", Role.EMBEDDING, hidden, width)


_GPT2: Final = Dialect(
    reader="gpt2", attention="attn", mlp_names=("", "c_fc", "c_proj"), gated=False, intermediate=four_times,
    qkv_bias=True, o_bias=True, mlp_bias=True, norm_bias=True, positions=0, defaults={"tie_word_embeddings": True},
)  # fmt: skip
_GPTJ: Final = replace(
    _GPT2, reader="gptj", qkv_bias=False, o_bias=False, norms=1, positions=None, lm_head_bias=True, defaults={}
)
_OPT: Final = Dialect(
    reader="opt", gated=False, qkv_bias="enable_bias", o_bias="enable_bias", mlp_bias="enable_bias", norm_bias=True,
    mlp="", mlp_names=("", "fc1", "fc2"), positions=2, outer_additions=_opt_projections,
    embedding_key="word_embed_proj_dim", final_norm="do_layer_norm_before",
    defaults={"tie_word_embeddings": True, "enable_bias": True, "do_layer_norm_before": True},
)  # fmt: skip
_FALCON: Final = Dialect(
    reader="falcon", attention="self_attention", gated=False, qkv_bias="bias", o_bias="bias", mlp_bias="bias",
    norm_bias=True, norms=_falcon_norms, intermediate=four_times, adapt=_falcon,
    mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"), defaults={"tie_word_embeddings": True},
)  # fmt: skip

EARLY_DIALECTS: Final[Mapping[str, Dialect]] = {
    "gpt2": _GPT2,
    "gpt_bigcode": replace(_GPT2, reader="gpt_bigcode", adapt=multi_query),
    "gpt_neo": replace(
        _GPT2, reader="gpt_neo", qkv_bias=False, aliases={"num_attention_heads": ("num_heads", "num_attention_heads")}
    ),
    "gptj": _GPTJ,
    "codegen": replace(_GPTJ, reader="codegen"),
    "gpt_neox": Dialect(
        reader="gpt_neox", attention="attention", gated=False, qkv_bias="attention_bias", o_bias="attention_bias",
        mlp_bias=True, norm_bias=True, mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"),
        defaults={"attention_bias": True},
    ),
    "opt": _OPT,
    "xglm": replace(
        _OPT, reader="xglm", positions=None, embedding_key="", outer_additions=None,
        aliases={"num_attention_heads": ("attention_heads", "num_attention_heads")},
    ),
    "bloom": Dialect(
        reader="bloom", attention="self_attention", gated=False, qkv_bias=True, o_bias=True, mlp_bias=True,
        norm_bias=True, embedding_norm=True, intermediate=four_times,
        mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"), defaults={"tie_word_embeddings": True},
    ),
    "mpt": Dialect(
        reader="mpt", attention="attn", mlp="ffn", gated=False, intermediate=_mpt_width, adapt=_mpt,
        mlp_names=("", "up_proj", "down_proj"), defaults={"tie_word_embeddings": True},
    ),
    "falcon": _FALCON,
    "RefinedWebModel": _FALCON,
    "RefinedWeb": replace(
        _FALCON, defaults={"tie_word_embeddings": True, "new_decoder_architecture": True}
    ),
    "persimmon": Dialect(
        reader="persimmon", gated=False, qkv_bias=True, o_bias=True, mlp_bias=True, norm_bias=True,
        mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"), qk_norm="head", qk_norm_switch="qk_layernorm",
        qk_norm_bias=True, defaults={"qk_layernorm": True},
    ),
    "phi": Dialect(
        reader="phi", gated=False, qkv_bias=True, o_bias=True, mlp_bias=True, norm_bias=True, norms=1,
        lm_head_bias=True, intermediate=four_times, mlp_names=("", "fc1", "fc2"),
    ),
    "chatglm": Dialect(
        reader="chatglm", attention="self_attention", qkv_bias="add_qkv_bias", o_bias="add_bias_linear",
        mlp_bias="add_bias_linear", adapt=_chatglm, aliases={"head_dim": ("head_dim", "kv_channels")},
        mlp_names=("dense_h_to_4h_gate", "dense_h_to_4h", "dense_4h_to_h"),
    ),
    # ChatGLM-6B, the first: two-matrix MLP, biases everywhere, an lm_head of its own.
    "chatglm_1": Dialect(
        reader="chatglm", attention="attention", gated=False, qkv_bias=True, o_bias=True, mlp_bias=True,
        norm_bias=True, intermediate=four_times, mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"),
        aliases={"intermediate_size": ("inner_hidden_size",)},
    ),
}  # fmt: skip
