"""A sweep as a workbook: the client's own table, written part by part, sent at the end."""

from typing import Any, Final

import numpy as np
from google.protobuf.message import Message

from service.api.errors import Failure
from service.api.sweep_csv import ArrayCells
from service.planning.errors import TooLarge
from service.planning.results import Limit
from service.planning.sweep.results import RunSweepResponse
from tonnage.sweep_table import NOTE, SweepTable, Value
from tonnage.tables import Ready
from tonnage.tabular import provenance
from tonnage.tabular.forms import version
from tonnage.tabular.xlsx import MAX_ROWS, WorkbookWriter, cell_xml, number_xml

#: The headings, and a note where the sweep is not complete.
_BESIDE_POINTS: Final = 2
_LIMITS: Final = [cell_xml(str(member)) for member in Limit]


class _SheetCells(ArrayCells):
    """Columns as the cells of a sheet."""

    zero = number_xml("0.0")
    nothing = cell_xml(None)

    def numbers(self, column: Any) -> Ready:
        """Numbers."""
        return Ready(map(number_xml, super().numbers(column)))

    def flags(self, column: Any) -> Ready:
        """Truths."""
        return self.chosen((cell_xml(False), cell_xml(True)), column.view(np.uint8))

    def limits(self, column: Any) -> Ready:
        """Names of limits."""
        return self.chosen(_LIMITS, column.places)

    def printed(self, value: Value) -> str:
        """A value of an axis."""
        return cell_xml(value)


class SweepXlsx:
    """Makes the workbook of one sweep, part by part.

    Raises TooLarge, by the first part, where a sheet does not hold the grid.
    """

    def __init__(self, request: Message) -> None:
        self._request = request
        self._writer = WorkbookWriter()
        self._table: SweepTable | None = None
        self._assumptions: list[tuple[str, str]] = []
        self._sources: tuple[Any, ...] = ()

    def part(self, part: RunSweepResponse) -> bytes:
        """Nothing, until the last part gives the workbook."""
        if part.start is not None:
            self._begin(part.start)
            return b""
        assert self._table is not None
        if part.chunk is not None:
            for skipped in part.chunk.skipped:
                named, note = self._table.skipped_row(skipped)
                self._sheet.append([*named.values(), note])
            columns = self._table.printed_columns(part.chunk)
            if columns:
                self._sheet.append_columns(columns)
            return b""
        return self._ended(self._table.end_note(part.end))

    def failure(self, failure: Failure) -> bytes:
        """Nothing: before the workbook is whole, nothing of it was sent, and the failure has a status of its own."""
        return b""

    def _begin(self, start: Any) -> None:
        room = MAX_ROWS - _BESIDE_POINTS
        if start.num_points > room:
            remedy = "ask for csv or ndjson, which have no such limit, or sweep part of the grid"
            raise TooLarge("format", f"{start.num_points:.0f} points in one sheet", room, remedy)
        self._table = SweepTable(start, _SheetCells())
        self._assumptions = [("assumption", text) for text in start.assumptions]
        self._sources = start.sources
        self._writer.add(provenance.inputs("RunSweep", self._request, start.catalogue_revision, version()))
        self._sheet = self._writer.streamed("Results", [*self._table.names, NOTE])

    def _ended(self, note: str) -> bytes:
        assert self._table is not None
        if note:
            self._sheet.append([*([None] * len(self._table.names)), note])
        self._writer.add(provenance.documents(self._sources))
        self._writer.add(provenance.conventions(self._assumptions))
        return self._writer.saved()
