"""KEDA's external scaler: the trigger's metadata describes a deployment, the metric is the number of replicas it needs.

The target is 1, so that the autoscaler asks for as many replicas as the metric says (``metricType: AverageValue``). KEDA takes
NaN, infinities and negative numbers for 0, which scales down: an error is told instead, and KEDA then leaves everything as it
is or takes its ``fallback``.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from typing import Final

from google.protobuf.message import DecodeError

from service.api.autoscalers.compat import externalscaler_pb2 as wire
from service.api.autoscalers.deployment import DemandSource, ScaledDeployment, from_metadata
from service.api.autoscalers.readings import ANSWER_SECONDS, REFRESH_SECONDS, Readings
from service.api.autoscalers.server import Method, StreamingMethod, UnaryMethod
from service.api.errors import Unavailable, Unreadable
from service.api.grpc_port import Context
from service.planning.errors import InvalidRequest, Violation
from service.planning.fleet.results import PoolRole
from service.planning.replicas import Held, steadied
from service.telemetry import RpcName

_SERVICE: Final = "externalscaler.ExternalScaler"
IS_ACTIVE: Final = RpcName(_SERVICE, "IsActive")
STREAM_IS_ACTIVE: Final = RpcName(_SERVICE, "StreamIsActive", "server_stream")
GET_METRIC_SPEC: Final = RpcName(_SERVICE, "GetMetricSpec")
GET_METRICS: Final = RpcName(_SERVICE, "GetMetrics")
RPCS: Final = (IS_ACTIVE, STREAM_IS_ACTIVE, GET_METRIC_SPEC, GET_METRICS)
#: One stream for each ScaledObject with an external-push trigger.
MAX_CONCURRENT_REQUESTS: Final = 2048

METRIC: Final = "tonnage-desired-replicas"
#: ScaledObjects whose last number is kept in mind; the one not asked about for longest makes room.
_MOST_HELD: Final = 4096
_CACHED: Final = 1024
_Metadata = tuple[tuple[str, str], ...]


class KedaScaler:
    """Answers KEDA.

    Args:
        readings: what is asked of deployments.
    """

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._held: OrderedDict[tuple[str, str, _Metadata], Held] = OrderedDict()
        self._described = lru_cache(maxsize=_CACHED)(_described)

    def methods(self) -> Sequence[Method]:
        """What the door serves."""
        return (
            UnaryMethod(IS_ACTIVE, self.is_active),
            StreamingMethod(STREAM_IS_ACTIVE, self.stream_is_active),
            UnaryMethod(GET_METRIC_SPEC, self.get_metric_spec),
            UnaryMethod(GET_METRICS, self.get_metrics),
        )

    async def is_active(self, request: bytes, context: Context) -> bytes:
        """Whether any replica is needed."""
        replicas = await self._replicas(_reference(request))
        return wire.IsActiveResponse(result=replicas >= 1).SerializeToString()

    async def stream_is_active(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        """The same, told at first and whenever it changes. While it is not known, nothing is told."""
        reference = _reference(request)
        told: bool | None = None
        while True:
            with contextlib.suppress(Unavailable):
                active = await self._replicas(reference) >= 1
                if active is not told:
                    yield wire.IsActiveResponse(result=active).SerializeToString()
                    told = active
            await asyncio.sleep(REFRESH_SECONDS)

    async def get_metric_spec(self, request: bytes, context: Context) -> bytes:
        """The one metric and its target; refused where the metadata would never lead to a number."""
        deployment, source = self._deployment(_reference(request))
        self._readings.check(deployment.spec, source)
        spec = wire.MetricSpec(metricName=METRIC, targetSize=1, targetSizeFloat=1.0)
        return wire.GetMetricSpecResponse(metricSpecs=[spec]).SerializeToString()

    async def get_metrics(self, request: bytes, context: Context) -> bytes:
        """The number of replicas that are needed."""
        try:
            asked = wire.GetMetricsRequest.FromString(request)
        except DecodeError as error:
            raise Unreadable(f"this is no externalscaler.GetMetricsRequest: {error}") from None
        if asked.metricName != METRIC:
            raise InvalidRequest(Violation("metricName", f"{asked.metricName[:120]!r} is not served", f"it is {METRIC}"))
        replicas = await self._replicas(asked.scaledObjectRef)
        value = wire.MetricValue(metricName=METRIC, metricValue=replicas, metricValueFloat=float(replicas))
        return wire.GetMetricsResponse(metricValues=[value]).SerializeToString()

    async def _replicas(self, reference: wire.ScaledObjectRef) -> int:
        deployment, source = self._deployment(reference)
        reading = await self._readings.latest(deployment.spec, source, ANSWER_SECONDS)
        key = (reference.namespace, reference.name, _metadata(reference))
        each = reading.each_per_second(deployment.role or PoolRole.AGGREGATED)
        held = steadied(self._held.get(key), reading.at_seconds, reading.requests_per_second, each, deployment.rule)
        self._held[key] = held
        self._held.move_to_end(key)
        if len(self._held) > _MOST_HELD:
            self._held.popitem(last=False)
        return held.replicas

    def _deployment(self, reference: wire.ScaledObjectRef) -> tuple[ScaledDeployment, DemandSource]:
        deployment = self._described(_metadata(reference))
        assert deployment.demand is not None  # metadata without a demand is refused
        return deployment, deployment.demand


def _described(metadata: _Metadata) -> ScaledDeployment:
    return from_metadata(dict(metadata))


def _metadata(reference: wire.ScaledObjectRef) -> _Metadata:
    return tuple(sorted(reference.scalerMetadata.items()))


def _reference(request: bytes) -> wire.ScaledObjectRef:
    try:
        return wire.ScaledObjectRef.FromString(request)
    except DecodeError as error:
        raise Unreadable(f"this is no externalscaler.ScaledObjectRef: {error}") from None
