"""The state under a load: a closed loop with or without a queue, or arrivals, where they come to rest."""

from dataclasses import dataclass, replace
from typing import Final

from service.catalogue.calibrations import Parameters
from service.formulas.serving import queue_seconds
from service.planning.explain import Apply, plainly
from service.planning.serving.steady import Steady, Traffic, steady
from service.planning.serving.work import ServingWork

#: Requests alike in length: what varies is what else happens to run.
_SQUARED_VARIATION: Final = 0.1
_EVALUATIONS: Final = 24
_CLOSE_ENOUGH: Final = 1e-3
#: Arrivals closer than this to the most that can be finished never settle in practice.
_FULL_RATIO: Final = 0.995


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state and its queue. ``is_stable`` False: more arrive than are finished, and there is no steady state."""

    state: Steady
    utilization_ratio: float
    queue_seconds: float
    queued: float
    is_saturated: bool
    is_stable: bool
    most_per_second: float


def closed_loop(
    work: ServingWork, by: Parameters, traffic: Traffic, concurrency: float, most: float, apply: Apply = plainly
) -> Loaded:
    """So many requests in flight. Those beyond ``most`` wait, each until as many as are before it have finished."""
    running = min(concurrency, max(most, 1.0))
    state = steady(work, by, traffic, running=running, apply=apply)
    waiting = max(0.0, concurrency - running)
    wait = waiting / state.requests_per_second
    full = state if running >= most else steady(work, by, traffic, running=max(most, 1.0))
    return Loaded(state, running / max(most, 1.0), wait, waiting, waiting > 0, True, full.requests_per_second)


def arrivals(
    work: ServingWork, by: Parameters, traffic: Traffic, per_second: float, most: float, apply: Apply = plainly
) -> Loaded:
    """Requests that arrive at random. Where more arrive than are finished at the fullest, the state is that fullest one."""
    full = steady(work, by, traffic, running=max(most, 1.0))
    ratio = per_second / full.requests_per_second
    if ratio >= _FULL_RATIO:
        return Loaded(full, ratio, 0.0, 0.0, True, False, full.requests_per_second)
    running = _running_at(work, by, traffic, per_second, max(most, 1.0))
    state = steady(work, by, traffic, running=max(running, 1.0), apply=apply)
    state = replace(state, running=running, batch=min(state.batch, running), requests_per_second=per_second)
    service = state.decode_seconds + state.first_token_seconds
    wait = apply(
        queue_seconds,
        utilization_ratio=ratio,
        num_slots=max(most, 1.0),
        service_seconds=service,
        squared_variation=_SQUARED_VARIATION,
    )
    return Loaded(state, ratio, wait, wait * per_second, False, True, full.requests_per_second)


def _running_at(work: ServingWork, by: Parameters, traffic: Traffic, per_second: float, most: float) -> float:
    """Requests in flight that finish as many per second as arrive: regula falsi on a rate that grows with them."""
    alone = steady(work, by, traffic, running=1.0)
    if per_second <= alone.requests_per_second:
        return per_second / alone.requests_per_second
    low, high = 1.0, most
    below = alone.requests_per_second - per_second
    above = steady(work, by, traffic, running=most).requests_per_second - per_second
    for _ in range(_EVALUATIONS):
        middle = (low * above - high * below) / (above - below)
        off = steady(work, by, traffic, running=middle).requests_per_second - per_second
        if abs(off) < _CLOSE_ENOUGH * per_second:
            return middle
        if off < 0:
            low, below, above = middle, off, above / 2  # Illinois: the end that stays weighs less
        else:
            high, above, below = middle, off, below / 2
    return (low + high) / 2
