"""Snapshots of small clusters, and what is odd, hostile or secret in them."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.placement.arrivals import background_and_jobs
from service.placement.cluster import NVIDIA_GPU
from service.placement.errors import TooMany
from service.placement.outcome import outcome
from service.placement.policies import JobState, Policy
from service.placement.simulate import MAX_NODES, Simulation
from service.placement.snapshot import UnreadableSnapshot, read_snapshot
from tests.placement.clusters import job, listed, node_object, nodes_of, outcome_of, pod_object, read, states

PRODUCT = "nvidia.com/gpu.product"
CLIQUE = "nvidia.com/gpu.clique"
FIXTURE = Path(__file__).parents[1] / "data" / "kubectl_nodes_pods.json"


# ---------------------------------------------------------------------------------------------------------- whole ones


def test_a_snapshot_as_kubectl_prints_it() -> None:
    text = FIXTURE.read_text(encoding="utf-8")
    snapshot = read_snapshot(json.loads(text))
    nodes = {node.name: node for node in snapshot.nodes}
    assert {"h100-a", "h100-b", "h100-cordoned", "a100-mig", "t4-shared", "control"} == nodes.keys()
    assert (8, 191_450, 2_113_300_000 * 1024) == tuple(
        nodes["h100-a"].allocatable[each] for each in ("nvidia.com/gpu", "cpu", "memory")
    )
    assert nodes["h100-cordoned"].unschedulable
    assert ("", 1) == (nodes["h100-a"].partition, nodes["h100-a"].num_shares_per_device)
    assert "1g.5gb" == nodes["a100-mig"].partition
    assert 4 == nodes["t4-shared"].num_shares_per_device
    pods = {pod.name: pod for pod in snapshot.pods}
    assert {"train-0", "train-1", "llm-6d5f", "notebook", "agent"} == pods.keys()  # one that is over is left out
    assert {"cpu": 8500, "memory": 66 * 2**30, "nvidia.com/gpu": 4} == dict(pods["llm-6d5f"].requests)  # sidecar and overhead
    for secret in ("hunter2", "AKIA", "sk-live"):
        assert secret in text
        assert secret not in repr(snapshot)


def test_the_fixture_simulated() -> None:
    items = json.loads(FIXTURE.read_text(encoding="utf-8"))["items"]
    found = outcome_of(*items, policy=Policy(gang=True))
    assert 24 == found.num_devices  # two H100 nodes and the cordoned one; slices and partitions are none
    assert {"ml/train": JobState.WAITING, "ml/notebook": JobState.RUNNING} == states(found)
    assert ["t4-shared"] == nodes_of(found, "ml/notebook")
    assert (4, 0, 20, 8) == (
        found.num_devices_working,
        found.num_devices_held_idle,
        found.num_devices_free,
        found.num_devices_unavailable,
    )
    (train,) = (each for each in found.jobs if each.name == "ml/train")
    assert "cordoned" in " ".join(each.reason for each in train.obstacles)


# --------------------------------------------------------------------------------------------------------------- nodes


def waits_for(*items: dict[str, Any], devices: int = 1, **more: Any) -> list[str]:
    (one,) = outcome_of(*items, jobs=[job("j", devices, **more)]).jobs
    return [] if one.state is JobState.RUNNING else [each.limit for each in one.obstacles]


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ({}, []),
        ({"unschedulable": True}, ["unschedulable"]),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, ["not ready"]),
        ({"conditions": [{"type": "Ready", "status": "Unknown"}]}, ["not ready"]),
        ({"conditions": [{"type": "DiskPressure", "status": "False"}]}, []),
        ({"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}, ["taint"]),
        ({"taints": [{"key": "nvidia.com/gpu", "effect": "PreferNoSchedule"}]}, []),
        ({"labels": {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}}, ["no whole devices"]),
        ({"labels": {PRODUCT: "Tesla-T4-SHARED"}}, ["no whole devices"]),
        ({"labels": {PRODUCT: "Tesla-T4", "nvidia.com/gpu.replicas": "4"}}, ["no whole devices"]),
        ({"labels": {PRODUCT: "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.replicas": "1"}}, []),
        ({"devices": 0, "allocatable": {"nvidia.com/mig-1g.5gb": "7"}}, ["nvidia.com/gpu"]),
        ({"allocatable": {"pods": "0"}}, ["pods"]),
    ],
)
def test_what_keeps_a_whole_device_job_from_a_node(fields: dict[str, Any], limits: list[str]) -> None:
    assert limits == waits_for(node_object("n", **fields))


def test_mig_mixed_has_resources_of_its_own() -> None:
    mixed = node_object("n", 0, allocatable={"nvidia.com/mig-1g.5gb": "7"})
    slices = [pod_object(f"p-{n}", 0, containers=[{"resources": {"limits": {"nvidia.com/mig-1g.5gb": 2}}}]) for n in range(4)]
    found = outcome_of(mixed, *slices)
    assert 3 == sum(each.state is JobState.RUNNING for each in found.jobs)  # 6 of 7; the fourth finds 1
    assert 0 == found.num_devices


def test_pods_of_a_snapshot_take_what_goes_by_the_name() -> None:
    shared = node_object("n", 4, labels={PRODUCT: "Tesla-T4-SHARED"})
    found = outcome_of(shared, pod_object("p", 1))
    assert {"ml/p": JobState.RUNNING} == states(found)
    assert (0, 0) == (found.num_devices, found.num_devices_working)


def test_a_job_that_needs_one_nvlink_domain_stays_in_a_clique() -> None:
    nodes = [node_object(f"n-{number}", 4, labels={CLIQUE: f"uuid.{number % 2}"}) for number in range(6)]
    held = pod_object("held", 4, on="n-1")  # one of the three nodes of clique 1
    policy = Policy(gang=True)
    fits = outcome_of(*nodes, held, policy=policy, jobs=[job("j", 4, 3, needs_one_link_domain=True)])
    assert ["n-0", "n-2", "n-4"] == nodes_of(fits, "j")
    four = outcome_of(*nodes, held, policy=policy, jobs=[job("j", 4, 4, needs_one_link_domain=True)])
    assert JobState.WAITING is states(four)["j"]
    assert "no link domain has room for all of it" in four.jobs[0].reason
    anywhere = outcome_of(*nodes, held, policy=policy, jobs=[job("j", 4, 4)])
    assert JobState.RUNNING is states(anywhere)["j"]


def test_a_node_without_a_clique_is_a_domain_of_its_own() -> None:
    nodes = [node_object("n-1"), node_object("n-2")]
    inside = outcome_of(*nodes, policy=Policy(gang=True), jobs=[job("j", 4, 2, needs_one_link_domain=True)])
    assert ["n-1", "n-1"] == nodes_of(inside, "j")
    across = outcome_of(*nodes, policy=Policy(gang=True), jobs=[job("j", 8, 2, needs_one_link_domain=True)])
    assert JobState.WAITING is states(across)["j"]


# ---------------------------------------------------------------------------------------------------------------- pods


def test_what_is_over_and_what_lies_elsewhere() -> None:
    snapshot = read(
        node_object("n"),
        *(pod_object(phase, 8, on="n", phase=phase) for phase in ("Succeeded", "Failed")),
        pod_object("gone", 8, on="another"),
        pod_object("there", 1, on="n"),
    )
    assert ["there"] == [pod.name for pod in snapshot.pods]
    assert 1 == snapshot.num_pods_elsewhere


def test_more_is_held_than_there_is() -> None:
    found = outcome_of(node_object("n", 8), *(pod_object(f"p-{n}", 8, on="n") for n in range(2)), jobs=[job("j", 1)])
    assert 0 == found.num_devices_free
    assert any("more devices are held than there are on n" in note for note in found.notes)
    assert JobState.WAITING is states(found)["j"]


def test_gated_pods_wait_for_their_gates() -> None:
    found = outcome_of(node_object("n"), pod_object("p", 1, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
    assert JobState.GATED is found.jobs[0].state
    assert "kueue.x-k8s.io/admission" in found.jobs[0].reason


def test_limits_stand_for_requests_that_are_not_given() -> None:
    limited = pod_object(
        "p", containers=[{"resources": {"limits": {"cpu": "2", "nvidia.com/gpu": 1}, "requests": {"cpu": "1"}}}]
    )
    (pod,) = read(node_object("n"), limited).pods
    assert {"cpu": 1000, NVIDIA_GPU: 1} == dict(pod.requests)


def affinity(kind: str, key: str, labels: dict[str, str] | None) -> dict[str, Any]:
    term = {"topologyKey": key, **({} if labels is None else {"labelSelector": {"matchLabels": labels}})}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_affinity_and_anti_affinity_between_pods() -> None:
    host = "kubernetes.io/hostname"
    nodes = [node_object(f"n-{number}", labels={host: f"n-{number}", "zone": str(number // 2)}) for number in range(4)]
    apart = [
        pod_object(f"p-{n}", 1, labels={"app": "x"}, affinity=affinity("podAntiAffinity", host, {"app": "x"})) for n in range(5)
    ]
    found = outcome_of(*nodes, *apart)
    assert 4 == len({nodes_of(found, f"ml/p-{n}")[0] for n in range(4)})
    assert JobState.WAITING is states(found)["ml/p-4"]
    assert "pod affinity" in [each.limit for each in found.jobs[-1].obstacles]
    # One that lies there objects to one that comes, though that one says nothing.
    owner = pod_object("owner", 1, on="n-0", affinity=affinity("podAntiAffinity", "zone", {"app": "y"}))
    comes = outcome_of(*nodes, owner, pod_object("q", 1, labels={"app": "y"}))
    assert nodes_of(comes, "ml/q")[0] in ("n-2", "n-3")
    beside = [
        pod_object(f"r-{n}", 4, labels={"app": "z"}, affinity=affinity("podAffinity", "zone", {"app": "z"})) for n in range(3)
    ]
    together = outcome_of(*nodes, *beside)
    assert 1 == len({int(nodes_of(together, f"ml/r-{n}")[0][-1]) // 2 for n in range(3)})


def test_daemon_pods_bound_by_name_tell_no_nodes_apart() -> None:
    """Each is of a kind of its own; 2,000 of them on 2,000 nodes must not cost 4,000,000 comparisons."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"

    def bound_to(name: str) -> dict[str, Any]:
        fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
        return {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchFields": fields}]}}}

    items = [node_object(f"n-{number}") for number in range(2000)]
    items += [pod_object(f"agent-{n}", 0, on=f"n-{n}", affinity=bound_to(f"n-{n}")) for n in range(2000)]
    snapshot = read(*items, pod_object("late", 0, affinity=bound_to("n-1999")))
    background, waiting = background_and_jobs(snapshot.pods)
    simulation = Simulation(snapshot.nodes, background, waiting, Policy())
    simulation.run()
    assert simulation.work < 10_000
    found = outcome(simulation, background)
    assert ["n-1999"] == nodes_of(found, "ml/late")


def test_what_is_not_modelled_is_said() -> None:
    spread = [{"whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone", "maxSkew": 1}]
    found = outcome_of(node_object("n"), pod_object("p", 1, topologySpreadConstraints=spread, resourceClaims=[{"name": "gpu"}]))
    assert any("topology spread constraints" in note and "resource claims (DRA)" in note for note in found.notes)


# --------------------------------------------------------------------------------------------------------- odd and hostile

SECRET = "hunter2-in-the-wrong-place"


@pytest.mark.parametrize(
    ("snapshot", "path", "reason"),
    [
        ({}, "kind", "no list of objects"),
        ({"kind": "Pod", "metadata": {}}, "kind", "one Pod"),
        ({"kind": "List", "items": {}}, "items", "should be a list, not an object"),
        ({"kind": "List", "items": []}, "items", "no node among them"),
        ({"kind": "List", "items": [None]}, "items[0]", "should be an object, not null"),
        ({"kind": "List", "items": [{"metadata": {"name": "x"}}]}, "items[0].kind", "is missing"),
        (listed({"kind": "Node", "metadata": {}}), "items[0].metadata.name", "is missing"),
        (listed({"kind": "Node", "metadata": {"name": "n" * 254}}), "items[0].metadata.name", "254 characters"),
        (listed(node_object("n"), node_object("n")), "items[1].metadata.name", "node n is listed twice, first as items[0]"),
        (listed(node_object("n", "-1")), "items[0].status.allocatable.nvidia.com/gpu", "cannot be negative"),
        (listed(node_object("n", "8193")), "items[0].status.allocatable.nvidia.com/gpu", "no node has more than 8192 devices"),
        (
            listed(node_object("n", allocatable={"x/y": "1e16"})),
            "items[0].status.allocatable.x/y",
            "no node has more than 2^53",
        ),
        (listed(node_object("n"), pod_object("p", 2049)), "items[1].spec", "more than 2048 nvidia.com/gpu"),
        (listed(node_object("n", SECRET)), "items[0].status.allocatable.nvidia.com/gpu", "no quantity"),
        (listed(node_object("n", labels={"a": 5})), "items[0].metadata.labels.a", "a text, not a number"),  # type: ignore[dict-item]
        (
            listed(node_object("n"), pod_object("p", tolerations=[SECRET])),
            "items[1].spec.tolerations[0]",
            "an object, not a text",
        ),
        (listed(node_object("n"), pod_object("p", priority=2**40)), "items[1].spec.priority", "whole number of 32 bits"),
        (listed(node_object("n"), pod_object("p", containers=SECRET)), "items[1].spec.containers", "a list, not a text"),
        (listed(node_object("n", unschedulable="yes")), "items[0].spec.unschedulable", "true or false, not a text"),
        (
            listed(node_object("n"), pod_object("p", affinity=affinity("podAffinity", "z", {"a": ["x"]}))),  # type: ignore[dict-item]
            "items[1].spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels.a",
            "a text, not a list",
        ),
    ],
)
def test_refused_with_the_path_and_no_content(snapshot: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(UnreadableSnapshot, match=re.escape(reason)) as refused:
        read_snapshot(snapshot)
    assert path == refused.value.errors[0].path
    assert SECRET not in str(refused.value)


def test_many_faults_are_told_up_to_a_number() -> None:
    with pytest.raises(UnreadableSnapshot) as refused:
        read(*(node_object(f"n-{number}", "x") for number in range(100)))
    assert 20 == len(refused.value.errors)


def test_too_many_nodes() -> None:
    with pytest.raises(TooMany, match="send a part of the cluster"):
        read(*[node_object("n")] * (MAX_NODES + 1))


def test_sums_beyond_64_bits_do_not_wrap() -> None:
    big = [{"resources": {"requests": {"memory": "8191Ti"}}} for _ in range(2000)]
    with pytest.raises(ValueError, match=r"2\^53"):
        outcome_of(node_object("n"), pod_object("p", containers=big))
    lying = [pod_object(f"p-{n}", on="n", containers=[{"resources": {"requests": {"memory": "8191Ti"}}}]) for n in range(10)]
    with pytest.raises(ValueError, match=r"2\^53"):
        outcome_of(node_object("n"), *lying)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PLACES = [
    *("metadata", "spec", "status", "metadata.labels", "metadata.annotations", "spec.taints", "spec.unschedulable"),
    *("status.allocatable", "status.conditions", "status.allocatable.cpu", "spec.containers", "spec.initContainers"),
    *("spec.tolerations", "spec.nodeSelector", "spec.affinity", "spec.affinity.nodeAffinity", "spec.affinity.podAntiAffinity"),
    *("spec.overhead", "spec.resources", "spec.priority", "spec.schedulingGates", "spec.workloadRef", "spec.schedulingGroup"),
    *("spec.nodeName", "status.phase", "spec.minMember", "spec.policy", "spec.podGroups", "spec.leaderWorkerTemplate", "kind"),
]


@given(st.sampled_from(PLACES), JSON, st.integers(0, 2))
def test_anything_anywhere_is_read_or_refused_in_words(path: str, value: object, place: int) -> None:
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}}
    items = [node_object("n"), pod_object("p", annotations={"scheduling.k8s.io/group-name": "g"}), group]
    target: dict[str, Any] = items[place]
    *parents, last = path.split(".")
    for name in parents:
        target = target.setdefault(name, {})
    target[last] = value
    with contextlib.suppress(UnreadableSnapshot, TooMany):  # anything else is a fault of ours
        found = outcome_of(*items)
        assert found.num_devices == found.num_devices_working + found.num_devices_held_idle + found.num_devices_free
