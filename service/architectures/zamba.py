"""Zamba and Zamba2: one or two transformer blocks, stored once, that run in front of some of the Mamba layers.

Every run has keys and values of its own, and reads the hidden state beside the first embedding, hence twice the width.
Layouts follow transformers 5.24.
"""

from typing import Final

from msgspec.structs import replace

from service.architectures.architecture import Architecture, Role, Split
from service.architectures.assembly import Model, Source, assemble
from service.architectures.attention import Heads, grouped_query_attention
from service.architectures.feed_forward import Mlp, mlp_weights
from service.architectures.fields import MAX_HEADS, MAX_LAYERS, Fields
from service.architectures.hybrid_families import time_step_rank
from service.architectures.recurrent import Mamba1, Mamba2, mamba1, mamba2
from service.architectures.weights import Layer, Part, Weight, matrix, norm

_HYBRID: Final = ("hybrid", "g")
_MAMBA: Final = ("mamba", "mamba2", "linear_attention", "m")


def read_zamba(source: Source) -> Architecture:
    """Zamba-7B: one shared block, Mamba mixers."""
    fields = source.text.with_defaults({"tie_word_embeddings": True})
    hidden = fields.count("hidden_size")
    dims = Mamba1(
        hidden_size=hidden,
        inner_size=fields.count("mamba_expand", 2, at_most=1_000) * hidden,
        state_size=fields.count("mamba_d_state", 16, at_most=65_536),
        kernel=fields.count("mamba_d_conv", 4, at_most=1_000),
        rank=time_step_rank(fields, "mamba_dt_rank", hidden),
        conv_bias=fields.flag("mamba_conv_bias", True),
        projection_bias=fields.flag("mamba_proj_bias"),
        module="mamba",
    )
    width = fields.count("intermediate_size")
    return _assemble(source, fields, "zamba", mamba1(dims), Mlp(hidden, width, module="shared_transf.feed_forward"))


def read_zamba2(source: Source) -> Architecture:
    """Zamba2: num_mem_blocks shared blocks in turn, Mamba-2 mixers, a low-rank adapter a run."""
    fields = source.text.with_defaults({"tie_word_embeddings": True})
    hidden = fields.count("hidden_size")
    inner = int(fields.number("mamba_expand", 2.0) * hidden)
    heads = fields.count("n_mamba_heads", 8, at_most=MAX_HEADS)
    if inner < heads or inner % heads:
        raise fields.refuse("n_mamba_heads", f"{inner} does not divide over {heads} heads.", "Give a divisor.")
    dims = Mamba2(
        hidden_size=hidden,
        num_heads=heads,
        head_dim=inner // heads,
        state_size=fields.count("mamba_d_state", 64, at_most=65_536),
        num_groups=fields.count("mamba_ngroups", 1, at_most=MAX_HEADS),
        kernel=fields.count("mamba_d_conv", 4, at_most=1_000),
        conv_bias=fields.flag("use_conv_bias", True),
        projection_bias=fields.flag("add_bias_linear"),
        module="mamba",
    )
    width = fields.maybe_count("intermediate_size") or 4 * hidden
    mlp = Mlp(hidden, width, bias=fields.flag("add_bias_linear"), module="shared_transformer.feed_forward")
    return _assemble(source, fields, "zamba2", mamba2(dims), mlp)


def _assemble(source: Source, fields: Fields, reader: str, mixing: Part, mlp: Mlp) -> Architecture:
    hidden = fields.count("hidden_size")
    num_layers = fields.count("num_hidden_layers", at_most=MAX_LAYERS)
    hybrid = _hybrid_layers(fields, num_layers)
    heads = _heads(fields, hidden)
    attention = grouped_query_attention(heads)
    before = norm("norm", hidden)
    plain = Layer(mixing.mixer, mixing.feed_forward, (*mixing.weights, before), mixing.cache, divided=mixing.divided)
    both = replace(
        plain,
        mixer=attention.mixer,
        weights=(*plain.weights, *_of_each_run(fields, hidden, mlp)),
        cache=attention.cache + mixing.cache,
        attention=attention.attention,
    )
    num_runs = sum(hybrid)
    num_blocks = fields.count("num_mem_blocks", 1, at_most=MAX_LAYERS)
    shared = (*attention.weights, *mlp_weights(mlp))
    outer = [replace(weight, copies=num_blocks, runs=_runs(num_runs, num_blocks)) for weight in shared]
    return assemble(
        source,
        Model(
            reader=reader,
            fields=fields,
            hidden_size=hidden,
            vocab_size=fields.count("vocab_size"),
            layers=[both if is_hybrid else plain for is_hybrid in hybrid],
            tied=fields.flag("tie_word_embeddings"),
            outer=(*outer, norm("shared.norms", 3 * hidden * num_blocks), norm("final_layernorm", hidden)),
            intermediate_size=mlp.intermediate_size,
            notes=(f"{num_blocks} shared block(s) run {num_runs} times a token: stored once, counted so in FLOPs.",),
        ),
    )


def _runs(num_runs: int, num_blocks: int) -> float:
    """How often a token passes each block on average."""
    return num_runs / num_blocks


def _heads(fields: Fields, hidden: int) -> Heads:
    heads = fields.count("num_attention_heads", at_most=MAX_HEADS)
    kv_heads = fields.count("num_key_value_heads", heads, at_most=MAX_HEADS)
    dim = fields.maybe_count("attention_head_dim", at_most=65_536) or 2 * hidden // heads
    if heads % kv_heads or dim < 1:
        raise fields.refuse("num_attention_heads", "The heads do not divide.", "Give a multiple of the KV heads.")
    return Heads(2 * hidden, heads, kv_heads, dim, dim, output_hidden_size=hidden)


def _hybrid_layers(fields: Fields, num_layers: int) -> list[bool]:
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        for name in types:
            if name not in (*_HYBRID, *_MAMBA):
                raise fields.refuse("layers_block_type", f"{name[:40]!r} is not known.", "Use mamba and hybrid.")
        return [name in _HYBRID for name in types]
    # Zamba counts its period from the third layer on, which is hybrid itself.
    period = fields.count("attn_layer_period", 6, at_most=MAX_LAYERS)
    offset = fields.count("attn_layer_offset", 4, at_least=0, at_most=MAX_LAYERS)
    return [index == 2 or (index > 2 and (index - 3) % period == offset) for index in range(num_layers)]


def _of_each_run(fields: Fields, hidden: int, mlp: Mlp) -> tuple[Weight, ...]:
    """What a hybrid layer has besides its share of the block: a projection back, and in Zamba2 adapters."""
    weights = [matrix("linear", Role.ATTENTION, hidden, hidden)]
    rank = fields.maybe_count("adapter_rank")
    if rank is not None:
        weights.append(matrix("gate_up_proj_adapter.0", Role.MLP, hidden, rank, Split.REPLICATED))
        weights.append(matrix("gate_up_proj_adapter.1", Role.MLP, rank, 2 * mlp.intermediate_size))
        if fields.flag("use_shared_attention_adapter"):
            weights.append(matrix("linear_adapters.0", Role.ATTENTION, 2 * hidden, 3 * rank, Split.REPLICATED))
            weights.append(matrix("linear_adapters.1", Role.ATTENTION, 3 * rank, 2 * hidden))
    return tuple(weights)
