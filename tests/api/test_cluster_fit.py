"""Models on clusters through both doors: the same answer, what is refused and where, and what never comes back."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.api.examples import REQUESTS
from tests.api.asking import Doors, json_of, message_of

RPC = "FitCluster"
QUESTION = REQUESTS[RPC]
FIXTURE = Path(__file__).parents[1] / "data" / "kubectl_nodes_pods.json"
MODEL = {"model": {"name": "llama-3.1-8b"}, "context_tokens": 4096}
H100 = {"accelerator": {"name": "h100-sxm"}}


def test_both_doors_say_the_same(doors: Doors) -> None:
    over_http = doors.post(RPC, QUESTION)
    assert 200 == over_http.status_code
    answer = over_http.json()
    assert answer == json_of(doors.call(RPC, message_of(RPC, QUESTION)))
    (option,) = answer["options"]
    assert (6, True, {"tensor": 4, "pipeline": 1, "expert": 1, "attention_data": 1}) == (
        option["num_replicas_now"],
        option["fits"],
        option["parallelism"],
    )
    assert {"placements": [{"node": "dgx-h100-1", "num_pods": 1, "num_devices": 4}], "link_domain": ""} == option["replicas"][0]
    assert ["Deployment", "PodTemplate", "ProvisioningRequest", "CapacityBuffer"] == [m["kind"] for m in answer["manifests"]]
    assert "ADD_NODES" == option["remedies"][0]["kind"]


def test_a_question_that_wants_no_manifests_gets_none(doors: Doors) -> None:
    question = {"cluster": {"nodes": [{"count": 1, "node_type": "dgx-h100"}]}, **MODEL}
    assert [] == doors.post(RPC, question).json()["manifests"]
    assert [] != doors.post(RPC, question | {"manifests": {}}).json()["manifests"]


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ({}, ["cluster", "model", "context_tokens"]),
        ({"cluster": {}, **MODEL}, ["cluster"]),
        ({"cluster": {"nodes": [{"count": 1, "devices": 8}]}, **MODEL}, ["accelerator"]),
        ({"cluster": {"nodes": [{"count": 1, "devices": 8}]}, **MODEL, **H100, "num_replicas": 0}, ["num_replicas"]),
        (
            {"cluster": {"nodes": [{"count": 1, "devices": 8}]}, **MODEL, **H100, "parallelism": {"tensor": 3}},
            ["parallelism.tensor", "parallelism.tensor", "parallelism.tensor"],
        ),
        (
            {
                "cluster": {"nodes": [{"count": 1, "devices": 8}]},
                **MODEL,
                **H100,
                "manifests": {"name": "No Name", "kinds": ["Pod"], "scaling": {"input_tokens": 1, "output_tokens": 1}},
            },
            ["manifests.name", "manifests.kinds[0]", "manifests.scaling"],
        ),
        (
            {"cluster": {"nodes": [{"count": 1, "devices": 8}]}, **MODEL, **H100, "manifests": {"scaling": {}}},
            ["manifests.scaling.input_tokens", "manifests.scaling.output_tokens"],
        ),
        (
            {"cluster": {"snapshot": {"kind": "List", "items": [{"kind": "Node"}]}}, **MODEL},
            ["cluster.snapshot.items[0].metadata.name"],
        ),
    ],
)
def test_refused_by_both_doors_alike(doors: Doors, question: dict[str, Any], fields: list[str]) -> None:
    over_http, over_grpc = doors.rest_refusal(RPC, question), doors.grpc_refusal(RPC, question)
    assert over_http.without_status() == over_grpc.without_status()
    assert (400, "INVALID_REQUEST") == (over_http.http_status, over_http.reason)
    assert list(dict.fromkeys(fields)) == list(over_http.violations)


@pytest.mark.parametrize(
    ("more", "status", "reason"),
    [
        ({"model": {"name": "llama-9"}}, 404, "NAME_NOT_FOUND"),
        ({"engine": {"name": "vllmm"}}, 404, "NAME_NOT_FOUND"),
        ({"accelerator": {"inline": {"title": "X"}}}, 400, "FIGURE_MISSING"),
        (
            {"cluster": {"nodes": [{"count": 20_000, "devices": 8}, {"count": 1, "devices": 8, "name": "more"}]}},
            429,
            "TOO_LARGE",
        ),
    ],
)
def test_what_is_unknown_or_too_much(doors: Doors, more: dict[str, Any], status: int, reason: str) -> None:
    question = {"cluster": {"nodes": [{"count": 1, "devices": 8}]}, **MODEL, **H100} | more
    over_http, over_grpc = doors.rest_refusal(RPC, question), doors.grpc_refusal(RPC, question)
    assert over_http.without_status() == over_grpc.without_status()
    assert (status, reason) == (over_http.http_status, over_http.reason)


def test_nothing_secret_comes_back(doors: Doors) -> None:
    snapshot = json.loads(FIXTURE.read_text(encoding="utf-8"))
    question = {"cluster": {"snapshot": snapshot}, **MODEL, **H100, "manifests": {}}
    for text in (doors.post(RPC, question).text, json.dumps(json_of(doors.call(RPC, message_of(RPC, question))))):
        assert '"options"' in text
        for secret in ("hunter2", "AKIA", "sk-live", "QUtJ", "registry.example"):
            assert secret not in text
