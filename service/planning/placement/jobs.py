"""Jobs and policy of a request → those of a simulation, with the defaults that are taken."""

from collections.abc import Iterable, Iterator
from typing import Final

from service.placement.cluster import CPU, MEMORY, PODS, Pod, Toleration
from service.placement.constraints import Container, scored_requests
from service.placement.policies import Job, Policy, QueueOrder, WaitForPodsReady
from service.placement.scoring import DEFAULT_WEIGHTS, Scoring, ScoringPolicy, ShapePoint
from service.planning.errors import InvalidRequest, Violation
from service.planning.placement import requests

#: What a pod asks for where the request says nothing.
CPUS_PER_DEVICE: Final = 10
MEMORY_BYTES_PER_DEVICE: Final = 100 * 2**30
_NAMESPACE: Final = "default"
_OPERATORS: Final = ("Equal", "Exists")


def read_jobs(jobs: Iterable[requests.PlacementJob], device_resource: str) -> list[Job]:
    """The jobs of a request; InvalidRequest with everything that is wrong with them."""
    violations: list[Violation] = []
    names: dict[str, int] = {}
    made = []
    for place, job in enumerate(jobs):
        if names.setdefault(job.name, place) != place:
            reason = f"jobs[{names[job.name]}] is called {job.name} too"
            violations.append(Violation(f"jobs[{place}].name", reason, "give each job a name of its own"))
        found = list(_faults(job, f"jobs[{place}]"))
        violations += found
        if not found:
            made.append(_job(job, job.device_resource or device_resource))
    if violations:
        raise InvalidRequest(*violations)
    return made


def _faults(job: requests.PlacementJob, field: str) -> Iterator[Violation]:
    num_pods = 1 if job.num_pods is None else job.num_pods
    if job.min_pods is not None and job.min_pods > num_pods:
        yield Violation(f"{field}.min_pods", f"{job.min_pods} pods can never be placed of {num_pods}", "give at most num_pods")
    if job.device_resource and "/" not in job.device_resource:
        remedy = "write it with its domain, like nvidia.com/gpu"
        yield Violation(f"{field}.device_resource", "an extended resource has a domain", remedy)
    yield from toleration_faults(job.tolerations, f"{field}.")


def toleration_faults(tolerations: Iterable[requests.PodToleration], field: str) -> Iterator[Violation]:
    """What is wrong with tolerations; ``field`` leads to the list."""
    for place, each in enumerate(tolerations):
        at = f"{field}tolerations[{place}]"
        if each.operator and each.operator not in _OPERATORS:
            yield Violation(f"{at}.operator", f"{each.operator!r} is none of {', '.join(_OPERATORS)}")
        elif not each.key and each.operator != "Exists":
            remedy = "name a key, or give operator Exists to pass every taint"
            yield Violation(f"{at}.key", "without a key there is nothing to be equal to", remedy)


def _job(job: requests.PlacementJob, device_resource: str) -> Job:
    devices = job.devices_per_pod or 0
    cpus = CPUS_PER_DEVICE * devices if job.cpus_per_pod is None else job.cpus_per_pod
    memory = MEMORY_BYTES_PER_DEVICE * devices if job.memory_bytes_per_pod is None else job.memory_bytes_per_pod
    # What is nothing is not asked for: scores then count a silent container.
    asked = {CPU: round(1000 * cpus), MEMORY: round(memory), device_resource: devices}
    asked = {resource: quantity for resource, quantity in asked.items() if quantity}
    scored = scored_requests([Container(asked)])
    tolerations = tuple(Toleration(each.key, each.operator or "Equal", each.value, each.effect) for each in job.tolerations)
    selector = dict(job.node_selector)
    num_pods = 1 if job.num_pods is None else job.num_pods
    pods = (
        Pod(
            namespace=_NAMESPACE,
            name=f"{job.name}-{number}",
            requests=asked,
            scored_requests=scored,
            tolerations=tolerations,
            node_selector=selector,
            priority=job.priority,
        )
        for number in range(num_pods)
    )
    return Job(
        name=job.name,
        pods=tuple(pods),
        min_pods=num_pods if job.min_pods is None else job.min_pods,
        device_resource=device_resource,
        priority=job.priority,
        arrival_seconds=job.arrival_seconds or 0,
        duration_seconds=job.duration_seconds,
        needs_one_link_domain=job.needs_one_link_domain,
        takes_shared_devices=job.takes_shared_devices,
    )


def read_policy(policy: requests.PlacementPolicy) -> Policy:
    """The policy of a request; InvalidRequest with everything that contradicts itself in it."""
    violations = list(_policy_faults(policy))
    if violations:
        raise InvalidRequest(*violations)
    default = Policy()
    scoring = ScoringPolicy(
        strategy=policy.scoring or Scoring.LEAST_ALLOCATED,
        weights=dict(policy.weights) or dict(DEFAULT_WEIGHTS),
        shape=policy.shape or (ShapePoint(0, 0), ShapePoint(100, 10)),
    )
    return Policy(
        gang=policy.gang,
        scoring=scoring,
        queue_order=policy.queue_order or QueueOrder.FIFO,
        backfill=True if policy.backfill is None else policy.backfill,
        interleave_pods=policy.interleave_pods,
        wait_for_pods_ready=None if policy.wait_for_pods_ready is None else _waiting(policy.wait_for_pods_ready),
        horizon_seconds=default.horizon_seconds if policy.horizon_seconds is None else policy.horizon_seconds,
    )


def _waiting(asked: requests.WaitForPodsReady) -> WaitForPodsReady:
    default = WaitForPodsReady()
    return WaitForPodsReady(
        timeout_seconds=asked.timeout_seconds or default.timeout_seconds,
        backoff_base_seconds=asked.backoff_base_seconds or default.backoff_base_seconds,
        backoff_max_seconds=asked.backoff_max_seconds or default.backoff_max_seconds,
        backoff_limit_count=asked.backoff_limit_count,
    )


def _policy_faults(policy: requests.PlacementPolicy) -> Iterator[Violation]:
    if policy.shape and policy.scoring is not Scoring.REQUESTED_TO_CAPACITY_RATIO:
        reason = f"{policy.scoring or Scoring.LEAST_ALLOCATED} has no shape"
        yield Violation("policy.shape", reason, f"leave it out, or give scoring {Scoring.REQUESTED_TO_CAPACITY_RATIO}")
    for place in range(1, len(policy.shape)):
        if policy.shape[place].utilization <= policy.shape[place - 1].utilization:
            reason = f"{policy.shape[place].utilization} % does not come after {policy.shape[place - 1].utilization} %"
            yield Violation(f"policy.shape[{place}].utilization", reason, "order the points by rising use")
    if PODS in policy.weights:
        yield Violation("policy.weights[pods]", "the scheduler does not score by the number of pods", "leave it out")
    if policy.gang and policy.interleave_pods:
        yield Violation("policy.interleave_pods", "gang binds whole jobs, whose pods cannot take turns", "give one of the two")
