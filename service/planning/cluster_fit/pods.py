"""What a pod of a replica asks for, and which other pods lie where once those that wait have found a place."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.placement.arrivals import background_and_jobs
from service.placement.cluster import CPU, MEMORY, Node, Pod, Toleration
from service.placement.constraints import Container, scored_requests
from service.placement.policies import Policy
from service.placement.simulate import Simulation
from service.planning.cluster_fit.device_groups import DeviceGroup
from service.planning.cluster_fit.layouts import Layout
from service.planning.cluster_fit.requests import FitClusterRequest
from service.planning.errors import InvalidRequest, Violation
from service.planning.placement.jobs import CPUS_PER_DEVICE, MEMORY_BYTES_PER_DEVICE, toleration_faults

#: The part of a node's CPUs and memory that pods take at most by default: what is left is for the node's own pods.
_SHARE: Final = (5, 6)
_CPU_STEP: Final = 100  # millicores
_GIB: Final = 2**30
_MIB: Final = 2**20
NAME_LABEL: Final = "app.kubernetes.io/name"


class HostAmounts(Struct, frozen=True):
    """What a pod asks of its host for each device."""

    millicores_per_device: int
    memory_bytes_per_device: int

    def per_pod(self, devices: int) -> dict[str, int]:
        """CPU in millicores and memory in bytes of a pod; what is nothing is left out."""
        asked = {CPU: self.millicores_per_device * devices, MEMORY: self.memory_bytes_per_device * devices}
        return {resource: amount for resource, amount in asked.items() if amount}


def host_amounts(request: FitClusterRequest, group: DeviceGroup) -> HostAmounts:
    """What the request says, else the usual amounts, as far as the smallest node of the group has them."""
    cpus = 1000 * CPUS_PER_DEVICE if request.cpus_per_device is None else round(1000 * request.cpus_per_device)
    memory = MEMORY_BYTES_PER_DEVICE if request.memory_bytes_per_device is None else round(request.memory_bytes_per_device)
    if request.cpus_per_device is None:
        cpus = min(cpus, _share(group, CPU) // _CPU_STEP * _CPU_STEP)
    if request.memory_bytes_per_device is None:
        share = _share(group, MEMORY)
        step = _GIB if share >= _GIB else _MIB
        memory = min(memory, share // step * step)
    return HostAmounts(cpus, memory)


def _share(group: DeviceGroup, resource: str) -> int:
    part, whole = _SHARE
    return min(node.allocatable.get(resource, 0) * part // (whole * group.devices_of(node)) for node in group.nodes)


def amounts_note(request: FitClusterRequest, group: DeviceGroup) -> Iterator[str]:
    """What pods ask of their hosts where the request is silent."""
    amounts = host_amounts(request, group)
    said = []
    if request.cpus_per_device is None:
        said.append(f"{amounts.millicores_per_device / 1000:g} CPUs")
    if request.memory_bytes_per_device is None:
        said.append(f"{amounts.memory_bytes_per_device / _GIB:.4g} GiB of memory")
    if said:
        yield f"pods on {group.device.title} ask for {' and '.join(said)} a device (default)"


def tolerations(request: FitClusterRequest, resource: str) -> tuple[Toleration, ...]:
    """Those of the request, and one for taints whose key is the name of the devices."""
    own = Toleration(key=resource, operator="Exists")
    given = (Toleration(each.key, each.operator or "Equal", each.value, each.effect) for each in request.tolerations)
    return (own, *given)


def check_tolerations(request: FitClusterRequest) -> None:
    """InvalidRequest where a toleration says nothing."""
    violations: list[Violation] = list(toleration_faults(request.tolerations, ""))
    if violations:
        raise InvalidRequest(*violations)


def replica_pod(request: FitClusterRequest, group: DeviceGroup, layout: Layout, namespace: str, name: str) -> Pod:
    """One pod of a replica."""
    asked = {**host_amounts(request, group).per_pod(layout.devices_per_pod), group.resource: layout.devices_per_pod}
    return Pod(
        namespace=namespace,
        name=name,
        requests=asked,
        scored_requests=scored_requests([Container(asked)]),
        labels={NAME_LABEL: name},
        tolerations=tolerations(request, group.resource),
        node_selector=dict(request.node_selector),
    )


def lying_pods(
    nodes: tuple[Node, ...], pods: Iterable[Pod], with_waiting: bool, check_time: Callable[[], None]
) -> tuple[list[Pod], int]:
    """Every pod that lies on a node once those that wait have been placed, whole gangs only; and how many of these there were.

    Unreadable or TooMany where that cannot be simulated.
    """
    background, waiting = background_and_jobs(pods, with_waiting=with_waiting)
    if not waiting:
        return background, 0
    simulation = Simulation(nodes, background, waiting, Policy(gang=True, horizon_seconds=0), check_time=check_time)
    simulation.run()
    lying = list(background)
    came = 0
    for run in simulation.runs:
        for place, node in run.placed.items():
            pod = run.job.pods[place]
            came += not pod.node_name
            lying.append(replace(pod, node_name=simulation.state.nodes[node].name))
    return lying, came


def in_binary_units(amount: int) -> str:
    """Bytes as Kubernetes writes them, in the largest binary unit of which they are a whole number.

    >>> in_binary_units(100 * 2**30), in_binary_units(1500)
    ('100Gi', '1500')
    """
    for unit, size in (("Gi", _GIB), ("Mi", _MIB), ("Ki", 1024)):
        if amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)
