"""Families whose attention changes its shape from layer to layer: other heads, other windows, shared or indexed keys."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from service.architectures.architecture import CacheEntry, Role, Split
from service.architectures.attention import AttentionTraits, Heads, grouped_query_attention, heads_of, read_heads
from service.architectures.decoder import Dialect, attention_traits
from service.architectures.fields import MAX_HEADS, MAX_TOKENS, Fields
from service.architectures.patterns import layer_windows
from service.architectures.weights import Part, matrix, norm


def mimo_v2_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """MiMo-V2: windowed layers (1 in hybrid_layer_pattern) have KV heads and sinks of their own, values are narrower."""
    del dialect
    full_heads = read_heads(fields)
    windowed_heads = _windowed_heads(fields, full_heads)
    bias = fields.flag("attention_bias")
    window = fields.count("sliding_window", at_most=MAX_TOKENS)
    full = grouped_query_attention(
        full_heads, AttentionTraits(qkv_bias=bias, sinks=fields.flag("add_full_attention_sink_bias"))
    )
    traits = AttentionTraits(qkv_bias=bias, sinks=fields.flag("add_swa_attention_sink_bias", True))
    windowed = grouped_query_attention(windowed_heads, traits, window_tokens=window)
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        return [windowed if name == "sliding_attention" else full for name in types]
    pattern = fields.counts("hybrid_layer_pattern", length=num_layers, at_most=1)
    if pattern is None:  # class default: the first and every sixth layer are full
        pattern = [int(index != 0 and (index + 1) % 6 != 0) for index in range(num_layers)]
    return [windowed if flag else full for flag in pattern]


def _windowed_heads(fields: Fields, full: Heads) -> Heads:
    heads = fields.count("swa_num_attention_heads", full.num_query_heads, at_most=MAX_HEADS)
    kv_heads = fields.count("swa_num_key_value_heads", full.num_kv_heads, at_most=MAX_HEADS)
    if heads % kv_heads:
        raise fields.refuse("swa_num_key_value_heads", "It does not divide the query heads.", "Give a divisor.")
    return Heads(
        hidden_size=full.hidden_size,
        num_query_heads=heads,
        num_kv_heads=kv_heads,
        query_key_head_dim=fields.count("swa_head_dim", full.query_key_head_dim, at_most=65_536),
        value_head_dim=fields.count("swa_v_head_dim", full.value_head_dim, at_most=65_536),
    )


def step_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Step-3.5 and 3.7: windowed layers have more query heads, and one gate a head."""
    traits = replace(attention_traits(fields, dialect), head_gate=fields.flag("use_head_wise_attn_gate", True))
    full_heads = read_heads(fields)
    other = fields.section("attention_other_setting")
    number = fields.maybe_count("num_sliding_attention_heads", at_most=MAX_HEADS)
    if other is not None:
        number = other.maybe_count("num_attention_heads", at_most=MAX_HEADS) or number
    windowed_heads = _with_query_heads(fields, full_heads, number or full_heads.num_query_heads)
    windows = layer_windows(fields, num_layers)
    made = {
        window: grouped_query_attention(
            full_heads if window is None else windowed_heads, traits, window_tokens=window
        )
        for window in set(windows)
    }  # fmt: skip
    return [made[window] for window in windows]


def _with_query_heads(fields: Fields, heads: Heads, number: int) -> Heads:
    if number % heads.num_kv_heads:
        raise fields.refuse(
            "num_attention_heads", f"{number} heads of some layers do not divide over the KV heads.", "Give a multiple."
        )
    return replace(heads, num_query_heads=number)


