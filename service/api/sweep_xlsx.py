"""A sweep as a workbook: the client's own, filled from arrays, sent at the end."""

from typing import Any, Final

import numpy as np
from google.protobuf.message import Message

from service.api.errors import Failure
from service.api.sweep_csv import ArrayCells
from service.planning.errors import TooLarge
from service.planning.results import Limit
from service.planning.sweep.results import RunSweepResponse
from tonnage.tables import Ready
from tonnage.tabular.sweep_workbook import MAX_POINTS, SheetCells, SweepWorkbook, TooManyPoints
from tonnage.tabular.xlsx import cell_xml

_LIMITS: Final = [cell_xml(str(member)) for member in Limit]
_TRUTHS: Final = (cell_xml(False), cell_xml(True))


class _ArraySheetCells(SheetCells, ArrayCells):
    """Columns as NumPy holds them, as the cells of a sheet."""

    def flags(self, column: Any) -> Ready:
        """Truths."""
        return self.chosen(_TRUTHS, column.view(np.uint8))

    def limits(self, column: Any) -> Ready:
        """Names of limits."""
        return self.chosen(_LIMITS, column.places)


class SweepXlsx:
    """Makes the workbook of one sweep, part by part.

    Raises TooLarge, by the first part, where a sheet does not hold the grid.
    """

    def __init__(self, request: Message) -> None:
        self._workbook = SweepWorkbook(request, _ArraySheetCells())

    def part(self, part: RunSweepResponse) -> bytes:
        """Nothing, until the last part gives the workbook."""
        if part.start is not None:
            try:
                self._workbook.begin(part.start)
            except TooManyPoints as refused:
                remedy = "ask for csv or ndjson, which have no such limit, or sweep part of the grid"
                raise TooLarge("format", str(refused), MAX_POINTS, remedy) from None
            return b""
        if part.chunk is not None:
            self._workbook.add(part.chunk)
            return b""
        return self._workbook.saved(part.end)

    def failure(self, failure: Failure) -> bytes:
        """Nothing: before the workbook is whole, nothing of it was sent, and the failure has a status of its own."""
        return b""
