"""The arithmetic of a sweep: columns of any slice of one plan's loads. Arrays go through the bodies of the point RPCs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from service.catalogue.calibrations import Spreads
from service.planning import defaults
from service.planning.capacity import fits_everywhere
from service.planning.columns import Floats
from service.planning.decode_step import BINDING_LIMITS, DecodePlan, Load, decode_terms
from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.pick import ARRAYS
from service.planning.resolve import Resolver
from service.planning.results import Limit
from service.planning.serving.estimate import Deployment, ServingEstimator, traffic_of, unanswerable
from service.planning.serving.load import kept_in_flight
from service.planning.serving.places import Places, asked_places
from service.planning.serving.ranges import interval, rate_interval
from service.planning.serving.requests import Workload
from service.planning.sweep.grid import Grid, Plan, sentence_of
from service.planning.sweep.results import SkippedPoints, SkipReason

Columns: TypeAlias = dict[str, npt.NDArray[Any]]

#: Place in the enumeration of each limit that a bound knows.
_LIMIT_PLACES = np.array([list(Limit).index(each) for each in BINDING_LIMITS], np.uint8)


class Points(Protocol):
    """The points of a plan, in the grid's order, less those that are skipped."""

    @property
    def num_points(self) -> int:
        """How many there are."""
        ...

    @property
    def skipped(self) -> tuple[SkippedPoints, ...]:
        """What of the plan is left out."""
        ...

    def columns(self, first: int, end: int) -> Columns:
        """The columns of a slice of the points, by name."""
        ...


