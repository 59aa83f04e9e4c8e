"""The grid of a sweep: its axes checked, in words, and in the order in which they are gone through."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec import Struct, field

from service.catalogue import lookup
from service.planning.errors import InvalidRequest, NotFound, PlanningError, TooLarge, Violation
from service.planning.model import find_model
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.resolve import Resolver
from service.planning.sweep.requests import Kind, RunSweepRequest

_MOST_BATCH = 1_000_000
_MOST_TOKENS = 10_000_000
_T = TypeVar("_T")


class SweepLimits(Struct, frozen=True):
    """How large a grid may be."""

    max_points: int = 10_000_000
    max_plans: int = 10_000


class Plan(Struct, frozen=True):
    """A deployment of the grid: what it is, and its place in each axis."""

    model: ModelSpec
    accelerator: AcceleratorSpec
    shape: Parallelism
    precision: Precision
    engine: EngineSpec | None
    places: tuple[int, int, int, int, int]


class Grid(Struct, frozen=True):
    """The axes with their defaults filled in. The load varies fastest: ``outer`` by ``inner`` points for each plan."""

    request: RunSweepRequest
    shapes: tuple[Parallelism, ...]
    precisions: tuple[Precision, ...]
    batch_sizes: tuple[int, ...] = field(default=())

    @property
    def axes(self) -> dict[str, int]:
        """How many values each axis has, by the field that holds it."""
        asked = self.request
        load = (
            {"batch_sizes": len(self.batch_sizes), "context_tokens": len(asked.context_tokens)}
            if asked.kind is Kind.DECODE
            else {"concurrencies": len(asked.concurrencies), "lengths": len(asked.lengths)}
        )
        return self._plan_axes | load

    @property
    def _plan_axes(self) -> dict[str, int]:
        asked = self.request
        engines = {"engines": len(asked.engines)} if asked.kind is Kind.SERVING else {}
        return {
            "models": len(asked.models),
            "accelerators": len(asked.accelerators),
            "shapes": len(self.shapes),
            "precisions": len(self.precisions),
            **engines,
        }

    @property
    def num_plans(self) -> int:
        """Combinations of all but the load."""
        return math.prod(self._plan_axes.values())

    @property
    def points_per_plan(self) -> int:
        """Loads of each plan."""
        return self.num_points // self.num_plans

    @property
    def num_points(self) -> int:
        """All combinations."""
        return math.prod(self.axes.values())

    def plans(self) -> Iterator[Plan]:
        """All plans in the grid's order, one at a time."""
        asked = self.request
        engines: tuple[EngineSpec | None, ...] = asked.engines if asked.kind is Kind.SERVING else (None,)
        for (m, model), (a, accelerator), (s, shape), (p, precision), (e, engine) in itertools.product(
            enumerate(asked.models),
            enumerate(asked.accelerators),
            enumerate(self.shapes),
            enumerate(self.precisions),
            enumerate(engines),
        ):
            yield Plan(model, accelerator, shape, precision, engine, (m, a, s, p, e))


def grid(resolver: Resolver, request: RunSweepRequest, limits: SweepLimits) -> Grid:
    """The grid of a request. InvalidRequest, NotFound or TooLarge where there is none."""
    violations = tuple(_violations(request))
    if violations:
        raise InvalidRequest(*violations)
    made = Grid(
        request,
        request.shapes or (Parallelism(),),
        request.precisions or (Precision(),),
        request.batch_sizes or (1,),
    )
    _check_size(made, limits)
    _check_names(resolver, request)
    return made


def _violations(asked: RunSweepRequest) -> Iterator[Violation]:
    is_decode = asked.kind is Kind.DECODE
    needed = ("models", "accelerators", *(("context_tokens",) if is_decode else ("engines", "concurrencies", "lengths")))
    for name in needed:
        if not getattr(asked, name):
            yield Violation(name, f"a {asked.kind} sweep needs this axis", "give at least one value")
    for name in ("engines", "concurrencies", "lengths") if is_decode else ("batch_sizes", "context_tokens"):
        if getattr(asked, name):
            yield Violation(name, f"it is no axis of a {asked.kind} sweep", "leave it out")
    yield from _out_of_range("batch_sizes", asked.batch_sizes, _MOST_BATCH)
    yield from _out_of_range("context_tokens", asked.context_tokens, _MOST_TOKENS)
    yield from _out_of_range("concurrencies", asked.concurrencies, _MOST_BATCH)


def _out_of_range(name: str, values: tuple[float, ...], most: int) -> Iterator[Violation]:
    """The first value that is none; one is enough to tell what is wrong with a long list."""
    for number, value in enumerate(values):
        if not 1 <= value <= most:  # also where it is no number
            yield Violation(f"{name}[{number}]", f"{value:g} is out of range", f"give 1 to {most}")
            return


def _check_size(made: Grid, limits: SweepLimits) -> None:
    longest = max(made.axes, key=lambda name: made.axes[name])
    for what, size, limit, setting in (
        ("plans", made.num_plans, limits.max_plans, "TONNAGE_SWEEP_MAX_PLANS"),
        ("points", made.num_points, limits.max_points, "TONNAGE_SWEEP_MAX_POINTS"),
    ):
        if size > limit:
            product = " × ".join(f"{count} {name}" for name, count in made.axes.items())
            remedy = f"give fewer {longest} or run several sweeps; {setting} raises the limit"
            raise TooLarge(longest, f"the sweep has {size} {what} ({product})", limit, remedy)


def _check_names(resolver: Resolver, asked: RunSweepRequest) -> None:
    """Refuses a sweep of what cannot be: one that the catalogue does not know is a mistake, no combination to skip."""
    unknown = [
        *_unknown("models", asked.models, lambda spec: _look_up_model(resolver, spec)),
        *_unknown("accelerators", asked.accelerators, resolver.device),
        *_unknown("engines", asked.engines, lambda spec: _look_up_engine(resolver, spec)),
    ]
    if unknown:
        first, *others = unknown
        raise NotFound(first.field, first.kind, first.name, first.nearest, tuple(others))


def _look_up_model(resolver: Resolver, spec: ModelSpec) -> object:
    return resolver.architecture(spec) if spec.name is None else find_model(resolver.catalogue, spec.name)


def _look_up_engine(resolver: Resolver, spec: EngineSpec) -> object:
    try:
        return lookup.calibration(resolver.catalogue, spec.name)
    except lookup.UnknownName as unknown:
        raise NotFound("engine.name", "calibrated engine", spec.name, unknown.nearest) from None


def _unknown(axis: str, values: tuple[_T, ...], look_up: Callable[[_T], object]) -> Iterator[NotFound]:
    for number, value in enumerate(values):
        try:
            look_up(value)
        except NotFound as error:
            yield NotFound(_placed(error.field, axis, number), error.kind, error.name, error.nearest)
        except InvalidRequest as error:
            moved = (Violation(_placed(each.field, axis, number), each.reason, each.remedy) for each in error.violations)
            raise InvalidRequest(*moved) from None


def _placed(path: str, axis: str, number: int) -> str:
    """A path of a request for one point as one of the sweep's: "model.name" becomes "models[2].name"."""
    _, dot, rest = path.partition(".")
    return f"{axis}[{number}]{dot}{rest}"


def sentence_of(error: PlanningError) -> str:
    """Why a plan was refused, with what would cure it."""
    if isinstance(error, InvalidRequest):
        return "; ".join(f"{each.reason}{f' ({each.remedy})' if each.remedy else ''}" for each in error.violations)
    return str(error)
