"""The real catalogue's replicas, and a Prometheus server that answers as it is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.catalogue.loader import load
from service.planning.planner import Planner
from service.planning.replicas import ReplicaPlanner
from tests.api.autoscalers.fake_prometheus import FakePrometheus, fake_prometheus

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
