"""The real catalogue's replicas, and a Prometheus server that answers as it is told."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from service.api.autoscalers.keda import KedaScaler
from service.api.autoscalers.readings import Readings
from service.api.prometheus import PrometheusReader
from service.catalogue.loader import load
from service.planning.node_groups.choose import NodeGroupChooser
from service.planning.planner import Planner
from service.planning.replicas import ReplicaPlanner
from tests.api.autoscalers.fake_prometheus import FakePrometheus, fake_prometheus
from tests.api.autoscalers.keda_calls import ASKED, Clock

SPECS = Path(__file__).parents[3] / "specs"


@pytest.fixture(scope="session")
def scaled_planner() -> Planner:
    return Planner(load(SPECS))


@pytest.fixture(scope="session")
def replica_planner(scaled_planner: Planner) -> ReplicaPlanner:
    return ReplicaPlanner(scaled_planner.serving)


@pytest.fixture(scope="module")
def _one_prometheus() -> Iterator[FakePrometheus]:
    with fake_prometheus() as fake:
        yield fake


@pytest.fixture
def prometheus(_one_prometheus: FakePrometheus) -> FakePrometheus:
    _one_prometheus.reset()
    return _one_prometheus


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def readings(replica_planner: ReplicaPlanner, prometheus: FakePrometheus, clock: Clock) -> AsyncIterator[Readings]:
    made = Readings(replica_planner, PrometheusReader([prometheus.url]), clock)
    yield made
    await made.close()


@pytest.fixture
def scaler(readings: Readings) -> KedaScaler:
    return KedaScaler(readings)


@pytest.fixture
def asks(prometheus: FakePrometheus) -> dict[str, str]:
    """Metadata whose demand is read."""
    return ASKED | {"prometheusServer": prometheus.url, "query": "demand"}


@pytest.fixture(scope="session")
def chooser(scaled_planner: Planner) -> NodeGroupChooser:
    return NodeGroupChooser(scaled_planner.catalogue, scaled_planner.resolver)
