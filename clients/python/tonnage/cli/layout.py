"""Parts that several answers are drawn from."""

from collections.abc import Iterable

from rich import box
from rich.console import Console, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tonnage.cli.fields import option_of
from tonnage.cli.quantities import byte_count, words
from tonnage.v1.explanation_pb2 import Explanation, Shortfall

GOOD, BAD, QUIET, HEADING = "green", "red", "dim", "bold"


def table(*columns: str, right: Iterable[int] = ()) -> Table:
    """An empty table. ``right`` numbers the columns that are aligned to the right; the first, of names, is kept whole."""
    drawn = Table(box=box.SIMPLE_HEAD, header_style=HEADING, pad_edge=False, show_edge=False)
    aligned = set(right)
    for position, column in enumerate(columns):
        justify: JustifyMethod = "right" if position in aligned else "left"
        drawn.add_column(column, justify=justify, overflow="fold", no_wrap=position == 0)
    return drawn


def title(console: Console, *parts: str) -> None:
    """What was asked, in one line."""
    console.print(Text(" · ".join(part for part in parts if part), style=HEADING))
    console.print()


def section(console: Console, heading: str, body: RenderableType) -> None:
    """A heading and what stands under it."""
    console.print(Text(heading, style=HEADING))
    console.print(Padding(body, (0, 0, 1, 2), expand=False))


def sentences(console: Console, heading: str, lines: Iterable[str]) -> None:
    """A heading and a list of sentences; nothing where there are none."""
    listed = list(lines)
    if listed:
        body = Table.grid(padding=(0, 1))
        for line in listed:
            body.add_row("·", line)
        section(console, heading, body)


def verdict(console: Console, fits: bool | None, shortfall: Shortfall | None) -> None:
    """Whether it fits, and if not, what is short and what would cure it."""
    if fits is None:
        console.print(Text("Whether it fits is not known: the accelerator's memory is not.", style=QUIET))
    elif fits:
        console.print(Text("It fits.", style=GOOD))
    else:
        console.print(Text("It does not fit.", style=BAD))
    if shortfall is not None:
        lacks(console, shortfall)
    console.print()


def lacks(console: Console, shortfall: Shortfall) -> None:
    """What is short and the cures, the smallest change first."""
    bare = (
        f"{words(shortfall.resource)}: {byte_count(shortfall.required_bytes_per_device)} needed on a device, "
        f"{byte_count(shortfall.available_bytes_per_device)} allowed, "
        f"{byte_count(shortfall.short_bytes_per_device)} short"
    )
    console.print(f"  {shortfall.description or bare}")
    for cure in shortfall.cures:
        console.print(f"  → {option_of(cure.field) or cure.field} {cure.value}   {cure.description}")


def footing(console: Console, assumptions: Iterable[str], catalogue_revision: str) -> None:
    """What was assumed, and which catalogue answered."""
    sentences(console, "Assumed", assumptions)
    console.print(Text(f"catalogue {catalogue_revision}", style=QUIET))


def explanation(console: Console, explained: Explanation) -> None:
    """Every formula with what went in and what came out, in base units, and the figures they rest on."""
    steps = Table.grid(padding=(0, 0))
    for step in explained.steps:
        inputs = ", ".join(f"{name} = {step.inputs[name]:.6g}" for name in sorted(step.inputs))
        steps.add_row(Text(f"{step.name} = {step.value:.6g}"))
        for line in (step.meaning, step.expression, inputs, step.source and f"source: {step.source}"):
            if line:
                steps.add_row(Text(f"    {line}", style=QUIET))
    section(console, "Formulas, in base units", steps)
    figures = table("figure", "value", "unit", "basis", "source", right=[1])
    for figure in explained.figures:
        figures.add_row(figure.name, f"{figure.value:.6g}", figure.unit, figure.basis, "; ".join(figure.sources))
    section(console, "Figures used", figures)
