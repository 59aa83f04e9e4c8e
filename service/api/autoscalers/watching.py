"""The deployments of the file, looked at again and again, and shown as plain gauges for prometheus-adapter and KEDA's triggers.

What is not known is not shown: a gauge that is missing makes an autoscaler wait, one that says 0 makes it scale down.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from service.api.autoscalers.deployment import DemandSource, ObservedSource, ScaledDeployment
from service.api.autoscalers.deployments_file import DeploymentsFile
from service.api.autoscalers.gauges import DeploymentFigures, DeploymentGauges
from service.api.autoscalers.readings import Reading, Readings
from service.api.errors import Unavailable
from service.planning.errors import PlanningError
from service.planning.fleet.results import PoolRole
from service.planning.replicas import Held, predicted_times, steadied
from service.planning.serving.requests import PrometheusObservation
from service.telemetry import SERVER_LOG

_logger = logging.getLogger(SERVER_LOG)

_ROLES: Final = (PoolRole.PREFILL, PoolRole.DECODE)


class DeploymentWatch:
    """Looks at every deployment of the file at a steady interval.

    Args:
        file: the deployments.
        readings: what is asked of them.
        gauges: where it is shown.
        interval_seconds: from one look to the next.
    """

    def __init__(self, file: DeploymentsFile, readings: Readings, gauges: DeploymentGauges, *, interval_seconds: float) -> None:
        self._file = file
        self._readings = readings
        self._gauges = gauges
        self._interval_seconds = interval_seconds
        self._held: dict[tuple[str, PoolRole], tuple[ScaledDeployment, Held]] = {}
        self._failing: dict[str, str] = {}

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            try:
                await self.look()
            except Exception:
                _logger.exception("the deployments could not be looked at")
            await asyncio.sleep(self._interval_seconds)

    async def look(self) -> None:
        """Reads the file where it changed, and looks at every deployment once, all at the same time."""
        await asyncio.to_thread(self._file.renew)
        watched = {name: each for name, each in self._file.deployments.items() if each.demand is not None}
        self._gauges.keep(watched, is_current=self._file.is_current)
        self._failing = {name: why for name, why in self._failing.items() if name in watched}
        self._held = {key: held for key, held in self._held.items() if watched.get(key[0]) == held[0]}
        await asyncio.gather(*(self._look_at(name, deployment) for name, deployment in watched.items()))

    async def _look_at(self, name: str, deployment: ScaledDeployment) -> None:
        assert deployment.demand is not None
        try:
            figures, at = await self._figures(name, deployment, deployment.demand)
        except (PlanningError, Unavailable) as error:
            self._gauges.lose(name)
            if self._failing.get(name) != str(error):
                _logger.warning("nothing is known of the deployment %s: %s", name, error)
            self._failing[name] = str(error)
        else:
            self._gauges.show(name, figures, at)
            if self._failing.pop(name, None):
                _logger.info("the deployment %s is known again", name)

    async def _figures(self, name: str, deployment: ScaledDeployment, source: DemandSource) -> tuple[DeploymentFigures, float]:
        reading = await self._readings.latest(deployment.spec, source, self._interval_seconds)
        roles = _ROLES if deployment.spec.disaggregated else (PoolRole.AGGREGATED,)
        replicas = {role: self._replicas(name, role, deployment, reading) for role in roles}
        figures = DeploymentFigures(
            requests_per_second=reading.requests_per_second,
            desired_replicas={role.lower(): number for role, number in replicas.items()},
            max_requests_per_second_per_replica={pool.role.lower(): pool.rate for pool in reading.pools},
            tokens_per_second=_tokens_per_second(reading, replicas),
            times_seconds=_times(reading, replicas),
            observed_to_predicted=await self._observed(name, deployment, reading),
        )
        return figures, reading.at_seconds

    def _replicas(self, name: str, role: PoolRole, deployment: ScaledDeployment, reading: Reading) -> int:
        each = reading.each_per_second(role)
        _, before = self._held.get((name, role), (deployment, None))
        held = steadied(before, reading.at_seconds, reading.requests_per_second, each, deployment.rule)
        self._held[name, role] = (deployment, held)
        return held.replicas

    async def _observed(self, name: str, deployment: ScaledDeployment, reading: Reading) -> Mapping[str, float]:
        """Observed over predicted times; nothing where the engine's metrics cannot be read."""
        if deployment.observed is None or deployment.demand is None or not reading.pools:
            return {}
        assert reading.input_tokens is not None  # known where there are pools
        assert reading.output_tokens is not None
        replicas, spec = self._readings.replicas, deployment.spec
        asked = _observation(deployment.observed, deployment.demand.prometheus_server)
        try:
            seen = await self._readings.prometheus.observation(asked, replicas.engine_name(spec))
            return replicas.observed_ratios(spec, seen, reading.input_tokens, reading.output_tokens)
        except PlanningError as error:
            _logger.debug("the engines of %s are not observed: %s", name, error)
            return {}


def _observation(observed: ObservedSource, server: str) -> PrometheusObservation:
    return PrometheusObservation(server, dict(observed.labels), observed.window_seconds, observed.metric_prefix)


def _tokens_per_second(reading: Reading, replicas: Mapping[PoolRole, int]) -> float | None:
    """Output tokens per second that the desired replicas yield at most within the service level."""
    if reading.output_tokens is None or not reading.pools:
        return None
    return min(pool.rate * replicas[pool.role] for pool in reading.pools) * reading.output_tokens


def _times(reading: Reading, replicas: Mapping[PoolRole, int]) -> dict[str, float]:
    """Times at the percentile of the service level, where the desired replicas share the demand."""
    times: dict[str, float] = {}
    for pool in reading.pools:
        if replicas[pool.role] == 0:
            continue
        seen = predicted_times(pool, reading.requests_per_second, replicas[pool.role])
        found = {"ttft_seconds": seen.ttft_seconds, "tpot_seconds": seen.tpot_seconds}
        times |= {name: seconds for name, seconds in found.items() if seconds is not None}
    return times
