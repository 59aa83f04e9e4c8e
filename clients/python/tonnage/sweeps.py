"""The answer to a sweep: parts that arrive while one iterates, as messages, as rows, or as NumPy columns."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import grpc

from tonnage.errors import from_rpc_error
from tonnage.sweep_table import SweepTable, Value
from tonnage.v1.sweep_service_pb2 import RunSweepResponse, SkippedPoints, SweepChunk, SweepEnd, SweepStart

if TYPE_CHECKING:  # NumPy is only needed by whoever asks for its columns
    import numpy as np
    import numpy.typing as npt

Columns: TypeAlias = "dict[str, npt.NDArray[np.generic]]"


class _Call(Protocol):
    """What the calls of both libraries have in common."""

    def cancel(self) -> Any: ...


class _Received:
    """What has come of a sweep so far."""

    def __init__(self, call: _Call) -> None:
        self._call = call
        self.start: SweepStart | None = None
        """The axes and the size of the grid; None before the first part."""
        self.end: SweepEnd | None = None
        """What became of the grid; None before the last part. ``is_complete`` is False where the time was up before."""
        self.skipped: list[SkippedPoints] = []
        """What had no answer so far, with reasons."""
        self.progress_ratio = 0.0
        """The part of the grid that is done, 0 to 1."""
        self._table: SweepTable | None = None

    @property
    def table(self) -> SweepTable:
        """How chunks become rows. Known from the first part on."""
        if self._table is None:
            raise RuntimeError("the sweep has not begun: take its first part before")
        return self._table

    def cancel(self) -> None:
        """Ends the sweep; the service stops its work."""
        self._call.cancel()

    def _take(self, part: RunSweepResponse) -> RunSweepResponse:
        kind = part.WhichOneof("part")
        if kind == "start":
            self.start, self._table = part.start, SweepTable(part.start)
        elif kind == "chunk":
            self.skipped.extend(part.chunk.skipped)
            self.progress_ratio = part.chunk.progress_ratio
        elif kind == "end":
            self.end = part.end
        return part

    def _arrays(self, chunk: SweepChunk) -> Columns:
        import numpy as np

        kinds = {bool: np.bool_, int: np.int32, float: np.float64, str: np.str_}
        columns = self.table.columns(chunk)
        return {name: np.array(values, kinds[type(values[0])] if values else np.float64) for name, values in columns.items()}


class Sweep(_Received):
    """A sweep under way. Iterating yields its parts as messages; it can be gone through once, in one of the ways."""

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self._parts: Iterator[RunSweepResponse] = iter(call)

    def __iter__(self) -> Iterator[RunSweepResponse]:
        return self

    def __next__(self) -> RunSweepResponse:
        try:
            return self._take(next(self._parts))
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error

    def chunks(self) -> Iterator[SweepChunk]:
        """The chunks alone; what else comes stands in ``start`` and ``end``."""
        return (part.chunk for part in self if part.WhichOneof("part") == "chunk")

    def rows(self) -> Iterator[dict[str, Value]]:
        """The points one by one: the values of the axes and the figures, by name."""
        for chunk in self.chunks():
            yield from self.table.rows(chunk)

    def columns(self) -> Iterator[Columns]:
        """The points as NumPy arrays by name, chunk by chunk. Needs NumPy."""
        return (self._arrays(chunk) for chunk in self.chunks() if self.table.points(chunk) is not None)


class AsyncSweep(_Received):
    """A sweep under way, awaited. Iterating yields its parts as messages; it can be gone through once, in one of the ways."""

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self._parts: AsyncIterator[RunSweepResponse] = aiter(call)

    def __aiter__(self) -> AsyncIterator[RunSweepResponse]:
        return self

    async def __anext__(self) -> RunSweepResponse:
        try:
            return self._take(await anext(self._parts))
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error

    async def chunks(self) -> AsyncIterator[SweepChunk]:
        """The chunks alone; what else comes stands in ``start`` and ``end``."""
        async for part in self:
            if part.WhichOneof("part") == "chunk":
                yield part.chunk

    async def rows(self) -> AsyncIterator[dict[str, Value]]:
        """The points one by one: the values of the axes and the figures, by name."""
        async for chunk in self.chunks():
            for row in self.table.rows(chunk):
                yield row

    async def columns(self) -> AsyncIterator[Columns]:
        """The points as NumPy arrays by name, chunk by chunk. Needs NumPy."""
        async for chunk in self.chunks():
            if self.table.points(chunk) is not None:
                yield self._arrays(chunk)
