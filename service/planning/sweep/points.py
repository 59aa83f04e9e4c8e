"""What the arithmetic of a sweep has in common: plans that are ready for it, their loads, and columns of points."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from service.planning.columns import Floats
from service.planning.sweep.grid import Grid, Plan
from service.planning.sweep.results import SkippedPoints, SkipReason

Columns: TypeAlias = dict[str, npt.NDArray[Any]]


class Ready(Protocol):
    """A plan that has points."""

    @property
    def plan(self) -> Plan:
        """The plan."""
        ...

    @property
    def num_points(self) -> int:
        """How many it has, less those that are skipped."""
        ...

    @property
    def skipped(self) -> tuple[SkippedPoints, ...]:
        """What of it is left out."""
        ...


ReadyT = TypeVar("ReadyT", bound=Ready)


class Arithmetic(Protocol[ReadyT]):
    """Makes plans ready, and columns of the points of those that are."""

    def ready(self, plan: Plan) -> ReadyT | SkippedPoints:
        """The plan with all that does not depend on its loads. PlanningError where it is none."""
        ...

    def columns(self, ready: Sequence[ReadyT], first: int, end: int) -> Columns:
        """Columns of a slice of each plan's loads, one plan after the other, less what is skipped."""
        ...


class Loads(Struct, frozen=True):
    """Two axes as arrays; the second varies faster."""

    outer: Floats
    num_inner: int

    def places(self, first: int, end: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The places in both axes of a slice of the loads."""
        outer, inner = np.divmod(np.arange(first, end, dtype=np.int32), np.int32(self.num_inner))
        return outer, inner


def skipped(grid: Grid, plan: Plan, reason: SkipReason, description: str, num_points: int | None = None) -> SkippedPoints:
    """An entry for so many points of a plan; by default for all."""
    number = grid.points_per_plan if num_points is None else num_points
    return SkippedPoints(*plan.places, float(number), reason, description)


def plan_columns(ready: Sequence[Ready], *, with_engine: bool) -> Columns:
    """The place of each plan in the axes: columns of shape (plans, 1)."""
    names = ("model_index", "accelerator_index", "shape_index", "precision_index", "engine_index")
    places = np.array([each.plan.places for each in ready], np.int32).T[:, :, None]
    columns = dict(zip(names, places, strict=True))
    if not with_engine:
        del columns["engine_index"]
    return columns


def points_of(figures: dict[str, Any], num_plans: int, num_loads: int, kept: npt.NDArray[np.bool_] | None = None) -> Columns:
    """Figures that differ by plan, by load, by both or not at all as columns, one plan after the other.

    ``kept``: by plan and load, which points there are; None for all.
    """
    shape = (num_plans, num_loads)

    def column(value: Any) -> npt.NDArray[Any]:
        spread = np.broadcast_to(value, shape)
        return np.ascontiguousarray(spread.reshape(-1) if kept is None else spread[kept])

    return {name: column(value) for name, value in figures.items()}