@dataclass(frozen=True, slots=True)
class Loads:
    """Two axes as arrays; the second varies faster. ``inner_places``: which of its values are taken."""

    outer: Floats
    inner_places: npt.NDArray[np.int32]

    @property
    def size(self) -> int:
        """Points that they span."""
        return len(self.outer) * len(self.inner_places)

    def places(self, first: int, end: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The places in both axes of a slice of the points."""
        outer, inner = np.divmod(np.arange(first, end, dtype=np.int32), np.int32(len(self.inner_places)))
        return outer, self.inner_places[inner]


def _column(value: Any, length: int) -> Floats:
    """A result as a column, also where it is the same for all."""
    made = np.asarray(value, np.float64)
    return np.full(length, made) if made.ndim == 0 else made


def _plan_columns(plan: Plan, num_devices: int, length: int, *, with_engine: bool) -> Columns:
    names = ("model_index", "accelerator_index", "shape_index", "precision_index", "engine_index")
    columns = {name: np.full(length, place, np.int32) for name, place in zip(names, plan.places, strict=True)}
    if not with_engine:
        del columns["engine_index"]
    return columns | {"num_devices": np.full(length, num_devices, np.int32)}


@dataclass(frozen=True, slots=True)
class DecodePoints:
    """The bounds of a plan."""

    plan: Plan
    step: DecodePlan
    loads: Loads
    contexts: Floats
    memory_ratio: float
    skipped: tuple[SkippedPoints, ...] = ()

    @property
    def num_points(self) -> int:
        """How many there are."""
        return self.loads.size

    def columns(self, first: int, end: int) -> Columns:
        """The columns of a slice of the points, by name."""
        outer, inner = self.loads.places(first, end)
        batch, context = self.loads.outer[outer], self.contexts[inner]
        length, footprint, usable = end - first, self.step.footprint, self.step.device.usable_memory_bytes
        terms: Any = decode_terms(self.step, Load.of(footprint, batch, ARRAYS), context, pick=ARRAYS)  # type: ignore[arg-type]
        fits: Any = False
        if usable is not None:
            fits = fits_everywhere(footprint, usable, self.memory_ratio, context, batch, ARRAYS)  # type: ignore[arg-type]
        columns = _plan_columns(self.plan, footprint.shape.num_devices, length, with_engine=False)
        columns |= {"batch_size_index": outer, "context_tokens_index": inner}
        columns |= {name: _column(getattr(terms, name), length) for name in _DECODE_FIGURES}
        places = np.broadcast_to(np.asarray(terms.binding_place), length)
        return columns | {"binding_limit": _LIMIT_PLACES[places], "fits": np.array(np.broadcast_to(fits, length), np.bool_)}


_DECODE_FIGURES = (
    "step_seconds",
    "tokens_per_second",
    "tokens_per_second_per_user",
    "tokens_per_second_per_device",
    "memory_seconds",
    "compute_seconds",
    "interconnect_seconds",
    "weight_bytes",
    "kv_cache_bytes",
)


@dataclass(frozen=True, slots=True)
class ServingPoints:
    """The estimates of a plan."""

    plan: Plan
    deployed: Deployment
    parameters: Any
    spreads: Spreads
    loads: Loads
    lengths: tuple[Floats, Floats]  # input and output tokens
    most: Floats  # requests at a time, for each length
    skipped: tuple[SkippedPoints, ...]

    @property
    def num_points(self) -> int:
        """How many there are."""
        return self.loads.size

    def columns(self, first: int, end: int) -> Columns:
        """The columns of a slice of the points, by name."""
        outer, inner = self.loads.places(first, end)
        concurrency, most = self.loads.outer[outer], self.most[inner]
        tokens: tuple[Any, Any] = (self.lengths[0][inner], self.lengths[1][inner])
        assert self.plan.engine is not None
        traffic = traffic_of(Workload(*tokens), self.plan.engine, np.asarray)
        work, by = self.deployed.work, self.parameters
        state, waiting, wait = kept_in_flight(work, by, traffic, concurrency, most, pick=ARRAYS)  # type: ignore[arg-type]
        first_token = state.first_token_seconds + wait
        devices = self.deployed.plan.footprint.shape.num_devices
        tpot = interval(state.inter_token_seconds, self.spreads.inter_token)
        ttft = interval(first_token, self.spreads.first_token)
        output = rate_interval(state.requests_per_second * tokens[1], self.spreads.inter_token)
        figures = {
            "tpot_seconds": tpot.p50,
            "tpot_p10_seconds": tpot.p10,
            "tpot_p90_seconds": tpot.p90,
            "ttft_seconds": ttft.p50,
            "ttft_p10_seconds": ttft.p10,
            "ttft_p90_seconds": ttft.p90,
            "end_to_end_seconds": first_token + state.decode_seconds,
            "output_tokens_per_second": output.p50,
            "output_tokens_per_second_p10": output.p10,
            "output_tokens_per_second_p90": output.p90,
            "output_tokens_per_second_per_user": 1 / state.inter_token_seconds,
            "output_tokens_per_second_per_device": output.p50 / devices,
            "requests_per_second": state.requests_per_second,
            "effective_batch_size": state.batch,
            "running_requests": state.running,
            "queue_seconds": wait,
            "max_running_requests": most,
        }
        columns = _plan_columns(self.plan, devices, end - first, with_engine=True)
        columns |= {"concurrency_index": outer, "length_index": inner}
        columns |= {name: _column(value, end - first) for name, value in figures.items()}
        return columns | {"saturated": np.asarray(waiting) > 0}


class PointsOf:
    """Makes the points of plans, or says why there are none."""

    def __init__(self, resolver: Resolver, serving: ServingEstimator, grid: Grid) -> None:
        asked = grid.request
        self._resolver = resolver
        self._serving = serving
        self._grid = grid
        self._outer = np.array(grid.batch_sizes if asked.context_tokens else asked.concurrencies, np.float64)
        self._contexts = np.array(asked.context_tokens, np.float64)
        self._lengths = (
            np.array([each.input_tokens for each in asked.lengths], np.float64),
            np.array([each.output_tokens for each in asked.lengths], np.float64),
        )
        ratio = asked.memory_utilization_ratio
        self._decode_ratio = defaults.MEMORY_UTILIZATION_RATIO if ratio is None else ratio

    def __call__(self, plan: Plan) -> Points | SkippedPoints:
        """The points, or one entry for all of them that says why there are none."""
        make: Callable[[Plan], Points | SkippedPoints] = self._decode if plan.engine is None else self._estimates
        try:
            return make(plan)
        except (InvalidRequest, NotFound) as error:
            return self._skipped(plan, SkipReason.ILLEGAL, sentence_of(error))
        except Unanswerable as error:
            return self._skipped(plan, SkipReason.FIGURE_MISSING, f"{error.missing} ({error.remedy})")

    def _skipped(self, plan: Plan, reason: SkipReason, description: str, num_points: int | None = None) -> SkippedPoints:
        number = self._grid.points_per_plan if num_points is None else num_points
        return SkippedPoints(*plan.places, float(number), reason, description)

    def _decode(self, plan: Plan) -> Points:
        _, step = self._resolver.plan(plan.model, plan.accelerator, plan.precision, plan.shape)
        places = np.arange(len(self._contexts), dtype=np.int32)
        return DecodePoints(plan, step, Loads(self._outer, places), self._contexts, self._decode_ratio)

    def _estimates(self, plan: Plan) -> Points | SkippedPoints:
        assert plan.engine is not None
        deployed = self._serving.deployment(plan.model, plan.accelerator, plan.engine, plan.precision, plan.shape)
        generation = deployed.generation
        # As if there were room, and as if there were none: what keeps the plan from an estimate at all, and at some lengths.
        reason = unanswerable(deployed, Places(None, 1.0))
        if reason or generation is None:
            return self._skipped(plan, SkipReason.NOT_CALIBRATED, reason)
        most = self._most(plan, deployed)
        roomy = np.flatnonzero(most >= 1).astype(np.int32)
        left_out = (len(most) - len(roomy)) * len(self._outer)
        skipped: tuple[SkippedPoints, ...] = ()
        if left_out:
            description = unanswerable(deployed, Places(0.0, 1.0))
            skipped = (self._skipped(plan, SkipReason.DOES_NOT_FIT, description, left_out),)
            if not len(roomy):
                return skipped[0]
        spreads = generation.familiar if self._serving.is_familiar(plan.model, deployed) else generation.unfamiliar
        by = self._serving.parameters(generation, deployed.calibration, plan.engine.version)
        return ServingPoints(plan, deployed, by, spreads, Loads(self._outer, roomy), self._lengths, most, skipped)

    def _most(self, plan: Plan, deployed: Deployment) -> Floats:
        """Requests that find place at a time, for each length."""
        assert plan.engine is not None
        engine, asked = plan.engine, self._grid.request.memory_utilization_ratio
        means = self._lengths[0] + self._lengths[1] / 2
        held = (asked_places(deployed.split, deployed.plan, engine, asked, mean)[0] for mean in means.tolist())
        return np.array([each.most for each in held], np.float64)
