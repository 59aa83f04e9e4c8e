"""Why no more replicas fit, and what would help: pods that move, nodes that are added."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from service.placement.affinity import Mask
from service.placement.cluster import CPU, MEMORY, PODS, Node, Pod, is_device
from service.placement.constraints import ObstacleKind
from service.placement.enumeration import first_of
from service.placement.making_room import RoomMade, RoomMaker
from service.placement.reasons import Reasons
from service.placement.replica_fit import ReplicaRoom
from service.placement.results import PlacementObstacle
from service.placement.simulate import MAX_NODES
from service.planning.cluster_fit.results import ClusterObstacle, ClusterRemedy, ClusterRemedyKind

#: Obstacles of one option.
MAX_OBSTACLES: Final = 20
#: Replicas for which pods are moved: where a number is wanted, and where none is.
_MAX_MADE: Final = 8
_MADE_UNASKED: Final = 2
_MAX_GROUPS: Final = 4  # groups of nodes to which nodes are added
_REMEDIES: Final = {
    str(ObstacleKind.UNSCHEDULABLE): "uncordon them",
    str(ObstacleKind.NOT_READY): "bring them back, or take them out of the cluster",
    str(ObstacleKind.TAINT): "tolerate the taint (tolerations)",
    str(ObstacleKind.NODE_SELECTOR): "label them, or ask for less in node_selector",
    "pod affinity": "change the anti-affinity of the pods there",
    CPU: "give a smaller cpus_per_device, or move pods that use CPUs",
    MEMORY: "give a smaller memory_bytes_per_device, or move pods that use memory",
    PODS: "raise the number of pods that a node takes",
    "link domain": "move pods within one NVLink domain, or add nodes to one",
    "replica": "move pods, or add nodes",
}


class Standing(Struct, frozen=True):
    """A cluster once the replicas that fit are placed."""

    nodes: Sequence[Node]
    lying: Sequence[Pod]  # all other pods
    room: ReplicaRoom
    within: Mask
    num_placed: int

    @property
    def names(self) -> list[str]:
        """Names of the nodes that come into question."""
        return [node.name for node, here in zip(self.room.state.nodes, self.within.tolist(), strict=True) if here]


def obstacles(standing: Standing) -> tuple[ClusterObstacle, ...]:
    """What keeps one more replica away: first what keeps its pods apart, then what keeps each from nodes, most nodes first."""
    found = [*_apart(standing), *Reasons(standing.room.state, standing.within).of_kind(standing.room.kind)]
    told = tuple(
        ClusterObstacle(each.node_group, each.num_nodes, each.limit, each.reason, _remedy(each))
        for each in found[:MAX_OBSTACLES]
    )
    rest = found[MAX_OBSTACLES:]
    if rest:
        nodes = sum(each.num_nodes for each in rest)
        told = (*told[:-1], ClusterObstacle("", nodes + told[-1].num_nodes, "", f"{len(rest) + 1} more reasons", ""))
    return told


def _apart(standing: Standing) -> Iterator[PlacementObstacle]:
    """Room for some pods of a replica, but not for all of them together."""
    replica, state = standing.room.replica, standing.room.state
    slots = standing.room.slots()
    if replica.num_pods == 1 or not slots.any():
        return
    num_nodes = int((slots > 0).sum())
    if replica.needs_one_link_domain:
        most = int(np.bincount(state.domain_of, weights=slots).max())
        reason = f"a replica has {replica.num_pods} pods in one NVLink domain, and none has room for more than {most} of them"
        yield PlacementObstacle("", num_nodes, "link domain", reason)
    else:
        reason = f"a replica has {replica.num_pods} pods, and there is room for {int(slots.sum())} of them"
        yield PlacementObstacle("", num_nodes, "replica", reason)


def _remedy(obstacle: PlacementObstacle) -> str:
    if is_device(obstacle.limit):
        return "move pods away, or add nodes"
    return _REMEDIES.get(obstacle.limit, "")


def remedies(standing: Standing, wanted: int | None, check_time: Callable[[], None]) -> tuple[ClusterRemedy, ...]:
    """What lets as many replicas fit as are wanted, or one more where no number is."""
    now = standing.num_placed
    missing = 1 if wanted is None else wanted - now
    if missing <= 0:
        return ()
    moves = tuple(_moves(standing, _MADE_UNASKED if wanted is None else min(missing, _MAX_MADE), check_time))
    return (*moves, *_more_nodes(standing, missing))


def _moves(standing: Standing, most: int, check_time: Callable[[], None]) -> Iterator[ClusterRemedy]:
    replica = standing.room.replica
    maker = RoomMaker(standing.nodes, standing.lying, replica, standing.names, standing.num_placed, check_time)
    for number in range(1, most + 1):
        made = maker.more()
        if made is None:
            return
        yield ClusterRemedy(
            kind=ClusterRemedyKind.MOVE_PODS,
            description=_told(made),
            num_replicas=standing.num_placed + number,
            moves=made.moves,
            emptied_nodes=made.emptied,
            replica=made.replica,
        )


def _told(made: RoomMade) -> str:
    moves = [f"{each.pod} from {each.from_node} to {each.to_node}" for each in made.moves]
    drained = f"drain {first_of(made.emptied)}: " if made.emptied else ""
    return f"{drained}move {first_of(moves)}"


def _more_nodes(standing: Standing, missing: int) -> Iterator[ClusterRemedy]:
    """For each group of nodes how many more of them it takes."""
    kind, state = standing.room.kind, standing.room.state
    empty = (state.allocatable[kind.asked] // kind.requests[kind.asked, None]).min(axis=0)
    able = np.flatnonzero(standing.within & state.eligible(kind) & (empty > 0)).tolist()
    examples: dict[str, int] = {}
    for node in able:
        examples.setdefault(state.nodes[node].group, node)
    for group, node in list(examples.items())[:_MAX_GROUPS]:
        count = _nodes_needed(standing, missing, int(empty[node]), state.nodes[node])
        if count is None or len(state.nodes) + count > MAX_NODES:
            continue
        linked = " in NVLink domains of their own" if standing.room.replica.needs_one_link_domain else ""
        yield ClusterRemedy(
            kind=ClusterRemedyKind.ADD_NODES,
            description=f"add {count} {'node' if count == 1 else 'nodes'} like {state.nodes[node].name}{linked}",
            num_replicas=standing.num_placed + missing,
            num_nodes=count,
            node_group=group,
        )


def _nodes_needed(standing: Standing, missing: int, per_node: int, example: Node) -> int | None:
    """Nodes of so many slots for so many replicas more; None where their NVLink domains would be too small for one."""
    size = standing.room.replica.num_pods
    if not standing.room.replica.needs_one_link_domain:
        left = int(standing.room.slots().sum())
        return -(-(missing * size - left) // per_node)
    if example.link_domain is None:
        return None if per_node < size else -(-missing // (per_node // size))
    domains = Counter(node.link_domain for node in standing.nodes if node.group == example.group)
    per_domain = domains[example.link_domain] * per_node // size
    if not per_domain:
        return None
    full, rest = divmod(missing, per_domain)
    return full * -(-per_domain * size // per_node) + -(-rest * size // per_node)
