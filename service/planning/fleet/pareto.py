"""Fronts: tokens per second and device, or cost, against tokens per second and user. The service level does not enter."""

from collections.abc import Iterable, Sequence

from service.formulas.cost import cost_per_million_tokens
from service.planning.fleet.costing import Costing
from service.planning.fleet.curve import Curve
from service.planning.fleet.options import Option
from service.planning.fleet.results import FrontPoint
from service.planning.price_choice import NoPrice
from service.planning.requests import Parallelism
from service.planning.serving.load import FULL_RATIO

_POINTS = 40
_MOST = 40


def points(options: Iterable[tuple[Option, Parallelism, Curve]], costing: Costing) -> list[FrontPoint]:
    """Points of every shape, from all but idle to full."""
    found: list[FrontPoint] = []
    for option, shape, curve in options:
        unit = costing.unit_cost(option.hardware)
        per_device = None
        if not isinstance(unit, NoPrice):
            per_device = unit.per_hour / (1 if option.hardware.by_device else option.hardware.devices_per_node)
            held = option.hardware.devices_per_node // shape.num_devices * shape.num_devices
            if not option.hardware.by_device:
                per_device *= option.hardware.devices_per_node / held  # devices that no replica fits on are paid for too
        found += _of(option, shape, curve, per_device)
    return found


def _of(option: Option, shape: Parallelism, curve: Curve, per_device: float | None) -> list[FrontPoint]:
    at = curve.at(curve.grid(_POINTS))
    kinds = curve.mix.kinds
    decoding = [kind for kind in kinds if kind.output_tokens > 1]
    between = sum(curve.tpot(at, kind, None) for kind in decoding) / len(decoding)
    first = sum(curve.ttft(at, kind, None) for kind in kinds) / len(kinds)
    output = curve.mix.output_tokens
    found = []
    for index in range(len(at.rate)):
        if at.load[index] >= FULL_RATIO:
            break
        rate = float(at.rate[index])
        each = rate * output / shape.num_devices
        cost = None if per_device is None else cost_per_million_tokens(cost_per_hour=per_device, tokens_per_second=each)
        found.append(
            FrontPoint(
                option.hardware.node_type,
                option.hardware.accelerator,
                option.engine.name,
                shape,
                rate,
                1.0 / float(between[index]),
                each,
                cost,
                float(first[index]),
            )
        )
    return found


def pareto_front(found: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """Points that no other beats in tokens per second per user and per device both; the fastest for a user first."""
    ordered = sorted(found, key=lambda p: (-p.output_tokens_per_second_per_user, -p.output_tokens_per_second_per_device))
    front: list[FrontPoint] = []
    for point in ordered:
        if not front or point.output_tokens_per_second_per_device > front[-1].output_tokens_per_second_per_device:
            front.append(point)
    return _thinned(front)


def cost_front(found: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """Points with a price that no other beats in tokens per second per user and cost both; the fastest for a user first."""
    priced = [
        (point.cost_per_million_output_tokens, point) for point in found if point.cost_per_million_output_tokens is not None
    ]
    front: list[FrontPoint] = []
    lowest = float("inf")
    for cost, point in sorted(priced, key=lambda pair: (-pair[1].output_tokens_per_second_per_user, pair[0])):
        if cost < lowest:
            front.append(point)
            lowest = cost
    return _thinned(front)


def _thinned(front: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """At most so many points, the first and the last among them."""
    if len(front) <= _MOST:
        return tuple(front)
    return tuple(front[round(at * (len(front) - 1) / (_MOST - 1))] for at in range(_MOST))
