"""Which pods to move, and whereto, so that one replica more fits: the fewest pods, and none that no other node would take.

Method. The slots that are free already are kept for the replica. Then, slot by slot, one pod is tried on every node that could
give way, then any two of one node, and so on: the first choice after which the replica's pod fits there, and every moved pod
fits another node, is taken. Moved pods go to the fullest node that takes them, the largest first; those that hold devices, to
nodes that come into question for the replica too, whose devices are the same. So each slot costs as few
pods as it can, given where moved pods go; where a replica needs one link domain, the domain that costs fewest is taken. Nodes
are tried in the order of the fewest pods that could do, and the search is bounded (the constants below).

Pods of a gang, pods that are bound to nodes by name (as those of a DaemonSet), pods that were moved before and pods that ask
for nothing that is short stay where they are.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from service.placement.affinity import Mask
from service.placement.cluster import Node, Pod, is_device
from service.placement.replica_fit import PlacedReplica, Replica, ReplicaRoom
from service.placement.scoring import Amounts, Scoring, ScoringPolicy
from service.placement.state import ClusterState, Kind

#: Pods that are moved for one slot, at most.
MAX_MOVED_PER_SLOT: Final = 6
#: Nodes, and link domains, that are tried.
_MAX_NODES: Final = 128
_MAX_DOMAINS: Final = 4
_MAX_MOVABLE: Final = 16  # pods of one node, the largest
_MAX_TRIALS: Final = 3000  # of one replica
_DEVICE_WEIGHT: Final = 5


class Move(Struct, frozen=True):
    """A pod that goes from one node to another."""

    pod: str
    from_node: str
    to_node: str
    num_devices: int


class RoomMade(Struct, frozen=True):
    """Moves after which one replica more fits. ``emptied``: nodes of which no device is held by anything else any more."""

    moves: tuple[Move, ...]
    emptied: tuple[str, ...]
    replica: PlacedReplica


class _Lying(Struct, frozen=True):
    """A pod on its node."""

    pod: Pod
    node: int
    kind: Kind
    num_devices: int

    @classmethod
    def of(cls, pod: Pod, state: ClusterState) -> "_Lying":
        devices = sum(count for resource, count in pod.requests.items() if is_device(resource))
        return cls(pod, state.index[pod.node_name], state.kind(pod), devices)

    def asked(self, row: int) -> int:
        return int(self.kind.requests[row])


class RoomMaker:
    """Moves pods of one cluster about. Every replica that it makes room for stays placed."""

    def __init__(
        self,
        nodes: Sequence[Node],
        lying: Sequence[Pod],
        replica: Replica,
        within: Sequence[str],
        num_placed: int,
        check_time: Callable[[], None] = lambda: None,
    ) -> None:
        """Places everything.

        Args:
            nodes: the cluster's.
            lying: the pods that lie on them.
            replica: what room is made for.
            within: names of the nodes that come into question for it.
            num_placed: replicas that fit without any move; they are placed first.
            check_time: called often; what it raises ends the search.
        """
        self._replica, self._check_time = replica, check_time
        names = frozenset(within)
        movable = _movable(nodes, lying, replica, names)
        others = {id(pod) for pod in movable}
        background = [pod for pod in lying if id(pod) not in others]
        packing = ScoringPolicy(Scoring.MOST_ALLOCATED, {replica.device_resource: _DEVICE_WEIGHT})
        self.state = ClusterState(nodes, [replica.pod, *movable], packing, background)
        self._alike: Mask = np.array([node.name in names for node in self.state.nodes], np.bool_)
        for pod in lying:
            if pod.node_name in self.state.index:
                self.state.place(self.state.kind(pod), pod, self.state.index[pod.node_name])
        self._room = ReplicaRoom(self.state, replica, self._alike)
        self._room.take(num_placed)
        self._lying: dict[int, list[_Lying]] = {}
        for pod in movable:
            each = _Lying.of(pod, self.state)
            self._lying.setdefault(each.node, []).append(each)
        self._trials = 0
        self._known: dict[int, _Candidate | None] = {}
        self._num_changes = self.state.num_changes

    def more(self) -> RoomMade | None:
        """Room for one replica more; None where no moves make it, or too many would have to be tried."""
        self._trials = 0
        best: _Trial | None = None
        for mask in self._scopes():
            trial = self._try(mask, None if best is None else len(best.moves) - 1)
            if trial is not None:
                trial.undo()
                best = trial
        if best is None:
            return None
        best.redo()
        for each in best.moves:
            self._lying[each.lying.node].remove(each.lying)
        return best.result()

    def _scopes(self) -> Iterator[Mask]:
        """Where the replica may go: anywhere, or into each of the link domains that lack the fewest slots."""
        within = self._room.within & self.state.eligible(self._room.kind)
        if not self._replica.needs_one_link_domain:
            yield within
            return
        state, domains = self.state, len(self.state.domains)
        slots = np.bincount(state.domain_of, weights=self._room.slots(), minlength=domains)
        most = np.where(within, self._capacity(), 0)
        able = np.bincount(state.domain_of, weights=most, minlength=domains) >= self._replica.num_pods
        for domain in sorted(np.flatnonzero(able).tolist(), key=lambda each: (-slots[each], each))[:_MAX_DOMAINS]:
            yield within & (state.domain_of == domain)

    def _capacity(self) -> Amounts:
        """Slots of each node if it were empty."""
        kind = self._room.kind
        slots: Amounts = (self.state.allocatable[kind.asked] // kind.requests[kind.asked, None]).min(axis=0)
        return slots

    def _try(self, within: Mask, at_most: int | None) -> "_Trial | None":
        """One replica more inside of some nodes, with so many moves at most; left in place where it succeeds."""
        trial = _Trial(self.state, self._room, self._alike)
        slots = self.state.room(self._room.kind, within)
        for node in np.flatnonzero(slots).tolist():
            for _ in range(int(slots[node])):
                if trial.num_pods < self._replica.num_pods:
                    trial.put(node)
        able = np.flatnonzero(within & (self._capacity() > 0)).tolist()
        while trial.num_pods < self._replica.num_pods:
            left = MAX_MOVED_PER_SLOT if at_most is None else min(MAX_MOVED_PER_SLOT, at_most - len(trial.moves))
            if not self._free_slot(trial, self._candidates(trial, able), left):
                trial.undo()
                return None
        return trial

    def _candidates(self, trial: "_Trial", nodes: Sequence[int]) -> dict[int, "_Candidate"]:
        """Those of the nodes that could give way. What is known of nodes that have not changed is not looked for again."""
        for node in self.state.changed_since(self._num_changes):
            self._known.pop(node, None)
        self._num_changes = self.state.num_changes
        for node in nodes:
            if node not in self._known:
                self._known[node] = self._candidate(trial, node)
        return {node: found for node in nodes if (found := self._known[node]) is not None}

    def _free_slot(self, trial: "_Trial", candidates: Mapping[int, "_Candidate"], at_most: int) -> bool:
        """Makes a slot with as few moves as it takes, and fills it; False where it cannot be made."""
        ordered = sorted(candidates.items(), key=lambda each: (each[1].fewest, each[1].num_held, each[0]))[:_MAX_NODES]
        for count in range(1, at_most + 1):
            for node, candidate in ordered:
                if candidate.fewest > count:
                    break
                for chosen in _different(candidate.pods, count):
                    self._check_time()
                    self._trials += 1
                    if self._trials > _MAX_TRIALS:
                        return False
                    if trial.move(node, chosen):
                        return True
        return False

    def _candidate(self, trial: "_Trial", node: int) -> "_Candidate | None":
        """What could leave a node; None where nothing that could would make a slot."""
        kind, free = self._room.kind, self.state.free[:, node]
        moved = {id(each.lying) for each in trial.moves}
        movable = [each for each in self._lying.get(node, ()) if id(each) not in moved]
        short = {row: int(kind.requests[row] - free[row]) for row in kind.asked.tolist() if free[row] < kind.requests[row]}
        helping = [each for each in movable if any(each.asked(row) for row in short)]
        fewest = max((_fewest(helping, row, lack) for row, lack in short.items()), default=0)
        if not 0 < fewest <= MAX_MOVED_PER_SLOT:
            return None
        helping.sort(key=lambda each: (-each.num_devices, each.pod.full_name))
        return _Candidate(fewest, sum(each.num_devices for each in movable), helping[:_MAX_MOVABLE])


class _Candidate(Struct, frozen=True):
    """A node that could give way: the fewest pods that might do, devices held by those that may be moved, those that help."""

    fewest: int
    num_held: int
    pods: Sequence[_Lying]


def _fewest(pods: Sequence[_Lying], row: int, lack: int) -> int:
    """The fewest of the pods that hold so much of a resource together; more than are ever moved where all do not."""
    for count, asked in enumerate(sorted((each.asked(row) for each in pods), reverse=True), 1):
        lack -= asked
        if lack <= 0:
            return count
    return MAX_MOVED_PER_SLOT + 1


class _Moved(Struct, frozen=True):
    """A pod and the node that it goes to."""

    lying: _Lying
    target: int


class _Trial:
    """A replica in the making, which can be taken back and done again."""

    def __init__(self, state: ClusterState, room: ReplicaRoom, alike: Mask) -> None:
        self._state, self._room, self._alike = state, room, alike
        self._kind: Kind = room.kind
        self._held: dict[int, int] = {}
        self.moves: list[_Moved] = []

    @property
    def num_pods(self) -> int:
        """Pods of the replica that have a place."""
        return sum(self._held.values())

    def put(self, node: int) -> None:
        """Places a pod of the replica."""
        self._state.place(self._kind, self._kind.pod, node)
        self._held[node] = self._held.get(node, 0) + 1

    def move(self, node: int, chosen: Sequence[_Lying]) -> bool:
        """Moves pods away from a node and places one of the replica there; False, and nothing done, where that cannot be."""
        state = self._state
        for each in chosen:
            state.remove(each.kind, each.pod, node)
        asked = self._kind.asked
        done: list[_Moved] = []
        fits = bool((state.free[asked, node] >= self._kind.requests[asked]).all())
        if fits:
            self.put(node)
            elsewhere = np.arange(len(state.nodes)) != node
            alike = elsewhere & self._alike
            for each in sorted(chosen, key=lambda each: -each.num_devices):
                found = state.best(each.kind, each.pod, alike if each.num_devices else elsewhere)
                if found is None:
                    break
                state.place(each.kind, each.pod, found[0])
                done.append(_Moved(each, found[0]))
        if fits and len(done) == len(chosen):
            self.moves += done
            return True
        for moved in done:
            state.remove(moved.lying.kind, moved.lying.pod, moved.target)
        if fits:
            self._take(node)
        for each in chosen:
            state.place(each.kind, each.pod, node)
        return False

    def _take(self, node: int) -> None:
        self._state.remove(self._kind, self._kind.pod, node)
        self._held[node] -= 1
        if not self._held[node]:
            del self._held[node]

    def undo(self) -> None:
        """Puts everything back."""
        self._all(-1)

    def redo(self) -> None:
        """Does it again."""
        self._all(1)

    def _all(self, way: int) -> None:
        state = self._state
        come, go = (state.place, state.remove) if way > 0 else (state.remove, state.place)
        for moved in self.moves:
            kind = moved.lying.kind
            go(kind, moved.lying.pod, moved.lying.node)
            come(kind, moved.lying.pod, moved.target)
        for node, count in self._held.items():
            for _ in range(count):
                come(self._kind, self._kind.pod, node)

    def result(self) -> RoomMade:
        """What was done, once it is in place."""
        state = self._state
        names = [node.name for node in state.nodes]
        moves = tuple(
            Move(each.lying.pod.full_name, names[each.lying.node], names[each.target], each.lying.num_devices)
            for each in self.moves
        )
        devices = self._kind.pod.requests.get(self._room.replica.device_resource, 0)
        sources = dict.fromkeys(each.lying.node for each in self.moves)
        free, total = state.free_devices(), state.num_devices()
        emptied = (names[node] for node in sources if free[node] + devices * self._held.get(node, 0) == total[node])
        return RoomMade(moves, tuple(emptied), self._room.placed(dict(self._held)))


def _movable(nodes: Sequence[Node], lying: Sequence[Pod], replica: Replica, names: frozenset[str]) -> list[Pod]:
    """Pods that may be moved to make room: on nodes that the replica could use, in no gang, holding what it asks for."""
    able = {
        node.name
        for node in nodes
        if node.name in names and all(node.allocatable.get(each, 0) >= amount for each, amount in replica.pod.requests.items())
    }
    asked = replica.pod.requests.keys()
    here = (pod for pod in lying if pod.node_name in able and pod.gang is None and asked & pod.requests.keys())
    return [pod for pod in here if not _is_bound(pod)]


def _is_bound(pod: Pod) -> bool:
    """Whether it names the node that it wants."""
    return any(term.match_fields for term in pod.required_node_terms or ())


def _different(pods: Sequence[_Lying], count: int) -> Iterator[tuple[_Lying, ...]]:
    """Choices of so many pods; of those that are alike only one."""
    seen: set[tuple[int, ...]] = set()
    for chosen in itertools.combinations(pods, count):
        kinds = tuple(sorted(id(each.kind) for each in chosen))
        if kinds not in seen:
            seen.add(kinds)
            yield chosen
