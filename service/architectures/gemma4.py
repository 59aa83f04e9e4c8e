"""Gemma 4: windowed layers and global ones of other head dimensions, and layers without keys of their own.

The 26B model has experts beside a dense MLP, the small ones have one embedding table a layer. Layouts follow
transformers 5.24 Gemma4.
"""

from collections.abc import Mapping
from typing import Final

from service.architectures.architecture import Architecture, Experts, FeedForward, Role, Split
from service.architectures.assembly import Model, Source, assemble
from service.architectures.attention import AttentionTraits, Heads, grouped_query_attention, heads_of
from service.architectures.feed_forward import ExpertBlock, Mlp, expert_weights, mlp_weights, read_experts
from service.architectures.fields import MAX_HEADS, MAX_LAYERS, Fields
from service.architectures.patterns import layer_windows
from service.architectures.vision import tower_weights
from service.architectures.weights import Layer, Part, Weight, layer, matrix, norm, vector

_DEFAULTS: Final[Mapping[str, object]] = {
    "vocab_size": 262_144, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 30,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512,
    "sliding_window": 512, "tie_word_embeddings": True, "vocab_size_per_layer_input": 262_144,
    "hidden_size_per_layer_input": 256, "max_position_embeddings": 131_072,
}  # fmt: skip


def read_gemma4(source: Source) -> Architecture:
    """The architecture of a Gemma 4 model."""
    fields = source.text.with_defaults(_DEFAULTS)
    hidden = fields.count("hidden_size")
    num_layers = fields.count("num_hidden_layers", at_most=MAX_LAYERS)
    windows = layer_windows(fields, num_layers, period=6)
    first_shared = num_layers - fields.count("num_kv_shared_layers", 0, at_least=0, at_most=num_layers)
    experts = read_experts(fields) if fields.flag("enable_moe_block") else None
    keys = [(window, index >= first_shared) for index, window in enumerate(windows)]
    made = {key: _layer(fields, hidden, experts, *key) for key in dict.fromkeys(keys)}
    towers, notes = tower_weights(source.top, hidden)
    return assemble(
        source,
        Model(
            reader="gemma4",
            fields=fields,
            hidden_size=hidden,
            vocab_size=fields.count("vocab_size"),
            layers=[made[key] for key in keys],
            tied=fields.flag("tie_word_embeddings"),
            outer=(norm("norm", hidden), *per_layer_tables(fields, hidden, num_layers), *towers),
            experts=experts,
            intermediate_size=fields.count("intermediate_size"),
            notes=notes,
        ),
    )


def _layer(fields: Fields, hidden: int, experts: Experts | None, window: int | None, shared: bool) -> Layer:
    """One layer; a global one (no window) has dimensions of its own, a shared one reads the keys of an earlier layer."""
    is_global = window is None
    traits = AttentionTraits(
        qkv_bias=fields.flag("attention_bias"),
        o_bias=fields.flag("attention_bias"),
        qk_norm="head",
        value_is_key=is_global and fields.flag("attention_k_eq_v"),
        shares_cache=shared,
    )
    mixing = grouped_query_attention(_heads(fields, hidden, is_global=is_global), traits, window_tokens=window)
    width = fields.count("intermediate_size") * (2 if shared and fields.flag("use_double_wide_mlp") else 1)
    weights = mlp_weights(Mlp(hidden, width)) + _expert_weights(hidden, experts)
    kind = FeedForward.DENSE if experts is None else FeedForward.EXPERTS
    norms = norm("norms", hidden * (4 if experts is None else 7))
    return layer(mixing, Part(weights=weights, feed_forward=kind), (norms, *per_layer_input(fields, hidden)))


def _heads(fields: Fields, hidden: int, *, is_global: bool) -> Heads:
    heads = fields.count("num_attention_heads", at_most=MAX_HEADS)
    kv_heads = fields.count("num_key_value_heads", at_most=MAX_HEADS)
    if not is_global:
        return heads_of(fields, hidden, heads, kv_heads)
    if fields.flag("attention_k_eq_v"):
        kv_heads = fields.maybe_count("num_global_key_value_heads", at_most=MAX_HEADS) or kv_heads
    dim = fields.count("global_head_dim", at_most=65_536)
    return heads_of(Fields({"head_dim": dim}, path=fields.path), hidden, heads, kv_heads)


def _expert_weights(hidden: int, experts: Experts | None) -> tuple[Weight, ...]:
    if experts is None:
        return ()
    scales = vector("router.scale", Role.ROUTER, hidden + experts.num_experts)
    return (*expert_weights(ExpertBlock(hidden_size=hidden, experts=experts, module="", router="router")), scales)


def per_layer_input(fields: Fields, hidden: int) -> tuple[Weight, ...]:
    """What a layer does with its own embedding of the token: a gate to its width, a projection back, a norm."""
    width = fields.count("hidden_size_per_layer_input", at_least=0)
    if width == 0:
        return ()
    return (
        matrix("per_layer_input_gate", Role.MLP, hidden, width, Split.REPLICATED),
        matrix("per_layer_projection", Role.MLP, width, hidden, Split.REPLICATED),
        norm("post_per_layer_input_norm", hidden),
    )


def per_layer_tables(fields: Fields, hidden: int, num_layers: int) -> tuple[Weight, ...]:
    """The embedding tables of all layers together, looked up and not multiplied, and a projection to the same width."""
    width = fields.count("hidden_size_per_layer_input", at_least=0) * num_layers
    if width == 0:
        return ()
    rows = fields.count("vocab_size_per_layer_input")
    table = Weight("embed_tokens_per_layer", Role.PER_LAYER_EMBEDDING, Split.EVEN, width, rows, linear=False, quantizable=False)
    projection = matrix("per_layer_model_projection", Role.MLP, hidden, width, Split.REPLICATED)
    return table, projection, norm("per_layer_projection_norm", width // num_layers)
