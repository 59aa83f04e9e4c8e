"""How many replicas of one kind a cluster takes as it stands, and on which nodes.

A replica is a number of pods that are alike. Pods of one kind that ask for whole amounts fit a node a fixed number of times
(its slots), whatever else of the kind lies elsewhere, so that counting slots gives the largest number of replicas exactly: the
slots of all nodes over the pods of a replica; where a replica needs one link domain, domain by domain.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from service.placement.affinity import Mask
from service.placement.cluster import Pod
from service.placement.results import Placement
from service.placement.scoring import Amounts
from service.placement.state import ClusterState, Kind

#: Replicas that are listed; later ones are only counted.
MAX_LISTED: Final = 1000


class Replica(Struct, frozen=True):
    """What is to be placed: ``num_pods`` pods like ``pod``, in one link domain where it needs one."""

    pod: Pod
    num_pods: int
    device_resource: str
    needs_one_link_domain: bool = False


class PlacedReplica(Struct, frozen=True):
    """Where the pods of one replica go. ``link_domain`` is empty where its nodes name none, or not all the same."""

    placements: tuple[Placement, ...]
    link_domain: str


class ReplicaFit(Struct, frozen=True):
    """How many replicas fit: as many as were wanted, or all that there is room for; the first ``MAX_LISTED`` of them."""

    num_replicas: int
    replicas: tuple[PlacedReplica, ...]


class _Run(Struct, frozen=True):
    """Slots of one node that are taken together."""

    node: int
    count: int


class ReplicaRoom:
    """Finds room for replicas of one kind in a cluster's state, and takes it."""

    def __init__(self, state: ClusterState, replica: Replica, within: Mask) -> None:
        """Nothing is taken yet.

        Args:
            state: the cluster as it stands; its pods include that of the replica.
            replica: what is to be placed.
            within: the nodes that come into question.
        """
        self.state, self.replica = state, replica
        self.kind: Kind = state.kind(replica.pod, whole_devices=True)
        self.within: Mask = within & state.affinities.allowed(replica.pod) if self.kind.has_affinity else within

    def slots(self) -> Amounts:
        """Pods of the replica that each node still takes."""
        return self.state.room(self.kind, self.within)

    def num_replicas(self) -> int:
        """Replicas that still fit."""
        slots, size = self.slots(), self.replica.num_pods
        if not self.replica.needs_one_link_domain:
            return int(slots.sum()) // size
        return int((self._per_domain(slots) // size).sum())

    def take(self, wanted: int | None = None) -> ReplicaFit:
        """Places as many replicas as are wanted, or as fit.

        Replicas go into one link domain as long as a whole one fits, domains and nodes with the least room first, so that
        large holes stay large.
        """
        possible = self.num_replicas()
        count = possible if wanted is None else min(wanted, possible)
        runs = list(self._chosen(count))
        taken = np.zeros(len(self.state.nodes), np.int64)
        for run in runs:
            taken[run.node] += run.count
        replicas = tuple(self._listed(runs, min(count, MAX_LISTED)))
        self.state.place_copies(self.kind, taken)
        return ReplicaFit(count, replicas)

    def _per_domain(self, amounts: Amounts) -> Amounts:
        totals = np.bincount(self.state.domain_of, weights=amounts, minlength=len(self.state.domains))
        return totals.astype(np.int64)

    # ---------------------------------------------------------------------------------------------------- choosing

    def _chosen(self, count: int) -> Iterator[_Run]:
        """The slots of ``count`` replicas, those of one replica after those of the one before."""
        slots, size = self.slots(), self.replica.num_pods
        per_domain, free = self._per_domain(slots), self._per_domain(self.state.free_devices())
        left = count
        for domain in sorted(np.flatnonzero(per_domain >= size).tolist(), key=lambda each: (int(free[each]), each)):
            whole = min(int(per_domain[domain]) // size, left)
            if not whole:
                return
            left -= whole
            yield from self._taken(slots, np.flatnonzero(self.state.domain_of == domain), whole * size)
        if left and not self.replica.needs_one_link_domain:
            yield from self._taken(slots, np.arange(len(self.state.nodes)), left * size)

    def _taken(self, slots: Amounts, nodes: Amounts, num_pods: int) -> Iterator[_Run]:
        """So many slots of some nodes, those first that have fewest and then fewest free devices; ``slots`` loses them."""
        free = self.state.free_devices()
        for node in sorted(nodes[slots[nodes] > 0].tolist(), key=lambda each: (int(slots[each]), int(free[each]), each)):
            count = min(int(slots[node]), num_pods)
            if not count:
                return
            slots[node] -= count
            num_pods -= count
            yield _Run(node, count)

    def _listed(self, runs: Sequence[_Run], count: int) -> Iterator[PlacedReplica]:
        """The first replicas, cut from the slots that were taken."""
        queue = iter(runs)
        node, left = -1, 0
        for _ in range(count):
            held: dict[int, int] = {}
            missing = self.replica.num_pods
            while missing:
                if not left:
                    run = next(queue)
                    node, left = run.node, run.count
                part = min(left, missing)
                held[node] = held.get(node, 0) + part
                left, missing = left - part, missing - part
            yield self.placed(held)

    def placed(self, held: dict[int, int]) -> PlacedReplica:
        """A replica by the nodes of its pods."""
        devices = self.replica.pod.requests.get(self.replica.device_resource, 0)
        names = {self.state.nodes[node].link_domain for node in held}
        domain = next(iter(names)) if len(names) == 1 else None
        found = (Placement(self.state.nodes[node].name, count, count * devices) for node, count in sorted(held.items()))
        return PlacedReplica(tuple(found), domain or "")
