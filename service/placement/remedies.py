"""What would help: each change is simulated, and only what lets more devices work, or fewer wait idle, is named."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.placement.cluster import DEVICE_RESOURCES, Node, Pod
from service.placement.enumeration import first_of
from service.placement.errors import TooMany
from service.placement.outcome import devices_of, outcome
from service.placement.policies import Job, JobState, Policy, WaitForPodsReady
from service.placement.results import Outcome, Remedy, RemedyKind
from service.placement.scoring import Scoring, ScoringPolicy
from service.placement.simulate import MAX_NODES, MAX_WORK, Simulation

#: Beyond these, no remedies are tried: each of them is a simulation of its own.
MAX_REMEDY_PODS: Final = 5_000
MAX_REMEDY_NODES: Final = 5_000
#: The same for the work of the simulation itself, and the most that each of the remedies may take.
MAX_REMEDY_WORK: Final = MAX_WORK // 20
_DEVICE_WEIGHT: Final = 5
_MAX_DRAINED: Final = 8  # nodes whose draining is tried
_MAX_GROUPS: Final = 4  # groups of nodes to which nodes are added


class Question(Struct, frozen=True):
    """All that a simulation is made from."""

    nodes: Sequence[Node]
    background: Sequence[Pod]
    jobs: Sequence[Job]
    policy: Policy

    def answered(self, max_work: int, check_time: Callable[[], None]) -> Outcome | None:
        """What comes of it; None where it takes more work."""
        try:
            return outcome(self.simulated(max_work, check_time), self.background)
        except TooMany:
            return None

    def simulated(self, max_work: int = MAX_WORK, check_time: Callable[[], None] = lambda: None) -> Simulation:
        """The simulation, run to its end. TooMany where it is too large or takes more work."""
        simulation = Simulation(self.nodes, self.background, self.jobs, self.policy, max_work=max_work, check_time=check_time)
        simulation.run()
        return simulation


def remedies(
    question: Question, simulation: Simulation, found: Outcome, check_time: Callable[[], None] = lambda: None
) -> tuple[Remedy, ...]:
    """Changes after which more devices work or fewer are held idle: best first, but what costs hardware last.

    Args:
        question: what was simulated.
        simulation: its run.
        found: what came of it.
        check_time: called often; what it raises ends the search.
    """
    if not any(job.state in (JobState.WAITING, JobState.WAITING_PARTIAL, JobState.EVICTED) for job in found.jobs):
        return ()
    tried = (*_other_policies(question), *_drained(question, simulation), *_more_nodes(question, found))
    answered = ((kind, said, changed.answered(MAX_REMEDY_WORK, check_time)) for kind, said, changed in tried)
    judged = (_judged(kind, said, then, found) for kind, said, then in answered if then is not None)
    helped = [each for each in judged if each is not None]
    helped.sort(key=lambda each: (each.kind is RemedyKind.ADD_NODES, -each.num_devices_working, each.num_devices_held_idle))
    drains = [each for each in helped if each.kind is RemedyKind.DRAIN_NODE]
    return tuple(each for each in helped if each not in drains[1:])  # one node to drain is advice, eight are a riddle


def is_small(question: Question, simulation: Simulation) -> bool:
    """Whether remedies are tried at all."""
    if simulation.work > MAX_REMEDY_WORK:
        return False
    num_pods = len(question.background) + sum(len(job.pods) for job in question.jobs)
    return len(question.nodes) <= MAX_REMEDY_NODES and num_pods <= MAX_REMEDY_PODS


def _judged(kind: RemedyKind, said: str, then: Outcome, now: Outcome) -> Remedy | None:
    if (then.num_devices_working, -then.num_devices_held_idle) <= (now.num_devices_working, -now.num_devices_held_idle):
        return None
    ran = {job.name for job in now.jobs if job.state is JobState.RUNNING}
    helped = tuple(job.name for job in then.jobs if job.state is JobState.RUNNING and job.name not in ran)
    return Remedy(kind, said, then.num_devices_working, then.num_devices_held_idle, helped)


def _other_policies(question: Question) -> Iterator[tuple[RemedyKind, str, Question]]:
    policy = question.policy
    resource = question.jobs[0].device_resource if question.jobs else DEVICE_RESOURCES[0]
    packing = ScoringPolicy(Scoring.MOST_ALLOCATED, {resource: _DEVICE_WEIGHT})
    packs = policy.scoring == packing
    packed = f"fill nodes up: MOST_ALLOCATED with {resource} weighted {_DEVICE_WEIGHT}"
    gang = "bind whole jobs or nothing (gang)"
    if not policy.gang:
        yield RemedyKind.GANG, gang, replace(question, policy=replace(policy, gang=True))
    if not packs:
        yield RemedyKind.BIN_PACKING, packed, replace(question, policy=replace(policy, scoring=packing))
    if not policy.gang and not packs:
        both = replace(policy, gang=True, scoring=packing)
        yield RemedyKind.GANG_AND_BIN_PACKING, f"{gang}, and {packed}", replace(question, policy=both)
    if not policy.gang and policy.wait_for_pods_ready is None:
        waiting = WaitForPodsReady()
        said = f"evict what holds devices for {waiting.timeout_seconds:g} s without all of its pods (Kueue's waitForPodsReady)"
        yield RemedyKind.EVICTION, said, replace(question, policy=replace(policy, wait_for_pods_ready=waiting))
    if not policy.backfill:
        said = "let jobs pass those that do not fit (backfill)"
        yield RemedyKind.BACKFILL, said, replace(question, policy=replace(policy, backfill=True))


def _more_nodes(question: Question, found: Outcome) -> Iterator[tuple[RemedyKind, str, Question]]:
    """One node more of each group, and as many as the devices that waiting jobs lack would fill."""
    lacking = sum(
        sum(map(devices_of, job.pods)) - each.num_devices_held
        for job, each in zip(question.jobs, found.jobs, strict=True)
        if each.state is not JobState.RUNNING
    )
    examples: dict[str, Node] = {}
    for node in question.nodes:
        if node.ready and not node.unschedulable and _num_devices(node):
            examples.setdefault(node.group, node)
    for example in list(examples.values())[:_MAX_GROUPS]:
        for count in sorted({1, -(-lacking // _num_devices(example))}):
            if 0 < count <= MAX_NODES - len(question.nodes):
                added = [_another(example, number) for number in range(1, count + 1)]
                said = f"{count} more {'node' if count == 1 else 'nodes'} like {example.name}"
                yield RemedyKind.ADD_NODES, said, replace(question, nodes=[*question.nodes, *added])


def _num_devices(node: Node) -> int:
    return sum(node.allocatable.get(resource, 0) for resource in DEVICE_RESOURCES)


def _another(node: Node, number: int) -> Node:
    # No name of a real node holds a blank, so it cannot clash; a new node shares no link with old ones.
    return replace(node, name=f"{node.name} another {number}", link_domain=None)


def _drained(question: Question, simulation: Simulation) -> Iterator[tuple[RemedyKind, str, Question]]:
    """Nodes of which some devices are free and whose pods would all find a place elsewhere: fewest held first."""
    state = simulation.state
    free, total = state.free_devices(), state.num_devices()
    partly = [node for node in range(len(state.nodes)) if 0 < free[node] < total[node]]
    for node in sorted(partly, key=lambda each: (total[each] - free[each], each))[:_MAX_DRAINED]:
        moved = _moved(question, simulation, state.nodes[node].name)
        if moved is not None:
            said, then = moved
            yield RemedyKind.DRAIN_NODE, said, then


def _moved(question: Question, simulation: Simulation, name: str) -> tuple[str, Question] | None:
    """The question with everything where it lies now, but what lies on a node moved elsewhere; None where it cannot be."""
    jobs = [_as_placed(simulation, place) for place in range(len(question.jobs))]
    movers = [pod for pod in question.background if pod.node_name == name and devices_of(pod)]
    movers += [pod for job in jobs for pod in job.pods if pod.node_name == name]
    moving = {id(pod) for pod in movers}
    staying = [pod for pod in question.background if id(pod) not in moving]
    staying += [pod for job in jobs for pod in job.pods if pod.node_name and id(pod) not in moving]
    cordoned = [replace(node, unschedulable=node.unschedulable or node.name == name) for node in question.nodes]
    single = [Job(pod.full_name, (replace(pod, node_name=""),), 1, DEVICE_RESOURCES[0]) for pod in movers]
    packed = replace(question.policy, wait_for_pods_ready=None, gang=False, backfill=True)
    try:
        trial = Question(cordoned, staying, single, packed).simulated(MAX_REMEDY_WORK)
    except TooMany:
        return None
    if any(run.state is not JobState.RUNNING for run in trial.runs):
        return None
    target = {id(pod): trial.state.nodes[run.placed[0]].name for pod, run in zip(movers, trial.runs, strict=True)}

    def there(pod: Pod) -> Pod:
        return replace(pod, node_name=target[id(pod)]) if id(pod) in target else pod

    after = [replace(job, pods=tuple(map(there, job.pods))) for job in jobs]
    goes = sorted({f"{pod.name} to {target[id(pod)]}" for pod in movers})
    return f"drain {name}: move {first_of(goes)}", replace(
        question, background=[there(pod) for pod in question.background], jobs=after
    )


def _as_placed(simulation: Simulation, place: int) -> Job:
    run = simulation.runs[place]
    names = {pod: simulation.state.nodes[node].name for pod, node in run.placed.items()}
    pods = tuple(replace(pod, node_name=names.get(number, "")) for number, pod in enumerate(run.job.pods))
    return replace(run.job, pods=pods, arrival_seconds=0)
