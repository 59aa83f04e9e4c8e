"""From one number to ranges: what the calibration is sure of, and what requests see around their mean."""

import math
from collections.abc import Callable
from typing import Final

from service.catalogue.calibrations import Spread, Spreads
from service.planning.errors import InvalidRequest, Violation
from service.planning.serving.load import Loaded
from service.planning.serving.requests import ServingObservation
from service.planning.serving.results import Interval, RequestTimes, ServingCorrection

#: Between the 10th and the 90th percentile of a normal distribution, in standard deviations.
_DECADES: Final = 2.5631
#: Percentiles of the standard normal and of an exponential of mean 1.
_NORMAL: Final = {"p50": 0.0, "p90": 1.2816, "p99": 2.3263}
_EXPONENTIAL: Final = {"p50": 0.6931, "p90": 2.3026, "p99": 4.6052}
#: Fewer requests than this say little of a mean that queues and batches move.
MIN_OBSERVED_REQUESTS: Final = 20
#: How much one request's time strays from its mean, as a logarithm.
_REQUEST_SPREAD: Final = 0.5


def interval(value: float, spread: Spread) -> Interval:
    """A time as a range."""
    return Interval(value * spread.p10, value, value * spread.p90)


def rate_interval(value: float, spread: Spread) -> Interval:
    """What goes with the inverse of a time, as a range."""
    return Interval(value / spread.p90, value, value / spread.p10)


def _around(mean: float, at: Callable[[str], float], spread: Spread) -> RequestTimes:
    return RequestTimes(interval(mean, spread), *(interval(at(key), spread) for key in ("p50", "p90", "p99")))


def tpot_over_requests(loaded: Loaded, output_tokens: float, ratio: float, spread: Spread) -> RequestTimes:
    """Requests differ by how many prompts of others came in between: at random, so as a Poisson count."""
    state = loaded.state
    met = max(state.prefills_per_token * output_tokens, 1e-9)
    deviation = state.interference_seconds / math.sqrt(met) if met >= 1 else state.interference_seconds
    mean = state.inter_token_seconds
    return _around(mean * ratio, lambda key: (mean + _NORMAL[key] * deviation) * ratio, spread)


def ttft_over_requests(loaded: Loaded, ratio: float, spread: Spread) -> RequestTimes:
    """Requests differ by how long they wait: for a place, and for the prompts before them."""
    state = loaded.state
    certain = state.first_token_seconds - state.prompt_wait_seconds
    waiting = state.prompt_wait_seconds + loaded.queue_seconds
    mean = certain + waiting
    if loaded.is_saturated:  # a closed loop's queue is as long for everybody
        certain, waiting = certain + loaded.queue_seconds, state.prompt_wait_seconds
    return _around(mean * ratio, lambda key: (certain + _EXPONENTIAL[key] * waiting) * ratio, spread)


def corrected(
    observation: ServingObservation | None, tpot: float, ttft: float, spreads: Spreads
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
    token, token_spread = _weighed(observation.tpot_seconds, tpot, spreads.inter_token, observation.num_requests)
    first, first_spread = _weighed(observation.ttft_seconds, ttft, spreads.first_token, observation.num_requests)
    correction = ServingCorrection(observation.num_requests, token, first, observation)
    return correction, Spreads(token_spread, first_spread, spreads.num_runs)


def _weighed(observed: float | None, estimated: float, spread: Spread, count: int) -> tuple[float | None, Spread]:
    if observed is None:
        return None, spread
    calibrated = (math.log(spread.p90) - math.log(spread.p10)) / _DECADES
    of_mean = _REQUEST_SPREAD / math.sqrt(count)
    weight = calibrated**2 / (calibrated**2 + of_mean**2)
    ratio = (observed / estimated) ** weight
    left = calibrated * math.sqrt(1 - weight) * _DECADES / 2
    return ratio, Spread(math.exp(-left), math.exp(left))
