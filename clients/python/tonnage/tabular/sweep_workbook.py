"""A sweep as a workbook: its table written part by part, the file made at the end."""

from typing import Any

from google.protobuf.message import Message

from tonnage.sweep_table import NOTE, Cells, SweepTable, Value
from tonnage.tables import Ready
from tonnage.tabular import provenance
from tonnage.tabular.forms import version
from tonnage.tabular.xlsx import MAX_ROWS, WorkbookWriter, cell_xml, number_xml
from tonnage.v1.capacity_service_pb2 import Limit

_BESIDE_POINTS = 2
"""The headings, and a note where the sweep is not complete."""

MAX_POINTS = MAX_ROWS - _BESIDE_POINTS
"""What a sheet holds."""

_TRUTHS = (cell_xml(False), cell_xml(True))


class TooManyPoints(ValueError):
    """The grid has more points than a sheet has rows.

    Args:
        num_points: Those of the grid.
    """

    def __init__(self, num_points: float) -> None:
        super().__init__(f"{num_points:.0f} points in one sheet")


class SheetCells(Cells):
    """How the columns of messages become the cells of a sheet. Beside another way to print, goes before it."""

    zero = number_xml("0.0")
    nothing = cell_xml(None)

    def numbers(self, column: Any) -> Ready:
        """Numbers."""
        return Ready(map(number_xml, super().numbers(column)))

    def flags(self, column: Any) -> Ready:
        """Truths."""
        return Ready(_TRUTHS[bool(value)] for value in column)

    def limits(self, column: Any) -> Ready:
        """Names of limits."""
        return Ready(cell_xml(Limit.Name(value)) for value in column)

    def printed(self, value: Value) -> str:
        """A value of an axis."""
        return cell_xml(value)


class SweepWorkbook:
    """Makes the workbook of one sweep. Takes the messages, or whatever has the same fields.

    Args:
        request: What was asked.
        cells: How columns are printed.

    Raises:
        ModuleNotFoundError: openpyxl is not installed.
    """

    def __init__(self, request: Message, cells: SheetCells | None = None) -> None:
        self._request = request
        self._cells = cells or SheetCells()
        self._writer = WorkbookWriter()

    def begin(self, start: Any) -> None:
        """Takes the first part. TooManyPoints where a sheet does not hold the grid."""
        if start.num_points > MAX_POINTS:
            raise TooManyPoints(start.num_points)
        self._table = SweepTable(start, self._cells)
        self._assumptions = [("assumption", text) for text in start.assumptions]
        self._sources = start.sources
        self._writer.add(provenance.inputs("RunSweep", self._request, start.catalogue_revision, version()))
        self._sheet = self._writer.streamed("Results", [*self._table.names, NOTE])

    def add(self, chunk: Any) -> None:
        """Takes a chunk: a row for each plan that was skipped, with its reason, then a row for each point."""
        for skipped in chunk.skipped:
            named, note = self._table.skipped_row(skipped)
            self._sheet.append([*named.values(), note])
        columns = self._table.printed_columns(chunk)
        if columns:
            self._sheet.append_columns(columns)

    def saved(self, end: Any) -> bytes:
        """Takes the last part, and gives the whole workbook."""
        note = self._table.end_note(end)
        if note:
            self._sheet.append([*([None] * len(self._table.names)), note])
        self._writer.add(provenance.documents(self._sources))
        self._writer.add(provenance.conventions(self._assumptions))
        return self._writer.saved()
