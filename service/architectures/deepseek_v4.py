"""DeepSeek-V4: a short window of keys that are their own values, compressed entries beyond it, hyper-connections.

Layouts follow transformers 5.24 DeepseekV4; module names are those of the published checkpoints.
"""

from typing import Final

from msgspec.structs import replace

from service.architectures.architecture import AttentionShape, CacheEntry, Mixer, Role, Split
from service.architectures.decoder import Dialect, ExpertTraits
from service.architectures.fields import MAX_HEADS, MAX_LAYERS, MAX_TOKENS, Fields
from service.architectures.weights import Part, Weight, matrix, norm, vector

_AT: Final = "attn"
_WHOLE: Final = Split.REPLICATED
_RATIO_OF_TYPE: Final = {
    "sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128
}  # fmt: skip


def compressed_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """One window of 128 keys in every layer; besides, one compressed entry every 4 or 128 tokens in most.

    ``compress_ratios`` has one entry more than there are layers, that of the multi-token-prediction layer: 0 is the
    window alone, a small ratio has an indexer that picks top-k entries, 128 attends to all entries.
    """
    del dialect
    ratios = _ratios(fields, num_layers)
    made = {ratio: _attention(fields, ratio) for ratio in set(ratios)}
    return [made[ratio] for ratio in ratios]


def _ratios(fields: Fields, num_layers: int) -> list[int]:
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        if unknown := set(types) - set(_RATIO_OF_TYPE):
            raise fields.refuse(
                "layer_types", f"{sorted(unknown)[0][:40]!r} is not known.", f"Use one of {', '.join(_RATIO_OF_TYPE)}."
            )
        return [_RATIO_OF_TYPE[name] for name in types]
    given = fields.counts("compress_ratios", at_most=MAX_TOKENS)
    if given is None or len(given) < num_layers:
        raise fields.refuse("compress_ratios", "It does not cover every layer.", "Give one ratio a layer: 0, 4 or 128.")
    return given[:num_layers]


def _attention(fields: Fields, ratio: int) -> Part:
    dim = fields.count("head_dim", at_most=65_536)
    window = fields.count("sliding_window", at_most=MAX_TOKENS)
    indexed = 0 < ratio < 128
    cache = [CacheEntry("kv", float(dim), _WHOLE, window_tokens=window)]
    weights = _projections(fields, dim)
    if ratio:
        cache.append(CacheEntry("compressed_kv", float(dim), _WHOLE, tokens_per_entry=ratio))
        weights += _compressor(fields, f"{_AT}.compressor", dim * (2 if indexed else 1), dim, ratio)
    if indexed:
        index_dim = fields.count("index_head_dim", at_most=65_536)
        cache.append(CacheEntry("indexer", float(index_dim), _WHOLE, tokens_per_entry=ratio))
        weights += _indexer(fields, index_dim, ratio)
    shape = AttentionShape(
        num_query_heads=fields.count("num_attention_heads", at_most=MAX_HEADS),
        num_kv_heads=1,
        query_key_head_dim=dim,
        value_head_dim=dim,
        window_tokens=window,
        tokens_per_compressed_entry=ratio or None,
        max_compressed_entries=fields.count("index_topk", at_most=MAX_TOKENS) if indexed else None,
    )
    return Part(weights=weights, mixer=Mixer.SLIDING, cache=tuple(cache), attention=shape)


def _projections(fields: Fields, dim: int) -> tuple[Weight, ...]:
    hidden, rank = fields.count("hidden_size"), fields.count("q_lora_rank")
    heads = fields.count("num_attention_heads", at_most=MAX_HEADS)
    groups, out_rank = fields.count("o_groups", at_most=MAX_HEADS), fields.count("o_lora_rank")
    if heads * dim % groups:
        raise fields.refuse("o_groups", "It does not divide the heads.", "Give a divisor of all heads' width.")
    attention = Role.ATTENTION
    return (
        matrix(f"{_AT}.wq_a", attention, hidden, rank, _WHOLE),
        norm(f"{_AT}.q_norm", rank),
        matrix(f"{_AT}.wq_b", attention, rank, heads * dim),
        matrix(f"{_AT}.wkv", attention, hidden, dim, _WHOLE),
        norm(f"{_AT}.kv_norm", dim),
        matrix(f"{_AT}.wo_a", attention, heads * dim // groups, groups * out_rank),
        matrix(f"{_AT}.wo_b", attention, groups * out_rank, hidden),
        vector(f"{_AT}.attn_sink", attention, heads, Split.EVEN),
    )


def _compressor(fields: Fields, at: str, width: int, dim: int, ratio: int) -> tuple[Weight, ...]:
    hidden = fields.count("hidden_size")
    return (
        matrix(f"{at}.wkv", Role.ATTENTION, hidden, width, _WHOLE),
        matrix(f"{at}.wgate", Role.ATTENTION, hidden, width, _WHOLE),
        vector(f"{at}.ape", Role.ATTENTION, ratio * width),
        norm(f"{at}.norm", dim),
    )


def _indexer(fields: Fields, index_dim: int, ratio: int) -> tuple[Weight, ...]:
    heads, rank = fields.count("index_n_heads", at_most=MAX_HEADS), fields.count("q_lora_rank")
    scores = matrix(f"{_AT}.indexer.weights_proj", Role.ATTENTION, fields.count("hidden_size"), heads, _WHOLE)
    return (
        *_compressor(fields, f"{_AT}.indexer.compressor", 2 * index_dim, index_dim, ratio),
        matrix(f"{_AT}.indexer.wq_b", Role.ATTENTION, rank, heads * index_dim, _WHOLE),
        replace(scores, quantizable=False),
    )


def _hyper_connection(name: str, streams: int, hidden: int, outputs: int, scales: int) -> tuple[Weight, ...]:
    mixed = matrix(name, Role.MLP, streams * hidden, outputs, _WHOLE)
    return (replace(mixed, quantizable=False), vector(f"{name}.base", Role.NORMS, outputs + scales))


def _streams(fields: Fields) -> int:
    return fields.count("hc_mult", at_most=MAX_LAYERS)


def _layer_additions(fields: Fields) -> tuple[Weight, ...]:
    """Two hyper-connections a layer: each maps all residual streams to the weights that mix them."""
    streams, hidden = _streams(fields), fields.count("hidden_size")
    outputs = (2 + streams) * streams
    return (
        *_hyper_connection("hc_attn_fn", streams, hidden, outputs, 3),
        *_hyper_connection("hc_ffn_fn", streams, hidden, outputs, 3),
    )


def _outer_additions(fields: Fields) -> tuple[Weight, ...]:
    streams = _streams(fields)
    return _hyper_connection("hc_head_fn", streams, fields.count("hidden_size"), streams, 1)


DEEPSEEK_V4: Final = Dialect(
    reader="deepseek_v4",
    mixing=compressed_mixing,
    experts=ExpertTraits(
        module="ffn", names=("w1", "w3", "w2"), shared="count", shared_module="shared_experts"
    ),
    layer_additions=_layer_additions,
    outer_additions=_outer_additions,
    # transformers 5.24 DeepseekV4Config
    defaults={
        "head_dim": 512, "sliding_window": 128, "hc_mult": 4, "o_groups": 8, "o_lora_rank": 1024, "q_lora_rank": 1024,
        "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512, "n_shared_experts": 1,
    },
)  # fmt: skip
