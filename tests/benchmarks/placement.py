"""How fast placements are simulated and models fitted to clusters, and when they are refused.

    python -m tests.benchmarks.placement [--rounds N]

Seconds are CPU time of one core, from the request's dataclasses to the answer's; the best of several. Memory is the most that
the process has held so far.
"""

import argparse
import json
import resource
import time
from collections.abc import Iterator

from service.catalogue.entries import Catalogue
from service.catalogue.loader import load
from service.placement.scoring import Scoring
from service.placement.simulate import MAX_NODES, MAX_PODS
from service.planning.cluster_fit.question import fit_cluster
from service.planning.cluster_fit.requests import FitClusterRequest, ManifestOptions
from service.planning.errors import TooLarge
from service.planning.placement.question import simulate_placement
from service.planning.placement.requests import (
    Cluster,
    NodeGroup,
    PlacementJob,
    PlacementPolicy,
    SimulatePlacementRequest,
)
from service.planning.requests import AcceleratorSpec, ModelSpec, Parallelism
from service.planning.resolve import Resolver
from service.settings import specs_dir

NODES, PODS = 10_000, 50_000
_TRAY = "coreweave-gb200-nvl72-tray"
SPREADING = PlacementPolicy()
PACKING = PlacementPolicy(gang=True, scoring=Scoring.MOST_ALLOCATED, weights={"nvidia.com/gpu": 5})


def jobs(count: int, pods_each: int, seconds: float | None = None) -> tuple[PlacementJob, ...]:
    """Jobs whose pods ask for 1 to 3 devices."""
    return tuple(
        PlacementJob(f"job-{number}", pods_each, 1 + number % 3, duration_seconds=seconds and seconds + number % 997)
        for number in range(count)
    )


def snapshot(num_nodes: int, num_running: int, num_waiting: int) -> dict[str, object]:
    """What kubectl prints of a cluster on which each node also runs a pod that is bound to it by its name."""
    items: list[object] = [
        {
            "kind": "Node",
            "metadata": {
                "name": f"n{number}",
                "labels": {"nvidia.com/gpu.product": "H100", "kubernetes.io/hostname": f"n{number}"},
            },
            "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "96", "memory": "960Gi", "pods": "110"}},
        }
        for number in range(num_nodes)
    ]
    for number in range(num_nodes):
        fields = [{"key": "metadata.name", "operator": "In", "values": [f"n{number}"]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
        items.append(_pod(f"agent-{number}", {"cpu": "100m"}, nodeName=f"n{number}", affinity={"nodeAffinity": required}))
    items += (
        _pod(f"run-{number}", {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}, nodeName=f"n{number % num_nodes}")
        for number in range(num_running)
    )
    items += (_pod(f"wait-{number}", {"cpu": "8", "nvidia.com/gpu": str(1 + number % 8)}) for number in range(num_waiting))
    return {"kind": "List", "items": items}


def _pod(name: str, asked: dict[str, str], **spec: object) -> dict[str, object]:
    containers = [{"resources": {"requests": asked}, "env": [{"name": "TOKEN", "value": "secret"}]}]
    labels = {"app": name.partition("-")[0]}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "n", "labels": labels},
        "spec": {"containers": containers, **spec},
    }


