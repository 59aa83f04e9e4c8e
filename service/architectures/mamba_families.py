"""Decoders without softmax attention, or with little: Mamba, Mamba-2, FalconMamba, and Griffin (RecurrentGemma).

Layouts follow transformers 5.24.
"""

from collections.abc import Mapping
from typing import Final

from service.architectures.architecture import Architecture, Role, Split
from service.architectures.assembly import Model, Source, assemble
from service.architectures.attention import AttentionTraits, grouped_query_attention, read_heads
from service.architectures.decoder import Dialect
from service.architectures.fields import MAX_HEADS, MAX_LAYERS, MAX_TOKENS, Fields
from service.architectures.hybrid_families import time_step_rank
from service.architectures.recurrent import Mamba1, Mamba2, conv_state, mamba1, mamba2, other, recurrent_part, state
from service.architectures.weights import Part, Weight, layer, matrix, norm

_NOTHING: Final = Part(weights=())


def read_mamba(source: Source) -> Architecture:
    """Mamba and FalconMamba: one mixer and one norm a layer."""
    fields = source.text.with_defaults({"tie_word_embeddings": True})
    hidden = fields.count("hidden_size")
    dims = Mamba1(
        hidden_size=hidden,
        inner_size=fields.maybe_count("intermediate_size") or int(fields.number("expand", 2.0) * hidden) or 1,
        state_size=fields.count("state_size", 16, at_most=65_536),
        kernel=fields.count("conv_kernel", 4, at_most=1_000),
        rank=time_step_rank(fields, "time_step_rank", hidden),
        conv_bias=fields.flag("use_conv_bias", True),
        projection_bias=fields.flag("use_bias"),
    )
    return _stack(source, fields, "mamba", mamba1(dims))


def read_mamba2(source: Source) -> Architecture:
    """Mamba-2 (Codestral Mamba): one mixer and one norm a layer."""
    fields = source.text.with_defaults(
        {"num_heads": 128, "head_dim": 64, "state_size": 128, "n_groups": 8, "tie_word_embeddings": False}
    )
    dims = Mamba2(
        hidden_size=fields.count("hidden_size"),
        num_heads=fields.count("num_heads", at_most=MAX_HEADS),
        head_dim=fields.count("head_dim", at_most=65_536),
        state_size=fields.count("state_size", at_most=65_536),
        num_groups=fields.count("n_groups", at_most=MAX_HEADS),
        kernel=fields.count("conv_kernel", 4, at_most=1_000),
        conv_bias=fields.flag("use_conv_bias", True),
        projection_bias=fields.flag("use_bias"),
    )
    return _stack(source, fields, "mamba2", mamba2(dims))


def _stack(source: Source, fields: Fields, reader: str, mixing: Part) -> Architecture:
    hidden = fields.count("hidden_size")
    one = layer(mixing, _NOTHING, (norm("norm", hidden),))
    return assemble(
        source,
        Model(
            reader=reader,
            fields=fields,
            hidden_size=hidden,
            vocab_size=fields.count("vocab_size"),
            layers=[one] * fields.count("num_hidden_layers", at_most=MAX_LAYERS),
            tied=fields.flag("tie_word_embeddings"),
            outer=(norm("norm_f", hidden),),
        ),
    )


def griffin_mixing(fields: Fields, dialect: Dialect, num_layers: int) -> list[Part]:
    """RecurrentGemma: block_types, repeated over the layers, says which are recurrent and which attend to a window."""
    del dialect
    traits = AttentionTraits(qkv_bias=fields.flag("attention_bias"), o_bias=True, module="temporal_block")
    window = fields.count("attention_window_size", 2048, at_most=MAX_TOKENS)
    attention = grouped_query_attention(read_heads(fields), traits, window_tokens=window)
    recurrent = _recurrent_block(fields)
    types = fields.texts("block_types") or ["recurrent", "recurrent", "attention"]
    for name in types:
        if name not in ("recurrent", "attention"):
            raise fields.refuse("block_types", f"{name[:40]!r} is not known.", "Use recurrent and attention.")
    chosen = [types[index % len(types)] for index in range(num_layers)]
    return [attention if name == "attention" else recurrent for name in chosen]


def _recurrent_block(fields: Fields) -> Part:
    """A real-gated linear recurrent unit (De et al. 2024) between two projections, with block-diagonal gates."""
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads", at_most=MAX_HEADS)
    width = fields.count("lru_width", hidden)
    if width % heads:
        raise fields.refuse("lru_width", f"{width} does not divide over {heads} heads.", "Give a multiple.")
    kernel = fields.count("conv1d_width", 4, at_most=1_000)
    at, block = "temporal_block", width // heads
    gates = Weight(f"{at}.rg_lru.gates", Role.LINEAR_ATTENTION, Split.EVEN, block, 2 * block, copies=heads, quantizable=False)
    small = 2 * width + hidden + width * (kernel + 1) + 3 * width  # biases, convolution, gates' biases and decay
    weights = (
        matrix(f"{at}.linear_y", Role.LINEAR_ATTENTION, hidden, width),
        matrix(f"{at}.linear_x", Role.LINEAR_ATTENTION, hidden, width),
        matrix(f"{at}.linear_out", Role.LINEAR_ATTENTION, width, hidden),
        gates,
        other(f"{at}.others", small),
    )
    return recurrent_part(weights, (conv_state(width * (kernel - 1)), state("recurrent_state", width, "fp32")))


RECURRENT_GEMMA_DEFAULTS: Final[Mapping[str, object]] = {"tie_word_embeddings": True}

RECURRENT_GEMMA: Final = Dialect(
    reader="recurrent_gemma",
    mixing=griffin_mixing,
    mlp="mlp_block",
    mlp_bias=True,
    intermediate=lambda fields: fields.count("intermediate_size", at_least=2) // 2,
    defaults=RECURRENT_GEMMA_DEFAULTS,
)
