"""Figures of the catalogue: the value, as its source prints it, what it rests on."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from tonnage.cli import layout
from tonnage.cli.quantities import measured_in
from tonnage.v1.catalogue_service_pb2 import Conflict, Figure, Source

NamedFigure = tuple[str, Figure]


def brief(figure: Figure) -> str:
    """The value alone, for a list."""
    return measured_in(figure.value, figure.unit)


def sheet(console: Console, figures: Iterable[NamedFigure]) -> None:
    """Every figure with basis and source, then the sources in full; nothing where there are none."""
    listed = list(figures)
    if not listed:
        return
    sources: dict[str, Source] = {source.id: source for _, figure in listed for source in figure.sources}
    numbers = {name: position for position, name in enumerate(sources, start=1)}
    drawn = layout.table("figure", "value", "as printed", "basis", "source", "note", right=[1, 2])
    for name, figure in listed:
        drawn.add_row(
            name,
            brief(figure),
            _printed(figure),
            _basis(figure),
            " ".join(f"[{numbers[source.id]}]" for source in figure.sources),
            figure.note,
        )
    layout.section(console, "Figures", drawn)
    layout.section(console, "Sources", _sources(sources, numbers))


def _basis(figure: Figure) -> str:
    """What kind of statement it is, and how it got here where that was not from the vendor's own document."""
    if figure.confidence in ("", "vendor"):
        return figure.basis
    return f"{figure.basis}, {figure.confidence.replace('_', ' ')}"


def _printed(figure: Figure) -> str:
    value = figure.printed_value
    return f"{value:,.0f} {figure.printed_unit}" if value == round(value) else f"{value:,} {figure.printed_unit}"


def _sources(sources: dict[str, Source], numbers: dict[str, int]) -> Table:
    drawn = Table.grid(padding=(0, 1))
    for name, source in sources.items():
        described = ", ".join(part for part in (source.publisher, source.title, source.date) if part)
        drawn.add_row(f"[{numbers[name]}]", described or name)
        if source.url:
            drawn.add_row("", source.url, style=layout.QUIET)
    return drawn


def conflicts(console: Console, listed: Iterable[Conflict]) -> None:
    """Where official sources disagree: what each prints, what is used, and why."""
    drawn = Table.grid(padding=(0, 1))
    for conflict in listed:
        figures = list(conflict.figures)
        told = [", ".join(part for part in (figure.basis, figure.note) if part) for figure in conflict.stated_figures]
        drawn.add_row("·", f"{conflict.field}, {conflict.status}")
        for position, figure in enumerate(figures):
            basis = f": {told[position]}" if position < len(told) else ""
            drawn.add_row("→" if figure == conflict.chosen else "", f"{figure}{basis}")
        drawn.add_row("", conflict.reason, style=layout.QUIET)
    if drawn.row_count:
        layout.section(console, "Where sources disagree (→ is used)", drawn)
