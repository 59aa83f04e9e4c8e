"""From one number to ranges: what the calibration is sure of, and what requests see around their mean."""

import math
from collections.abc import Callable
from typing import Final

from service.catalogue.calibrations import Spread, Spreads
from service.planning.errors import InvalidRequest, Violation
from service.planning.pick import FLOATS, Pick
from service.planning.serving.load import Loaded
from service.planning.serving.requests import ServingObservation
from service.planning.serving.results import Interval, RequestTimes, ServingCorrection
from service.planning.serving.waiting import NORMAL, first_quantile, token_quantile

#: Between the 10th and the 90th percentile of a normal distribution, in standard deviations.
_DECADES: Final = 2.5631
#: Percentiles of an exponential of mean 1.
_EXPONENTIAL: Final = {"p50": 0.6931, "p90": 2.3026, "p99": 4.6052}
#: Fewer requests than this say little of a mean that queues and batches move.
MIN_OBSERVED_REQUESTS: Final = 20
#: An observation further from the estimate than this is of something else.
MOST_OBSERVED_RATIO: Final = 100.0
#: Observed under a load that differs by more than this, a correction is worth a word.
_OTHER_LOAD_RATIO: Final = 1.25
#: How much one request's time strays from its mean, as a logarithm.
_REQUEST_SPREAD: Final = 0.5


def interval(value: float, spread: Spread, least: float = 0.0, pick: Pick = FLOATS) -> Interval:
    """A time as a range, no part of which lies below ``least``."""
    middle = pick.larger(value, least)
    return Interval(pick.larger(value * spread.p10, least), middle, pick.larger(value * spread.p90, middle))


def rate_interval(value: float, spread: Spread, most: float = math.inf, pick: Pick = FLOATS) -> Interval:
    """What goes with the inverse of a time, as a range, no part of which lies above ``most``."""
    middle = pick.smaller(value, most)
    return Interval(pick.smaller(value / spread.p90, middle), middle, pick.smaller(value / spread.p10, most))


def _around(mean: float, at: Callable[[str], float], spread: Spread, least: float) -> RequestTimes:
    return RequestTimes(interval(mean, spread, least), *(interval(at(key), spread, least) for key in ("p50", "p90", "p99")))


def tpot_over_requests(loaded: Loaded, output_tokens: float, ratio: float, spread: Spread, least: float = 0.0) -> RequestTimes:
    """Requests differ by how many prompts of others came in between: at random, so as a Poisson count."""
    state, seen = loaded.state, loaded.waits
    if seen is not None:

        def token(key: str) -> float:
            return (seen.token_certain + token_quantile(seen.token_varying, seen.token_deviation, key, FLOATS)) * ratio

        return _around(state.inter_token_seconds * ratio, token, spread, least)
    met = max(state.prefills_per_token * output_tokens, 1e-9)
    deviation = state.interference_seconds / math.sqrt(met) if met >= 1 else state.interference_seconds
    mean = state.inter_token_seconds
    return _around(mean * ratio, lambda key: (mean + NORMAL[key] * deviation) * ratio, spread, least)


def ttft_over_requests(loaded: Loaded, ratio: float, spread: Spread, least: float = 0.0) -> RequestTimes:
    """Requests differ by how long they wait: for a place, and for the prompts before them."""
    state, seen = loaded.state, loaded.waits
    if seen is not None:

        def first(key: str) -> float:
            return (seen.first_certain + first_quantile(seen, key, loaded.queue_seconds, 1.0, FLOATS)) * ratio

        return _around((state.first_token_seconds + loaded.queue_seconds) * ratio, first, spread, least)
    certain = state.first_token_seconds - state.prompt_wait_seconds
    waiting = state.prompt_wait_seconds + loaded.queue_seconds
    mean = certain + waiting
    if loaded.is_saturated:  # a closed loop's queue is as long for everybody
        certain, waiting = certain + loaded.queue_seconds, state.prompt_wait_seconds
    return _around(mean * ratio, lambda key: (certain + _EXPONENTIAL[key] * waiting) * ratio, spread, least)


def corrected(
    observation: ServingObservation | None, tpot: float | None, ttft: float, spreads: Spreads
) -> tuple[ServingCorrection | None, Spreads]:
    """How far an observation moves both times, and the ranges that remain.

    The calibration and the observation are weighted by how sure each is. InvalidRequest where too few requests were observed.
    """
    if observation is None:
        return None, spreads
    if observation.num_requests < MIN_OBSERVED_REQUESTS:
        reason = f"{observation.num_requests} requests are too few to correct an estimate by"
        remedy = f"observe at least {MIN_OBSERVED_REQUESTS}"
        raise InvalidRequest(Violation("observation.num_requests", reason, remedy))
    if observation.tpot_seconds is None and observation.ttft_seconds is None:
        reason = "neither time was observed"
        raise InvalidRequest(Violation("observation", reason, "give tpot_seconds, ttft_seconds or both"))
    if tpot is None and observation.tpot_seconds is not None:
        reason = "answers of one token have no time between tokens"
        raise InvalidRequest(Violation("observation.tpot_seconds", reason, "leave it out, or ask about longer answers"))
    _check_near("tpot_seconds", observation.tpot_seconds, tpot)
    _check_near("ttft_seconds", observation.ttft_seconds, ttft)
    token, token_spread = _weighed(observation.tpot_seconds, tpot, spreads.inter_token, observation.num_requests)
    first, first_spread = _weighed(observation.ttft_seconds, ttft, spreads.first_token, observation.num_requests)
    correction = ServingCorrection(observation.num_requests, token, first, observation)
    return correction, Spreads(token_spread, first_spread, spreads.num_runs)


def observation_notes(observation: ServingObservation | None, running: float | None) -> tuple[str, ...]:
    """What to know of an observation besides. ``running``: requests in a replica as estimated, None without estimate."""
    if observation is None:
        return ()
    if running is None:
        return ("the observation corrects nothing, since there is no estimate",)
    seen = observation.running_requests
    if seen is None or 1 / _OTHER_LOAD_RATIO <= seen / running <= _OTHER_LOAD_RATIO:
        return ()
    return (f"observed under another load: {seen:.4g} requests ran where the question leads to {running:.4g}",)


def _check_near(name: str, observed: float | None, estimated: float | None) -> None:
    """InvalidRequest for what is another unit or another deployment: seconds and milliseconds differ by a factor of 1000."""
    if observed is None or estimated is None or 1 / MOST_OBSERVED_RATIO <= observed / estimated <= MOST_OBSERVED_RATIO:
        return
    reason = f"{observed:.3g} s are too far from the {estimated:.3g} s that are estimated to be of this deployment and load"
    raise InvalidRequest(Violation(f"observation.{name}", reason, "give seconds, of the same model, devices and load"))


def _weighed(observed: float | None, estimated: float | None, spread: Spread, count: int) -> tuple[float | None, Spread]:
    if observed is None or estimated is None:
        return None, spread
    calibrated = (math.log(spread.p90) - math.log(spread.p10)) / _DECADES
    of_mean = _REQUEST_SPREAD / math.sqrt(count)
    weight = calibrated**2 / (calibrated**2 + of_mean**2)
    ratio = (observed / estimated) ** weight
    left = calibrated * math.sqrt(1 - weight) * _DECADES / 2
    return ratio, Spread(math.exp(-left), math.exp(left))
