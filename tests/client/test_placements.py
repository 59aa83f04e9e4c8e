"""Placements through the client and on the command line, against the real service."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from service.placement.snapshot import read_snapshot
from tests.client.conftest import Run
from tests.service_process import RunningService
from tonnage import AsyncClient, Client, InvalidRequest, NotFound, Overloaded
from tonnage.cli.exits import Exit
from tonnage.placement_requests import simulate_placement
from tonnage.snapshots import trimmed
from tonnage.v1.placement_pb2 import NodeGroup, PlacedJob, PlacementJob, PlacementPolicy

FIXTURE = Path(__file__).parents[1] / "data" / "kubectl_nodes_pods.json"
JOBS: list[PlacementJob | dict[str, object]] = [
    {"name": "T16", "num_pods": 2, "devices_per_pod": 8},
    PlacementJob(name="T8", devices_per_pod=8),
]
WORDS = ("--nodes", "3x8", "--job", "a:4", "--job", "b:4", "--job", "T16:2x8", "--job", "T8:8")


def test_the_request() -> None:
    asked = simulate_placement(
        nodes=[{"count": 3, "devices": 8}, NodeGroup(count=1, node_type="dgx-h100")],
        jobs=JOBS,
        policy={"gang": True, "scoring": "MOST_ALLOCATED", "weights": {"nvidia.com/gpu": 5}},
    )
    assert [(3, 8, ""), (1, 0, "dgx-h100")] == [(each.count, each.devices, each.node_type) for each in asked.cluster.nodes]
    assert [("T16", 2), ("T8", 0)] == [(each.name, each.num_pods) for each in asked.jobs]
    assert (PlacementPolicy.MOST_ALLOCATED, {"nvidia.com/gpu": 5}) == (asked.policy.scoring, dict(asked.policy.weights))
    with pytest.raises(InvalidRequest, match="cluster"):
        simulate_placement(nodes=[8])  # type: ignore[list-item]


async def test_both_clients(service: RunningService) -> None:
    asked: dict[str, Any] = {"nodes": [{"count": 2, "devices": 8}], "jobs": JOBS}
    with Client(service.grpc) as client:
        answer = client.simulate_placement(**asked)
        with pytest.raises(NotFound, match="dgx"):
            client.simulate_placement(nodes=[{"count": 1, "node_type": "dgx-h1000"}])
        with pytest.raises(Overloaded, match="which is more than 20000"):
            client.simulate_placement(nodes=[{"count": 20_000, "devices": 8}, {"count": 1, "devices": 8, "name": "more"}])
    async with AsyncClient(service.grpc) as asynchronous:
        assert answer == await asynchronous.simulate_placement(**asked)
    assert [PlacedJob.RUNNING, PlacedJob.WAITING] == [job.state for job in answer.jobs]


def test_what_no_scheduler_reads_stays_here() -> None:
    whole = json.loads(FIXTURE.read_text(encoding="utf-8"))
    sent = trimmed(whole)
    text = json.dumps(sent)
    for secret in ("hunter2", "AKIA", "sk-live", "QUtJ", "volumes", "managedFields", "image", "last-applied"):
        assert secret in json.dumps(whole)
        assert secret not in text
    assert read_snapshot(whole) == read_snapshot(sent)  # and nothing is missing
    assert len(whole["items"]) == len(sent["items"])


@pytest.mark.parametrize(
    "odd", [{}, {"items": 5}, {"kind": "List", "items": [None, 5, {"kind": "Pod", "spec": "x", "status": []}]}]
)
def test_what_is_odd_is_left_to_the_service(odd: dict[str, Any]) -> None:
    assert isinstance(trimmed(odd), dict)


def test_the_command(run_for_real: Run) -> None:
    code, out, _ = run_for_real("place", *WORDS)
    said = " ".join(out.split())
    assert Exit.ANSWERED == code
    for part in (
        "24 devices on 3 nodes",
        "8 work, 8 are held idle, 8 are free (8 stranded)",
        "What would help",
        "T8: 1 of 1 pods",
    ):
        assert part in said
    code, out, _ = run_for_real(
        "place", *WORDS, "--gang", "--scoring", "most-allocated", "--weight", "nvidia.com/gpu=5", "--steps"
    )
    assert "24 work, 0 are held idle, 0 are free." in " ".join(out.split())
    assert "bound" in out
    assert Exit.DOES_NOT_FIT == run_for_real("place", *WORDS, "--check")[0]
    assert Exit.ANSWERED == run_for_real("place", "--nodes", "1x8", "--job", "a:8", "--check")[0]


def test_the_command_reads_what_kubectl_prints(run_for_real: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = FIXTURE.read_text(encoding="utf-8")
    code, out, _ = run_for_real("place", "--snapshot", str(FIXTURE), "--job", "llama:8", "--gang", "--json")
    assert Exit.ANSWERED == code
    assert ["ml/notebook", "ml/train", "llama"] == [job["name"] for job in json.loads(out)["jobs"]]
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps({"jobs": [{"name": "llama", "devices_per_pod": 8}]}), encoding="utf-8")
    piped = run_for_real("place", "--snapshot", "-", "--jobs", str(jobs), "--gang", "--json")
    assert (code, out) == piped[:2]
    assert "hunter2" not in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--nodes", "three"), "is not like 3x8"),
        (("--nodes", "3x8", "--job", "a"), "is not like T8:8"),
        (("--nodes", "3x8", "--weight", "gpu"), "is not like nvidia.com/gpu=5"),
        (("--nodes", "3x8", "--shape", "50"), "is not like 50:10"),
        (("--nodes", "3x8", "--job", "a:8", "--gang", "--interleave"), "policy.interleave_pods"),
        (("--nodes", "3x8", "--job", "a:8", "--job", "a:8"), "jobs[1].name"),
        ((), "cluster"),
    ],
)
def test_what_the_command_refuses(run_for_real: Run, arguments: tuple[str, ...], told: str) -> None:
    code, _, said = run_for_real("place", *arguments)
    assert Exit.BAD_REQUEST == code
    assert told in " ".join(said.split())


def test_a_snapshot_that_is_none(run_for_real: Run, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    for content, told in (("{", "is not JSON"), ("[]", "holds no JSON object"), ('{"kind": "Pod"}', "no list of objects")):
        file.write_text(content, encoding="utf-8")
        code, _, said = run_for_real("place", "--snapshot", str(file))
        assert Exit.BAD_REQUEST == code
        assert told in " ".join(said.split()) or "one Pod" in said
