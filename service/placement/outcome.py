"""What came of a simulation: devices counted, jobs and their reasons, deadlocks."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from service.placement.cluster import DEVICE_RESOURCES, Pod
from service.placement.deadlocks import MAX_JOBS, deadlocks
from service.placement.policies import JobState, WaitForPodsReady
from service.placement.queueing import Run
from service.placement.reasons import MAX_KINDS, Reasons
from service.placement.results import JobOutcome, NodeGroupUse, Outcome, Placement
from service.placement.scoring import Amounts
from service.placement.simulate import MAX_STEPS, Simulation
from service.placement.state import ClusterState, Kind

_WAITING: Final = (JobState.WAITING, JobState.WAITING_PARTIAL)


def outcome(simulation: Simulation, background: Sequence[Pod]) -> Outcome:
    """The end of a simulation that has run; ``background`` as it was given."""
    state = simulation.state
    working = np.zeros(len(state.nodes), np.int64)
    held_idle = np.zeros(len(state.nodes), np.int64)
    for pod in background:
        node = state.index.get(pod.node_name)
        if node is not None:
            working[node] += devices_of(pod) * state.is_whole[node]
    for run in simulation.runs:
        held = held_idle if run.state is JobState.WAITING_PARTIAL else working
        for place, node in run.placed.items():
            held[node] += devices_of(run.job.pods[place]) * state.is_whole[node]
    free = state.free_devices()
    stranded = stranded_devices(state, simulation.runs)
    unavailable = np.array([node.unschedulable or not node.ready for node in state.nodes], np.bool_)
    reasons = Reasons(state)
    return Outcome(
        num_devices=int(state.num_devices().sum()),
        num_devices_working=int(working.sum()),
        num_devices_held_idle=int(held_idle.sum()),
        num_devices_free=int(free.sum()),
        num_devices_stranded=int(stranded.sum()),
        num_devices_unavailable=int(free[unavailable].sum()) if len(free) else 0,
        end_seconds=float(simulation.now),
        jobs=tuple(_job(simulation, run, reasons) for run in simulation.runs),
        node_groups=tuple(_groups(state, working, held_idle, free, stranded)),
        deadlocks=deadlocks(state, simulation.runs, lambda run: placements(state, run)),
        steps=tuple(simulation.steps),
        num_steps=simulation.num_steps,
        notes=tuple(_notes(simulation, free + working + held_idle)),
    )


def devices_of(pod: Pod) -> int:
    """Whole devices that a pod asks for, of whatever vendor."""
    return sum(pod.requests.get(resource, 0) for resource in DEVICE_RESOURCES)


def placements(state: ClusterState, run: Run) -> tuple[Placement, ...]:
    """Where a job's pods lie, by node."""
    held: dict[int, list[int]] = {}
    for place, node in run.placed.items():
        held.setdefault(node, []).append(run.job.pods[place].requests.get(run.job.device_resource, 0))
    return tuple(Placement(state.nodes[node].name, len(each), sum(each)) for node, each in sorted(held.items()))


def stranded_devices(state: ClusterState, runs: Iterable[Run]) -> Amounts:
    """On each node the free devices that are left over when it is filled with waiting pods of the kind that uses most of it.

    Where no pod waits, with pods of any job of the question; where there is none either, only what lies on nodes that take no
    pods is left over.
    """
    runs = list(runs)
    waiting = _kinds((run, place) for run in runs if run.state in _WAITING for place in run.missing())
    kinds = waiting or _kinds((run, place) for run in runs for place in range(len(run.kinds)))
    free = state.free_devices()
    available = np.array([node.ready and not node.unschedulable for node in state.nodes], np.bool_)
    if not kinds:
        return np.where(available, 0, free)
    used = np.zeros_like(free)
    for kind in kinds:
        used = np.maximum(used, state.room(kind) * devices_of(kind.pod))
    left: Amounts = np.maximum(free - used, 0)
    return left


