"""How many replicas does a demand need? The figure that autoscalers ask for, with what keeps it from swinging.

A replica carries what the serving estimate says that it carries within the service level, as in a fleet. Where that cannot be
said (no calibration, no room, a service level that even an idle replica misses) there is no number: an autoscaler that is told
nothing leaves everything as it is, one that is told a guess acts on it.

More is asked for at once. Less is asked for only when the demand would also leave the smaller number some room, which keeps a
demand near a step from swinging (``settled``), and only after it has done so for a while (``steadied``).
"""

import math
from functools import lru_cache
from typing import Final

from msgspec import Struct, field

from service.planning.errors import InvalidRequest, Unanswerable, Violation
from service.planning.fleet.curve import Curve, mean_context, replica_curve
from service.planning.fleet.demand import Kind, Mix
from service.planning.fleet.disaggregation import disaggregated
from service.planning.fleet.pools import Pool, replicas_for
from service.planning.fleet.requests import Certainty, Percentile, ServiceLevel
from service.planning.fleet.results import FleetLimit, PoolRole
from service.planning.fleet.sizing import Miss, largest_rate, seen_at
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.serving.estimate import ServingEstimator, unanswerable
from service.planning.serving.places import asked_places
from service.planning.serving.requests import EstimateServingRequest, ServingObservation, Workload

#: More replicas than this are no need but a mistake in the demand.
MOST_REPLICAS: Final = 100_000
#: No deployment is asked for more requests per second.
MOST_REQUESTS_PER_SECOND: Final = 1e7
#: No prompt and no answer is longer.
MOST_TOKENS: Final = 1e7
#: Less is asked for when the demand fills the smaller number of replicas to at most this part.
DOWNSCALE_RATIO: Final = 0.9
#: And when it has done so for this long.
DOWNSCALE_SECONDS: Final = 120.0
#: Two readings further apart than this do not say what the demand was in between.
MOST_UNSEEN_SECONDS: Final = 90.0
#: Token counts are rounded up to this many binary digits, by 1.6 % at most, so that means that wander are computed once.
_DIGITS: Final = 7
_CACHED: Final = 4096


class ReplicaSpec(Struct, frozen=True):
    """What one replica is, and what its requests are to see. Names of the catalogue only; no end-to-end time."""

    model: ModelSpec
    accelerator: AcceleratorSpec
    engine: EngineSpec
    service_level: ServiceLevel
    parallelism: Parallelism = field(default_factory=Parallelism)
    precision: Precision = field(default_factory=Precision)
    certainty: Certainty = Certainty.EXPECTED
    prefix_cache_hit_ratio: float = 0.0
    memory_utilization_ratio: float | None = None
    disaggregated: bool = False
    transfer_bytes_per_second: float | None = None


class ScalingRule(Struct, frozen=True):
    """How a demand becomes a number of replicas. ``scale_to_zero``: none where nothing at all is asked for."""

    headroom_ratio: float = 0.0
    min_replicas: int = 1
    max_replicas: int | None = None
    scale_to_zero: bool = False
    downscale_ratio: float = DOWNSCALE_RATIO
    downscale_seconds: float = DOWNSCALE_SECONDS


class PredictedTimes(Struct, frozen=True):
    """What requests see at the percentile of the service level; ``None`` on replicas that do only the other part."""

    ttft_seconds: float | None
    tpot_seconds: float | None


class Held(Struct, frozen=True):
    """The number of replicas last asked for. ``falling_since``: since when fewer would do; ``most``: how many would."""

    replicas: int
    seen_seconds: float
    falling_since: float | None = None
    most: int = 0


