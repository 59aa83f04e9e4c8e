"""Lists of the catalogue as tables: an entry a row, and every figure with its source on a sheet of its own."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tonnage.tables import Cell
from tonnage.tabular.columns import Column, Layout, joined, messages_in
from tonnage.v1.catalogue_service_pb2 import Accelerator, Conflict, Figure, Link, Model, NodeType, Source

PRECISIONS = ("fp4", "fp6", "fp8", "int4", "int8", "bf16", "fp16", "tf32", "fp32", "fp64", "fp64_tensor")
"""Number formats of peaks, each a column; a test holds them against the catalogue."""

UNITS = {
    "memory_bandwidth": "bytes_per_second",
    "marketed_memory": "bytes",
    "usable_memory": "bytes",
    "framework_visible_memory": "bytes",
    "max_power": "watts",
    "num_compute_units": "",
    "boost_clock": "hertz",
    "l2_cache": "bytes",
    "memory": "bytes",
    "network_bandwidth_one_way": "bytes_per_second",
    "declared_parameters": "",
    "declared_active_parameters": "",
}
"""What the headings of figures end in; a test holds them against the figures' own units."""


def _peak(precision: str, sparsity: str) -> Callable[[Any], Cell]:
    def read(row: Accelerator) -> Cell:
        found = (each.figure.value for each in row.peaks if (each.precision, each.sparsity) == (precision, sparsity))
        return next(found, None)

    return read


def _peaks(precision: str) -> tuple[Column, ...]:
    sparse = f"x_peak_structured_2_4_{precision}_flops_per_second"
    return (
        Column(f"x_peak_dense_{precision}_flops_per_second", _peak(precision, "dense")),
        Column(sparse, _peak(precision, "structured_2_4")),
    )


def _link(link: Link) -> str:
    domain = f" over {link.num_devices_in_domain} devices" if link.HasField("num_devices_in_domain") else ""
    return f"{link.name}: {link.bandwidth_one_way.value:.6g} B/s one way{domain}"


def _conflict(conflict: Conflict) -> str:
    return f"{conflict.field} ({conflict.status}): {' | '.join(conflict.figures)}; used: {conflict.chosen or 'none'}"


def _source_ids(row: Any) -> str | None:
    return joined(dict.fromkeys(source.id for source in messages_in(row, "Source") if isinstance(source, Source)))


_TEXTS: dict[str, Callable[[Any], str]] = {"Link": _link, "Conflict": _conflict}
_SOURCES = Column("x_sources", _source_ids)

ACCELERATORS = Layout(
    Accelerator.DESCRIPTOR,
    left_out=frozenset({"peaks"}),  # a column for each number format
    texts=_TEXTS,
    units=UNITS,
    first=("x_name", "x_title", "x_vendor", "x_counted_unit", "x_status"),
    further=(*(column for precision in PRECISIONS for column in _peaks(precision)), _SOURCES),
)
NODE_TYPES = Layout(
    NodeType.DESCRIPTOR,
    names={"provider": "ProviderName"},
    units=UNITS,
    first=("x_name", "x_title", "ProviderName", "x_accelerator", "x_num_devices"),
    further=(_SOURCES,),
)
MODELS = Layout(Model.DESCRIPTOR, units=UNITS, first=("x_name", "x_title", "x_publisher"), further=(_SOURCES,))


class NamedFigure(NamedTuple):
    """A figure of an entry."""

    entry: str
    path: str
    figure: Figure


def figures_of(entry: Any) -> Iterator[NamedFigure]:
    """Every figure of an entry with its name: "peaks.bf16.dense", "memory_bandwidth"."""
    for field, value in entry.ListFields():
        if field.name == "peaks":
            yield from (NamedFigure(entry.name, f"peaks.{each.precision}.{each.sparsity}", each.figure) for each in value)
        elif field.name == "links":
            yield from (NamedFigure(entry.name, f"links.{each.name}", each.bandwidth_one_way) for each in value)
        elif isinstance(value, Figure):
            yield NamedFigure(entry.name, field.name, value)


FIGURES = (
    Column("x_name", lambda row: row.entry),
    Column("x_figure", lambda row: row.path),
    Column("x_value_in_unit", lambda row: row.figure.value),
    Column("x_unit", lambda row: row.figure.unit),
    Column("x_printed_value_in_printed_unit", lambda row: row.figure.printed_value),
    Column("x_printed_unit", lambda row: row.figure.printed_unit),
    Column("x_basis", lambda row: row.figure.basis),
    Column("x_confidence", lambda row: row.figure.confidence or None),
    Column("x_sources", lambda row: joined(source.id for source in row.figure.sources)),
    Column("x_note", lambda row: row.figure.note or None),
)