def _kinds(places: Iterable[tuple[Run, int]]) -> list[Kind]:
    kinds = {id(run.kinds[place]): run.kinds[place] for run, place in places}
    return [kind for kind in kinds.values() if devices_of(kind.pod)]


def _groups(state: ClusterState, *columns: Amounts) -> Iterable[NodeGroupUse]:
    working, held_idle, free, stranded = columns
    for number, name in enumerate(state.groups):
        here = state.group_of == number
        yield NodeGroupUse(
            name=name,
            num_nodes=int(here.sum()),
            num_devices=int(state.num_devices()[here].sum()),
            num_devices_working=int(working[here].sum()),
            num_devices_held_idle=int(held_idle[here].sum()),
            num_devices_free=int(free[here].sum()),
            num_devices_stranded=int(stranded[here].sum()),
        )


def _job(simulation: Simulation, run: Run, reasons: Reasons) -> JobOutcome:
    held = placements(simulation.state, run)
    status = _state(run)
    waits = status in (*_WAITING, JobState.RUNNING) and bool(run.missing())
    obstacles = reasons.obstacles(run, simulation.policy.gang) if waits else ()
    gang = run.job.pods[0].gang if run.job.pods else None
    return JobOutcome(
        name=run.job.name,
        state=status,
        reason=reasons.sentence(run, obstacles) if waits else _reason(run, status, simulation.policy.wait_for_pods_ready),
        num_pods=len(run.job.pods),
        num_pods_placed=len(run.placed),
        min_pods=run.job.min_pods,
        num_devices_held=sum(each.num_devices for each in held),
        placements=held,
        obstacles=obstacles,
        started_seconds=None if run.started_seconds is None else float(run.started_seconds),
        num_evictions=run.num_evictions,
        gang="" if gang is None else str(gang.spelling),
    )


def _state(run: Run) -> JobState:
    if not run.has_arrived and not run.placed:
        return JobState.NOT_ARRIVED
    if run.state in _WAITING and not run.missing() and any(pod.scheduling_gates for pod in run.job.pods):
        return JobState.GATED
    return run.state


def _reason(run: Run, status: JobState, waiting: WaitForPodsReady | None) -> str:
    if status is JobState.GATED:
        gates = sorted({gate for pod in run.job.pods for gate in pod.scheduling_gates})
        return f"scheduling gates hold it back: {', '.join(gates[:3])}"
    if status is JobState.EVICTED and waiting is not None:
        then = "it was given up" if run.is_given_up else "it waits to return"
        return f"evicted {run.num_evictions} times, each after {waiting.timeout_seconds:g} s without all of its pods; {then}"
    if status is JobState.WAITING_PARTIAL:
        return f"{run.job.min_pods} pods must run together, and only {len(run.job.pods)} of them are there"
    return ""


def _notes(simulation: Simulation, counted: Amounts) -> Iterable[str]:
    state = simulation.state
    over = [state.nodes[node].name for node in np.flatnonzero(counted > state.num_devices())[:3]]
    if over:
        yield f"more devices are held than there are on {', '.join(over)}: the cluster says so, and no simulation would do it"
    if simulation.num_steps > MAX_STEPS:
        yield f"{simulation.num_steps} steps were taken; the first {MAX_STEPS} are listed"
    if sum(run.state is JobState.WAITING_PARTIAL for run in simulation.runs) > MAX_JOBS:
        yield f"deadlocks were looked for among the first {MAX_JOBS} jobs that hold something and wait"
    kinds = {id(run.kinds[place]) for run in simulation.runs if run.state in _WAITING for place in run.missing()[:1]}
    if len(kinds) > MAX_KINDS:
        yield f"pods of {len(kinds)} kinds wait; reasons were looked for among the first {MAX_KINDS}"
    unmodelled = sorted({each for run in simulation.runs for pod in run.job.pods for each in pod.unmodelled})
    if unmodelled:
        yield f"pods ask for what is not simulated: {', '.join(unmodelled)}; they may find fewer nodes than shown"
