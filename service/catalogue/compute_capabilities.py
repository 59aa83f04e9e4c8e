"""The catalogue's noun for a compute capability: what one multiprocessor (SM) of that generation holds, every limit sourced."""

import re
from typing import Final

from msgspec import Struct

from service.catalogue.entries import Figure
from service.catalogue.sections import Section

_NAME: Final = re.compile(r"[1-9][0-9]*\.[0-9]")


class ComputeCapability(Struct, frozen=True):
    """The limits of one SM. Memory is in bytes; ``shared_memory_carveouts`` rise, and zero is left out.

    ``max_blocks_per_cluster`` is absent where the hardware has no thread-block clusters.
    """

    name: str
    aliases: tuple[str, ...]
    title: str
    examples: tuple[str, ...]
    max_warps_per_sm: Figure
    max_blocks_per_sm: Figure
    max_threads_per_block: Figure
    registers_per_sm: Figure
    max_registers_per_block: Figure
    max_registers_per_thread: Figure
    register_allocation_unit: Figure
    num_sub_partitions: Figure
    shared_memory_per_sm: Figure
    default_shared_memory_per_block: Figure
    max_shared_memory_per_block: Figure
    reserved_shared_memory_per_block: Figure | None
    shared_memory_allocation_unit: Figure
    shared_memory_carveouts: tuple[Figure, ...]
    max_barriers_per_sm: Figure
    max_barriers_per_block: Figure
    portable_blocks_per_cluster: Figure | None
    max_blocks_per_cluster: Figure | None

    @property
    def reserved_bytes(self) -> int:
        """Shared memory that the system keeps in every block, in bytes; 0 where none is."""
        return int(self.reserved_shared_memory_per_block.value) if self.reserved_shared_memory_per_block else 0


def read_compute_capability(section: Section) -> ComputeCapability:
    """One file of ``compute_capabilities/``."""
    entry = ComputeCapability(
        name=section.text("name"),
        aliases=section.texts("aliases"),
        title=section.text("title"),
        examples=section.texts("examples"),
        max_warps_per_sm=_count(section, "max_warps_per_sm"),
        max_blocks_per_sm=_count(section, "max_blocks_per_sm"),
        max_threads_per_block=_count(section, "max_threads_per_block"),
        registers_per_sm=_count(section, "registers_per_sm"),
        max_registers_per_block=_count(section, "max_registers_per_block"),
        max_registers_per_thread=_count(section, "max_registers_per_thread"),
        register_allocation_unit=_count(section, "register_allocation_unit"),
        num_sub_partitions=_count(section, "num_sub_partitions"),
        shared_memory_per_sm=section.figure("shared_memory_per_sm", "B"),
        default_shared_memory_per_block=section.figure("default_shared_memory_per_block", "B"),
        max_shared_memory_per_block=section.figure("max_shared_memory_per_block", "B"),
        reserved_shared_memory_per_block=section.optional_figure("reserved_shared_memory_per_block", "B"),
        shared_memory_allocation_unit=section.figure("shared_memory_allocation_unit", "B"),
        shared_memory_carveouts=_carveouts(section),
        max_barriers_per_sm=_count(section, "max_barriers_per_sm"),
        max_barriers_per_block=_count(section, "max_barriers_per_block"),
        portable_blocks_per_cluster=_optional_count(section, "portable_blocks_per_cluster"),
        max_blocks_per_cluster=_optional_count(section, "max_blocks_per_cluster"),
    )
    _refuse_contradictions(section, entry)
    return entry


def _count(section: Section, key: str) -> Figure:
    figure = section.figure(key, "1")
    _refuse_fraction(section, key, figure)
    return figure


def _optional_count(section: Section, key: str) -> Figure | None:
    figure = section.optional_figure(key, "1")
    if figure is not None:
        _refuse_fraction(section, key, figure)
    return figure


def _refuse_fraction(section: Section, key: str, figure: Figure) -> None:
    if not figure.value.is_integer():
        section.refuse(key, "must be a whole number")


def _carveouts(section: Section) -> tuple[Figure, ...]:
    """What the memory of an SM can be split into, each with its source."""
    figures = []
    for each in section.sections("shared_memory_carveouts", required=True):
        figures.append(each.own_figure("B"))
        each.done()
        if len(figures) > 1 and figures[-1].value <= figures[-2].value:
            each.refuse("value", "not more than the carve-out before it: they are given smallest first")
    return tuple(figures)


def _refuse_contradictions(section: Section, entry: ComputeCapability) -> None:
    if entry.name and not _NAME.fullmatch(entry.name):
        section.refuse("name", f"{entry.name!r} must read like 9.0")
    whole = entry.shared_memory_per_sm.value
    largest = entry.shared_memory_carveouts[-1].value if entry.shared_memory_carveouts else whole
    if largest != whole:
        section.refuse("shared_memory_carveouts", f"the largest is {largest:g} bytes, and shared_memory_per_sm {whole:g}")
    left = whole - entry.reserved_bytes
    if entry.max_shared_memory_per_block.value != left:
        given = f"{entry.max_shared_memory_per_block.value:g} bytes"
        section.refuse("max_shared_memory_per_block", f"{given}, but what is not reserved of an SM's is {left:g}")
