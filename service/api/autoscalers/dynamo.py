"""NVIDIA Dynamo Planner's plugin: prefill and decode replicas for the traffic that Dynamo sees, for one deployment a port.

Dynamo names neither model nor hardware, so the deployment is the one whose ``dynamo_port`` this is. Whatever is in doubt is
answered UNAVAILABLE, and Dynamo's own planner decides. Traffic is not predicted here: Dynamo has predictors, whose result is
taken where there is one, and the stage Predict is left to them (UNIMPLEMENTED).
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError
from msgspec import Struct
from msgspec.structs import replace

from service.api.autoscalers.compat import dynamo_planner_pb2 as wire
from service.api.autoscalers.deployment import ScaledDeployment
from service.api.autoscalers.server import Method, UnaryMethod
from service.api.errors import Unavailable, Unreadable
from service.api.grpc_port import Context
from service.planning.errors import PlanningError
from service.planning.fleet.results import PoolRole
from service.planning.replicas import ReplicaPlanner, ReplicaSpec, ScalingRule, replicas_needed, settled
from service.telemetry import RpcName

PROPOSE: Final = RpcName("dynamo.planner.plugin.v1.ProposePlugin", "Propose")
CONSTRAIN: Final = RpcName("dynamo.planner.plugin.v1.ConstrainPlugin", "Constrain")
RPCS: Final = (PROPOSE, CONSTRAIN)
MAX_CONCURRENT_REQUESTS: Final = 64
#: What Dynamo sends at most.
MAX_REQUEST_BYTES: Final = 10 * 2**20

#: Hit ratios of the prefix cache are rounded down to such steps: they wander, and a lower one is the safer one.
_HIT_STEP: Final = 0.05
_MOST_HIT: Final = 0.95
#: What kind of worker does what; workers that do both count as decode.
_COMPONENTS: Final = {PoolRole.PREFILL: "prefill", PoolRole.DECODE: "decode", PoolRole.AGGREGATED: "decode"}

#: The deployment of a name as it is now; None where the file no longer has it.
Find = Callable[[], ScaledDeployment | None]
#: Targets of one role, by what one replica carries, the demand and the rule.
_Targets = Callable[[PoolRole, float, float, ScalingRule], list[wire.ComponentTarget]]


class _Traffic(Struct, frozen=True):
    requests_per_second: float
    input_tokens: float
    output_tokens: float
    hit_ratio: float | None


class DynamoPlugin:
    """Answers Dynamo about one deployment.

    Args:
        replicas: says what a replica carries.
        find: the deployment.
    """

    def __init__(self, replicas: ReplicaPlanner, find: Find) -> None:
        self._replicas = replicas
        self._find = find

    def methods(self) -> Sequence[Method]:
        """What the door serves."""
        return (UnaryMethod(PROPOSE, self.propose), UnaryMethod(CONSTRAIN, self.constrain))

    async def propose(self, request: bytes, context: Context) -> bytes:
        """Sets the numbers that the traffic needs; fewer than there are only as far as they keep some room."""
        try:
            known = wire.ProposeStageRequest.FromString(request).context
        except DecodeError as error:
            raise Unreadable(f"this is no ProposeStageRequest: {error}") from None
        override = self._override(known, partial(_set, known.observations.workers))
        return wire.ProposeStageResponse(override=override).SerializeToString()

    async def constrain(self, request: bytes, context: Context) -> bytes:
        """Bounds the numbers: at least what the traffic needs, at most what the deployment may have."""
        try:
            known = wire.ConstrainStageRequest.FromString(request).context
        except DecodeError as error:
            raise Unreadable(f"this is no ConstrainStageRequest: {error}") from None
        override = self._override(known, _bounds)
        return wire.ConstrainStageResponse(override=override).SerializeToString()

    def _override(self, known: wire.PipelineContext, targets: _Targets) -> wire.OverrideResult:
        """What ``targets`` makes of every role. Unavailable where anything is in doubt; never without a target."""
        deployment = self._find()
        if deployment is None:
            raise Unavailable("the deployments file no longer has this deployment")
        traffic = _traffic(known)
        try:
            made = [
                target
                for role, each in self._each(deployment.spec, traffic)
                for target in targets(role, each, traffic.requests_per_second, deployment.rule)
            ]
        except PlanningError as error:
            raise Unavailable(f"nothing can be said of this deployment: {error}") from None
        return wire.OverrideResult(targets=made, reason=f"tonnage: {traffic.requests_per_second:.4g} requests/s")

    def _each(self, spec: ReplicaSpec, traffic: _Traffic) -> list[tuple[PoolRole, float]]:
        """Every role of the deployment with what one of its replicas carries."""
        if traffic.requests_per_second == 0.0:  # lengths of no requests are not known, nor needed
            roles = (PoolRole.PREFILL, PoolRole.DECODE) if spec.disaggregated else (PoolRole.AGGREGATED,)
            return [(role, 1.0) for role in roles]
        if traffic.hit_ratio is not None:
            spec = replace(spec, prefix_cache_hit_ratio=traffic.hit_ratio)
        pools = self._replicas.pools(spec, traffic.input_tokens, traffic.output_tokens)
        return [(pool.role, pool.rate) for pool in pools]


def _set(
    workers: wire.WorkerState, role: PoolRole, each: float, per_second: float, rule: ScalingRule
) -> list[wire.ComponentTarget]:
    number = settled(_workers(workers, role), per_second, each, rule)
    return [wire.ComponentTarget(sub_component_type=_COMPONENTS[role], replicas=number, type=wire.SET)]


def _bounds(role: PoolRole, each: float, per_second: float, rule: ScalingRule) -> list[wire.ComponentTarget]:
    component, least = _COMPONENTS[role], replicas_needed(per_second, each, rule)
    bounds = [wire.ComponentTarget(sub_component_type=component, replicas=least, type=wire.AT_LEAST)]
    if rule.max_replicas is not None:
        bounds.append(wire.ComponentTarget(sub_component_type=component, replicas=rule.max_replicas, type=wire.AT_MOST))
    return bounds


def _workers(workers: wire.WorkerState, role: PoolRole) -> int:
    """How many workers were asked for, or else are ready; none where neither is said."""
    if role is PoolRole.PREFILL:
        found = workers.expected_prefill if workers.HasField("expected_prefill") else workers.ready_prefill
    else:
        found = workers.expected_decode if workers.HasField("expected_decode") else workers.ready_decode
    return max(0, found)


def _traffic(known: wire.PipelineContext) -> _Traffic:
    """The traffic that is predicted, or else was observed. Unavailable where it is not known."""
    seen, expected = known.observations.traffic, known.predictions
    if not known.observations.HasField("traffic"):
        raise Unavailable("the context has no observations.traffic, whose duration_s tells a rate from a count")
    seconds = _amount("observations.traffic.duration_s", seen.duration_s)
    count = expected.predicted_num_req if expected.HasField("predicted_num_req") else seen.num_req
    if seconds == 0.0:
        raise Unavailable("observations.traffic.duration_s is 0: there is no window")
    rate = _amount("the number of requests", count) / seconds
    prompt = _amount("isl", expected.predicted_isl if expected.HasField("predicted_isl") else seen.isl)
    answer = _amount("osl", expected.predicted_osl if expected.HasField("predicted_osl") else seen.osl)
    return _Traffic(rate, prompt, answer, _hit_ratio(seen, expected))


def _hit_ratio(seen: wire.TrafficMetrics, expected: wire.PredictionData) -> float | None:
    if expected.HasField("predicted_kv_hit_rate"):
        ratio = expected.predicted_kv_hit_rate
    elif seen.HasField("kv_hit_rate"):
        ratio = seen.kv_hit_rate
    else:
        return None
    if _amount("kv_hit_rate", ratio) > 1.0:
        raise Unavailable(f"kv_hit_rate is {ratio:g}, which no part can be")
    return min(math.floor(ratio / _HIT_STEP) * _HIT_STEP, _MOST_HIT)


def _amount(what: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise Unavailable(f"{what} is {value:g}, which is no amount")
    return value
