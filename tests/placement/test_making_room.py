"""Pods that are moved to make room for one replica more: by hand, and against every choice of pods on small clusters."""

import itertools
from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from service.placement.cluster import CPU, MEMORY, NVIDIA_GPU, Gang, GangSpelling, Node, NodeSelectorTerm, Pod, Requirement
from service.placement.making_room import MAX_MOVED_PER_SLOT, Move, RoomMade, RoomMaker
from service.placement.replica_fit import Replica
from tests.placement.clusters import GIB, node
from tests.placement.test_replica_fit import lying, replica, room_in


def maker(nodes: Sequence[Node], pods: Sequence[Pod], wanted: Replica) -> RoomMaker:
    num_placed = room_in(nodes, wanted, pods).num_replicas()
    return RoomMaker(nodes, pods, wanted, [each.name for each in nodes], num_placed)


def shown(made: RoomMade | None) -> list[tuple[str, str, str]]:
    return [] if made is None else [(each.pod, each.from_node, each.to_node) for each in made.moves]


def test_the_node_that_costs_fewest_moves_gives_way() -> None:
    nodes = [node("a"), node("b"), node("c")]
    # Free: 8 − 2·2 = 4, 8 − 5 = 3, 8 − 5 = 3. A replica of 8 needs a whole node: a's two pods of 2, or b's one of 5. One move
    # is fewer, but 5 fit nowhere else (4 and 3 are free); so a gives way, and its pods go to b (3 free) and c (3 free).
    pods = [lying("a1", "a", 2), lying("a2", "a", 2), lying("b1", "b", 5), lying("c1", "c", 5)]
    made = maker(nodes, pods, replica(8)).more()
    assert [("default/a1-0", "a", "b"), ("default/a2-0", "a", "c")] == shown(made)
    assert made is not None
    assert (("a",), "a") == (made.emptied, made.replica.placements[0].node)
    # Beside a node of which 5 are free one move will do: of those that one pod would empty, the node with the fewest devices in
    # use is taken, whose 3 fit beside b's 5.
    roomier = [*nodes, node("d")]
    assert [("default/d1-0", "d", "b")] == shown(maker(roomier, [*pods, lying("d1", "d", 3)], replica(8)).more())


def test_nothing_is_moved_that_fits_nowhere_else() -> None:
    nodes = [node("a"), node("b")]
    pods = [lying("a1", "a", 5), lying("b1", "b", 5)]
    assert maker(nodes, pods, replica(4)).more() is None  # 3 and 3 are free, and neither 5 fits beside the other


def test_gangs_and_pods_bound_to_their_node_stay() -> None:
    nodes = [node("a"), node("b")]
    gang = Gang("default/g", 2, None, GangSpelling.VOLCANO)
    bound = (NodeSelectorTerm((), (Requirement("metadata.name", "In", ("a",)),)),)
    free = [lying("x", "a", 1), lying("y", "b", 1)]
    assert [("default/x-0", "a", "b")] == shown(maker(nodes, free, replica(8)).more())
    for kept in (replace(free[0], gang=gang), replace(free[0], required_node_terms=bound)):
        assert [("default/y-0", "b", "a")] == shown(maker(nodes, [kept, free[1]], replica(8)).more())
        assert maker(nodes, [kept, replace(free[1], gang=gang)], replica(8)).more() is None


def test_where_cpus_are_short_what_holds_them_moves() -> None:
    nodes = [node("a"), node("b", 0)]
    asked = {CPU: 60_000, MEMORY: GIB}
    hog = Pod("default", "hog", requests=asked, scored_requests=asked, node_name="a")
    made = maker(nodes, [hog, lying("x", "a", 4)], replica(4)).more()  # 40 of 96 CPUs are x's, 60 the hog's: over
    assert [("default/hog", "a", "b")] == shown(made)


def test_a_replica_over_nodes_keeps_the_slots_that_are_free_and_empties_the_rest() -> None:
    trays = [node(f"r{rack}-{tray}", 4, link_domain=f"rack-{rack}") for rack in (1, 2) for tray in (1, 2, 3)]
    # Rack 1 has one tray free and lacks one: r1-2 gives its pod of 1 to r1-3, of which 2 are free. Rack 2 has none free.
    pods = [lying("a", "r1-2", 1), lying("b", "r1-3", 2), *(lying(f"c{tray}", f"r2-{tray}", 2) for tray in (1, 2, 3))]
    made = maker(trays, pods, replica(4, 2, linked=True)).more()
    assert made is not None
    assert (Move("default/a-0", "r1-2", "r1-3", 1),) == made.moves
    assert ("rack-1", ["r1-1", "r1-2"]) == (made.replica.link_domain, [each.node for each in made.replica.placements])
    assert ("r1-2",) == made.emptied


