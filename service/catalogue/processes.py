"""The catalogue's nouns for manufacturing: process generations with what is claimed of them, dies, and the exposure field.

A node name is the name of a generation and no dimension. A claim of a foundry means nothing without its baseline, so every
improvement names the process that it is held against; a power and a speed claim hold one instead of the other.
"""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from service.catalogue.entries import Conflict, Figure, Status
from service.catalogue.readers import read_conflicts
from service.catalogue.sections import Section


class ImprovedQuantity(StrEnum):
    """What a foundry says of a process against another one."""

    SPEED = "speed"  # gain at the same power, as a ratio: 0.11 is +11 %
    POWER = "power"  # reduction at the same speed, as a ratio: 0.36 is 36 % less
    POWER_EFFICIENCY = "power_efficiency"  # gain in work per joule, as a ratio: no reduction of power by the same number
    LOGIC_DENSITY = "logic_density"  # transistors of logic per area, as a factor: 1.8 is 1.8 times as many
    MIXED_DENSITY = "mixed_density"  # of half logic, 30 % SRAM and 20 % analogue, as a factor
    DENSITY = "density"  # as a factor, of what is not said


class Improvement(Struct, frozen=True):
    """One claim against ``baseline``, a process's name; ``upper`` is the end of a range whose start the figure is."""

    quantity: ImprovedQuantity
    baseline: str
    figure: Figure
    upper: float | None


class Die(Struct, frozen=True):
    """One chip: its area in mm2 and its number of transistors."""

    name: str
    area: Figure
    num_transistors: Figure


class Process(Struct, frozen=True):
    """A process generation. ``customised_for`` names the customer of a process that the foundry sells to nobody else.

    ``node_name`` is the length in its marketing name ("7 nm"), which is no dimension of anything on the chip.
    """

    name: str
    aliases: tuple[str, ...]
    title: str
    foundry: str
    status: Status
    node_name: str | None
    customised_for: str | None
    volume_production: str | None
    improvements: tuple[Improvement, ...]
    dies: tuple[Die, ...]
    conflicts: tuple[Conflict, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]


class ExposureField(Struct, frozen=True):
    """The largest area that a scanner exposes at once, and so the largest single die: sides in mm, area in mm2."""

    name: str
    aliases: tuple[str, ...]
    title: str
    width: Figure
    height: Figure
    area: Figure
    conflicts: tuple[Conflict, ...]
    notes: tuple[str, ...]


#: Fields of a process and of an exposure field that sources can disagree about, with the base unit of their figures.
_CONFLICT_UNITS = {"improvements": "1", "area": "mm2"}


def read_process(section: Section) -> Process:
    """One file of ``processes/``."""
    return Process(
        name=section.text("name"),
        aliases=section.texts("aliases"),
        title=section.text("title"),
        foundry=section.text("foundry"),
        status=section.choice("status", Status),
        node_name=section.optional_text("node_name"),
        customised_for=section.optional_text("customised_for"),
        volume_production=section.optional_text("volume_production"),
        improvements=tuple(_improvements(section)),
        dies=tuple(_dies(section)),
        conflicts=tuple(read_conflicts(section, _CONFLICT_UNITS)),
        sources=section.sources("source"),
        notes=section.texts("notes"),
    )


def read_exposure_field(section: Section) -> ExposureField:
    """One file of ``exposure_fields/``."""
    field = ExposureField(
        name=section.text("name"),
        aliases=section.texts("aliases"),
        title=section.text("title"),
        width=section.figure("width", "mm"),
        height=section.figure("height", "mm"),
        area=section.figure("area", "mm2"),
        conflicts=tuple(read_conflicts(section, _CONFLICT_UNITS)),
        notes=section.texts("notes"),
    )
    product = field.width.value * field.height.value
    if field.area.unit == "mm2" and field.area.value != product:
        section.refuse("area", f"{field.area.value:g} mm2, but the sides make {product:g}")
    return field


def _improvements(process: Section) -> Iterator[Improvement]:
    seen: set[tuple[ImprovedQuantity, str]] = set()
    for section in process.sections("improvements"):
        quantity = section.choice("quantity", ImprovedQuantity)
        baseline, figure = section.text("baseline"), section.own_figure("1")
        improvement = Improvement(quantity, baseline, figure, _upper(section, figure))
        section.done()
        key = (quantity, improvement.baseline)
        if key in seen:
            section.refuse("quantity", f"a second claim of {quantity} against {improvement.baseline}")
        seen.add(key)
        yield improvement


def _upper(section: Section, figure: Figure) -> float | None:
    """The end, in base units, of a range whose start the figure is."""
    upper = section.optional_number("upper")
    if upper is None:
        return None
    if upper <= figure.printed_value:
        section.refuse("upper", "not more than value: a range is given from its lower end to its upper")
    return upper * figure.value / figure.printed_value


def _dies(process: Section) -> Iterator[Die]:
    for section in process.sections("dies"):
        yield Die(section.text("name"), section.figure("area", "mm2"), section.figure("num_transistors", "1"))
        section.done()
