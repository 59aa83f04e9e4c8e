"""The state under a load: a closed loop with or without a queue, or arrivals, where they come to rest."""

from dataclasses import dataclass, replace
from math import log
from typing import Final

from service.catalogue.calibrations import Parameters
from service.formulas.serving import queue_seconds
from service.planning.explain import Apply, plainly
from service.planning.pick import FLOATS, Pick
from service.planning.serving.steady import Steady, Traffic, steady
from service.planning.serving.waiting import Waits, waits
from service.planning.serving.work import ServingWork

#: Requests alike in length: what varies is what else happens to run.
SQUARED_VARIATION: Final = 0.1
_EVALUATIONS: Final = 24
_CLOSE_ENOUGH: Final = 1e-3
#: Arrivals closer than this to the most that can be finished never settle in practice.
FULL_RATIO: Final = 0.995
#: By how much more requests are put in to see how the time between tokens grows with them.
_STEP: Final = 1.05


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
    waits: Waits | None = None  # over requests, where they arrive at random


def kept_in_flight(
    work: ServingWork,
    by: Parameters,
    traffic: Traffic,
    concurrency: float,
    most: float,
    *,
    pick: Pick = FLOATS,
    apply: Apply = plainly,
) -> tuple[Steady, float, float]:
    """The state of a closed loop, how many wait for a place in it, and how long. Floats, or arrays in a sweep."""
    running = pick.smaller(concurrency, pick.larger(most, 1.0))
    state = steady(work, by, traffic, running=running, pick=pick, apply=apply)
    waiting = pick.larger(0.0, concurrency - running)
    return state, waiting, waiting / state.requests_per_second


def closed_loop(
    work: ServingWork, by: Parameters, traffic: Traffic, concurrency: float, most: float, apply: Apply = plainly
) -> Loaded:
    """So many requests in flight. Those beyond ``most`` wait, each until as many as are before it have finished."""
    state, waiting, wait = kept_in_flight(work, by, traffic, concurrency, most, apply=apply)
    running = state.running
    full = state if running >= most else steady(work, by, traffic, running=max(most, 1.0))
    return Loaded(state, running / max(most, 1.0), wait, waiting, waiting > 0, True, full.requests_per_second)


def arrivals(
    work: ServingWork, by: Parameters, traffic: Traffic, per_second: float, most: float, apply: Apply = plainly
) -> Loaded:
    """Requests that arrive at random. Where more arrive than are finished at the fullest, the state is that fullest one."""
    full = steady(work, by, traffic, running=max(most, 1.0))
    ratio = per_second / full.requests_per_second
    if ratio >= FULL_RATIO:
        full = full if apply is plainly else steady(work, by, traffic, running=max(most, 1.0), apply=apply)
        return Loaded(full, ratio, 0.0, 0.0, True, False, full.requests_per_second)
    decoding = _decoding_at(work, by, traffic, per_second, max(most, 1.0))
    state = as_met(work, by, traffic, decoding, apply=apply)
    seen = waits_of(work, by, traffic, state, per_second, decoding, full, FLOATS)
    between = seen.token_certain + seen.token_varying
    first = seen.first_certain + seen.first_varying
    decode = between * max(traffic.output_tokens - 1, 0.0)
    state = replace(
        state,
        running=per_second * (decode + first),
        batch=decoding,
        inter_token_seconds=between,
        first_token_seconds=first,
        prompt_wait_seconds=seen.first_varying,
        decode_seconds=decode,
        requests_per_second=per_second,
    )
    wait = apply(
        queue_seconds,
        utilization_ratio=ratio,
        num_slots=max(most, 1.0),
        service_seconds=decode + first,
        squared_variation=SQUARED_VARIATION,
    )
    return Loaded(state, ratio, wait, wait * per_second, False, True, full.requests_per_second, seen)


def as_met(
    work: ServingWork, by: Parameters, traffic: Traffic, decoding: float, pick: Pick = FLOATS, apply: Apply = plainly
) -> Steady:
    """The state as an arriving request meets it: so many others decode on average, and itself.

    Arrivals at random see the average of others (PASTA), where a closed loop of N requests sees N − 1.
    """
    batch = decoding + 1.0
    return steady(work, by, traffic, running=batch, decoding=batch, pick=pick, apply=apply)


def waits_of(
    work: ServingWork,
    by: Parameters,
    traffic: Traffic,
    state: Steady,
    per_second: float,
    decoding: float,
    full: Steady,
    pick: Pick,
) -> Waits:
    """What requests that arrive ``per_second`` see where ``decoding`` decode. ``state`` as they meet it, ``full`` at most."""
    slower = as_met(work, by, traffic, decoding * _STEP, pick)
    elasticity = pick.log(slower.inter_token_seconds / state.inter_token_seconds) / log(_STEP)
    return waits(by, traffic, state, per_second, decoding, elasticity, full.inter_token_seconds, pick)


def _decoding_at(work: ServingWork, by: Parameters, traffic: Traffic, per_second: float, most: float) -> float:
    """Requests that decode where as many finish per second as arrive: regula falsi on a rate that grows with them."""

    def surplus(decoding: float) -> float:
        return decoding / max(as_met(work, by, traffic, decoding).decode_seconds, 1e-9) - per_second

    low, high = 0.0, most
    below, above = -per_second, surplus(most)
    if above <= 0:
        return most
    for _ in range(_EVALUATIONS):
        middle = (low * above - high * below) / (above - below)
        off = surplus(middle)
        if abs(off) < _CLOSE_ENOUGH * per_second:
            return middle
        if off < 0:
            low, below, above = middle, off, above / 2  # Illinois: the end that stays weighs less
        else:
            high, above, below = middle, off, below / 2
    return (low + high) / 2
