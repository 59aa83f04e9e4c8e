"""Where would a scheduler put these jobs, who waits and why, and what would help?"""

from collections.abc import Iterator, Sequence
from typing import Final

from service.catalogue.entries import Catalogue
from service.placement.arrivals import background_and_jobs
from service.placement.cluster import DEVICE_RESOURCES
from service.placement.errors import TooMany, Unreadable
from service.placement.outcome import outcome
from service.placement.policies import Job, Policy
from service.placement.remedies import Question, is_small, remedies
from service.placement.results import Outcome, Remedy
from service.placement.simulate import check_size
from service.planning.errors import InvalidRequest, OutOfTime, TooLarge, Violation
from service.planning.placement.cluster import read_cluster
from service.planning.placement.jobs import CPUS_PER_DEVICE, MEMORY_BYTES_PER_DEVICE, read_jobs, read_policy
from service.planning.placement.requests import SimulatePlacementRequest
from service.planning.placement.results import SimulatePlacementResponse
from service.planning.streams import NEVER, Stop

_WHOLE: Final = "GPUs are extended resources: pods get whole ones, and none is promised twice"
_GANG: Final = (
    "gang: nothing of a job is bound unless its first min_pods fit together. Core Kubernetes had gang scheduling as beta, off "
    'by default, in v1.37. "Gang scheduling" in Slurm means time-slicing, not all or nothing'
)
_KUEUE: Final = "Kueue's waitForPodsReady evicts a job that has not all of its pods in time, and puts it back into the queue"
_VOLCANO: Final = (
    "min_pods is what Volcano and scheduler-plugins call minMember of a PodGroup: that many start together, the rest later"
)
_TIES: Final = (
    "kube-scheduler picks at random among nodes of equal score; here it is the first by name, with numbers in names compared "
    "as numbers"
)


def simulate_placement(
    catalogue: Catalogue, request: SimulatePlacementRequest, stop: Stop = NEVER
) -> SimulatePlacementResponse:
    """The end of a simulation with everything that led there.

    Raises:
        InvalidRequest: cluster, jobs or policy contradict themselves or cannot be read.
        NotFound: the catalogue has no such node type.
        TooLarge: nodes, pods or events are more than are simulated.
        OutOfTime: it was stopped before its end.
    """
    num_pods = sum(1 if job.num_pods is None else job.num_pods for job in request.jobs)
    _bounded(0, num_pods)  # before any of them is made
    cluster = read_cluster(catalogue, request.cluster)
    asked, policy = read_jobs(request.jobs, cluster.device_resource), read_policy(request.policy)
    background, waiting = background_and_jobs(cluster.pods, with_waiting=not request.cluster.without_waiting_pods)
    question = Question(cluster.nodes, background, [*waiting, *asked], policy)
    _bounded(len(cluster.nodes), len(cluster.pods) + num_pods)
    found, helps, notes = _simulated(question, stop)
    return SimulatePlacementResponse(
        num_devices=found.num_devices,
        num_devices_working=found.num_devices_working,
        num_devices_held_idle=found.num_devices_held_idle,
        num_devices_free=found.num_devices_free,
        num_devices_stranded=found.num_devices_stranded,
        num_devices_unavailable=found.num_devices_unavailable,
        end_seconds=found.end_seconds,
        jobs=found.jobs,
        node_groups=found.node_groups,
        deadlocks=found.deadlocks,
        remedies=helps,
        steps=found.steps,
        num_steps=found.num_steps,
        notes=(*_vocabulary(question.jobs, policy), *cluster.notes, *found.notes, *notes),
        assumptions=(*cluster.assumptions, *_assumed(request), _TIES),
        catalogue_revision=catalogue.revision,
    )


def _bounded(num_nodes: int, num_pods: int) -> None:
    try:
        check_size(num_nodes, num_pods)
    except TooMany as many:
        raise TooLarge(many.path, many.what, many.limit, many.remedy) from None


def _simulated(question: Question, stop: Stop) -> tuple[Outcome, tuple[Remedy, ...], tuple[str, ...]]:
    def check_time() -> None:
        if stop.look():
            raise OutOfTime("whoever asked waits no longer")

    try:
        simulation = question.simulated(check_time=check_time)
        found = outcome(simulation, question.background)
        if not is_small(question, simulation):
            return found, (), ("the cluster is too large for remedies to be tried",)
        return found, remedies(question, simulation, found, check_time), ()
    except TooMany as many:
        raise TooLarge(many.path, many.what, many.limit, many.remedy) from None
    except Unreadable as unreadable:
        raise InvalidRequest(Violation(f"cluster ({unreadable.path})", unreadable.reason, unreadable.remedy)) from None


def _vocabulary(jobs: Sequence[Job], policy: Policy) -> Iterator[str]:
    if any(pod.requests.get(resource) for job in jobs for pod in job.pods[:1] for resource in DEVICE_RESOURCES):
        yield _WHOLE
    if policy.gang:
        yield _GANG
    if policy.wait_for_pods_ready is not None:
        yield _KUEUE
    if any(job.min_pods != len(job.pods) for job in jobs):
        yield _VOLCANO


def _assumed(request: SimulatePlacementRequest) -> Iterator[str]:
    if any(job.cpus_per_pod is None or job.memory_bytes_per_pod is None for job in request.jobs):
        memory = MEMORY_BYTES_PER_DEVICE // 2**30
        yield f"pods ask for {CPUS_PER_DEVICE} CPUs and {memory} GiB of memory a device where the request says nothing"
    if not request.policy.weights:
        yield "scores look at CPU and memory alone, as kube-scheduler's do out of the box"