def laguna_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Laguna: the number of query heads is given layer by layer, gates a head or an element."""
    traits = replace(attention_traits(fields, dialect), qk_norm="head")
    gating = fields.given("gating")
    per_head = isinstance(gating, str) and gating.replace("-", "_") == "per_head"
    traits = replace(traits, head_gate=per_head, gate=not per_head and gating is not False)
    base = read_heads(fields)
    counts = fields.counts("num_attention_heads_per_layer", length=num_layers, at_least=1, at_most=MAX_HEADS)
    keys = list(zip(layer_windows(fields, num_layers), counts or [base.num_query_heads] * num_layers, strict=True))
    made = {
        (window, number): grouped_query_attention(
            _with_query_heads(fields, base, number), traits, window_tokens=window
        )
        for window, number in set(keys)
    }  # fmt: skip
    return [made[key] for key in keys]


def minimax_m3_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """MiniMax-M3: most layers keep index keys beside keys and values, and attend to the blocks that those pick."""
    heads, traits = read_heads(fields), attention_traits(fields, dialect)
    full = grouped_query_attention(heads, traits)
    section = fields.section("sparse_attention_config") or Fields({}, path=fields.path)
    types = fields.texts("layer_types", length=num_layers)
    flags = section.counts("sparse_attention_freq", length=num_layers, at_most=1)
    if types is not None:
        flags = [int(name == "minimax_m3_sparse") for name in types]
    if flags is None or not any(flags):
        return [full] * num_layers
    sparse = _indexed(fields, section, heads, full)
    return [sparse if flag else full for flag in flags]


def _indexed(fields: Fields, section: Fields, heads: Heads, full: Part) -> Part:
    number = section.maybe_count("sparse_num_index_heads", at_most=MAX_HEADS) or fields.count("index_n_heads", 4)
    dim = section.maybe_count("sparse_index_dim", at_most=65_536) or fields.count("index_head_dim", 128)
    blocks = section.maybe_count("sparse_topk_blocks", at_most=MAX_TOKENS) or fields.count("index_topk_blocks", 16)
    size = section.maybe_count("sparse_block_size", at_most=65_536) or fields.count("index_block_size", 128)
    at, whole = "self_attn.indexer", Split.REPLICATED
    weights = (
        matrix(f"{at}.q_proj", Role.ATTENTION, heads.hidden_size, number * dim, whole),
        matrix(f"{at}.k_proj", Role.ATTENTION, heads.hidden_size, dim, whole),
        norm(f"{at}.norms", 2 * dim),
    )
    shape = full.attention
    return replace(
        full,
        weights=full.weights + weights,
        cache=(*full.cache, CacheEntry("indexer", float(dim), whole)),
        attention=None if shape is None else replace(shape, window_tokens=blocks * size),
    )


def hunyuan_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Hunyuan: with use_cla, of every cla_share_factor layers only the first has keys and values of its own."""
    heads, traits = read_heads(fields), attention_traits(fields, dialect)
    own = grouped_query_attention(heads, traits)
    if not fields.flag("use_cla"):
        return [own] * num_layers
    factor = fields.count("cla_share_factor", 2, at_most=1_000)
    shared = grouped_query_attention(heads, replace(traits, shares_cache=True))
    return [shared if index % factor else own for index in range(num_layers)]


def deci_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """DeciLM: the number of KV heads is given layer by layer."""
    counts = fields.counts("num_key_value_heads_per_layer", length=num_layers, at_least=1, at_most=MAX_HEADS)
    if counts is None:
        return [grouped_query_attention(read_heads(fields), attention_traits(fields, dialect))] * num_layers
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads", at_most=MAX_HEADS)
    traits = attention_traits(fields, dialect)
    made = {number: grouped_query_attention(heads_of(fields, hidden, heads, number), traits) for number in set(counts)}
    return [made[number] for number in counts]


def step3_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """Step-3: multi-matrix factorisation attention, one KV head, queries through a narrow shared projection."""
    del dialect
    heads = heads_of(
        fields, fields.count("hidden_size"), fields.count("num_attention_heads", at_most=MAX_HEADS),
        fields.count("num_key_value_heads", 1, at_most=MAX_HEADS),
    )  # fmt: skip
    traits = AttentionTraits(query_rank=fields.count("share_q_dim"))
    return [grouped_query_attention(heads, traits)] * num_layers


#: Defaults of transformers 5.24 MiMoV2FlashConfig.
MIMO_V2_DEFAULTS: Final[Mapping[str, object]] = {
    "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "sliding_window": 128
}  # fmt: skip
