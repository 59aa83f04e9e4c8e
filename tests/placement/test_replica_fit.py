"""Replicas on a cluster as it stands: how many and where, by hand; and against every way to place them on small clusters."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from service.placement.cluster import CPU, MEMORY, NVIDIA_GPU, Node, Pod, Taint
from service.placement.reasons import Reasons
from service.placement.replica_fit import MAX_LISTED, PlacedReplica, Replica, ReplicaRoom
from service.placement.state import ClusterState
from tests.placement.clusters import GIB, PACKING, job, node


def replica(devices: int, num_pods: int = 1, *, linked: bool = False) -> Replica:
    return Replica(job("replica", devices).pods[0], num_pods, NVIDIA_GPU, linked)


def lying(name: str, on: str, devices: int) -> Pod:
    return replace(job(name, devices).pods[0], node_name=on)


def room_in(nodes: Sequence[Node], wanted: Replica, pods: Sequence[Pod] = ()) -> ReplicaRoom:
    state = ClusterState(nodes, [wanted.pod], PACKING, pods)
    for pod in pods:
        state.place(state.kind(pod), pod, state.index[pod.node_name])
    return ReplicaRoom(state, wanted, np.ones(len(nodes), np.bool_))


def shown(replicas: Sequence[PlacedReplica]) -> list[dict[str, int]]:
    return [{each.node: each.num_pods for each in one.placements} for one in replicas]


def test_replicas_of_one_pod_fill_the_fullest_nodes_first() -> None:
    nodes = [node("a"), node("b"), node("c")]
    # a has 8 free, b has 8 − 4 = 4, c has 8 − 6 = 2: replicas of 4 fit twice on a, once on b, not on c.
    room = room_in(nodes, replica(4), [lying("x", "b", 4), lying("y", "c", 6)])
    assert 3 == room.num_replicas()
    assert [{"b": 1}] == shown(room.take(1).replicas)
    found = room.take()
    assert (2, [{"a": 1}, {"a": 1}]) == (found.num_replicas, shown(found.replicas))
    assert [0, 0, 0] == room.slots().tolist()
    assert [4, 4] == [each.num_devices for one in found.replicas for each in one.placements]


def test_replicas_over_nodes_take_what_a_node_has_left() -> None:
    nodes = [node("a"), node("b", 16), node("c")]
    # Pods of 8: one on a, two on b, one on c: four slots, of which two make a replica.
    found = room_in(nodes, replica(8, 2)).take()
    assert (2, [{"b": 2}, {"a": 1, "c": 1}]) == (found.num_replicas, shown(found.replicas))


def test_a_replica_that_needs_one_link_domain_lies_in_one() -> None:
    trays = [node(f"r{rack}-{tray}", 4, link_domain=f"rack-{rack}") for rack in (1, 2) for tray in (1, 2, 3)]
    held = [lying("x", "r1-1", 4)]
    # 2 trays are free in rack 1 and 3 in rack 2. Two trays a replica: one in each rack, and the fifth tray is left over.
    linked = room_in(trays, replica(4, 2, linked=True), held)
    found = linked.take()
    assert [{"r1-2": 1, "r1-3": 1}, {"r2-1": 1, "r2-2": 1}] == shown(found.replicas)
    assert ["rack-1", "rack-2"] == [each.link_domain for each in found.replicas]
    # Three trays a replica: only rack 2; without the need for one domain 5 // 3 is 1 as well, of 2 trays 5 // 2 is 2.
    assert [1, 1] == [room_in(trays, replica(4, 3, linked=each), held).num_replicas() for each in (True, False)]
    # One tray free in each rack: no replica of two trays in one domain, one over both.
    more = [*held, lying("y", "r1-2", 4), lying("z", "r2-1", 4), lying("w", "r2-2", 4)]
    assert [0, 1] == [room_in(trays, replica(4, 2, linked=each), more).num_replicas() for each in (True, False)]
    (across,) = room_in(trays, replica(4, 2), more).take().replicas
    assert ("", {"r1-3": 1, "r2-3": 1}) == (across.link_domain, *shown([across]))


def test_nodes_that_take_no_pods_and_devices_that_are_no_whole_ones_do_not_count() -> None:
    nodes = [
        node("cordoned", unschedulable=True),
        node("not-ready", ready=False),
        node("tainted", taints=(Taint("team", "x"),)),
        node("sliced", num_shares_per_device=4),
        node("partitioned", partition="1g.5gb"),
        node("good"),
    ]
    assert [{"good": 1}] == shown(room_in(nodes, replica(8)).take().replicas)


def test_other_resources_bind_as_well() -> None:
    small = replace(node("a"), allocatable={CPU: 50_000, MEMORY: 960 * GIB, NVIDIA_GPU: 8})
    assert 1 == room_in([small], replica(4)).num_replicas()  # 40 CPUs a replica


def test_more_than_can_be_listed_are_counted() -> None:
    found = room_in([node(f"n{number}") for number in range(200)], replica(1)).take()
    assert (1600, MAX_LISTED) == (found.num_replicas, len(found.replicas))


def test_reasons_speak_of_the_nodes_in_question() -> None:
    nodes = [node("a", group="h100"), node("b", group="a100")]
    room = room_in(nodes, replica(8))
    only_h100 = np.array([True, False])
    room = ReplicaRoom(room.state, room.replica, only_h100)
    assert 1 == room.take().num_replicas
    (found,) = Reasons(room.state, only_h100).of_kind(room.kind)
    assert ("h100", 1, NVIDIA_GPU) == (found.node_group, found.num_nodes, found.limit)


# ------------------------------------------------------------------------------------------------------- every way


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    nodes, pods = [], []
    for number in range(draw(st.integers(1, 4))):
        devices = draw(st.sampled_from([0, 2, 4, 8]))
        allocatable = {CPU: draw(st.integers(1, 10)) * 8000, MEMORY: 960 * GIB, NVIDIA_GPU: devices}
        domain = draw(st.sampled_from([None, "x", "y"]))
        nodes.append(
            Node(f"n-{number}", allocatable=allocatable, link_domain=domain, unschedulable=draw(st.integers(0, 9)) == 0)
        )
        held = draw(st.lists(st.integers(1, 3), max_size=3))
        pods += [lying(f"p{number}{place}", f"n-{number}", each) for place, each in enumerate(held)]
    return nodes, pods


@st.composite
def replicas(draw: st.DrawFn) -> Replica:
    return replica(draw(st.sampled_from([1, 2, 4, 8])), draw(st.integers(1, 4)), linked=draw(st.booleans()))


def free_of(nodes: Sequence[Node], pods: Sequence[Pod]) -> dict[str, tuple[int, int]]:
    used: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        for resource, amount in pod.requests.items():
            used[pod.node_name, resource] += amount
    return {
        each.name: (
            each.allocatable[NVIDIA_GPU] - used[each.name, NVIDIA_GPU],
            each.allocatable[CPU] - used[each.name, CPU],
        )
        for each in nodes
        if not each.unschedulable
    }


def most_replicas(nodes: Sequence[Node], pods: Sequence[Pod], wanted: Replica) -> int:
    """Tries every node for every pod of every replica."""
    domains = {each.name: each.link_domain or f"node {each.name}" for each in nodes}
    free = free_of(nodes, pods)
    names = sorted(free)
    devices, cpus = wanted.pod.requests[NVIDIA_GPU], wanted.pod.requests[CPU]

    @cache
    def best(left: tuple[tuple[int, int], ...], missing: int, domain: str) -> int:
        most = 0
        for place, name in enumerate(names):
            if wanted.needs_one_link_domain and domain not in ("", domains[name]):
                continue
            if left[place][0] < devices or left[place][1] < cpus:
                continue
            after = (*left[:place], (left[place][0] - devices, left[place][1] - cpus), *left[place + 1 :])
            if missing == 1:
                most = max(most, 1 + best(after, wanted.num_pods, ""))
            else:
                most = max(most, best(after, missing - 1, domains[name]))
        return most

    return best(tuple(free[name] for name in names), wanted.num_pods, "")


@settings(max_examples=150, deadline=None)
@given(clusters(), replicas())
def test_no_way_of_placing_them_places_more(cluster: tuple[list[Node], list[Pod]], wanted: Replica) -> None:
    nodes, pods = cluster
    room = room_in(nodes, wanted, pods)
    expected = most_replicas(nodes, pods, wanted)
    assert expected == room.num_replicas()
    found = room.take()
    assert (expected, expected) == (found.num_replicas, len(found.replicas))
    assert 0 == room.num_replicas()
    domains = {each.name: each.link_domain or f"node {each.name}" for each in nodes}
    used: Counter[str] = Counter()
    for one in found.replicas:
        assert wanted.num_pods == sum(each.num_pods for each in one.placements)
        assert not wanted.needs_one_link_domain or 1 == len({domains[each.node] for each in one.placements})
        used.update({each.node: each.num_pods for each in one.placements})
    free = free_of(nodes, pods)
    for name, count in used.items():
        assert count * wanted.pod.requests[NVIDIA_GPU] <= free[name][0]
        assert count * wanted.pod.requests[CPU] <= free[name][1]
