"""Small clusters for tests: nodes, pods and jobs as the engine has them, and objects as kubectl prints them."""

from typing import Any

from service.placement.arrivals import background_and_jobs
from service.placement.cluster import CPU, MEMORY, NVIDIA_GPU, Node, Pod
from service.placement.outcome import outcome
from service.placement.policies import Job, JobState, Policy
from service.placement.results import Outcome
from service.placement.scoring import Scoring, ScoringPolicy
from service.placement.simulate import Simulation
from service.placement.snapshot import Snapshot, read_snapshot

GIB = 2**30
PACKING = ScoringPolicy(Scoring.MOST_ALLOCATED, {NVIDIA_GPU: 5})


def node(name: str, devices: int = 8, **fields: Any) -> Node:
    """A node with 12 CPUs and 120 GiB a device."""
    allocatable = {CPU: 12_000 * (devices or 8), MEMORY: 120 * GIB * (devices or 8), NVIDIA_GPU: devices}
    return Node(name=name, allocatable=allocatable, **fields)


def job(name: str, devices: int, num_pods: int = 1, min_pods: int | None = None, **fields: Any) -> Job:
    """A job whose pods ask for 10 CPUs and 100 GiB a device. What a pod has is taken by its pods, the rest by the job."""
    asked = {CPU: 10_000 * devices, MEMORY: 100 * GIB * devices, NVIDIA_GPU: devices}
    of_pods = {key: fields.pop(key) for key in list(fields) if key in Pod.__struct_fields__ and key != "priority"}
    pods = tuple(
        Pod(namespace="default", name=f"{name}-{place}", requests=asked, scored_requests=asked, **of_pods)
        for place in range(num_pods)
    )
    return Job(name, pods, num_pods if min_pods is None else min_pods, NVIDIA_GPU, **fields)


def simulated(nodes: list[Node], jobs: list[Job], policy: Policy | None = None, background: list[Pod] | None = None) -> Outcome:
    """What comes of jobs on a cluster."""
    simulation = Simulation(nodes, background or [], jobs, policy or Policy())
    simulation.run()
    return outcome(simulation, background or [])


def states(found: Outcome) -> dict[str, JobState]:
    """The state of each job."""
    return {each.name: each.state for each in found.jobs}


def nodes_of(found: Outcome, name: str) -> list[str]:
    """The nodes that a job's pods lie on, one for each pod."""
    (one,) = (each for each in found.jobs if each.name == name)
    return [each.node for each in one.placements for _ in range(each.num_pods)]


# ------------------------------------------------------------------------------------------------- as kubectl prints them


def node_object(name: str, devices: int | str = 8, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A node. ``more``: taints, unschedulable, conditions, allocatable (beside CPUs, memory and devices)."""
    others: dict[str, str] = more.get("allocatable", {})
    allocatable = {"cpu": "96", "memory": "960Gi", "pods": "110", "nvidia.com/gpu": str(devices), **others}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {key: more[key] for key in ("taints", "unschedulable") if key in more},
        "status": {
            "allocatable": allocatable,
            "conditions": more.get("conditions", [{"type": "Ready", "status": "True"}]),
        },
    }


def pod_object(name: str, devices: int | str = 1, on: str = "", **more: Any) -> dict[str, Any]:
    """A pod. ``more``: labels and annotations; phase; anything else goes into its spec."""
    named: dict[str, Any] = {key: more.pop(key) for key in ("labels", "annotations") if key in more}
    metadata = {"name": name, "namespace": "ml", **named}
    status = {"phase": more.pop("phase", "Running" if on else "Pending")}
    asked = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(devices)} if devices else {})}
    containers = more.pop("containers", [{"name": "main", "resources": {"requests": asked}}])
    spec = {"containers": containers, **({"nodeName": on} if on else {}), **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def listed(*items: dict[str, Any]) -> dict[str, Any]:
    """A list as kubectl prints it."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items), "metadata": {"resourceVersion": ""}}


def read(*items: dict[str, Any]) -> Snapshot:
    """The snapshot of these objects."""
    return read_snapshot(listed(*items))


def outcome_of(*items: dict[str, Any], policy: Policy | None = None, jobs: list[Job] | None = None) -> Outcome:
    """What comes of a snapshot: its pods that wait come first, then the jobs."""
    snapshot = read(*items)
    background, waiting = background_and_jobs(snapshot.pods)
    return simulated(list(snapshot.nodes), [*waiting, *(jobs or [])], policy, background)
