"""Why a pod waits: for each group of nodes the first thing that is short or in the way, in words."""

from collections import defaultdict
from typing import Final

import numpy as np

from service.placement.affinity import Mask
from service.placement.cluster import CPU, DEVICE_RESOURCES, EPHEMERAL_STORAGE, MEMORY, PODS
from service.placement.queueing import Run
from service.placement.results import PlacementObstacle
from service.placement.state import ClusterState, Kind

#: Kinds of waiting pods that reasons are looked for.
MAX_KINDS: Final = 2_000
_MAX_NAMED: Final = 3  # obstacles in a sentence; all of them stand beside it


class Reasons:
    """Says why pods of each kind find no node, in the state that a simulation has reached."""

    def __init__(self, state: ClusterState, within: Mask | None = None) -> None:
        """Reasons over all nodes, or over those ``within``."""
        self._state = state
        self._within: Mask = np.ones(len(state.nodes), np.bool_) if within is None else within
        self._known: dict[int, tuple[PlacementObstacle, ...]] = {}
        self._rooms: dict[int, tuple[int, int]] = {}

    def obstacles(self, run: Run, gang: bool) -> tuple[PlacementObstacle, ...]:
        """What keeps the first waiting pod of a job from each group of nodes, most nodes first."""
        missing = run.missing()
        if not missing:
            return ()
        kind = run.kinds[missing[0]]
        if id(kind) not in self._known:
            if len(self._known) == MAX_KINDS:
                return ()
            self._known[id(kind)] = self.of_kind(kind)
        found = self._known[id(kind)]
        together = self._together(run, kind, gang, len(missing))
        return (*together, *found)

    def of_kind(self, kind: Kind) -> tuple[PlacementObstacle, ...]:
        """What keeps pods of a kind from each group of nodes, most nodes first."""
        by_cause: dict[tuple[str, str, str], int] = defaultdict(int)
        eligible = self._state.eligible(kind)
        for place, count in self._per_class_and_group(~eligible & self._within):
            obstacle = self._state.obstacle(kind, place[0])
            assert obstacle is not None
            by_cause[self._state.groups[place[1]], str(obstacle.kind), obstacle.reason] += count
        left = eligible & self._within
        for row in sorted(kind.asked.tolist(), key=self._urgency):
            short = left & (self._state.free[row] < kind.requests[row])
            left &= ~short
            for group in np.unique(self._state.group_of[short]).tolist():
                here = short & (self._state.group_of == group)
                most = int(np.maximum(self._state.free[row][here], 0).max())
                reason = _short(self._state.resources[row], int(kind.requests[row]), most)
                by_cause[self._state.groups[group], self._state.resources[row], reason] += int(here.sum())
        if kind.has_affinity:
            apart = left & ~self._state.affinities.allowed(kind.pod)
            for group in np.unique(self._state.group_of[apart]).tolist():
                count = int((apart & (self._state.group_of == group)).sum())
                by_cause[self._state.groups[group], "pod affinity", "affinity or anti-affinity between pods"] += count
        found = (PlacementObstacle(group, count, limit, reason) for (group, limit, reason), count in by_cause.items())
        return tuple(sorted(found, key=lambda each: (-each.num_nodes, each.node_group, each.limit, each.reason)))

    def _per_class_and_group(self, mask: Mask) -> list[tuple[tuple[int, int], int]]:
        pairs = np.stack([self._state.class_of[mask], self._state.group_of[mask]])
        places, counts = np.unique(pairs, axis=1, return_counts=True)
        return [((int(a), int(b)), int(count)) for a, b, count in zip(*places, counts, strict=True)]

    def _urgency(self, row: int) -> tuple[int, str]:
        resource = self._state.resources[row]
        order = (*DEVICE_RESOURCES, CPU, MEMORY)
        rank = order.index(resource) if resource in order else len(order) + (resource == PODS)
        return rank, resource

    def _together(self, run: Run, kind: Kind, gang: bool, num_missing: int) -> tuple[PlacementObstacle, ...]:
        """What keeps pods apart of which each would find a node on its own."""
        state = self._state
        needed = run.job.min_pods - len(run.placed)
        if needed > num_missing:
            reason = f"{run.job.min_pods} pods must run together, and only {len(run.placed) + num_missing} of them are there"
            return (PlacementObstacle("", len(state.nodes), "gang", reason),)
        room, most = self._room(kind)
        if not room:
            return ()
        if run.job.needs_one_link_domain and most < num_missing + len(run.placed):
            reason = f"no link domain has room for all of it: at most for {most} pods more"
            return (PlacementObstacle("", len(state.nodes), "link domain", reason),)
        if gang and run.job.is_gang and 0 < needed:
            reason = f"{needed} pods must start together, and there is room for {room}"
            return (PlacementObstacle("", len(state.nodes), "gang", reason),)
        return ()

    def _room(self, kind: Kind) -> tuple[int, int]:
        """How many pods of a kind would still fit: in all, and in one link domain at most."""
        if id(kind) not in self._rooms:
            room = self._state.room(kind, self._within)
            rooms = np.bincount(self._state.domain_of, weights=room, minlength=len(self._state.domains))
            self._rooms[id(kind)] = int(room.sum()), int(rooms.max(initial=0))
        return self._rooms[id(kind)]

    def sentence(self, run: Run, obstacles: tuple[PlacementObstacle, ...]) -> str:
        """The reason of a waiting job as a sentence."""
        num_missing = len(run.missing())
        waiting = (
            f"{num_missing} of {len(run.job.pods)} pods wait" if num_missing != 1 else f"1 of {len(run.job.pods)} pods waits"
        )
        named = [self._named(each) for each in obstacles[:_MAX_NAMED]]
        if len(obstacles) > _MAX_NAMED:
            named.append(f"{len(obstacles) - _MAX_NAMED} more reasons")
        return f"{waiting}: {'; '.join(named)}" if named else waiting

    def _named(self, obstacle: PlacementObstacle) -> str:
        if not obstacle.node_group:
            return obstacle.reason
        nodes = "1 node" if obstacle.num_nodes == 1 else f"{obstacle.num_nodes} nodes"
        group = f" of {obstacle.node_group}" if len(self._state.groups) > 1 else ""
        return f"{nodes}{group}: {obstacle.reason}"


def _short(resource: str, asked: int, most: int) -> str:
    return f"{_amount(resource, asked)} asked for, at most {_amount(resource, most)} free"


def _amount(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount / 1000:g} CPUs"
    if resource in (MEMORY, EPHEMERAL_STORAGE):
        return f"{amount / 2**30:.6g} GiB {'of memory' if resource == MEMORY else 'of storage'}"
    return f"{amount} {resource}"
