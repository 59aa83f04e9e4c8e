"""RWKV-5: no attention at all, a matrix state a head and the previous token's activations.

Layout of the code published with RWKV/rwkv-5-world-3b; its lm_head is separate whatever tie_word_embeddings says.
"""

from typing import Final

from service.architectures.architecture import Architecture, FeedForward, Mixer, Role
from service.architectures.assembly import Model, Source, assemble
from service.architectures.fields import MAX_LAYERS, Fields
from service.architectures.recurrent import conv_state, other, state
from service.architectures.weights import Layer, matrix, norm

_TIME_MIX: Final = ("key", "value", "receptance", "gate", "output")


def read_rwkv5(source: Source) -> Architecture:
    """The architecture of an RWKV-5 model."""
    fields = source.text
    hidden = fields.count("hidden_size")
    width = fields.maybe_count("intermediate_size") or hidden * 7 // 2 // 32 * 32
    layers = [_layer(fields, hidden, width)] * fields.count("num_hidden_layers", at_most=MAX_LAYERS)
    note = ("The lm_head is stored apart from the embedding, though tie_word_embeddings is true.",)
    return assemble(
        source,
        Model(
            reader="rwkv5",
            fields=fields,
            hidden_size=hidden,
            vocab_size=fields.count("vocab_size"),
            layers=layers,
            tied=False,
            outer=(norm("pre_ln", hidden, bias=True), norm("ln_out", hidden, bias=True)),
            intermediate_size=width,
            notes=note if fields.flag("tie_word_embeddings") else (),
        ),
    )


def _layer(fields: Fields, hidden: int, width: int) -> Layer:
    inner = fields.maybe_count("attention_hidden_size") or hidden
    head = fields.count("head_size", 64, at_most=65_536)
    mixing = [matrix(f"attention.{name}", Role.LINEAR_ATTENTION, hidden, inner) for name in _TIME_MIX]
    feeding = (
        matrix("feed_forward.key", Role.MLP, hidden, width),
        matrix("feed_forward.value", Role.MLP, width, hidden),
        matrix("feed_forward.receptance", Role.MLP, hidden, hidden),
    )
    small = (other("attention.time_mix", 4 * hidden + 2 * inner), other("feed_forward.time_mix", 2 * hidden))
    norms = (norm("norms", 2 * hidden + inner, bias=True),)
    return Layer(
        mixer=Mixer.LINEAR,
        feed_forward=FeedForward.DENSE,
        weights=(*mixing, *feeding, *small, *norms),
        cache=(conv_state(2 * hidden), state("recurrent_state", inner * head, "fp32")),
    )
