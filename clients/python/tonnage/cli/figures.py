"""Figures of the catalogue: the value, as its source prints it, what it rests on."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from tonnage.cli import layout
from tonnage.cli.quantities import count, measured_in
from tonnage.v1.catalogue_service_pb2 import Conflict, Figure, Source

NamedFigure = tuple[str, Figure]


def brief(figure: Figure) -> str:
    """The value alone, for a list."""
    return measured_in(figure.value, figure.unit)


def sheet(console: Console, figures: Iterable[NamedFigure]) -> None:
    """Every figure with basis and source, then the sources in full."""
    listed = list(figures)
    sources: dict[str, Source] = {source.id: source for _, figure in listed for source in figure.sources}
    numbers = {name: position for position, name in enumerate(sources, start=1)}
    drawn = layout.table("figure", "value", "as printed", "basis", "source", "note", right=[1, 2])
    for name, figure in listed:
        drawn.add_row(
            name,
            brief(figure),
            f"{_printed(figure)}",
            figure.basis,
            " ".join(f"[{numbers[source.id]}]" for source in figure.sources),
            figure.note,
        )
    layout.section(console, "Figures", drawn)
    layout.section(console, "Sources", _sources(sources, numbers))


def _printed(figure: Figure) -> str:
    value = count(figure.printed_value) if figure.printed_value >= 1e4 else f"{figure.printed_value:g}"
    return f"{value} {figure.printed_unit}".rstrip()


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
    lines = (
        f"{conflict.field} ({conflict.status}): {'; '.join(conflict.figures)}. Used: {conflict.chosen}. {conflict.reason}"
        for conflict in listed
    )
    layout.sentences(console, "Where sources disagree", lines)