class ReplicaPlanner:
    """Answers from one catalogue; what a replica carries is kept, since demands change and replicas do not."""

    def __init__(self, serving: ServingEstimator) -> None:
        self._serving = serving
        self._kept = lru_cache(maxsize=_CACHED)(self._pools)

    def pools(self, spec: ReplicaSpec, input_tokens: float, output_tokens: float) -> tuple[Pool, ...]:
        """What one replica carries: one pool, or one for prompts and one for answers.

        Args:
            spec: the replica and its service level.
            input_tokens: mean tokens of a prompt.
            output_tokens: mean tokens of an answer.

        Raises:
            InvalidRequest: the lengths or the spec can be none.
            NotFound: a name that the catalogue does not know.
            Unanswerable: no calibration applies, the model does not fit, or even an idle replica misses the service level.
        """
        return self._kept(spec, rounded_tokens("input_tokens", input_tokens), rounded_tokens("output_tokens", output_tokens))

    def check(self, spec: ReplicaSpec) -> None:
        """Raises NotFound, InvalidRequest or Unanswerable where there is no such replica, whatever is asked of it."""
        self._serving.deployment(spec.model, spec.accelerator, spec.engine, spec.precision, spec.parallelism)

    def engine_name(self, spec: ReplicaSpec) -> str:
        """The catalogue's name of the engine. NotFound where there is none."""
        return self._serving.engine_name(spec.engine.name)

    def observed_ratios(
        self, spec: ReplicaSpec, observation: ServingObservation, input_tokens: float, output_tokens: float
    ) -> dict[str, float]:
        """Observed over predicted mean times, "ttft_seconds" and "tpot_seconds", at the load that was observed.

        The load of a replica follows from the observation by Little's law: requests in flight over the time that each stays.
        Empty where nothing ran, or where more is taken in than should be possible. Raises what ``EstimateServing`` raises.
        """
        ttft, tpot, running = observation.ttft_seconds, observation.tpot_seconds, observation.running_requests
        if ttft is None or tpot is None or not running:
            return {}
        rate = running / (ttft + tpot * max(output_tokens - 1, 0.0))
        asked = EstimateServingRequest(
            model=spec.model,
            accelerator=spec.accelerator,
            engine=spec.engine,
            workload=Workload(
                max(1, round(input_tokens)),
                max(1, round(output_tokens)),
                requests_per_second=rate,
                prefix_cache_hit_ratio=spec.prefix_cache_hit_ratio,
            ),
            parallelism=spec.parallelism,
            precision=spec.precision,
            memory_utilization_ratio=spec.memory_utilization_ratio,
        )
        estimate = self._serving.estimate_serving(asked).estimate
        if estimate is None or estimate.ttft_seconds is None or estimate.tpot_seconds is None:
            return {}
        return {"ttft_seconds": ttft / estimate.ttft_seconds.p50, "tpot_seconds": tpot / estimate.tpot_seconds.p50}

    def _pools(self, spec: ReplicaSpec, input_tokens: int, output_tokens: int) -> tuple[Pool, ...]:
        curve = self._curve(spec, _mix(spec, input_tokens, output_tokens))
        if spec.disaggregated:
            ways = disaggregated(curve, spec.parallelism, spec.transfer_bytes_per_second)
            if isinstance(ways, Miss):
                raise _out_of_reach(ways)
            return ways[0].pools  # without an end-to-end time there is one way
        found = largest_rate(curve)
        if isinstance(found, Miss):
            raise _out_of_reach(found)
        return (Pool(PoolRole.AGGREGATED, curve.mix, spec.parallelism, found.rate, found.limit, found),)

    def _curve(self, spec: ReplicaSpec, mix: Mix) -> Curve:
        deployed = self._serving.deployment(spec.model, spec.accelerator, spec.engine, spec.precision, spec.parallelism)
        held, _ = asked_places(deployed.split, deployed.plan, spec.engine, spec.memory_utilization_ratio, mean_context(mix))
        reason = unanswerable(deployed, held)
        if reason:
            remedy = "choose a deployment that EstimateServing has an estimate for; nothing is scaled on a guess"
            raise Unanswerable("accelerator", reason, remedy)
        is_cautious = spec.certainty is Certainty.CAUTIOUS
        return replica_curve(self._serving, deployed, spec.model, spec.engine, mix, held, is_cautious=is_cautious)


