"""The catalogue's nouns for serving engines: what one engine does with memory, by version range, every constant sourced.

An engine's behaviour changes from release to release, each constant on its own; so each constant carries the versions that
it holds for, and an engine is a list of them. Where no constant is listed for a version, nothing is known for it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from service.catalogue.entries import Figure
from service.catalogue.sections import Section
from service.units import UNITS, in_base_units

#: A release as numbers: 0.19.1 is (0, 19, 1). What follows the numbers ("rc1", ".x") is left out.
Version = tuple[int, ...]

_VERSION: Final = re.compile(r"v?(\d+(?:\.\d+)*)")
_BOUND: Final = re.compile(r"(>=|<)(\d+(?:\.\d+)*)")

#: The constants that an engine file may state, with the base unit of each.
FIGURE_UNITS: Final = MappingProxyType(
    {
        "default_memory_fraction": "1",
        "default_block_tokens": "1",
        "default_max_num_seqs": "1",
        "default_max_num_batched_tokens": "1",
        "default_max_running_requests": "1",
        "default_graph_max_sequences": "1",
        "framework_memory_loss": "B",
        "framework_memory_loss_ratio": "1",
        "fraction_reserve_base": "B",
        "fraction_reserve_per_chunk_token": "B",
        "fraction_reserve_per_graph_sequence": "B",
        "fraction_reserve_per_device": "B",
        "fraction_reserve_floor": "B",
        "weights_beside_checkpoint": "B",
        "weights_beside_vision_tower": "B",
        "mxfp4_expert_columns": "1",
        "mxfp4_repacking_ratio": "1",
        "sampler_bytes_per_logit": "B",
        "sampler_bytes_per_vocabulary_entry_and_compute_unit": "B",
        "activation_base": "B",
        "activation_spread": "1",
        "forward_hidden_multiples": "1",
        "multimodal_hidden_multiples": "1",
        "non_torch": "B",
        "non_torch_without_fast_link": "B",
        "before_load": "B",
        "before_load_without_fast_link": "B",
        "graph_base": "B",
        "graph_bytes_per_capture": "B",
        "group_growth_ratio": "1",
        "hybrid_block_alignment_tokens": "1",
        "conv_state_kept_ratio": "1",
        "state_to_cache_ratio": "1",
        "state_blocks_per_sequence": "1",
        "expanded_latent_head_dim": "1",
        "sparse_latent_fp8_bytes_per_token": "B",
        "sparse_indexer_fp8_bytes_per_token": "B",
        "request_table_bytes_per_token": "B",
    }
)

#: The behaviours that an engine file may state, with the words for each.
BEHAVIOUR_WORDS: Final = MappingProxyType(
    {
        "memory_fraction_of": ("physical_memory", "free_before_load", "free_after_load"),
        "windowed_layers": ("window_and_batch", "whole_context", "unknown"),
        "chunked_layers": ("window_and_batch", "whole_context", "unknown"),
        "printed_tokens": ("blocks", "blocks_by_group", "concurrency_times_length"),
        "profiled_tokens": ("whole_prompt", "whole_prompt_or_batch", "batch"),
        "graphs": ("beside", "deducted"),
        "expert_workspace": ("passing", "kept"),
        "longer_than_pool": ("refused", "shortened", "accepted"),
    }
)


def parse_version(text: str) -> Version | None:
    """The numbers that a release's name begins with, or None where it begins with none ("main").

    >>> parse_version("0.29.1rc1"), parse_version("0.11.x"), parse_version("nightly")
    ((0, 29, 1), (0, 11), None)
    """
    found = _VERSION.match(text.strip())
    return tuple(int(number) for number in found[1].split(".")) if found else None


class EngineVersionRange(Struct, frozen=True):
    """Releases from ``at_least`` on and before ``below``; None leaves an end open. ``text`` is as written: ">=0.17,<0.21"."""

    text: str
    at_least: Version | None
    below: Version | None

    def __contains__(self, version: Version) -> bool:
        return (self.at_least is None or version >= self.at_least) and (self.below is None or version < self.below)

    def overlaps(self, other: "EngineVersionRange") -> bool:
        """Whether some release lies in both."""
        starts = [each.at_least for each in (self, other) if each.at_least is not None]
        ends = [each.below for each in (self, other) if each.below is not None]
        return not (starts and ends) or max(starts) < min(ends)


class EngineFigure(Struct, frozen=True):
    """One constant of an engine: its most likely value, the range seen, and where it holds.

    ``from_devices`` and ``from_memory_gib``: it holds from so many tensor-parallel devices, from so much memory of a device
    on. ``not_for`` and ``only_for``: accelerators, by the beginning of their names, that it does not hold for or holds for
    alone. Of several that hold, the narrowest condition wins. ``note`` of the figure says on what it was seen.
    """

    name: str
    versions: EngineVersionRange
    figure: Figure
    low: float
    high: float
    date: str
    from_devices: int = 1
    from_memory_gib: int = 0
    not_for: tuple[str, ...] = ()
    only_for: tuple[str, ...] = ()

    def is_for(self, accelerator: str) -> bool:
        """Whether it holds for an accelerator of that name."""
        return accelerator.startswith(self.only_for or "") and not (self.not_for and accelerator.startswith(self.not_for))

    @property
    def value(self) -> float:
        """The most likely value, in the base unit."""
        return self.figure.value


def _narrowness(figure: EngineFigure) -> tuple[bool, int, int, bool]:
    return bool(figure.only_for), figure.from_memory_gib, figure.from_devices, bool(figure.not_for)


class EngineBehaviour(Struct, frozen=True):
    """One thing that an engine does in one of several ways, and in which releases."""

    name: str
    versions: EngineVersionRange
    word: str
    sources: tuple[str, ...]
    date: str
    note: str | None


class Engine(Struct, frozen=True):
    """A serving engine as far as memory is concerned. ``flags``: request field → the engine's own flag for it."""

    name: str
    aliases: tuple[str, ...]
    title: str
    publisher: str
    versions: EngineVersionRange
    newest_version: str
    flags: Mapping[str, str]
    fp32_state_families: tuple[str, ...]
    figures: tuple[EngineFigure, ...]
    behaviours: tuple[EngineBehaviour, ...]
    notes: tuple[str, ...]

    def __hash__(self) -> int:
        return hash(self.name)  # mappings have none

    def figure(
        self, name: str, version: Version, *, devices: int = 1, memory_gib: float = 0.0, accelerator: str = ""
    ) -> EngineFigure | None:
        """The constant as it holds for a release on so many such devices; None where nothing is known."""
        holding = (
            each
            for each in self.figures
            if each.name == name
            and version in each.versions
            and each.from_devices <= devices
            and each.from_memory_gib <= memory_gib
            and each.is_for(accelerator)
        )
        return max(holding, key=_narrowness, default=None)

    def behaviour(self, name: str, version: Version) -> EngineBehaviour | None:
        """What the engine does in a release; None where nothing is known."""
        return next((each for each in self.behaviours if each.name == name and version in each.versions), None)


