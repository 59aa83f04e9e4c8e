"""Models on clusters through the client and on the command line, against the real service."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.client.conftest import Run
from tests.service_process import RunningService
from tonnage import AsyncClient, Client, InvalidRequest, NotFound
from tonnage.cli.exits import Exit
from tonnage.cluster_requests import fit_cluster
from tonnage.v1.cluster_fit_pb2 import ManifestOptions
from tonnage.v1.placement_pb2 import PodToleration

FIXTURE = Path(__file__).parents[1] / "data" / "kubectl_nodes_pods.json"
WORDS = ("llama-3.1-70b", "--nodes", "2xdgx-h100", "--context-tokens", "8192", "--concurrency", "16")


def test_the_request() -> None:
    asked = fit_cluster(
        nodes=[{"count": 2, "node_type": "dgx-h100"}],
        model="llama-3.1-70b",
        context_tokens=8192,
        tensor=4,
        engine="vllm==0.19",
        num_replicas=2,
        tolerations=[{"key": "team"}, PodToleration(operator="Exists")],
        node_selector={"zone": "a"},
        manifests=True,
    )
    assert ("dgx-h100", "llama-3.1-70b", 8192, 4) == (
        asked.cluster.nodes[0].node_type,
        asked.model.name,
        asked.context_tokens,
        asked.parallelism.tensor,
    )
    assert ("vllm", "0.19", 2, {"zone": "a"}) == (
        asked.engine.name,
        asked.engine.version,
        asked.num_replicas,
        dict(asked.node_selector),
    )
    assert ["team", ""] == [each.key for each in asked.tolerations]
    assert asked.HasField("manifests")
    assert not fit_cluster(model="x").HasField("manifests")
    assert not fit_cluster(model="x", manifests=False).HasField("manifests")
    assert ManifestOptions(kinds=["PodGroup"]) == fit_cluster(manifests={"kinds": ["PodGroup"]}).manifests
    with pytest.raises(InvalidRequest, match=r"tolerations\[0\]"):
        fit_cluster(tolerations=["x"])  # type: ignore[list-item]


async def test_both_clients(service: RunningService) -> None:
    asked: dict[str, Any] = {
        "nodes": [{"count": 2, "node_type": "dgx-h100"}],
        "model": "llama-3.1-70b",
        "context_tokens": 8192,
        "concurrency": 16,
    }
    with Client(service.grpc) as client:
        answer = client.fit_cluster(**asked)
        with pytest.raises(NotFound, match="llama-9"):
            client.fit_cluster(**asked | {"model": "llama-9"})
    async with AsyncClient(service.grpc) as asynchronous:
        assert answer == await asynchronous.fit_cluster(**asked)
    assert [4] == [option.num_replicas_now for option in answer.options]


def test_the_command(run_for_real: Run) -> None:
    code, out, _ = run_for_real("fit-cluster", *WORDS)
    said = " ".join(out.split())
    assert Exit.ANSWERED == code
    for part in (
        "4 replicas fit now: tensor 4 on h100-sxm",
        "h100-sxm 2 16 16 TP 4 1 × 4",
        "add 1 node like dgx-h100-1: 5 replicas",
    ):
        assert part in said
    assert Exit.DOES_NOT_FIT == run_for_real("fit-cluster", *WORDS, "--replicas", "5", "--check")[0]
    assert Exit.ANSWERED == run_for_real("fit-cluster", *WORDS, "--replicas", "4", "--check")[0]


def test_the_command_prints_manifests_for_kubectl(run_for_real: Run) -> None:
    code, out, told = run_for_real("fit-cluster", *WORDS, "--manifests", "--namespace", "serving", "--name", "chat")
    assert Exit.ANSWERED == code
    documents = list(yaml.safe_load_all(out))
    assert ["Deployment", "PodTemplate", "ProvisioningRequest", "CapacityBuffer"] == [each["kind"] for each in documents]
    assert {"serving"} == {each["metadata"]["namespace"] for each in documents}
    assert "4 replicas fit now" in told
    code, out, _ = run_for_real("fit-cluster", *WORDS, "--kind", "Deployment", "--json")
    assert ["Deployment"] == [each["kind"] for each in json.loads(out)["manifests"]]


def test_the_command_reads_what_kubectl_prints(run_for_real: Run) -> None:
    arguments = ("llama-3.1-8b", "--snapshot", str(FIXTURE), "--context-tokens", "4096", "--accelerator", "h100-sxm", "--json")
    code, out, _ = run_for_real("fit-cluster", *arguments)
    assert Exit.ANSWERED == code
    assert json.loads(out)["options"]
    assert "hunter2" not in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("llama-3.1-8b", "--nodes", "three", "--context-tokens", "1"), "is not like 3x8"),
        (("llama-3.1-8b", "--nodes", "3x8", "--context-tokens", "1"), "accelerator"),
        (("llama-3.1-8b", "--context-tokens", "1"), "cluster"),
        ((*WORDS, "--name", "No Name"), "manifests.name"),
        ((*WORDS, "--tensor", "3"), "parallelism.tensor"),
    ],
)
def test_what_the_command_refuses(run_for_real: Run, arguments: tuple[str, ...], told: str) -> None:
    code, _, said = run_for_real("fit-cluster", *arguments)
    assert Exit.BAD_REQUEST == code
    assert told in " ".join(said.split())
