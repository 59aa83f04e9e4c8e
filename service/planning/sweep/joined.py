"""Several plans as one: the fields that hold a figure of one plan hold a column of them, one plan a row.

Loads lie along the other axis, so that the bodies of the point RPCs, which take floats or arrays, go through all points of
many small plans in one call.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from math import inf
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from service.planning.context_cost import ContextCost
from service.planning.decode_step import DecodePlan
from service.planning.footprint import StageFootprint
from service.planning.requests import Parallelism

T = TypeVar("T")


@cache
def _names(kind: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = kind.__struct_fields__
    return names


@cache
def _parts(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives the fields of a struct, in order."""
    names = _names(kind)
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda value: (get(value),)


def _gather(value: Any, into: list[float]) -> None:
    """Adds all figures of a value made of frozen structs and tuples, in order."""
    kind: Any = type(value)
    for part in value if kind is tuple else _parts(kind)(value):
        if isinstance(part, float | int):
            into.append(part)
        else:
            _gather(part, into)


def _rows(values: Sequence[Any]) -> list[list[float]]:
    """The figures of each value; plans share many of them, which are gone through once."""
    found: dict[int, list[float]] = {}
    for value in values:
        if id(value) not in found:
            figures: list[float] = []
            _gather(value, figures)
            found[id(value)] = figures
    return [found[id(value)] for value in values]


def _with_columns(like: Any, columns: Iterator[Any]) -> Any:
    """A value built like another, of the next columns. Pairs (of a window) whose second is 0 in every row are left out."""
    if isinstance(like, Struct):
        kind: Any = type(like)
        return kind(*(_with_columns(getattr(like, name), columns) for name in _names(kind)))
    if isinstance(like, tuple):
        made = tuple(_with_columns(each, columns) for each in like)
        return made if not made or not isinstance(made[0], tuple) else tuple(pair for pair in made if pair[-1].any())
    return next(columns)


def as_columns(rows: Sequence[Sequence[float]]) -> Any:
    """For each place in the rows a column of shape (rows, 1)."""
    return np.array(rows, np.float64).T[:, :, None]


def joined(values: Sequence[T]) -> T:
    """Values of one struct that differ in their figures alone, as one that holds columns."""
    made: T = _with_columns(values[0], iter(as_columns(_rows(values))))
    return made


class JoinedFootprint(Struct, frozen=True):
    """What a bound reads of footprints. Fields as in ``Footprint``, each a column."""

    shape: Parallelism
    stages: tuple[StageFootprint, ...]
    read_bytes_per_device: Any
    num_experts: Any
    num_experts_per_token: Any
    flops_per_device: dict[str, Any]
    expert_flops_per_device: dict[str, Any]
    attention_flops_per_device: ContextCost
    cache_read_bytes_per_device: ContextCost
    num_all_reduces: Any
    num_expert_layers: Any
    hidden_size: Any
    total_expert_bytes: Any


class JoinedPlan(Struct, frozen=True):
    """What a bound reads of plans. Fields as in ``DecodePlan``, each a column."""

    footprint: JoinedFootprint
    bandwidth: Any
    peaks: dict[str, Any]
    attention_peak: Any
    link_bandwidth: Any
    dispatch_bytes_per_element: Any
    weight_bytes_read_per_device: Any
    bound_remote_groups: Any
    sends: bool
    usable_memory_bytes: Any  # not a number where it is not known: nothing is then said to fit


def joined_plans(plans: Sequence[DecodePlan]) -> JoinedPlan:
    """Plans as one. What some of them lack (a format, a link, a stage, a window) is there with no effect on their rows."""
    rows = as_columns([_row(plan) for plan in plans])
    tensor, pipeline, attention_data, read, experts, per_token, reduces, layers, hidden, total, *of_plan = rows
    bandwidth, attention_peak, link, dispatch, weights_read, remote, usable = of_plan
    footprints = [plan.footprint for plan in plans]
    formats = tuple(dict.fromkeys(chain.from_iterable(plan.peaks for plan in plans)))
    return JoinedPlan(
        footprint=JoinedFootprint(
            shape=Parallelism(tensor, pipeline, 1, attention_data),
            stages=_stages([each.stages for each in footprints]),
            read_bytes_per_device=read,
            num_experts=experts,
            num_experts_per_token=per_token,
            flops_per_device=_by_format(formats, [each.flops_per_device for each in footprints], 0.0),
            expert_flops_per_device=_by_format(formats, [each.expert_flops_per_device for each in footprints], 0.0),
            attention_flops_per_device=_costs([each.attention_flops_per_device for each in footprints]),
            cache_read_bytes_per_device=_costs([each.cache_read_bytes_per_device for each in footprints]),
            num_all_reduces=reduces,
            num_expert_layers=layers,
            hidden_size=hidden,
            total_expert_bytes=total,
        ),
        bandwidth=bandwidth,
        peaks=_by_format(formats, [plan.peaks for plan in plans], 1.0),
        attention_peak=attention_peak,
        link_bandwidth=link,
        dispatch_bytes_per_element=dispatch,
        weight_bytes_read_per_device=weights_read,
        bound_remote_groups=remote,
        sends=any(plan.sends for plan in plans),
        usable_memory_bytes=usable,
    )


def _row(plan: DecodePlan) -> tuple[float, ...]:
    footprint, shape = plan.footprint, plan.footprint.shape
    usable = plan.device.usable_memory_bytes
    return (
        shape.tensor,
        shape.pipeline,
        shape.attention_data,
        footprint.read_bytes_per_device,
        footprint.num_experts,
        footprint.num_experts_per_token,
        footprint.num_all_reduces,
        footprint.num_expert_layers,
        footprint.hidden_size,
        footprint.total_expert_bytes,
        plan.bandwidth,
        plan.attention_peak,
        plan.link_bandwidth or inf,
        plan.dispatch_bytes_per_element,
        plan.weight_bytes_read_per_device,
        plan.bound_remote_groups,
        np.nan if usable is None else usable,
    )


def _by_format(formats: Sequence[str], figures: Sequence[Any], missing: float) -> dict[str, Any]:
    columns = as_columns([[each.get(name, missing) for name in formats] for each in figures])
    return dict(zip(formats, columns, strict=True))


def _costs(costs: Sequence[ContextCost]) -> ContextCost:
    """Costs as one whose windows are columns; one without a window has an infinite one."""
    most = max(len(cost.terms) for cost in costs)
    rows = []
    for cost in costs:
        terms = (*cost.terms, *((None, 1, 0.0),) * (most - len(cost.terms)))
        figures = ((inf if window is None else window, tokens, each) for window, tokens, each in terms)
        rows.append((cost.fixed, cost.per_token, *chain.from_iterable(figures)))
    fixed, per_token, *others = as_columns(rows)
    return ContextCost(fixed, per_token, tuple(zip(others[0::3], others[1::3], others[2::3], strict=True)))


def _stages(stages: Sequence[tuple[StageFootprint, ...]]) -> tuple[StageFootprint, ...]:
    """Stages side by side; a plan with fewer repeats its last, which changes nothing about what fits."""
    made = []
    for number in range(max(map(len, stages))):
        these = [each[min(number, len(each) - 1)] for each in stages]
        (weights,) = as_columns([(each.weight_bytes,) for each in these])
        made.append(StageFootprint(0, weights, _costs([each.cache_bytes for each in these])))
    return tuple(made)
