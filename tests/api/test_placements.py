"""Clusters through both doors: what is refused, with the place of the fault, and what never comes back."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.asking import Doors, json_of, message_of

RPC = "SimulatePlacement"
ONE = {"nodes": [{"count": 1, "devices": 8}]}
FIXTURE = Path(__file__).parents[1] / "data" / "kubectl_nodes_pods.json"


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ({}, ["cluster"]),
        ({"cluster": {}}, ["cluster"]),
        ({"cluster": {"nodes": [{"count": 1}]}}, ["cluster.nodes[0].devices"]),
        ({"cluster": {"nodes": [{"count": 1, "devices": 8}, {"count": 2, "devices": 4}]}}, ["cluster.nodes"]),
        ({"cluster": {"nodes": [{"count": 1, "devices": 1, "device_resource": "gpu"}]}}, ["cluster.nodes[0].device_resource"]),
        (
            {"cluster": {"nodes": [{"count": 1, "devices": 1, "taints": [{"key": "a", "effect": "Never"}]}]}},
            ["cluster.nodes[0].taints[0].effect"],
        ),
        (
            {
                "cluster": ONE,
                "jobs": [
                    {"name": "a", "num_pods": 2, "min_pods": 3},
                    {"name": "a"},
                    {"name": "b", "device_resource": "gpu", "tolerations": [{"operator": "In"}, {"value": "x"}]},
                ],
            },
            [
                "jobs[0].min_pods",
                "jobs[1].name",
                "jobs[2].device_resource",
                "jobs[2].tolerations[0].operator",
                "jobs[2].tolerations[1].key",
            ],
        ),
        ({"cluster": ONE, "policy": {"gang": True, "interleave_pods": True}}, ["policy.interleave_pods"]),
        ({"cluster": ONE, "policy": {"weights": {"pods": 1}}}, ["policy.weights[pods]"]),
        ({"cluster": ONE, "policy": {"shape": [{"utilization": 0, "score": 1}]}}, ["policy.shape"]),
        (
            {
                "cluster": ONE,
                "policy": {
                    "scoring": "REQUESTED_TO_CAPACITY_RATIO",
                    "shape": [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}],
                },
            },
            ["policy.shape[1].utilization"],
        ),
        ({"cluster": {"snapshot": {"kind": "List", "items": [{"kind": "Node"}]}}}, ["cluster.snapshot.items[0].metadata.name"]),
    ],
)
def test_refused_by_both_doors_alike(doors: Doors, question: dict[str, Any], fields: list[str]) -> None:
    over_http, over_grpc = doors.rest_refusal(RPC, question), doors.grpc_refusal(RPC, question)
    assert over_http.without_status() == over_grpc.without_status()
    assert (400, "INVALID_REQUEST") == (over_http.http_status, over_http.reason)
    assert fields == list(over_http.violations)


def test_more_than_is_simulated(doors: Doors) -> None:
    nodes = [{"count": 20_000, "devices": 8}, {"count": 1, "devices": 8, "name": "more"}]
    for question, field in (
        ({"cluster": {"nodes": nodes}}, "cluster.nodes"),
        ({"cluster": ONE, "jobs": [{"name": f"j{n}", "num_pods": 100_000} for n in range(2)]}, "jobs"),
    ):
        over_http, over_grpc = doors.rest_refusal(RPC, question), doors.grpc_refusal(RPC, question)
        assert over_http.without_status() == over_grpc.without_status()
        assert (429, "TOO_LARGE") == (over_http.http_status, over_http.reason)
        assert over_http.message.startswith(field)


def test_nothing_secret_comes_back(doors: Doors) -> None:
    snapshot = json.loads(FIXTURE.read_text(encoding="utf-8"))
    question = {"cluster": {"snapshot": snapshot}}
    for text in (doors.post(RPC, question).text, json.dumps(json_of(doors.call(RPC, message_of(RPC, question))))):
        assert "ml/train" in text
        for secret in ("hunter2", "AKIA", "sk-live", "QUtJ", "registry.example"):
            assert secret not in text
