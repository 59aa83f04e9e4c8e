"""Sweeps: every point of a grid, in parts that are made as they are asked for. The grid as a whole never exists."""

from collections.abc import Iterator
from time import monotonic
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from service.planning import defaults
from service.planning.columns import Choices
from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.resolve import Resolver
from service.planning.results import Limit
from service.planning.serving.estimate import ServingEstimator
from service.planning.streams import Stop, Stream
from service.planning.sweep import titles
from service.planning.sweep.bounds import Bounds
from service.planning.sweep.estimates import Estimates
from service.planning.sweep.grid import Grid, Plan, SweepLimits, grid, sentence_of
from service.planning.sweep.points import Arithmetic, Columns, skipped
from service.planning.sweep.requests import Kind, RunSweepRequest
from service.planning.sweep.results import (
    DecodeColumns,
    EndReason,
    RunSweepResponse,
    ServingColumns,
    SkippedPoints,
    SkipReason,
    SweepChunk,
    SweepEnd,
    SweepStart,
)
from service.planning.sweep.sources import sources_of

#: Points of a chunk. Its columns stay in the cache of a core, no step of making or sending it takes so long that small requests
#: beside it would notice, and what a chunk costs whatever its size is little beside a copy of it (decision 0011).
CHUNK_POINTS: Final = 8_192
#: The same while others ask: whatever is done with a part, in whatever form it is sent, is then soon done.
SMALL_CHUNK_POINTS: Final = CHUNK_POINTS // 8
#: Plans of no more points are computed together, as many as fill a chunk: a call of NumPy costs as much as some hundred points.
JOINED_POINTS: Final = CHUNK_POINTS // 16
#: Entries on what was skipped that make a chunk of their own.
CHUNK_SKIPPED: Final = 1_024
#: A chunk is sent after so long even where it is not full: whoever waits sees progress, and a stop is noticed.
CHUNK_SECONDS: Final = 0.25


def run_sweep(
    resolver: Resolver, serving: ServingEstimator, limits: SweepLimits, request: RunSweepRequest, stop: Stop | None = None
) -> Stream[RunSweepResponse]:
    """The parts of a sweep. InvalidRequest, NotFound or TooLarge at once where there is no grid to go through."""
    made = grid(resolver, request, limits)
    return Stream(_Sweep(resolver, serving, made).parts, stop)


