"""Nemotron models pruned by neural architecture search: block_configs says layer by layer what is left of a Llama.

Layout of the code published with nvidia/Llama-3_3-Nemotron-Super-49B-v1 (DeciLM).
"""

from typing import Final

from service.architectures.architecture import Architecture, FeedForward, Role
from service.architectures.assembly import Model, Source, assemble
from service.architectures.attention import grouped_query_attention, heads_of
from service.architectures.decoder import tied
from service.architectures.feed_forward import Mlp, dense
from service.architectures.fields import MAX_HEADS, MAX_LAYERS, Fields, mapping
from service.architectures.weights import Layer, Part, layer, matrix, norm

_NOTHING: Final = Part(weights=())
_WIDTH_MULTIPLE: Final = 256


def read_nemotron_nas(source: Source) -> Architecture:
    """The architecture of a pruned Nemotron."""
    fields = source.text
    hidden = fields.count("hidden_size")
    blocks = fields.items("block_configs", length=fields.maybe_count("num_hidden_layers", at_most=MAX_LAYERS))
    if not blocks:
        raise fields.refuse("block_configs", "It is missing or empty.", "Give one block a layer.")
    mixing: dict[object, Part] = {}
    feeding: dict[object, Part] = {}
    made: dict[tuple[object, object], Layer] = {}
    layers = []
    for index, value in enumerate(blocks):
        place = f"{fields.path}block_configs[{index}]"
        block = Fields(mapping(place, value), path=f"{place}.")
        heads, width = _attention_key(block), _feeding_key(block, hidden)
        mixing.setdefault(heads, _NOTHING if heads is None else _mixing(fields, hidden, heads))
        feeding.setdefault(width, _NOTHING if width is None else _feeding(hidden, width))
        norms = (norm("norms", hidden * ((heads is not None) + (width is not None))),)
        if (heads, width) not in made:
            made[heads, width] = layer(mixing[heads], feeding[width], norms if heads or width else ())
        layers.append(made[heads, width])
    return assemble(
        source,
        Model(
            reader="nemotron_nas",
            fields=fields,
            hidden_size=hidden,
            vocab_size=fields.count("vocab_size"),
            layers=layers,
            tied=tied(source, fields),
            outer=(norm("norm", hidden),),
        ),
    )


def _attention_key(block: Fields) -> int | str | None:
    """Query heads a group, "linear" for a matrix in place of attention, None for nothing."""
    section = block.section("attention")
    if section is None or section.flag("no_op"):
        return None
    return "linear" if section.flag("replace_with_linear") else section.count("n_heads_in_group", at_most=MAX_HEADS)


def _feeding_key(block: Fields, hidden: int) -> int | str | None:
    """Width of the MLP, "linear" for a matrix in its place, None for nothing.

    ffn_mult counts a two-matrix MLP; two thirds of it, rounded up to a multiple of 256, is the width of a gated one.
    """
    section = block.section("ffn")
    if section is None or section.flag("no_op"):
        return None
    if section.flag("replace_with_linear"):
        return "linear"
    given = section.maybe_count("intermediate_size")
    if given is not None:
        return given
    width = int(2 * section.number("ffn_mult") * hidden / 3)
    if width < 1:
        raise section.refuse("ffn_mult", "It leaves the MLP no width.", "Give a larger one, or no_op.")
    return -(-width // _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE


def _mixing(fields: Fields, hidden: int, heads_in_group: int | str) -> Part:
    if isinstance(heads_in_group, str):
        return Part(weights=(matrix("self_attn.linear_attn", Role.ATTENTION, hidden, hidden),))
    heads = fields.count("num_attention_heads", at_most=MAX_HEADS)
    if heads % heads_in_group:
        raise fields.refuse("num_attention_heads", f"Groups of {heads_in_group} do not divide {heads} heads.", "Check.")
    return grouped_query_attention(heads_of(fields, hidden, heads, heads // heads_in_group))


def _feeding(hidden: int, width: int | str) -> Part:
    if isinstance(width, str):
        weights = (matrix("mlp.linear_mlp", Role.MLP, hidden, hidden),)
        return Part(weights=weights, feed_forward=FeedForward.DENSE)
    return dense(Mlp(hidden, width))