def questions() -> Iterator[tuple[str, SimulatePlacementRequest]]:
    """What is asked, with a title."""
    cluster = Cluster((NodeGroup(NODES, 8),))
    title = f"{NODES:,} nodes × {PODS:,} pods"
    yield f"{title}, one at a time", SimulatePlacementRequest(cluster, jobs(PODS, 1), SPREADING)
    yield f"{title}, gangs of 4, packed", SimulatePlacementRequest(cluster, jobs(PODS // 4, 4), PACKING)
    yield f"{title}, gangs of 100, packed", SimulatePlacementRequest(cluster, jobs(PODS // 100, 100), PACKING)
    held = Cluster(snapshot=snapshot(NODES, 30_000, 10_000))
    yield f"{title} as a snapshot, 10,000 waiting", SimulatePlacementRequest(held, (), PACKING)
    different = tuple(PlacementJob(f"job-{number}", 1, 1, memory_bytes_per_pod=number + 1) for number in range(20_000))
    yield f"{NODES:,} nodes × 20,000 pods, no two alike", SimulatePlacementRequest(cluster, different, SPREADING)
    small = Cluster((NodeGroup(100, 8),))
    yield "100 nodes × 2,000 pods, each runs for a while", SimulatePlacementRequest(small, jobs(2_000, 1, 3600.0), SPREADING)


def refused() -> Iterator[tuple[str, SimulatePlacementRequest]]:
    """What is more than one simulation takes, with a title."""
    cluster = Cluster((NodeGroup(NODES, 8),))
    yield "one node too many", SimulatePlacementRequest(Cluster((NodeGroup(MAX_NODES + 1, 8),)), jobs(1, 1))
    yield "one pod too many", SimulatePlacementRequest(cluster, (PlacementJob("job", MAX_PODS), PlacementJob("last")))
    yield "too much work", SimulatePlacementRequest(Cluster((NodeGroup(100, 8),)), jobs(20_000, 1, 60.0))


def fits() -> Iterator[tuple[str, FitClusterRequest]]:
    """What is asked of models on clusters, with a title."""
    full, racks = Cluster(snapshot=snapshot(NODES, 38_000, 2_000)), Cluster((NodeGroup(NODES, node_type=_TRAY),))
    title, h100 = f"{NODES:,} nodes × {PODS:,} pods", AcceleratorSpec(name="h100-sxm")
    small, large = ModelSpec(name="llama-3.1-70b"), ModelSpec(name="llama-3.1-405b")
    yield f"{title}, as many as fit", FitClusterRequest(full, small, 8192, accelerator=h100, manifests=ManifestOptions())
    # Half of each node is taken: whole ones have to be drained.
    whole = Parallelism(tensor=8)
    yield (
        f"{title}, 8 more to make room for",
        FitClusterRequest(full, small, 8192, parallelism=whole, num_replicas=8, accelerator=h100),
    )
    across = Parallelism(tensor=8, pipeline=2)
    yield (
        f"{title}, groups of 2 nodes",
        FitClusterRequest(full, large, 8192, parallelism=across, num_replicas=4, accelerator=h100),
    )
    yield (
        f"{NODES:,} trays of NVL72, 16 devices in one domain",
        FitClusterRequest(racks, large, 8192, parallelism=Parallelism(16)),
    )


def fit_seconds(resolver: Resolver, request: FitClusterRequest) -> tuple[float, str]:
    """How long the answer takes, and what it is in short."""
    begun = time.process_time()
    answer = fit_cluster(resolver, request)
    moved = sum(len(remedy.moves) for option in answer.options for remedy in option.remedies)
    return time.process_time() - begun, f"{answer.summary}; {moved} pods to move"


def seconds(catalogue: Catalogue, request: SimulatePlacementRequest) -> tuple[float, str]:
    """How long the answer takes, and what it is in short."""
    begun = time.process_time()
    try:
        answer = simulate_placement(catalogue, request)
    except TooLarge as error:
        return time.process_time() - begun, f"refused: {error}"
    said = f"{answer.num_devices_working:,} of {answer.num_devices:,} devices work, {answer.num_steps:,} steps"
    return time.process_time() - begun, said


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    catalogue = load(specs_dir())
    for title, request in questions():
        taken, said = min(seconds(catalogue, request) for _ in range(rounds))
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{title}: {taken:.1f} s, {held:.0f} MiB; {said}")
    resolver = Resolver(catalogue)
    for title, asked in fits():
        taken, said = min(fit_seconds(resolver, asked) for _ in range(rounds))
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"fit, {title}: {taken:.1f} s, {held:.0f} MiB; {said}")
    size = len(json.dumps(snapshot(NODES, 30_000, 10_000)))
    print(f"  (the snapshot is {size / 1e6:.0f} MB of JSON)")
    for title, request in refused():
        taken, said = seconds(catalogue, request)
        print(f"{title}: {taken:.1f} s; {said}")


if __name__ == "__main__":
    main()
