"""How an answer came about, as tables: a formula a row, and a figure a row."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tonnage.tabular.columns import Column, Table, joined
from tonnage.v1.explanation_pb2 import Explanation

_SUBJECT = Column("x_subject", lambda row: row[0] or None)


def _inputs(row: Any) -> str:
    return ", ".join(f"{name} = {row[1].inputs[name]!r}" for name in sorted(row[1].inputs))


_STEPS = (
    _SUBJECT,
    Column("x_quantity", lambda row: row[1].name),
    Column("x_formula", lambda row: row[1].expression),
    Column("x_inputs", _inputs),
    Column("x_value_in_base_units", lambda row: row[1].value),
    Column("x_meaning", lambda row: row[1].meaning),
    Column("x_source", lambda row: row[1].source),
)
_FIGURES = (
    _SUBJECT,
    Column("x_figure", lambda row: row[1].name),
    Column("x_value_in_unit", lambda row: row[1].value),
    Column("x_unit", lambda row: row[1].unit),
    Column("x_basis", lambda row: row[1].basis or None),
    Column("x_sources", lambda row: joined(row[1].sources)),
    Column("x_note", lambda row: row[1].note or None),
)


def sheets(explained: Iterable[tuple[str, Explanation]]) -> Iterator[Table]:
    """A sheet of formulas and one of figures, of each subject's explanation; none where nothing was explained."""
    listed: Sequence[tuple[str, Explanation]] = list(explained)
    steps = [(subject, step) for subject, each in listed for step in each.steps]
    figures = [(subject, figure) for subject, each in listed for figure in each.figures]
    if steps:
        yield Table("Formulas", _STEPS, steps)
    if figures:
        yield Table("Figures", _FIGURES, figures)
