"""Every way in which pods say that they belong together, through a whole snapshot: half of the gang lies, half waits."""

from typing import Any

import pytest

from service.placement.policies import JobState, Policy
from tests.placement.clusters import node_object, outcome_of, pod_object, read

LWS = "leaderworkerset.sigs.k8s.io"
CORE = "scheduling.k8s.io/v1beta1"


def group_object(api: str, kind: str, spec: dict[str, Any], name: str = "g") -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "ml"}, "spec": spec}


#: Fields of each pod, the group's own object if it has one, the words for it, its key.
SPELLINGS: list[tuple[dict[str, Any], dict[str, Any] | None, str, str]] = [
    (
        {"workloadRef": {"name": "g", "podGroup": "workers"}},
        group_object(
            "scheduling.k8s.io/v1alpha1", "Workload", {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 3}}}]}
        ),
        "core workloadRef (1.35)",
        "ml/g/workers",
    ),
    (
        {"workloadRef": {"name": "g", "podGroup": "workers", "podGroupReplicaKey": "1"}},
        group_object(
            "scheduling.k8s.io/v1alpha1", "Workload", {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 3}}}]}
        ),
        "core workloadRef (1.35)",
        "ml/g/workers/1",
    ),
    (
        {"workloadRef": {"name": "g", "podGroup": "workers"}},
        group_object(
            CORE, "Workload", {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 3}}}]}
        ),
        "core workloadRef (1.35)",
        "ml/g/workers",
    ),
    (
        {"schedulingGroup": {"podGroupName": "g"}},
        group_object(CORE, "PodGroup", {"policy": {"gang": {"minCount": 3}}}),
        "core schedulingGroup (1.36 and later)",
        "ml/g",
    ),
    (
        {"schedulingGroup": {"podGroupName": "g"}},
        group_object(CORE, "PodGroup", {"schedulingPolicy": {"gang": {"minCount": 3}}}),
        "core schedulingGroup (1.36 and later)",
        "ml/g",
    ),
    (
        {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        group_object("scheduling.x-k8s.io/v1alpha1", "PodGroup", {"minMember": 3}),
        "scheduler-plugins PodGroup",
        "ml/g",
    ),
    (
        {"annotations": {"scheduling.k8s.io/group-name": "g"}},
        group_object("scheduling.volcano.sh/v1beta1", "PodGroup", {"minMember": 3}),
        "Volcano PodGroup",
        "ml/g",
    ),
    (
        {
            "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
        },
        None,
        "Kueue pod group",
        "ml/g",
    ),
    (
        {"labels": {f"{LWS}/name": "g", f"{LWS}/group-index": "0"}, "annotations": {f"{LWS}/size": "3"}},
        None,
        "LeaderWorkerSet group",
        "ml/g/0",
    ),
    (
        {"labels": {f"{LWS}/name": "g", f"{LWS}/group-index": "0"}},
        group_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 3}}),
        "LeaderWorkerSet group",
        "ml/g/0",
    ),
]


@pytest.mark.parametrize(
    ("fields", "group", "words", "key"), SPELLINGS, ids=[f"{n}-{each[2]}" for n, each in enumerate(SPELLINGS)]
)
def test_every_spelling(fields: dict[str, Any], group: dict[str, Any] | None, words: str, key: str) -> None:
    objects = [group] if group else []
    pods = [pod_object(f"p-{number}", 8, **fields) for number in range(3)]
    # Three pods, two nodes: nothing is bound, under gang; under one at a time two pods wait for the third.
    nodes = [node_object("n-1"), node_object("n-2")]
    (alone,) = outcome_of(*nodes, *objects, *pods, policy=Policy(gang=True)).jobs
    assert (key, words, 3, JobState.WAITING, 0) == (alone.name, alone.gang, alone.min_pods, alone.state, alone.num_devices_held)
    (partial,) = outcome_of(*nodes, *objects, *pods).jobs
    assert (JobState.WAITING_PARTIAL, 16) == (partial.state, partial.num_devices_held)
    third = node_object("n-3")
    (fits,) = outcome_of(*nodes, third, *objects, *pods, policy=Policy(gang=True)).jobs
    assert JobState.RUNNING is fits.state


def test_a_gang_without_its_object_needs_the_pods_at_hand() -> None:
    pods = [pod_object(f"p-{number}", 8, labels={"scheduling.x-k8s.io/pod-group": "g"}) for number in range(2)]
    (one,) = outcome_of(node_object("n"), *pods, policy=Policy(gang=True)).jobs
    assert (2, JobState.WAITING) == (one.min_pods, one.state)


def test_a_basic_policy_is_no_gang() -> None:
    group = group_object(CORE, "PodGroup", {"policy": {"basic": {}}})
    pods = [pod_object(f"p-{number}", 8, schedulingGroup={"podGroupName": "g"}) for number in range(2)]
    (one,) = outcome_of(node_object("n"), group, *pods, policy=Policy(gang=True)).jobs
    assert (1, JobState.RUNNING, 1) == (one.min_pods, one.state, one.num_pods_placed)


def test_groups_of_one_name_in_two_namespaces_or_spellings_are_two() -> None:
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    here, there = pod_object("p", labels=label), pod_object("p", labels=label)
    there["metadata"]["namespace"] = "other"
    volcano = pod_object("q", annotations={"scheduling.k8s.io/group-name": "g"})
    assert 3 == len(outcome_of(node_object("n"), here, there, volcano).jobs)


def test_a_gang_that_lies_and_is_short_of_pods_is_held_idle() -> None:
    fields: dict[str, Any] = {
        "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    found = outcome_of(node_object("n"), pod_object("p", 8, on="n", **fields))
    assert (0, 8) == (found.num_devices_working, found.num_devices_held_idle)
    assert "2 pods must run together, and only 1 of them are there" in found.jobs[0].reason
    assert not found.deadlocks


@pytest.mark.parametrize("count", ["", "0", "-3", "3.5", "many", "99999999999", "٣"])
def test_a_count_that_is_none_leaves_the_pods_at_hand(count: str) -> None:
    fields: dict[str, Any] = {
        "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": count},
    }
    (pod,) = read(node_object("n"), pod_object("p", 1, **fields)).pods
    assert pod.gang is not None
    assert (None, 1) == (pod.gang.min_count, pod.gang.needed(1))
