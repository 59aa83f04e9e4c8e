"""Jobs that hold what each other waits for.

A job that holds pods and needs more waits for another such job where the other's pods, and nothing else, would have to go for
one more of its own to fit. Jobs that wait for each other round in a circle will do so until somebody else makes room.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from service.placement.enumeration import first_of
from service.placement.policies import JobState
from service.placement.queueing import Run
from service.placement.results import Deadlock, DeadlockMember, Placement
from service.placement.scoring import Amounts
from service.placement.state import ClusterState

#: Jobs that hold something and wait, among which circles are looked for; more would take seconds.
MAX_JOBS: Final = 300
#: Kinds of a job's missing pods that are looked at.
MAX_KINDS: Final = 10


def deadlocks(
    state: ClusterState, runs: Sequence[Run], placements: Callable[[Run], tuple[Placement, ...]]
) -> tuple[Deadlock, ...]:
    """Every largest circle among the first ``MAX_JOBS`` jobs that hold something and wait."""
    holders = [run for run in runs if run.state is JobState.WAITING_PARTIAL][:MAX_JOBS]
    if len(holders) < 2:
        return ()
    waits = _waits(state, holders)
    if not waits.any():
        return ()
    reach = _closure(waits)
    found, seen = [], set[int]()
    for first in range(len(holders)):
        circle = np.flatnonzero(reach[first] & reach[:, first]).tolist()
        if first in seen or not reach[first, first]:
            continue
        seen.update(circle)
        found.append(_deadlock([holders[each] for each in circle], waits[np.ix_(circle, circle)], placements))
    return tuple(found)


def _waits(state: ClusterState, holders: Sequence[Run]) -> NDArray[np.bool_]:
    """Who (row) waits for whom (column)."""
    owners, nodes, amounts = _held(state, holders)
    by_kind: dict[int, NDArray[np.bool_]] = {}
    waits = np.zeros((len(holders), len(holders)), np.bool_)
    for row, run in enumerate(holders):
        kinds = {id(run.kinds[place]): run.kinds[place] for place in run.missing()}
        for kind in list(kinds.values())[:MAX_KINDS]:
            if id(kind) not in by_kind:
                asked, needs = kind.asked, kind.requests[kind.asked, None]
                now = state.free[asked[:, None], nodes]
                would_fit = (now + amounts[asked] >= needs).all(axis=0) & ~(now >= needs).all(axis=0)
                by_kind[id(kind)] = np.isin(np.arange(len(holders)), owners[would_fit & state.eligible(kind, nodes)])
            waits[row] |= by_kind[id(kind)]
    np.fill_diagonal(waits, False)
    return waits


def _held(state: ClusterState, holders: Sequence[Run]) -> tuple[NDArray[np.intp], NDArray[np.intp], Amounts]:
    """What jobs hold, by job and node: the job, the node, and how much of each resource."""
    held: dict[tuple[int, int], Amounts] = defaultdict(lambda: np.zeros(len(state.resources), np.int64))
    for number, run in enumerate(holders):
        for place, node in run.placed.items():
            held[number, node] += run.kinds[place].requests
    owners, nodes = np.array(list(held), np.intp).reshape(-1, 2).T
    return owners, nodes, np.array(list(held.values()), np.int64).reshape(len(held), -1).T


def _closure(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    reach = edges.copy()
    for through in range(len(reach)):
        reach |= np.outer(reach[:, through], reach[through])
    return reach


def _deadlock(circle: Sequence[Run], waits: NDArray[np.bool_], placements: Callable[[Run], tuple[Placement, ...]]) -> Deadlock:
    members = []
    for place, run in enumerate(circle):
        holds = placements(run)
        members.append(
            DeadlockMember(
                job=run.job.name,
                num_pods_placed=len(run.placed),
                min_pods=run.job.min_pods,
                num_devices_held=sum(each.num_devices for each in holds),
                holds=holds,
                waits_for=tuple(circle[other].job.name for other in np.flatnonzero(waits[place]).tolist()),
            )
        )
    told = "; ".join(map(_told, members))
    return Deadlock(tuple(members), f"{told}: none of them goes on unless one gives up or other jobs make room")


def _told(member: DeadlockMember) -> str:
    where = first_of([each.node for each in member.holds], "nodes")
    return f"{member.job} holds {member.num_devices_held} devices on {where} and waits for {' or '.join(member.waits_for)}"
