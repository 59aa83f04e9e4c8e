"""The state under a load: a closed loop with or without a queue, or arrivals, where they come to rest."""

from math import log
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.catalogue.calibrations import Parameters
from service.formulas.serving import queue_seconds
from service.planning.explain import Apply, plainly
from service.planning.pick import FLOATS, Pick
from service.planning.serving.steady import Steady, Traffic, steady
from service.planning.serving.waiting import Waits, waits
from service.planning.serving.work import ServingWork

#: Requests alike in length: what varies is what else happens to run.
SQUARED_VARIATION: Final = 0.1
_NO_TIME: Final = 1e-9  # for a rate where a request takes no time
_EVALUATIONS: Final = 24
_CLOSE_ENOUGH: Final = 1e-3
#: Where prompts take less of the time than this, every request more adds to the rate.
_PROMPTS_PREVAIL: Final = 0.5
#: Where they take more, the rate may be highest with so many in flight.
_FEW: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
#: Arrivals closer than this to the most that can be finished never settle in practice.
FULL_RATIO: Final = 0.995
#: By how much more requests are put in to see how the time between tokens grows with them.
_STEP: Final = 1.05


class Loaded(Struct, frozen=True):
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
    ceiling = max(most_per_second(work, by, traffic, full), state.requests_per_second)
    return Loaded(state, running / max(most, 1.0), wait, waiting, waiting > 0, True, ceiling)


def fullest(work: ServingWork, by: Parameters, traffic: Traffic, most: float) -> tuple[Steady, float]:
    """The state with every place taken, and the most requests per second that any number in flight finishes.

    Where prompts are computed elsewhere, all places are of requests that decode.
    """
    running = max(most, 1.0)
    if traffic.is_disaggregated:
        full = steady(work, by, traffic, running=running, decoding=running)
        return full, running / max(full.decode_seconds, _NO_TIME)
    full = steady(work, by, traffic, running=running)
    return full, most_per_second(work, by, traffic, full)


def most_per_second(work: ServingWork, by: Parameters, traffic: Traffic, full: Steady) -> float:
    """The most requests per second that any number in flight finishes. ``full``: with every place taken.

    More in flight finish more, since they share steps; but where prompts take most of the time and cost more beside others
    than alone, a few finish as many.
    """
    most = full.requests_per_second
    if most * full.prompt.seconds < _PROMPTS_PREVAIL:
        return most
    few = (steady(work, by, traffic, running=each).requests_per_second for each in _FEW if each < full.running)
    return max(most, *few, 0.0)


def arrivals(
    work: ServingWork, by: Parameters, traffic: Traffic, per_second: float, most: float, apply: Apply = plainly
) -> Loaded:
    """Requests that arrive at random. Where more arrive than are finished at the fullest, the state is that fullest one."""
    full, ceiling = fullest(work, by, traffic, most)
    ratio = per_second / ceiling
    if ratio >= FULL_RATIO:
        if apply is not plainly:
            full = steady(work, by, traffic, running=full.running, decoding=full.batch, apply=apply)
        return Loaded(full, ratio, 0.0, 0.0, True, False, ceiling)
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
    wait = place_wait(traffic, ratio, decode, first, most, FLOATS, apply)
    return Loaded(state, ratio, wait, wait * per_second, False, True, ceiling, seen)


def place_wait(
    traffic: Traffic,
    load: float,
    decode: float,
    first: float,
    most: float,
    pick: Pick,
    apply: Apply = plainly,
) -> float:
    """Mean wait for a place. ``load``: arrivals over the most that is finished."""
    held = decode + first * (1 - traffic.is_disaggregated)
    return apply(
        queue_seconds,
        utilization_ratio=pick.smaller(load, FULL_RATIO),
        num_slots=max(most, 1.0),
        service_seconds=held,
        squared_variation=SQUARED_VARIATION,
    )


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
    growth = (slower.step.seconds - state.step.seconds) / pick.larger(decoding * (_STEP - 1), _NO_TIME)
    return waits(by, traffic, state, per_second, decoding, elasticity, growth, full.inter_token_seconds, pick)


def _decoding_at(work: ServingWork, by: Parameters, traffic: Traffic, per_second: float, most: float) -> float:
    """Requests that decode where as many finish per second as arrive: regula falsi on a rate that grows with them."""

    def surplus(decoding: float) -> float:
        return decoding / max(as_met(work, by, traffic, decoding).decode_seconds, _NO_TIME) - per_second

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
