"""Manifests that FitCluster renders: valid where there is a schema, and understood by our own external scaler."""

import subprocess
import sysconfig
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from service.api.autoscalers.keda import KedaScaler
from service.api.autoscalers.readings import Readings
from service.api.prometheus import PrometheusReader
from service.catalogue.loader import load
from service.planning.cluster_fit.requests import FitClusterRequest, ManifestOptions, ManifestScaling
from service.planning.placement.requests import Cluster, NodeGroup, PodToleration
from service.planning.planner import Planner
from service.planning.replicas import ReplicaPlanner
from service.planning.requests import EngineSpec, ModelSpec, Parallelism
from tests.api.autoscalers.keda_calls import CONTEXT, reference, settled_outcome

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))
SCALING = ManifestScaling(input_tokens=1024, output_tokens=256, tpot_seconds=0.05, requests_per_second=4)
OPTIONS = ManifestOptions(namespace="serving", scaling=SCALING)
NODES = (NodeGroup(4, node_type="dgx-h100", labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}),)
TRAYS = (NodeGroup(8, node_type="coreweave-gb200-nvl72-tray"),)
ONE_NODE = FitClusterRequest(
    Cluster(NODES),
    ModelSpec(name="llama-3.1-70b"),
    8192,
    parallelism=Parallelism(4),
    engine=EngineSpec("vllm"),
    manifests=OPTIONS,
)
OVER_NODES = replace(ONE_NODE, model=ModelSpec(name="llama-3.1-405b"), parallelism=Parallelism(8, 2))
QUESTIONS = {
    "one node": ONE_NODE,
    "one node, tolerant": replace(
        ONE_NODE,
        tolerations=(PodToleration("team", value="serving", effect="NoSchedule"), PodToleration(operator="Exists")),
        node_selector={"zone": "a"},
        manifests=replace(OPTIONS, kinds=("Deployment", "PodGroup"), model_path='a: "b" {{c}} $(D)'),
    ),
    "two nodes": OVER_NODES,
    "two nodes, volcano, sglang": replace(
        OVER_NODES, engine=EngineSpec("sglang"), manifests=replace(OPTIONS, gang_scheduler="volcano")
    ),
    "one link domain": replace(OVER_NODES, cluster=Cluster(TRAYS), parallelism=Parallelism(16)),
}


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(load(ROOT / "specs"))


@pytest.fixture
async def scaler(planner: Planner) -> AsyncIterator[KedaScaler]:
    readings = Readings(ReplicaPlanner(planner.serving), PrometheusReader([]))
    yield KedaScaler(readings)
    await readings.close()


def objects(planner: Planner, question: FitClusterRequest) -> list[dict[str, Any]]:
    return [yaml.safe_load(each.yaml) for each in planner.fit_cluster(question).manifests]


def with_schema(each: dict[str, Any]) -> list[dict[str, Any]]:
    """The object where Kubernetes itself has its schema; of a LeaderWorkerSet the pods, as PodTemplates."""
    if each["kind"] in ("Deployment", "PodTemplate"):
        return [each]
    if each["kind"] != "LeaderWorkerSet":
        return []
    templates = each["spec"]["leaderWorkerTemplate"]
    return [
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": each["metadata"], "template": templates[which]}
        for which in ("leaderTemplate", "workerTemplate")
    ]


def test_what_has_a_schema_keeps_to_it_strictly(planner: Planner, tmp_path: Path) -> None:
    checked = [one for question in QUESTIONS.values() for each in objects(planner, question) for one in with_schema(each)]
    assert 2 + 3 * 2 + 4 == len(checked)  # two Deployments, three LeaderWorkerSets of two templates, four PodTemplates
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all(checked))
    ran = subprocess.run([SCRIPTS / "kubernetes-validate", "--strict", path], capture_output=True, text=True)
    assert 0 == ran.returncode, ran.stdout + ran.stderr
    assert len(checked) == ran.stdout.count(" passed for ") + ran.stderr.count(" passed for ")


def test_the_checker_finds_a_word_that_is_none(planner: Planner, tmp_path: Path) -> None:
    (deployment,) = (each for each in objects(planner, ONE_NODE) if each["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["nodeSelectors"] = {}
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(deployment))
    assert 0 != subprocess.run([SCRIPTS / "kubernetes-validate", "--strict", path], capture_output=True).returncode


@pytest.mark.parametrize("question", ["one node", "two nodes"])
def test_objects_of_others_have_the_fields_of_the_examples(planner: Planner, question: str) -> None:
    examples = {
        "Deployment": ROOT / "deploy/autoscalers/keda/scaledobject-deployment.yaml",
        "LeaderWorkerSet": ROOT / "deploy/autoscalers/keda/scaledobject-leaderworkerset.yaml",
    }
    found = {each["kind"]: each for each in objects(planner, QUESTIONS[question])}
    (workload,) = found.keys() & examples.keys()
    example = yaml.safe_load(examples[workload].read_text())
    ours = found["ScaledObject"]
    assert example["apiVersion"] == ours["apiVersion"]
    assert set(ours["spec"]) <= set(example["spec"])
    assert set(example["spec"]["scaleTargetRef"]) == set(ours["spec"]["scaleTargetRef"])
    assert example["spec"]["fallback"].keys() == ours["spec"]["fallback"].keys()
    assert "currentReplicasIfHigher" == ours["spec"]["fallback"]["behavior"]
    behaviour = ours["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert {"0"} == {behaviour[way]["tolerance"] for way in ("scaleUp", "scaleDown")}
    (trigger,), (shown,) = ours["spec"]["triggers"], example["spec"]["triggers"]
    assert {key: shown[key] for key in ("type", "metricType", "authenticationRef")} == {
        key: trigger[key] for key in ("type", "metricType", "authenticationRef")
    }
    assert shown["metadata"]["scalerAddress"] == trigger["metadata"]["scalerAddress"]


async def test_the_external_scaler_answers_the_trigger(planner: Planner, scaler: KedaScaler) -> None:
    (scaled,) = (each for each in objects(planner, ONE_NODE) if each["kind"] == "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    assert await scaler.get_metric_spec(reference(trigger["metadata"]), CONTEXT)
    outcome = await settled_outcome(scaler, trigger["metadata"])
    assert isinstance(outcome, int)
    assert 1 <= outcome <= scaled["spec"]["maxReplicaCount"]
