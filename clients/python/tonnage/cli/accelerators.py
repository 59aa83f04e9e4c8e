"""``tonnage accelerators``: the accelerators of the catalogue, or the data sheet of one."""

from collections.abc import Iterator

import click
from rich.console import Console
from rich.text import Text

from tonnage.cli import catalogue, figures, layout, names, options
from tonnage.cli.quantities import rate
from tonnage.cli.session import Session
from tonnage.v1.catalogue_service_pb2 import (
    Accelerator,
    GetAcceleratorResponse,
    ListAcceleratorsRequest,
    ListAcceleratorsResponse,
)

_LISTED_PEAKS = ("bf16", "fp8", "fp4")


@click.command(epilog=options.examples("tonnage accelerators", "tonnage accelerators show h100-sxm"))
@catalogue.with_name(names.ACCELERATORS)
@options.with_tabular_session
def accelerators(name: str | None, session: Session) -> None:
    """List accelerators, or show the data sheet of one."""
    if name is None:
        session.show(session.ask(lambda client: catalogue.whole(client.list_accelerators())), _list, ListAcceleratorsRequest())
    else:
        session.show(session.ask(lambda client: client.get_accelerator(name)), _sheet)


def _list(console: Console, answer: ListAcceleratorsResponse) -> None:
    peaks = [f"dense {precision}\nFLOP/s" for precision in _LISTED_PEAKS]
    drawn = layout.table("name", "product", "memory", "bandwidth", *peaks, right=[2, 3, 4, 5, 6])
    for entry in answer.accelerators:
        drawn.add_row(
            entry.name,
            entry.title,
            _memory(entry),
            figures.brief(entry.memory_bandwidth) if entry.HasField("memory_bandwidth") else "",
            *(_dense(entry, precision) for precision in _LISTED_PEAKS),
            style=layout.QUIET if entry.status == "preliminary" else None,
        )
    console.print(drawn)
    console.print()
    layout.footing(console, (), answer.catalogue_revision)


def _memory(entry: Accelerator) -> str:
    """What the driver reports. A marketed capacity is marked, since less of it can be used."""
    if entry.HasField("usable_memory"):
        return figures.brief(entry.usable_memory)
    return f"{figures.brief(entry.marketed_memory)} (marketed)"


def _dense(entry: Accelerator, precision: str) -> str:
    for peak in entry.peaks:
        if peak.precision == precision and peak.sparsity == "dense":
            return rate(peak.figure.value, "")
    return ""


def _sheet(console: Console, answer: GetAcceleratorResponse) -> None:
    entry = answer.accelerator
    layout.title(console, entry.title, entry.name)
    capability = f"compute capability {entry.compute_capability}" if entry.HasField("compute_capability") else ""
    told = (entry.vendor, entry.architecture, entry.form_factor, capability, entry.status)
    console.print(" · ".join(part for part in told if part))
    if entry.status == "preliminary":
        console.print(Text("Preliminary: the vendor may still change every figure.", style=layout.BAD))
    console.print(f"Figures are for {entry.counted_unit}.")
    if entry.aliases:
        console.print(Text(f"also: {', '.join(entry.aliases)}", style=layout.QUIET))
    if entry.gpu_product_labels:
        console.print(Text(f"GPU feature discovery: {', '.join(entry.gpu_product_labels)}", style=layout.QUIET))
    console.print()
    figures.sheet(console, _figures(entry))
    figures.conflicts(console, entry.conflicts)
    layout.sentences(console, "Notes", entry.notes)
    layout.footing(console, (), answer.catalogue_revision)


def _figures(entry: Accelerator) -> Iterator[figures.NamedFigure]:
    for peak in entry.peaks:
        sparsity = "dense" if peak.sparsity == "dense" else "2:4 sparse"
        yield f"peak {peak.precision}, {sparsity}", peak.figure
    for field, figure_name in (
        ("memory_bandwidth", "memory bandwidth"),
        ("marketed_memory", "memory, as marketed"),
        ("usable_memory", "memory, usable"),
        ("framework_visible_memory", "memory, seen by frameworks"),
    ):
        if entry.HasField(field):  # type: ignore[arg-type]  # the stub takes literals only
            yield figure_name, getattr(entry, field)
    for link in entry.links:
        domain = f" ({link.num_devices_in_domain} devices)" if link.num_devices_in_domain else ""
        yield f"{link.name}, one way{domain}", link.bandwidth_one_way
    for field, figure_name in (
        ("max_power", "power at most"),
        ("num_compute_units", "compute units"),
        ("boost_clock", "boost clock"),
        ("l2_cache", "L2 cache"),
    ):
        if entry.HasField(field):  # type: ignore[arg-type]  # the stub takes literals only
            yield figure_name, getattr(entry, field)
