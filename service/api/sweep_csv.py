"""A sweep as CSV: the client's own table, printed from arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from service.api.errors import Failure
from service.planning.results import Limit
from service.planning.sweep.results import RunSweepResponse
from tonnage.sweep_table import Cells, SweepTable
from tonnage.tables import Ready

_LIMITS = [str(member) for member in Limit]


class ArrayCells(Cells):
    """Columns as NumPy holds them. Numbers are printed by the JSON library: ten times as fast as one by one."""

    def numbers(self, column: Any) -> Ready:
        """Printed numbers."""
        return Ready(orjson.dumps(column, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].decode().split(","))

    def flags(self, column: Any) -> Ready:
        """Printed truths."""
        return self.chosen(("false", "true"), column.view(np.uint8))

    def limits(self, column: Any) -> Ready:
        """Names of limits."""
        return self.chosen(_LIMITS, column.places)

    def chosen(self, cells: Sequence[str], places: Any) -> Ready:
        """For each place the cell that stands there."""
        return Ready([cells[place] for place in places.tolist()])


class SweepCsv:
    """Makes the CSV of one sweep, part by part."""

    def __init__(self) -> None:
        self._table: SweepTable | None = None

    def part(self, part: RunSweepResponse) -> bytes:
        """The rows of a part."""
        if part.start is not None:
            self._table = SweepTable(part.start, ArrayCells())
            return self._table.csv_header().encode()
        assert self._table is not None
        if part.chunk is not None:
            return self._table.csv_rows(part.chunk).encode()
        return self._table.csv_end(part.end).encode()

    def failure(self, failure: Failure) -> bytes:
        """A row that says that the answer broke off."""
        text = f"failed: {failure.message}"
        return (self._table.csv_note(text) if self._table else f"{text}\r\n").encode()
