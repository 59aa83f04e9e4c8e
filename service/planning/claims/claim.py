"""The nouns between reading a claim and judging it."""

from enum import StrEnum

from msgspec import Struct

from service.planning.claims.requests import Quantity


class Kind(StrEnum):
    """What a name in the catalogue names."""

    ACCELERATOR = "accelerator"
    NODE_TYPE = "node type"
    PROCESS = "process"
    DIE = "die"
    EXPOSURE_FIELD = "exposure field"


class Name(Struct, frozen=True, order=True):
    """An entry of the catalogue."""

    kind: Kind
    name: str


class Mention(Struct, frozen=True):
    """Where a text names something: its span, and all that the words can mean. No names: the words look like a product's."""

    start: int
    end: int
    text: str
    names: tuple[Name, ...]


class Value(Struct, frozen=True):
    """One way to read a printed number: its value in base units, and how far rounding may have moved it."""

    value: float
    half_step: float
    remark: str = ""  # what was assumed, where this is not the plain way to read it


class Amount(Struct, frozen=True):
    """A printed figure: every way to read it, the plain one first. ``is_lower_bound``: "more than", "over"."""

    start: int
    end: int
    printed: str
    unit: str
    values: tuple[Value, ...]
    sign: str = ""
    is_lower_bound: bool = False


class Claim(Struct, frozen=True):
    """A claim as it was read.

    ``per_device`` is what words like "per GPU" say; ``num_devices`` is a number of devices that is named.
    ``baseline_precisions`` belong to the baseline of a ratio. ``is_joined``: speed and power of a process, claimed together.
    """

    text: str
    subject: str = ""
    names: tuple[Name, ...] = ()
    quantity: Quantity | None = None
    amount: Amount | None = None
    precisions: tuple[str, ...] = ()
    sparsity: str = ""
    num_devices: int | None = None
    per_device: bool = False
    per_superchip: bool = False
    per_system: str = ""  # "rack", "board", …
    direction: str = ""
    link: str = ""
    baseline: str = ""
    baselines: tuple[Name, ...] = ()
    baseline_precisions: tuple[str, ...] = ()
    ratio_of: Quantity | None = None
    is_joined: bool = False
    is_usable: bool = False
    is_dimension: bool = False
    nearest: tuple[str, ...] = ()

    def of(self, kind: Kind) -> tuple[str, ...]:
        """The names of that kind that the subject can mean."""
        return tuple(name.name for name in self.names if name.kind is kind)