def read_engine(section: Section) -> Engine:
    """One file of ``engines/``."""
    engine = Engine(
        name=section.text("name"),
        aliases=section.texts("aliases"),
        title=section.text("title"),
        publisher=section.text("publisher"),
        versions=_versions(section),
        newest_version=section.text("newest_version"),
        flags=MappingProxyType({key: str(flag) for key, flag in section.mapping("flags").items()}),
        fp32_state_families=section.texts("fp32_state_families"),
        figures=tuple(_figure(each) for each in section.sections("figures", required=True)),
        behaviours=tuple(_behaviour(each) for each in section.sections("behaviours", required=True)),
        notes=section.texts("notes"),
    )
    newest = parse_version(engine.newest_version)
    if newest is None or newest not in engine.versions:
        section.refuse("newest_version", f"{engine.newest_version!r} lies outside {engine.versions.text!r}")
    _refuse_overlaps(section, "figures", engine.figures, _condition)
    _refuse_overlaps(section, "behaviours", engine.behaviours, lambda each: each.name)
    return engine


def _condition(figure: EngineFigure) -> object:
    return figure.name, _narrowness(figure)


def _versions(section: Section) -> EngineVersionRange:
    text = section.text("versions")
    bounds = [_BOUND.fullmatch(part.strip()) for part in text.split(",")] if text else []
    found = {bound[1]: parse_version(bound[2]) for bound in bounds if bound}
    if text and (None in bounds or len(found) != len(bounds)):
        section.refuse("versions", f"{text!r} must read like >=0.17, <0.21 or >=0.17,<0.21")
    return EngineVersionRange(text, found.get(">="), found.get("<"))


def _figure(section: Section) -> EngineFigure:
    name = section.word_of("name", FIGURE_UNITS, "constant of an engine")
    figure = section.own_figure(FIGURE_UNITS.get(name, "1"))
    factor = in_base_units(1.0, figure.printed_unit if figure.printed_unit in UNITS else "1")
    low, high = section.optional_number("low"), section.optional_number("high")
    entry = EngineFigure(
        name=name,
        versions=_versions(section),
        figure=figure,
        low=figure.value if low is None else low * factor,
        high=figure.value if high is None else high * factor,
        date=section.text("date"),
        from_devices=section.optional_count("from_devices") or 1,
        from_memory_gib=section.optional_count("from_memory_gib") or 0,
        not_for=section.texts("not_for"),
        only_for=section.texts("only_for"),
    )
    if not entry.low <= entry.value <= entry.high:
        section.refuse("low", "the value must lie between low and high")
    section.done()
    return entry


def _behaviour(section: Section) -> EngineBehaviour:
    name = section.word_of("name", BEHAVIOUR_WORDS, "behaviour of an engine")
    entry = EngineBehaviour(
        name=name,
        versions=_versions(section),
        word=section.word_of("word", BEHAVIOUR_WORDS.get(name, ()), f"word for {name}") if name else section.text("word"),
        sources=section.sources("source"),
        date=section.text("date"),
        note=section.optional_text("note"),
    )
    section.done()
    return entry


class _Ranged(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def versions(self) -> EngineVersionRange: ...


_Entry = TypeVar("_Entry", bound=_Ranged)


def _refuse_overlaps(section: Section, key: str, entries: tuple[_Entry, ...], of: Callable[[_Entry], object]) -> None:
    for first, second in _alike(entries, of):
        if first.versions.overlaps(second.versions):
            section.refuse(key, f"{first.name} is given twice for {first.versions.text} and {second.versions.text}")


def _alike(entries: tuple[_Entry, ...], of: Callable[[_Entry], object]) -> Iterator[tuple[_Entry, _Entry]]:
    return ((first, second) for first, second in combinations(entries, 2) if of(first) == of(second))
