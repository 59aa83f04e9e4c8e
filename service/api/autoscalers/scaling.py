"""What KEDA's door, Dynamo's and the gauges have in common: readings, and the deployments of the file."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from service.api.autoscalers.deployment import ScaledDeployment
from service.api.autoscalers.deployments_file import DeploymentsFile
from service.api.autoscalers.gauges import DeploymentGauges
from service.api.autoscalers.readings import Readings
from service.api.autoscalers.watching import DeploymentWatch
from service.api.prometheus import PrometheusReader
from service.planning.planner import Planner
from service.planning.replicas import ReplicaPlanner
from service.settings import Settings
from service.telemetry import Telemetry

#: Looks that may fail to come before what was seen last is no longer shown, and what one of them may take.
_MISSED_LOOKS: Final = 2
_LOOK_SECONDS: Final = 10.0


class Scaling:
    """Readings, and the deployments of the file where there is one.

    Raises:
        DeploymentsError: the deployments file cannot be used.
    """

    def __init__(self, settings: Settings, planner: Planner, prometheus: PrometheusReader) -> None:
        self.replicas = ReplicaPlanner(planner.serving)
        self.readings = Readings(self.replicas, prometheus)
        self._interval_seconds = settings.deployments_interval_seconds
        path = settings.deployments_file
        self.file = None if path is None else DeploymentsFile(path, self._check)

    def _check(self, deployment: ScaledDeployment) -> None:
        self.readings.check(deployment.spec, deployment.demand)

    def deployment(self, name: str) -> ScaledDeployment | None:
        """The deployment of the file as it is now; None where it has none of that name."""
        return None if self.file is None else self.file.deployments.get(name)

    @asynccontextmanager
    async def watched(self, telemetry: Telemetry) -> AsyncIterator[None]:
        """Shows the deployments of the file as gauges, if there is one, until the block is left."""
        task = None
        if self.file is not None:
            gauges = DeploymentGauges(stale_seconds=(1 + _MISSED_LOOKS) * self._interval_seconds + _LOOK_SECONDS)
            telemetry.collect_from(gauges)
            watch = DeploymentWatch(self.file, self.readings, gauges, interval_seconds=self._interval_seconds)
            task = asyncio.create_task(watch.run())
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await self.readings.close()
