"""Gemma 3n: four residual streams (AltUp), low-rank side paths (LAuReL), one embedding table a layer, shared keys.

Layouts follow transformers 5.24 Gemma3n. The vision and audio towers are not counted.
"""

from collections.abc import Mapping
from typing import Final

from service.architectures.architecture import Architecture, FeedForward, Role, Split
from service.architectures.assembly import Model, Source, assemble
from service.architectures.attention import AttentionTraits, Heads, grouped_query_attention, read_heads
from service.architectures.feed_forward import Mlp, mlp_weights
from service.architectures.fields import MAX_LAYERS, Fields
from service.architectures.gemma4 import per_layer_input, per_layer_tables
from service.architectures.patterns import layer_windows
from service.architectures.weights import Layer, Part, Weight, layer, matrix, norm, vector

_DEFAULTS: Final[Mapping[str, object]] = {
    "vocab_size": 262_400, "hidden_size": 2048, "intermediate_size": 16_384, "num_hidden_layers": 35,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "sliding_window": 512,
    "tie_word_embeddings": True, "vocab_size_per_layer_input": 262_144, "hidden_size_per_layer_input": 256,
    "num_kv_shared_layers": 15, "altup_num_inputs": 4, "laurel_rank": 64,
    "max_position_embeddings": 32_768,
}  # fmt: skip


def read_gemma3n(source: Source) -> Architecture:
    """The architecture of a Gemma 3n model's text decoder."""
    fields = source.text.with_defaults(_DEFAULTS)
    hidden = fields.count("hidden_size")
    num_layers = fields.count("num_hidden_layers", at_most=MAX_LAYERS)
    windows = layer_windows(fields, num_layers, period=5)
    first_shared = num_layers - fields.count("num_kv_shared_layers", 0, at_least=0, at_most=num_layers)
    widths = _widths(fields, num_layers)
    keys = [(windows[index], index >= first_shared, widths[index]) for index in range(num_layers)]
    heads = read_heads(fields)
    made = {key: _layer(fields, heads, *key) for key in dict.fromkeys(keys)}
    streams = fields.count("altup_num_inputs", at_most=1_000)
    # One projection into every further residual stream at the start, and one out of it at the end.
    joins = Weight("altup_projections", Role.MLP, Split.REPLICATED, hidden, hidden, copies=2 * (streams - 1) or 1)
    note = "The vision and audio towers of Gemma 3n are not counted."
    return assemble(
        source,
        Model(
            reader="gemma3n",
            fields=fields,
            hidden_size=hidden,
            vocab_size=fields.count("vocab_size"),
            layers=[made[key] for key in keys],
            tied=fields.flag("tie_word_embeddings"),
            outer=(norm("norm", hidden), joins, *per_layer_tables(fields, hidden, num_layers)),
            intermediate_size=widths[0],
            notes=(note,) if source.top is not source.text else (),
        ),
    )


def _widths(fields: Fields, num_layers: int) -> list[int]:
    if isinstance(fields.given("intermediate_size"), list | tuple):
        return fields.counts("intermediate_size", length=num_layers, at_least=1) or []
    return [fields.count("intermediate_size")] * num_layers


def _layer(fields: Fields, heads: Heads, window: int | None, shared: bool, width: int) -> Layer:
    hidden = heads.hidden_size
    # Layers that share keys store projections all the same; only the cache is not theirs.
    traits = AttentionTraits(qkv_bias=fields.flag("attention_bias"), o_bias=fields.flag("attention_bias"), qk_norm="head")
    own = grouped_query_attention(heads, traits, window_tokens=window)
    mixing = Part(own.weights, own.mixer, () if shared else own.cache, own.attention)
    weights = mlp_weights(Mlp(hidden, width))
    extra = (norm("norms", 4 * hidden), *per_layer_input(fields, hidden), *_side_paths(fields, hidden))
    return layer(mixing, Part(weights=weights, feed_forward=FeedForward.DENSE), extra)


def _side_paths(fields: Fields, hidden: int) -> tuple[Weight, ...]:
    streams, rank = fields.count("altup_num_inputs", at_most=1_000), fields.count("laurel_rank")
    return (
        matrix("laurel.linear_left", Role.MLP, hidden, rank, Split.REPLICATED),
        matrix("laurel.linear_right", Role.MLP, rank, hidden, Split.REPLICATED),
        norm("laurel.post_laurel_norm", hidden),
        matrix("altup.modality_router", Role.MLP, hidden, streams, Split.REPLICATED),
        vector("altup.others", Role.NORMS, 2 * hidden + streams * streams + streams**3),
    )
