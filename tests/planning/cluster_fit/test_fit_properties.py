"""Whatever the cluster: what FitCluster says fits, SimulatePlacement places, and one more it does not."""

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from service.placement.policies import JobState
from service.planning.cluster_fit.requests import FitClusterRequest
from service.planning.cluster_fit.results import ClusterFitOption, ClusterRemedyKind
from service.planning.placement.requests import (
    Cluster,
    NodeGroup,
    PlacementJob,
    PlacementPolicy,
    PodToleration,
    SimulatePlacementRequest,
)
from service.planning.planner import Planner
from service.planning.requests import ModelSpec, Parallelism
from tests.placement.clusters import listed, node_object, pod_object

MODEL = ModelSpec(name="llama-3.1-8b")
SHAPES = st.sampled_from([Parallelism(*each) for each in ((1,), (2,), (4,), (8,), (4, 2), (8, 2), (2, 8))])
TOLERATION = PodToleration("nvidia.com/gpu", "Exists")
CPUS, MEMORY = 8.0, 64.0 * 2**30


@st.composite
def items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Nodes of GB200 in racks, with pods, some of which wait."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        labels = {"nvidia.com/gpu.product": "NVIDIA-GB200"}
        rack = draw(st.sampled_from(["", "one", "two"]))
        if rack:
            labels["nvidia.com/gpu.clique"] = rack
        more: dict[str, Any] = {"unschedulable": True} if draw(st.integers(0, 7)) == 0 else {}
        found.append(node_object(f"n{number}", draw(st.sampled_from([4, 8])), labels, **more))
        held = draw(st.lists(st.integers(1, 2), max_size=2))
        found += [pod_object(f"p{number}-{place}", each, f"n{number}") for place, each in enumerate(held)]
    return [
        *found,
        *(pod_object(f"w{place}", each) for place, each in enumerate(draw(st.lists(st.integers(1, 5), max_size=2)))),
    ]


def asked(objects: list[dict[str, Any]], shape: Parallelism, wanted: int | None = None) -> FitClusterRequest:
    return FitClusterRequest(
        cluster=Cluster(snapshot=listed(*objects)),
        model=MODEL,
        context_tokens=1024,
        parallelism=shape,
        num_replicas=wanted,
        cpus_per_device=CPUS,
        memory_bytes_per_device=MEMORY,
    )


def states(planner: Planner, cluster: Cluster, option: ClusterFitOption, count: int) -> list[JobState]:
    """The states of so many replicas, each a gang of its own, once the scheduler has seen to what waits."""
    jobs = tuple(
        PlacementJob(
            name=f"replica-{number}",
            num_pods=option.num_pods_per_replica,
            devices_per_pod=option.num_devices_per_pod,
            cpus_per_pod=CPUS * option.num_devices_per_pod,
            memory_bytes_per_pod=MEMORY * option.num_devices_per_pod,
            needs_one_link_domain=option.needs_one_link_domain,
            tolerations=(TOLERATION,),
        )
        for number in range(count)
    )
    answer = planner.simulate_placement(SimulatePlacementRequest(cluster, jobs, PlacementPolicy(gang=True)))
    return [job.state for job in answer.jobs if job.name.startswith("replica-")]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(objects=items(), shape=SHAPES, wanted=st.sampled_from([None, 1, 3]))
def test_the_simulator_places_what_fits_and_no_more(
    planner: Planner, objects: list[dict[str, Any]], shape: Parallelism, wanted: int | None
) -> None:
    question = asked(objects, shape, wanted)
    (option,) = planner.fit_cluster(question).options
    if option.parallelism is None:
        assert option.reason
        return
    now = option.num_replicas_now
    found = states(planner, question.cluster, option, now + 1)
    assert [JobState.RUNNING] * now + [JobState.WAITING] == found
    assert option.fits == (now >= (wanted or 1))
    assert (now if wanted is None else min(now, wanted)) == len(option.replicas)
    domains = {each["metadata"]["name"]: each["metadata"]["labels"].get("nvidia.com/gpu.clique", "") for each in nodes(objects)}
    for one in option.replicas:
        assert option.num_devices_per_replica == sum(each.num_devices for each in one.placements)
        if option.needs_one_link_domain and len(one.placements) > 1:
            assert {one.link_domain} == {domains[each.node] for each in one.placements} != {""}
    used = Counter[str]()
    for one in option.replicas:
        used.update({each.node: each.num_devices for each in one.placements})
    assert not used - free_devices(objects)


def nodes(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == "Node"]


def free_devices(objects: list[dict[str, Any]]) -> Counter[str]:
    free = Counter({each["metadata"]["name"]: int(each["status"]["allocatable"]["nvidia.com/gpu"]) for each in nodes(objects)})
    for each in objects:
        on = each["spec"].get("nodeName")
        if each["kind"] == "Pod" and on:
            free[on] -= int(each["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"])
    return free


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(objects=items(), shape=SHAPES)
def test_moves_and_nodes_that_are_advised_do_help(planner: Planner, objects: list[dict[str, Any]], shape: Parallelism) -> None:
    settled = [each for each in objects if each["kind"] == "Node" or each["spec"].get("nodeName")]
    question = asked(settled, shape, 4)
    (option,) = planner.fit_cluster(question).options
    moved = settled
    for each in option.remedies:
        if each.kind is ClusterRemedyKind.MOVE_PODS:
            targets = {move.pod: move.to_node for move in each.moves}
            moved = [
                item | {"spec": item["spec"] | {"nodeName": targets[f"ml/{item['metadata']['name']}"]}}
                if f"ml/{item['metadata']['name']}" in targets
                else item
                for item in moved
            ]
            assert min(free_devices(moved).values()) >= 0
            (then,) = planner.fit_cluster(asked(moved, shape, 4)).options
            assert then.num_replicas_now >= each.num_replicas > option.num_replicas_now
        else:
            like = next(item for item in nodes(settled) if f"like {item['metadata']['name']}" in each.description)
            name, labels = like["metadata"]["name"], like["metadata"]["labels"]
            linked = "nvidia.com/gpu.clique" in labels
            copies = [
                like
                | {
                    "metadata": {
                        "name": f"{name}-new-{number}",
                        "labels": labels | ({"nvidia.com/gpu.clique": "new"} if linked else {}),
                    }
                }
                for number in range(each.num_nodes)
            ]
            (then,) = planner.fit_cluster(asked([*settled, *copies], shape, 4)).options
            assert then.num_replicas_now >= each.num_replicas


def test_equal_questions_have_equal_answers_and_the_order_of_nodes_does_not_matter(planner: Planner) -> None:
    counted = (NodeGroup(3, node_type="dgx-h100"), NodeGroup(2, node_type="dgx-h200"))
    question = FitClusterRequest(Cluster(counted), MODEL, 1024)
    answer = planner.fit_cluster(question)
    assert answer == planner.fit_cluster(question)
    turned = planner.fit_cluster(replace(question, cluster=Cluster(counted[::-1])))
    assert answer.options == turned.options
