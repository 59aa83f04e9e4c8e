"""The examples in deploy/autoscalers: read as their readers would, and sent to the service."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from service.api.autoscalers.deployment import KEDAS_OWN
from service.api.autoscalers.deployment_keys import IN_FILE, IN_METADATA
from service.api.autoscalers.deployments_file import read_deployments
from service.api.autoscalers.gauges import DeploymentFigures, DeploymentGauges
from service.api.autoscalers.keda import KedaScaler
from service.api.autoscalers.readings import Readings
from service.api.prometheus import PrometheusReader
from service.catalogue.loader import load
from service.planning.planner import Planner
from service.planning.replicas import ReplicaPlanner
from tests.api.autoscalers.fake_prometheus import FakePrometheus, fake_prometheus
from tests.api.autoscalers.keda_calls import CONTEXT, metrics_request, reference, replicas_of, settled_outcome

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "deploy" / "autoscalers"
SERVER = "http://prometheus.monitoring:9090"


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for number, document in enumerate(yaml.safe_load_all(path.read_text())):
            yield f"{path.relative_to(EXAMPLES)}#{number}", document


DOCUMENTS = dict(documents())
SCALED = {name: each for name, each in DOCUMENTS.items() if each.get("kind") == "ScaledObject"}
EXTERNAL = {name: each for name, each in SCALED.items() if each["spec"]["triggers"][0]["type"] == "external"}


@pytest.fixture(scope="module")
def replica_planner() -> ReplicaPlanner:
    return ReplicaPlanner(Planner(load(ROOT / "specs")).serving)


@pytest.fixture(scope="module")
def prometheus() -> Iterator[FakePrometheus]:
    with fake_prometheus() as fake:
        yield fake


@pytest.fixture
async def scaler(replica_planner: ReplicaPlanner, prometheus: FakePrometheus) -> AsyncIterator[KedaScaler]:
    readings = Readings(replica_planner, PrometheusReader([prometheus.url]))
    yield KedaScaler(readings)
    await readings.close()


def test_every_kind_of_example_is_there() -> None:
    targets = {each["spec"]["scaleTargetRef"].get("kind", "Deployment") for each in EXTERNAL.values()}
    assert {"Deployment", "LeaderWorkerSet"} == targets
    kinds = {each.get("kind", "") for each in DOCUMENTS.values()}
    assert {"ScaledObject", "TriggerAuthentication", "Service", "HorizontalPodAutoscaler", ""} == kinds


@pytest.mark.parametrize("name", EXTERNAL)
async def test_its_metadata_leads_to_a_number(scaler: KedaScaler, prometheus: FakePrometheus, name: str) -> None:
    (trigger,) = EXTERNAL[name]["spec"]["triggers"]
    metadata = trigger["metadata"]
    assert all(isinstance(value, str) for value in metadata.values())  # KEDA takes nothing else
    assert SERVER == metadata["prometheusServer"]
    sent = metadata | {"prometheusServer": prometheus.url}
    prometheus.reset()
    prometheus.answers |= {sent["query"]: "5"}
    prometheus.answers |= {sent[key]: "1500" for key in ("inputTokensQuery", "outputTokensQuery") if key in sent}
    assert await scaler.get_metric_spec(reference(sent), CONTEXT)
    outcome = await settled_outcome(scaler, sent)
    assert isinstance(outcome, int)
    assert 1 <= outcome <= EXTERNAL[name]["spec"]["maxReplicaCount"]
    assert {sent["query"]} <= set(prometheus.asked)
    assert outcome == replicas_of(await scaler.get_metrics(metrics_request(sent), CONTEXT))


@pytest.mark.parametrize("name", SCALED)
def test_a_scaled_object_is_as_safe_as_the_notes_say(name: str) -> None:
    spec = SCALED[name]["spec"]
    (trigger,) = spec["triggers"]
    assert "AverageValue" == trigger["metricType"]
    assert "currentReplicasIfHigher" == spec["fallback"]["behavior"]
    assert (spec["minReplicaCount"] == 0) == (trigger["metadata"].get("scaleToZero") == "true")
    behaviour = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert {"0"} == {behaviour[way]["tolerance"] for way in ("scaleUp", "scaleDown")}
    if trigger["type"] == "prometheus":
        assert "false" == trigger["metadata"]["ignoreNullValues"]
    else:
        assert ("tonnage", "serving") == (trigger["authenticationRef"]["name"], SCALED[name]["metadata"]["namespace"])
        service = DOCUMENTS["keda/service.yaml#0"]
        host, port = trigger["metadata"]["scalerAddress"].split(":")
        assert host == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.cluster.local"
        assert int(port) == service["spec"]["ports"][0]["port"]
        assert "None" == service["spec"]["clusterIP"]


def autoscaler_of(scaled: dict[str, Any]) -> dict[str, Any]:
    """The HorizontalPodAutoscaler that KEDA makes of it."""
    spec = scaled["spec"]
    target = {"apiVersion": "apps/v1", "kind": "Deployment"} | spec["scaleTargetRef"]
    metric = {"metric": {"name": "s0-x"}, "target": {"type": "AverageValue", "averageValue": "1"}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": scaled["metadata"],
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": max(1, spec["minReplicaCount"]),
            "maxReplicas": spec["maxReplicaCount"],
            "metrics": [{"type": "External", "external": metric}],
            "behavior": spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
        },
    }


def test_what_has_a_schema_keeps_to_it() -> None:
    version = kubernetes_validate.latest_version()
    known = [each for each in DOCUMENTS.values() if each.get("kind") in ("Service", "HorizontalPodAutoscaler")]
    for document in (*known, *map(autoscaler_of, SCALED.values())):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_authentication_has_what_keda_reads() -> None:
    listed = DOCUMENTS["keda/triggerauthentication.yaml#0"]["spec"]["secretTargetRef"]
    assert ["caCert", "tlsClientCert", "tlsClientKey"] == [each["parameter"] for each in listed]
    assert {each["parameter"] for each in listed} <= KEDAS_OWN


def test_the_deployments_file_is_read_with_every_name_known(replica_planner: ReplicaPlanner) -> None:
    readings = Readings(replica_planner, PrometheusReader([SERVER]))
    found = read_deployments(EXAMPLES / "dynamo/deployments.yaml", lambda each: readings.check(each.spec, each.demand))
    assert {"chat": None, "agent": 9101} == {name: each.dynamo_port for name, each in found.items()}
    for each in found.values():
        assert all(pool.rate > 0 for pool in replica_planner.pools(each.spec, 2000, 300))


def test_gauges_and_labels_of_the_examples_are_those_that_are_exposed() -> None:
    gauges = DeploymentGauges(stale_seconds=60, clock=lambda: 0.0)
    gauges.keep(["chat"], is_current=True)
    gauges.show("chat", DeploymentFigures(1.0, {"aggregated": 3}, {}, None, {}, {}), 0.0)
    exposed = {metric.name: metric.samples for metric in gauges.collect()}
    (sample,) = exposed["tonnage_desired_replicas"]
    assert {"deployment": "chat", "role": "aggregated"} == sample.labels
    autoscaler = DOCUMENTS["prometheus-adapter/horizontalpodautoscaler.yaml#0"]["spec"]["metrics"][0]["external"]
    assert sample.labels == autoscaler["metric"]["selector"]["matchLabels"]
    query = DOCUMENTS["keda/prometheus-trigger.yaml#0"]["spec"]["triggers"][0]["metadata"]["query"]
    assert 'max(tonnage_desired_replicas{deployment="chat",role="aggregated"})' == query
    (rule,) = DOCUMENTS["prometheus-adapter/rules.yaml#0"]["externalRules"]
    assert rule["seriesQuery"].startswith(f"{sample.name}{{")
    assert re.match(rule["name"]["matches"], sample.name)
    assert autoscaler["metric"]["name"] == rule["name"]["as"]


def test_the_documentation_names_every_key() -> None:
    text = (EXAMPLES / "README.md").read_text()
    table = text[text.index("| key |") :]
    words = set(re.findall(r"[A-Za-z_]+", table))
    assert set(IN_METADATA) <= words
    assert {name for name in IN_FILE if IN_FILE[name].where == "file"} <= words
