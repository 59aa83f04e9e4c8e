"""Section E of the worked figures through REST and gRPC, against the running service."""

import urllib.error
from typing import Any

import grpc
import pytest

from tests.api.test_worked_figures import ask_grpc, ask_rest
from tests.service_process import RunningService

RPC = "SimulatePlacement"
CLUSTER = {"nodes": [{"count": 3, "devices": 8}]}
SMALL = [{"name": "a", "num_pods": 1, "devices_per_pod": 4}, {"name": "b", "num_pods": 1, "devices_per_pod": 4}]
T16 = {"name": "T16", "num_pods": 2, "devices_per_pod": 8}
T8 = {"name": "T8", "num_pods": 1, "devices_per_pod": 8}
JOBS = [*SMALL, T16, T8]
DEFAULT = {"scoring": "LEAST_ALLOCATED", "weights": {"cpu": 1, "memory": 1}}
PACKING = {"scoring": "MOST_ALLOCATED", "weights": {"nvidia.com/gpu": 5}}

DOORS = pytest.mark.parametrize("door", [ask_rest, ask_grpc], ids=["rest", "grpc"])


def asked(door: Any, service: RunningService, jobs: list[dict[str, Any]], policy: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = door(service, RPC, {"cluster": CLUSTER, "jobs": jobs, "policy": policy})
    return answer


def devices(answer: dict[str, Any]) -> tuple[int, ...]:
    """All, working, held idle, free."""
    names = ("num_devices", "num_devices_working", "num_devices_held_idle", "num_devices_free")
    return tuple(answer.get(name, 0) for name in names)


def states(answer: dict[str, Any]) -> dict[str, str]:
    return {job["name"]: job["state"] for job in answer["jobs"]}


def held(answer: dict[str, Any]) -> dict[str, list[str]]:
    return {job["name"]: [each["node"] for each in job.get("placements", [])] for job in answer["jobs"]}


@DOORS
@pytest.mark.parametrize("policy", [{"gang": False, **DEFAULT}, {}], ids=["said", "by default"])
def test_e1_one_pod_at_a_time(service: RunningService, door: Any, policy: dict[str, Any]) -> None:
    answer = asked(door, service, JOBS, policy)
    assert (24, 8, 8, 8) == devices(answer)
    assert {"a": "RUNNING", "b": "RUNNING", "T16": "WAITING_PARTIAL", "T8": "WAITING"} == states(answer)
    assert {"a": ["node-1"], "b": ["node-2"], "T16": ["node-3"], "T8": []} == held(answer)
    reasons = {job["name"]: job.get("reason", "") for job in answer["jobs"]}
    assert "3 nodes: 8 nvidia.com/gpu asked for, at most 4 nvidia.com/gpu free" in reasons["T8"]
    assert reasons["T16"].startswith("1 of 2 pods waits: ")
    assert not answer.get("deadlocks")  # T16 waits for jobs that run: they may end
    assert 8 == answer["num_devices_stranded"]
    bound = [(step["pod"], step["node"], step["score"]) for step in answer["steps"] if "BOUND" == step["action"]]
    # CPUs (96 − 40)·100/96 = 58, GiB (960 − 400)·100/960 = 58; (96 − 80)·100/96 = 16, (960 − 800)·100/960 = 16.
    assert [("a-0", "node-1", 58), ("b-0", "node-2", 58), ("T16-0", "node-3", 16)] == bound


@DOORS
def test_e2_two_large_jobs_wait_for_each_other(service: RunningService, door: Any) -> None:
    second = T16 | {"name": "U16"}
    answer = asked(door, service, [*SMALL, T16, second], {"interleave_pods": True, **PACKING})
    assert (24, 8, 16, 0) == devices(answer)
    assert {"a": ["node-1"], "b": ["node-1"], "T16": ["node-2"], "U16": ["node-3"]} == held(answer)
    (deadlock,) = answer["deadlocks"]
    circle = {each["job"]: (each["holds"], each["waits_for"]) for each in deadlock["jobs"]}
    assert {
        "T16": ([{"node": "node-2", "num_pods": 1, "num_devices": 8}], ["U16"]),
        "U16": ([{"node": "node-3", "num_pods": 1, "num_devices": 8}], ["T16"]),
    } == circle
    assert (
        "T16 holds 8 devices on node-2 and waits for U16; U16 holds 8 devices on node-3 and waits for T16"
        in (deadlock["description"])
    )


@DOORS
def test_e3_gang(service: RunningService, door: Any) -> None:
    answer = asked(door, service, JOBS, {"gang": True, **DEFAULT})
    assert (24, 16, 0, 8) == devices(answer)
    assert {"a": "RUNNING", "b": "RUNNING", "T16": "WAITING", "T8": "RUNNING"} == states(answer)
    assert ["node-3"] == held(answer)["T8"]
    assert not answer.get("deadlocks")


@DOORS
def test_e4_gang_and_bin_packing(service: RunningService, door: Any) -> None:
    answer = asked(door, service, JOBS, {"gang": True, **PACKING})
    assert (24, 24, 0, 0) == devices(answer)
    assert {"a": ["node-1"], "b": ["node-1"], "T16": ["node-2", "node-3"], "T8": []} == held(answer)
    assert "WAITING" == states(answer)["T8"]


@DOORS
def test_e5_devices_are_whole_and_never_promised_twice(service: RunningService, door: Any) -> None:
    crowd = [{"name": f"j{number}", "devices_per_pod": 3} for number in range(9)]
    answer = asked(door, service, crowd, {})
    assert (24, 18, 0, 6) == devices(answer)  # two of three on each node; the two that are left are nobody's
    assert any("extended resources" in note and "whole" in note for note in answer["notes"])
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "0.5"}}}]}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": spec}
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    with pytest.raises((urllib.error.HTTPError, grpc.RpcError)) as refused:
        door(service, RPC, {"cluster": {"snapshot": {"kind": "List", "items": [node, pod]}}})
    error: Any = refused.value
    told = error.read().decode() if door is ask_rest else error.details()
    assert "nvidia.com/gpu comes in whole numbers" in told
    assert "cluster.snapshot.items[1].spec.containers[0].resources.limits.nvidia.com/gpu" in told


@DOORS
def test_e6_the_words(service: RunningService, door: Any) -> None:
    gang = " ".join(asked(door, service, JOBS, {"gang": True})["notes"])
    assert "beta, off by default, in v1.37" in gang
    assert '"Gang scheduling" in Slurm means time-slicing, not all or nothing' in gang
    kueue = " ".join(asked(door, service, JOBS, {"wait_for_pods_ready": {}, "horizon_seconds": 301})["notes"])
    assert "Kueue's waitForPodsReady evicts" in kueue
    assert "back into the queue" in kueue
    volcano = " ".join(asked(door, service, [*SMALL, T16 | {"min_pods": 1}], {"gang": True})["notes"])
    assert "Volcano" in volcano
    assert "minMember" in volcano


@DOORS
def test_what_would_help_is_simulated(service: RunningService, door: Any) -> None:
    remedies = {each["kind"]: each for each in asked(door, service, JOBS, {})["remedies"]}
    assert 24 == remedies["GANG_AND_BIN_PACKING"]["num_devices_working"]
    assert 16 == remedies["GANG"]["num_devices_working"]
    assert ["T8"] == remedies["GANG"]["jobs_helped"]
    assert 16 == remedies["EVICTION"]["num_devices_working"]
    assert "move a-0 to node-2" in remedies["DRAIN_NODE"]["description"]