class _Sweep:
    """One sweep under way."""

    def __init__(self, resolver: Resolver, serving: ServingEstimator, made: Grid) -> None:
        self._resolver = resolver
        self._grid = made
        is_decode = made.request.kind is Kind.DECODE
        self._arithmetic: Arithmetic[Any] = Bounds(resolver, made) if is_decode else Estimates(serving, made)
        self._points_per_plan = made.points_per_plan
        self._joined: list[Any] = []  # plans that are ready, all of whose points are still to be computed
        self._pieces: list[Columns] = []
        self._skipped: list[SkippedPoints] = []
        self._num_pending = 0
        self._room = CHUNK_POINTS  # for points of a chunk
        self._sent = 0  # points of the grid in the chunks so far, those included that were skipped
        self._num_answered = 0
        self._num_skipped = 0
        self._skipped_plans: set[tuple[int, ...]] = set()
        self._begun = self._flushed = monotonic()

    def parts(self, stop: Stop) -> Iterator[RunSweepResponse]:
        """The start, the chunks, the end."""
        yield RunSweepResponse(start=self._start())
        limit = self._grid.request.time_limit_seconds
        until = None if limit is None else self._begun + limit
        for _ in self._steps():
            if stop.look() or (until is not None and monotonic() >= until):
                break
            self._room = SMALL_CHUNK_POINTS if stop.is_beside_others else CHUNK_POINTS
            if self._is_due():
                yield RunSweepResponse(chunk=self._chunk())
        if self._num_pending or self._skipped:
            yield RunSweepResponse(chunk=self._chunk())
        yield RunSweepResponse(end=self._end())

    def _steps(self) -> Iterator[None]:
        """Goes through the grid; each step takes in no more points than a chunk still has room for."""
        for plan in self._grid.plans():
            ready = self._ready(plan)
            if isinstance(ready, SkippedPoints):
                self._skip(ready)
                yield
                continue
            for each in ready.skipped:
                self._skip(each)
            if self._points_per_plan <= JOINED_POINTS:
                self._joined.append(ready)
                self._count(ready.num_points)
                yield
            else:
                yield from self._slices(ready)

    def _ready(self, plan: Plan) -> Any:
        """The plan with all that does not depend on its loads, or one entry for all points that says why there are none."""
        try:
            return self._arithmetic.ready(plan)
        except (InvalidRequest, NotFound) as error:
            return skipped(self._grid, plan, SkipReason.ILLEGAL, sentence_of(error))
        except Unanswerable as error:
            return skipped(self._grid, plan, SkipReason.FIGURE_MISSING, f"{error.missing} ({error.remedy})")

    def _slices(self, ready: Any) -> Iterator[None]:
        first = 0
        while first < self._points_per_plan:
            end = min(self._points_per_plan, first + self._room - self._num_pending)
            self._compute([ready], first, end)
            self._count(len(self._pieces[-1]["num_devices"]))
            first = end
            yield

    def _compute(self, ready: list[Any], first: int, end: int) -> None:
        # Where nothing is cached at a context, a place is for any number of requests: an infinity that the minimum drops.
        with np.errstate(divide="ignore"):
            self._pieces.append(self._arithmetic.columns(ready, first, end))

    def _count(self, num_points: int) -> None:
        self._num_pending += num_points
        self._num_answered += num_points

    def _skip(self, skipped: SkippedPoints) -> None:
        self._skipped.append(skipped)
        self._num_skipped += round(skipped.num_points)
        places = (skipped.model_index, skipped.accelerator_index, skipped.shape_index)
        self._skipped_plans.add((*places, skipped.precision_index, skipped.engine_index))

    def _is_due(self) -> bool:
        room = self._room - self._num_pending
        if room <= 0 or (self._joined and room < self._points_per_plan) or len(self._skipped) >= CHUNK_SKIPPED:
            return True
        return monotonic() - self._flushed > CHUNK_SECONDS

    def _chunk(self) -> SweepChunk:
        """What has been gathered."""
        if self._joined:
            self._compute(self._joined, 0, self._points_per_plan)
            self._joined = []
        offset, self._sent = self._sent, self._num_answered + self._num_skipped
        skipped, pieces = tuple(self._skipped), self._pieces
        self._skipped, self._pieces, self._num_pending, self._flushed = [], [], 0, monotonic()
        progress = self._sent / self._grid.num_points
        if not pieces:
            return SweepChunk(float(offset), progress, skipped)
        columns = pieces[0] if len(pieces) == 1 else _joined(pieces)
        if self._grid.request.kind is Kind.DECODE:
            limit: Choices[Limit] = Choices(columns.pop("binding_limit"))
            return SweepChunk(float(offset), progress, skipped, decode=DecodeColumns(**columns, binding_limit=limit))
        return SweepChunk(float(offset), progress, skipped, serving=ServingColumns(**columns))

    def _end(self) -> SweepEnd:
        done = self._num_answered + self._num_skipped
        is_complete = done == self._grid.num_points
        return SweepEnd(
            is_complete=is_complete,
            reason=EndReason.COMPLETED if is_complete else EndReason.TIME_LIMIT,
            num_answered=float(self._num_answered),
            num_skipped=float(self._num_skipped),
            num_points=float(self._grid.num_points),
            num_skipped_plans=len(self._skipped_plans),
            elapsed_seconds=monotonic() - self._begun,
        )

    def _start(self) -> SweepStart:
        asked, made, resolver = self._grid.request, self._grid, self._resolver
        is_decode = asked.kind is Kind.DECODE
        return SweepStart(
            kind=asked.kind,
            models=tuple(titles.model_title(resolver, each, n) for n, each in enumerate(asked.models)),
            accelerators=tuple(titles.accelerator_title(resolver, each, n) for n, each in enumerate(asked.accelerators)),
            shapes=tuple(map(titles.shape_title, made.shapes)),
            precisions=tuple(map(titles.precision_title, made.precisions)),
            engines=tuple(map(titles.engine_title, asked.engines)),
            batch_sizes=made.batch_sizes if is_decode else (),
            context_tokens=asked.context_tokens,
            concurrencies=asked.concurrencies,
            lengths=asked.lengths,
            num_plans=made.num_plans,
            num_points=float(made.num_points),
            assumptions=tuple(self._assumptions()),
            catalogue_revision=resolver.revision,
            sources=sources_of(resolver, asked),
        )

    def _assumptions(self) -> Iterator[str]:
        asked = self._grid.request
        if asked.kind is Kind.DECODE:
            ratio, note = defaults.memory_ratio(asked.memory_utilization_ratio)
            yield note or f"memory_utilization_ratio {ratio:g}"
            if not asked.batch_sizes:
                yield f"batch_size {defaults.BATCH_SIZE} (default)"
            yield "bounds: nothing can be faster, and what is measured is slower"
        else:
            yield "estimates of calibrations, in a closed loop; what a point alone assumes, EstimateServing says of it"
        yield "points that cannot be are skipped and listed with the reason"


def _joined(pieces: list[Columns]) -> Columns:
    joined: dict[str, npt.NDArray[Any]] = {name: np.concatenate([each[name] for each in pieces]) for name in pieces[0]}
    return joined
