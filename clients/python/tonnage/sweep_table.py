"""The points of a sweep as a table: the values of the axes in place of their indices.

Takes the messages, or whatever has the same fields: the service writes its own CSV with it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from tonnage.tables import Ready, csv_text, text_cell
from tonnage.v1.capacity_service_pb2 import Limit
from tonnage.v1.sweep_service_pb2 import DecodeColumns, ServingColumns, SkippedPoints

Value: TypeAlias = str | int | float | bool | None

NOTE = "note"
"""The last column of a CSV: why points were skipped, or that some are missing."""

_DECODE = tuple(field.name for field in DecodeColumns.DESCRIPTOR.fields)
_SERVING = tuple(field.name for field in ServingColumns.DESCRIPTOR.fields)
_AXES = {
    "model_index": "models",
    "accelerator_index": "accelerators",
    "shape_index": "shapes",
    "precision_index": "precisions",
    "engine_index": "engines",
    "batch_size_index": "batch_sizes",
    "context_tokens_index": "context_tokens",
    "concurrency_index": "concurrencies",
}


#: Columns that hold 0 where there is no such figure: answers of one token have no time between tokens.
_ABSENT_AS_ZERO = frozenset({"tpot_seconds", "tpot_p10_seconds", "tpot_p90_seconds", "output_tokens_per_second_per_user"})


class Cells:
    """How the columns of messages become the cells of a CSV."""

    zero = "0.0"
    nothing = ""

    def numbers(self, column: Any) -> Ready:
        """Printed numbers."""
        return Ready(map(repr, column))

    def present(self, column: Any) -> Ready:
        """Printed numbers, and nothing where one is 0."""
        printed, zero = self.numbers(column), self.zero
        return Ready(self.nothing if cell == zero else cell for cell in printed) if zero in printed else printed

    def flags(self, column: Any) -> Ready:
        """Printed truths."""
        return Ready("true" if value else "false" for value in column)

    def limits(self, column: Any) -> Ready:
        """Names of limits."""
        return Ready(map(Limit.Name, column))

    def printed(self, value: Value) -> str:
        """A value of an axis."""
        return text_cell(value) if isinstance(value, str) else repr(value)

    def chosen(self, cells: Sequence[str], places: Any) -> Ready:
        """For each place the cell that stands there."""
        return Ready(cells[place] for place in places)


class SweepTable:
    """The table of one sweep.

    Args:
        start: The sweep's first part.
        cells: How columns are printed.
    """

    def __init__(self, start: Any, cells: Cells | None = None) -> None:
        self._is_decode = len(start.context_tokens) > 0
        self._fields = _DECODE if self._is_decode else _SERVING
        self._cells = cells or Cells()
        self._axes: dict[str, dict[str, list[Value]]] = {
            field: {field.removesuffix("_index"): list(getattr(start, axis))}
            for field, axis in _AXES.items()
            if field in self._fields
        }
        if not self._is_decode:
            self._axes["length_index"] = {
                "input_tokens": [each.input_tokens for each in start.lengths],
                "output_tokens": [each.output_tokens for each in start.lengths],
            }
        self._printed = {
            name: list(map(self._cells.printed, values)) for axis in self._axes.values() for name, values in axis.items()
        }

    @property
    def names(self) -> list[str]:
        """The columns in their order, each ending in its unit."""
        return [name for field in self._fields for name in self._axes.get(field, (field,))]

    def points(self, chunk: Any) -> Any:
        """The columns of a chunk with their indices; None where all of it was skipped."""
        name = "decode" if self._is_decode else "serving"
        columns = getattr(chunk, name)
        return columns if columns is not None and len(columns.model_index) else None

    def columns(self, chunk: Any) -> dict[str, list[Value]]:
        """The points of a chunk by column, axes by their values; empty lists where all of it was skipped."""
        points = self.points(chunk)
        if points is None:
            return {name: [] for name in self.names}
        made: dict[str, list[Value]] = {}
        for field in self._fields:
            column = getattr(points, field)
            if field in self._axes:
                made |= {name: [values[place] for place in column] for name, values in self._axes[field].items()}
            else:
                values = map(Limit.Name, column) if field == "binding_limit" else column
                made[field] = [each or None for each in values] if field in _ABSENT_AS_ZERO else list(values)
        return made

    def rows(self, chunk: Any) -> Iterator[dict[str, Value]]:
        """The points of a chunk one by one, by the names of the columns."""
        columns = self.columns(chunk)
        for row in zip(*columns.values(), strict=True):
            yield dict(zip(columns, row, strict=True))

    def csv_header(self) -> str:
        """The beginning of the CSV."""
        return csv_text([], header=[*self.names, NOTE])

    def csv_rows(self, chunk: Any) -> str:
        """A row for each plan that was skipped, with its reason, then a row for each point."""
        skipped = "".join(map(self._csv_skipped, chunk.skipped))
        made = self.printed_columns(chunk)
        return skipped + csv_text([*made, Ready([""] * len(made[0]))]) if made else skipped

    def printed_columns(self, chunk: Any) -> list[Ready]:
        """The columns of a chunk, printed; none where all of it was skipped."""
        points = self.points(chunk)
        made: list[Ready] = []
        if points is None:
            return made
        for field in self._fields:
            column = getattr(points, field)
            if field in self._axes:
                made += (self._cells.chosen(self._printed[name], column) for name in self._axes[field])
            elif field in {"fits", "saturated"}:
                made.append(self._cells.flags(column))
            else:
                cells = self._cells
                special = {"binding_limit": cells.limits} | dict.fromkeys(_ABSENT_AS_ZERO, cells.present)
                made.append(special.get(field, cells.numbers)(column))
        return made

    def csv_end(self, end: Any) -> str:
        """A row that says what is missing; nothing where the sweep is complete."""
        note = self.end_note(end)
        return self.csv_note(note) if note else ""

    def end_note(self, end: Any) -> str:
        """What is missing; empty where the sweep is complete."""
        if end.is_complete:
            return ""
        done = end.num_answered + end.num_skipped
        return f"incomplete: {done:.0f} of {end.num_points:.0f} points, then the time was up"

    def csv_note(self, text: str) -> str:
        """A row that holds nothing but a note."""
        return csv_text([*([""] for _ in self.names), [text]])

    def _csv_skipped(self, skipped: Any) -> str:
        named, note = self.skipped_row(skipped)
        return csv_text([*([value] for value in named.values()), [note]])

    def skipped_row(self, skipped: Any) -> tuple[dict[str, Value], str]:
        """The axes of what was skipped, as far as it has one value of them, and why."""
        # An enumeration's member is its name already; a message has a number.
        reason = skipped.reason if isinstance(skipped.reason, str) else SkippedPoints.Reason.Name(skipped.reason)
        note = f"skipped {skipped.num_points:.0f} points, {reason}: {skipped.description}"
        named: dict[str, Value] = {}
        for field in self._fields:
            for name, values in self._axes.get(field, {field: []}).items():
                place = getattr(skipped, field, None)
                named[name] = None if place is None else values[place]
        return named, note
