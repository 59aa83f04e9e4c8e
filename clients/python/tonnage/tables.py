"""Tables as CSV that a spreadsheet opens as it should.

UTF-8 with a byte order mark, units in the headers, nothing that would be taken for a formula, columns in one order.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import TypeAlias

BYTE_ORDER_MARK = "\ufeff"
"""Without it, spreadsheets take UTF-8 for the code page of the machine."""

Cell: TypeAlias = str | float | bool | date | None

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_QUOTED = frozenset(',"\r\n')


class Ready(list[str]):
    """A column of cells that are written as they are: numbers already printed."""


def csv_text(columns: Sequence[Sequence[Cell]], *, header: Sequence[str] | None = None) -> str:
    r"""Rows of a table, given by its columns, all of one length.

    Args:
        columns: The cells of each column. Text is quoted where it has to be and kept from being taken for a formula; dates are
            written as ISO has them, None as an empty cell.
        header: The names of the columns, each ending in its unit. Where it is given, it goes before the rows, after the mark
            that begins the file.

    >>> csv_text([["=1+1", "a, b"], [1.5, None]], header=["model", "step_seconds"])
    '\ufeffmodel,step_seconds\r\n\'=1+1,1.5\r\n"a, b",\r\n'
    """
    lines = [BYTE_ORDER_MARK + ",".join(map(text_cell, header))] if header is not None else []
    lines.extend(map(",".join, zip(*map(_cells, columns), strict=True)))
    lines.append("")
    return "\r\n".join(lines)


def text_cell(text: str) -> str:
    """A text as the cell of a CSV.

    What begins like a formula gets an apostrophe before it, which spreadsheets show as text: a name must not be executed.
    """
    if is_like_formula(text):
        text = f"'{text}"
    return text if _QUOTED.isdisjoint(text) else '"{}"'.format(text.replace('"', '""'))


def is_like_formula(text: str) -> bool:
    """Whether a spreadsheet could take a text for a formula; blanks before it are no protection.

    >>> [is_like_formula(text) for text in ("=1+1", " @SUM(A1)", "-2", "H100 - 8 GPUs", "")]
    [True, True, True, False, False]
    """
    return text.startswith(_FORMULA_STARTS) or text.lstrip().startswith(_FORMULA_STARTS)


def _cells(column: Sequence[Cell]) -> Iterable[str]:
    return column if isinstance(column, Ready) else map(_cell, column)


def _cell(value: Cell) -> str:
    if isinstance(value, str):
        return text_cell(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else repr(value)
