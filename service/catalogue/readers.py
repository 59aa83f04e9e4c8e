"""What the keys of each kind of catalogue file mean: one reader an entry, from a ``Section`` to a frozen noun."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from service.catalogue.entries import (
    PRECISIONS,
    Accelerator,
    Conflict,
    ConflictStatus,
    Figure,
    Link,
    Model,
    NodeType,
    Peak,
    Source,
    Sparsity,
    Status,
)
from service.catalogue.sections import Section

#: Fields of an accelerator that sources can disagree about, with the base unit of their figures.
CONFLICT_UNITS: Final = MappingProxyType(
    {
        "peaks": "FLOP/s",
        "links": "B/s",
        "memory_bandwidth": "B/s",
        "marketed_memory": "B",
        "usable_memory": "B",
        "framework_visible_memory": "B",
        "num_compute_units": "1",
        "boost_clock": "Hz",
        "l2_cache": "B",
        "max_power": "W",
    }
)


def read_source(section: Section, source_id: str) -> Source:
    """One entry of ``sources.yaml``."""
    url = section.optional_text("url")
    if url and not url.startswith(("https://", "http://")):
        section.refuse("url", "must begin with https:// or http://")
    return Source(
        id=source_id,
        title=section.text("title"),
        publisher=section.text("publisher"),
        url=url,
        date=section.optional_text("date"),
        read_as=section.text("read_as"),
    )


def read_accelerator(section: Section) -> Accelerator:
    """One file of ``accelerators/``."""
    return Accelerator(
        name=section.text("name"),
        aliases=section.texts("aliases"),
        title=section.text("title"),
        vendor=section.text("vendor"),
        architecture=section.text("architecture"),
        form_factor=section.text("form_factor"),
        compute_capability=section.optional_text("compute_capability"),
        counted_unit=section.text("counted_unit"),
        status=section.choice("status", Status),
        peaks=tuple(_peaks(section)),
        memory_bandwidth=section.optional_figure("memory_bandwidth", "B/s"),
        marketed_memory=section.figure("marketed_memory", "B"),
        usable_memory=section.optional_figure("usable_memory", "B"),
        framework_visible_memory=section.optional_figure("framework_visible_memory", "B"),
        links=tuple(_links(section)),
        num_compute_units=section.optional_figure("num_compute_units", "1"),
        boost_clock=section.optional_figure("boost_clock", "Hz"),
        l2_cache=section.optional_figure("l2_cache", "B"),
        max_power=section.optional_figure("max_power", "W"),
        gpu_product_labels=section.texts("gpu_product_labels"),
        conflicts=tuple(read_conflicts(section, CONFLICT_UNITS)),
        notes=section.texts("notes"),
    )


def read_node_type(section: Section) -> NodeType:
    """One file of ``nodes/``."""
    return NodeType(
        name=section.text("name"),
        aliases=section.texts("aliases"),
        provider=section.text("provider"),
        title=section.text("title"),
        accelerator=section.text("accelerator"),
        num_devices=section.count("num_devices"),
        num_devices_per_scale_up_domain=section.optional_count("num_devices_per_scale_up_domain"),
        num_vcpus=section.optional_count("num_vcpus"),
        memory_bytes=section.optional_figure("memory", "B"),
        network_bandwidth_one_way=section.optional_figure("network_bandwidth_one_way", "B/s"),
        max_power=section.optional_figure("max_power", "W"),
        sources=section.sources("source"),
        notes=section.texts("notes"),
    )


def read_model(section: Section) -> Model:
    """One file of ``models/``."""
    quantization = section.optional_mapping("hf_quantization")
    return Model(
        name=section.text("name"),
        aliases=section.texts("aliases"),
        title=section.text("title"),
        publisher=section.text("publisher"),
        hf_config=MappingProxyType(section.mapping("hf_config")),
        hf_quantization=MappingProxyType(quantization) if quantization else None,
        declared_parameters=section.figure("declared_parameters", "1"),
        declared_active_parameters=section.optional_figure("declared_active_parameters", "1"),
        sources=section.sources("source"),
        notes=section.texts("notes"),
    )


def _peaks(accelerator: Section) -> Iterator[Peak]:
    seen: set[tuple[str, Sparsity]] = set()
    for section in accelerator.sections("peaks"):
        precision = section.word_of("precision", PRECISIONS, "precision")
        sparsity = section.choice("sparsity", Sparsity)
        peak = Peak(precision, sparsity, section.own_figure("FLOP/s"))
        section.done()
        if (precision, sparsity) in seen:
            section.refuse("precision", f"a second {sparsity} peak for {precision}")
        seen.add((precision, sparsity))
        yield peak


def _links(accelerator: Section) -> Iterator[Link]:
    slowest: Figure | None = None
    for section in accelerator.sections("links"):
        link = Link(
            name=section.text("name"),
            bandwidth_one_way=section.figure("bandwidth_one_way", "B/s"),
            domain=section.optional_figure("domain", "1"),
        )
        section.done()
        if link.domain and not link.domain.value.is_integer():
            section.refuse("domain", "must be a whole number of devices")
        if slowest and link.bandwidth_one_way.value > slowest.value:
            section.refuse("bandwidth_one_way", "faster than the link before it: links are given fastest first")
        slowest = link.bandwidth_one_way
        yield link


def read_conflicts(entry: Section, units: Mapping[str, str]) -> Iterator[Conflict]:
    """The list ``conflicts`` of an entry; ``units`` are the fields that sources can disagree about, with their base unit."""
    for section in entry.sections("conflicts"):
        field = section.text("field")
        base_unit = units.get(field.partition(".")[0])
        if field and base_unit is None:
            section.refuse("field", f"unknown field {field!r}")
        figures = tuple(_figures(section, base_unit or "1"))
        if len(figures) < 2:
            section.refuse("figures", "a conflict needs at least two figures")
        yield Conflict(
            field=field,
            figures=tuple(figure for figure, _ in figures),
            chosen=_chosen(section, figures),
            reason=section.text("reason"),
            status=section.choice("status", ConflictStatus),
        )
        section.done()


def _figures(conflict: Section, base_unit: str) -> Iterator[tuple[Figure, bool]]:
    for section in conflict.sections("figures", required=True):
        chosen = section.optional_flag("chosen")
        figure = section.own_figure(base_unit)
        section.done()
        yield figure, chosen


def _chosen(conflict: Section, figures: tuple[tuple[Figure, bool], ...]) -> Figure | None:
    chosen = [figure for figure, is_chosen in figures if is_chosen]
    if len(chosen) > 1:
        conflict.refuse("figures", "only one figure can be chosen")
    return chosen[0] if chosen else None
