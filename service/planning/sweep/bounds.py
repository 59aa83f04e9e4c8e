"""Decode bounds of a sweep, by the bodies that answer EstimateDecode."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from service.planning import defaults
from service.planning.capacity import fits_everywhere
from service.planning.decode_step import BINDING_LIMITS, DecodePlan, Load, decode_terms
from service.planning.pick import ARRAYS
from service.planning.resolve import Resolver
from service.planning.results import Limit
from service.planning.sweep.grid import Grid, Plan
from service.planning.sweep.joined import joined_plans
from service.planning.sweep.points import Columns, Loads, plan_columns, points_of
from service.planning.sweep.results import SkippedPoints

#: Place in the enumeration of each limit that a bound knows.
_LIMIT_PLACES = np.array([list(Limit).index(each) for each in BINDING_LIMITS], np.uint8)
_FIGURES = (
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


class BoundedPlan(Struct, frozen=True):
    """A plan whose bounds can be computed."""

    plan: Plan
    step: DecodePlan
    num_points: int
    skipped: tuple[SkippedPoints, ...] = ()


class Bounds:
    """The arithmetic of a decode sweep."""

    def __init__(self, resolver: Resolver, grid: Grid) -> None:
        asked = grid.request
        self._resolver = resolver
        self._num_points = grid.points_per_plan
        self._contexts = np.array(asked.context_tokens, np.float64)
        self._loads = Loads(np.array(grid.batch_sizes, np.float64), len(self._contexts))
        ratio = asked.memory_utilization_ratio
        self._memory_ratio = defaults.MEMORY_UTILIZATION_RATIO if ratio is None else ratio

    def ready(self, plan: Plan) -> BoundedPlan:
        """The plan with all that does not depend on its loads. PlanningError where it is none."""
        _, step = self._resolver.plan(plan.model, plan.accelerator, plan.precision, plan.shape)
        return BoundedPlan(plan, step, self._num_points)

    def columns(self, ready: Sequence[BoundedPlan], first: int, end: int) -> Columns:
        """Columns of a slice of each plan's loads, one plan after the other."""
        outer, inner = self._loads.places(first, end)
        batch, context = self._loads.outer[outer], self._contexts[inner]
        step: Any = joined_plans([each.step for each in ready])
        footprint, usable = step.footprint, step.usable_memory_bytes
        terms: Any = decode_terms(step, Load.of(footprint, batch, ARRAYS), context, pick=ARRAYS)  # type: ignore[arg-type]
        fits = fits_everywhere(footprint, usable, self._memory_ratio, context, batch, ARRAYS)  # type: ignore[arg-type]
        columns = plan_columns(ready, with_engine=False) | {"num_devices": footprint.shape.num_devices.astype(np.int32)}
        columns |= {"batch_size_index": outer, "context_tokens_index": inner}
        columns |= {name: getattr(terms, name) for name in _FIGURES}
        columns |= {"binding_limit": _LIMIT_PLACES[terms.binding_place], "fits": fits}
        return points_of(columns, len(ready), end - first)