def test_the_link_domain_that_costs_fewest_moves_is_taken() -> None:
    trays = [node(f"r{rack}-{tray}", 4, link_domain=f"rack-{rack}") for rack in (1, 2) for tray in (1, 2)]
    spare = [node("s-1", 4), node("s-2", 4)]
    # In both racks one tray is free. The other holds two pods in rack 1 and one in rack 2.
    pods = [lying("a", "r1-2", 1), lying("b", "r1-2", 1), lying("c", "r2-2", 3)]
    made = maker([*trays, *spare], pods, replica(4, 2, linked=True)).more()
    assert made is not None
    assert ("rack-2", 1, "default/c-0") == (made.replica.link_domain, len(made.moves), made.moves[0].pod)


def test_one_after_the_other_until_no_more_can_be_made() -> None:
    nodes = [node(name) for name in "abcd"]
    pods = [
        lying(f"{name}{number}", name, 2) for name in "abcd" for number in (1, 2)
    ]  # each half full: two nodes can be emptied
    room = maker(nodes, pods, replica(8))
    made = [room.more(), room.more(), room.more()]
    assert [2, 2, 0] == [len(shown(each)) for each in made]
    moved = [move[0] for each in made for move in shown(each)]
    assert len(moved) == len(set(moved))
    assert (room.state.free >= 0).all()


# ------------------------------------------------------------------------------------------------------ every choice


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    nodes, pods = [], []
    for number in range(draw(st.integers(2, 3))):
        nodes.append(node(f"n{number}", draw(st.sampled_from([4, 8]))))
        left = nodes[-1].allocatable[NVIDIA_GPU]
        for place, asked in enumerate(draw(st.lists(st.integers(1, 4), max_size=2))):
            if asked <= left:
                left -= asked
                pods.append(lying(f"p{number}{place}", f"n{number}", asked))
    return nodes, pods


def fewest_moves(nodes: Sequence[Node], pods: Sequence[Pod], wanted: Replica) -> int | None:
    """Tries every choice of one or two pods and every node for each of them; None where no such choice will do."""
    need, names = wanted.pod.requests[NVIDIA_GPU], [each.name for each in nodes]
    sizes = {each.name: each.allocatable[NVIDIA_GPU] for each in nodes}
    baseline = sum(room // need for room in free(sizes, pods).values())
    for count in (1, 2):
        for chosen in itertools.combinations(range(len(pods)), count):
            for targets in itertools.product(names, repeat=count):
                after = list(pods)
                for place, target in zip(chosen, targets, strict=True):
                    after[place] = replace(pods[place], node_name=target)
                rooms = free(sizes, after)
                if min(rooms.values()) >= 0 and sum(room // need for room in rooms.values()) > baseline:
                    return count
    return None


def free(sizes: dict[str, int], pods: Sequence[Pod]) -> Counter[str]:
    left = Counter(sizes)
    for pod in pods:
        left[pod.node_name] -= pod.requests[NVIDIA_GPU]
    return left


@settings(max_examples=80, deadline=None)
@given(clusters(), st.sampled_from([2, 4, 8]))
def test_every_move_holds_and_none_is_spared_by_another_choice(cluster: tuple[list[Node], list[Pod]], devices: int) -> None:
    nodes, pods = cluster
    wanted = replica(devices)
    before = room_in(nodes, wanted, pods).num_replicas()
    made = maker(nodes, pods, wanted).more()
    least = fewest_moves(nodes, pods, wanted)
    if made is None:
        # Room on one node at a time: what needs pods of several nodes to change places is not found, and not claimed.
        assert least is None or least > 1
        return
    assert (3 if least is None else least) <= len(made.moves) <= MAX_MOVED_PER_SLOT
    assert least != 1 or 1 == len(made.moves)
    targets = {each.pod: each.to_node for each in made.moves}
    assert all(each.from_node != each.to_node for each in made.moves)
    after = [replace(pod, node_name=targets.get(pod.full_name, pod.node_name)) for pod in pods]
    assert min(free({each.name: each.allocatable[NVIDIA_GPU] for each in nodes}, after).values()) >= 0
    assert before < room_in(nodes, wanted, after).num_replicas()
