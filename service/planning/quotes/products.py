"""What an offer's line is of: an accelerator or a node type, and how many devices make a unit of it."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.catalogue.entries import Accelerator, Catalogue
from service.planning.claims import words
from service.planning.claims.candidates import gpus_per_superchip
from service.planning.claims.claim import Kind, Mention, Name
from service.planning.claims.names import Names

_COUNT_BEFORE: Final = re.compile(
    r"(?<![\w.-])(\d{1,3})(?:[ ]?[x×*][ ]?(?:nvidia |amd |intel )?| (?:nvidia |amd |intel ))$", re.IGNORECASE
)
_COUNT_WITHIN: Final = re.compile(r"(?<![\w.])(\d{1,3})[ -]?(?:x[ -]?)?(?:gpus?|way|accelerators?|oams?)\b", re.IGNORECASE)
_MAX_DEVICES: Final = 576
_MAX_NAMED: Final = 12


class Product(Struct, frozen=True):
    """What a line is of.

    ``subject`` is how claims name it: an entry's name where it is one, else the words. ``accelerators`` and ``node_types`` are
    all that it can mean. ``num_devices_per_unit`` is None where a unit's devices are not known.
    """

    text: str
    subject: str
    accelerators: tuple[str, ...] = ()
    node_types: tuple[str, ...] = ()
    num_devices_per_unit: int | None = None
    is_known: bool = False

    @property
    def accelerator(self) -> str:
        """The accelerator, where it can only be one."""
        return self.accelerators[0] if len(self.accelerators) == 1 else ""

    @property
    def node_type(self) -> str:
        """The node type, where it can only be one."""
        return self.node_types[0] if len(self.node_types) == 1 else ""

    @property
    def candidates(self) -> tuple[str, ...]:
        """What it can mean, where that is several."""
        several = self.accelerators if len(self.accelerators) > 1 else self.node_types
        return several[:_MAX_NAMED] if len(several) > 1 else ()


def product_of(texts: Iterable[str], names: Names, catalogue: Catalogue) -> Product:
    """What the first of the texts that names something names; an unknown product where none does."""
    listed = [text for text in texts if text]
    for text in listed:
        if found := _named(text, names, catalogue):
            return found
    return Product(listed[0] if listed else "", listed[0] if listed else "")


def _named(text: str, names: Names, catalogue: Catalogue) -> Product | None:
    mentions, exact = list(names.mentions(text)), names.subject(text)
    if exact:
        mentions = [replace(mentions[0], names=exact)] if len(mentions) == 1 else [Mention(0, len(text), text, exact)]
    for kind in (Kind.NODE_TYPE, Kind.ACCELERATOR):
        for mention in mentions:
            of_kind = tuple(name for name in mention.names if name.kind is kind)
            if of_kind:
                return _product(text, mention, of_kind, catalogue)
    return None


def _product(text: str, mention: Mention, names: tuple[Name, ...], catalogue: Catalogue) -> Product:
    nodes = [catalogue.node_types[name.name] for name in names if name.kind is Kind.NODE_TYPE]
    accelerators = tuple(dict.fromkeys([node.accelerator for node in nodes] or [name.name for name in names]))
    counted = _counted(text, mention, is_of_nodes=bool(nodes))
    sizes = {node.num_devices for node in nodes}
    if counted is None and nodes:
        counted = sizes.pop() if len(sizes) == 1 else None
    elif counted is None:
        entries = tuple(catalogue.accelerators[name] for name in accelerators)
        counted = gpus_per_superchip(entries) if words.is_superchip(text) else 1
    subject = names[0].name if len(names) == 1 else mention.text
    node_types = tuple(node.name for node in nodes if counted in {None, node.num_devices}) or tuple(node.name for node in nodes)
    return Product(text, subject, accelerators, node_types, counted, is_known=True)


def _counted(text: str, mention: Mention, *, is_of_nodes: bool) -> int | None:
    """The number of devices that the words say: "8x H100", "HGX H100 8-GPU"; "4x DGX H100" counts nodes."""
    before = None if is_of_nodes else _COUNT_BEFORE.search(text, 0, mention.start)
    found = before or _COUNT_WITHIN.search(text)
    number = int(found[1]) if found else 0
    return number if 1 <= number <= _MAX_DEVICES else None


def narrowed(product: Product, accelerator: Accelerator) -> Product:
    """The product taken for one of those that it can mean."""
    return Product(product.text, accelerator.name, (accelerator.name,), (), product.num_devices_per_unit, is_known=True)