def rounded_tokens(name: str, tokens: float) -> int:
    """A count of tokens, rounded up to seven binary digits. InvalidRequest where it can be none.

    >>> rounded_tokens("input_tokens", 127), rounded_tokens("input_tokens", 128.2), rounded_tokens("input_tokens", 1001)
    (127, 130, 1008)
    """
    if not (math.isfinite(tokens) and 0 < tokens <= MOST_TOKENS):
        raise InvalidRequest(Violation(name, f"{tokens:g} tokens can be no length", f"above 0, at most {MOST_TOKENS:g}"))
    whole = math.ceil(tokens)
    step = 1 << max(0, whole.bit_length() - _DIGITS)
    return -(-whole // step) * step


def _mix(spec: ReplicaSpec, input_tokens: int, output_tokens: int) -> Mix:
    level = spec.service_level
    if level.ttft_seconds is None and level.tpot_seconds is None:
        reason = "no time is given that requests are to see"
        raise InvalidRequest(Violation("service_level", reason, "give ttft_seconds, tpot_seconds or both"))
    kind = Kind("1", float(input_tokens), float(output_tokens), spec.prefix_cache_hit_ratio, (1.0, 1.0, 1.0), level)
    return Mix((kind,))


def _out_of_reach(miss: Miss) -> Unanswerable:
    level = miss.curve.mix.kinds[0].level
    is_first = miss.limit is FleetLimit.TTFT
    allowed = (level.ttft_seconds if is_first else level.tpot_seconds) or 0.0
    name, what = ("ttft_seconds", "the first token") if is_first else ("tpot_seconds", "each further token")
    missing = (
        f"{what} takes at least {allowed * miss.ratio:.4g} s for {level.percentile or Percentile.P90} of the requests where "
        f"{allowed:.4g} s are allowed, even on an idle replica: more replicas do not help"
    )
    return Unanswerable(name, missing, "allow more time, or use more or faster devices in a replica")


# -- from a demand to a number ----------------------------------------------------------------------------------------


def replicas_needed(requests_per_second: float, each_per_second: float, rule: ScalingRule) -> int:
    """Replicas for a demand, with its headroom and within the rule's bounds.

    Args:
        requests_per_second: of the whole deployment; finite, not negative.
        each_per_second: what one replica carries within the service level; above 0.
        rule: the bounds.

    Raises:
        InvalidRequest: the demand can be none.
        Unanswerable: it needs more replicas than anybody has, and no maximum bounds them.

    >>> replicas_needed(10.0, 3.0, ScalingRule()), replicas_needed(10.0, 3.0, ScalingRule(headroom_ratio=0.2))
    (4, 4)
    >>> replicas_needed(0.0, 3.0, ScalingRule()), replicas_needed(0.0, 3.0, ScalingRule(scale_to_zero=True))
    (1, 0)
    """
    check_demand(requests_per_second)
    if requests_per_second == 0.0 and rule.scale_to_zero:
        return 0
    number = max(replicas_for(requests_per_second * (1 + rule.headroom_ratio), each_per_second), rule.min_replicas, 1)
    if rule.max_replicas is not None:
        return min(number, rule.max_replicas)
    if number > MOST_REPLICAS:
        missing = f"{requests_per_second:g} requests/s would need {number} replicas, more than {MOST_REPLICAS}"
        raise Unanswerable("requests_per_second", missing, "check the demand and its unit, or give a maximum of replicas")
    return number


def check_demand(requests_per_second: float) -> None:
    """InvalidRequest where it is no demand: not a number, infinite, negative, or larger than any."""
    if not (math.isfinite(requests_per_second) and 0 <= requests_per_second <= MOST_REQUESTS_PER_SECOND):
        reason = f"{requests_per_second:g} requests/s can be no demand"
        raise InvalidRequest(Violation("requests_per_second", reason, f"from 0 to {MOST_REQUESTS_PER_SECOND:g}"))


def settled(current: int, requests_per_second: float, each_per_second: float, rule: ScalingRule) -> int:
    """Replicas to ask for where there are ``current`` now: more at once, fewer only as far as they keep some room.

    Stateless. Raises what ``replicas_needed`` raises.

    >>> rule = ScalingRule(downscale_ratio=0.8)
    >>> settled(4, 10.0, 3.0, rule), settled(4, 8.9, 3.0, rule), settled(4, 7.2, 3.0, rule), settled(4, 13.0, 3.0, rule)
    (4, 4, 3, 5)
    """
    needed = replicas_needed(requests_per_second, each_per_second, rule)
    if needed >= current:
        return needed
    with_room = replicas_needed(requests_per_second, each_per_second * rule.downscale_ratio, rule)
    bound = rule.max_replicas if rule.max_replicas is not None else MOST_REPLICAS
    return min(current, with_room, bound)


def steadied(
    held: Held | None, now_seconds: float, requests_per_second: float, each_per_second: float, rule: ScalingRule
) -> Held:
    """What to ask for after another reading: more at once; fewer when fewer would have done at every reading of the window.

    Args:
        held: what was asked for before; None at first, when the need itself is taken.
        now_seconds: a clock that never goes back.
        requests_per_second: the demand now.
        each_per_second: what one replica carries.
        rule: bounds and window.

    Raises:
        InvalidRequest, Unanswerable: as ``replicas_needed``.
    """
    if held is None:
        return Held(replicas_needed(requests_per_second, each_per_second, rule), now_seconds)
    fewer = settled(held.replicas, requests_per_second, each_per_second, rule)
    if fewer >= held.replicas:
        return Held(fewer, now_seconds)
    since, most = held.falling_since, max(held.most, fewer)
    if since is None or now_seconds - held.seen_seconds > MOST_UNSEEN_SECONDS:
        since, most = now_seconds, fewer
    if now_seconds - since >= rule.downscale_seconds:
        return Held(most, now_seconds, now_seconds if fewer < most else None, fewer)
    return Held(held.replicas, now_seconds, since, most)


def predicted_times(pool: Pool, requests_per_second: float, num_replicas: int) -> PredictedTimes:
    """What requests see where so many replicas share the demand, each at most at what it carries."""
    each = requests_per_second / max(num_replicas, 1)
    if pool.capability is None:
        return PredictedTimes(pool.ttft_seconds, None)
    seen = seen_at(pool.capability, each)
    is_whole = pool.role is PoolRole.AGGREGATED
    return PredictedTimes(seen.ttft_seconds if is_whole else None, seen.tpot_seconds)
