"""The cluster that a request means: counted nodes, node types of the catalogue, and snapshots → nodes and pods."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.catalogue import lookup
from service.catalogue.entries import Catalogue, NodeType
from service.placement.cluster import CPU, DEVICE_RESOURCES, MEMORY, NVIDIA_GPU, Effect, Node, Pod, Taint
from service.placement.errors import TooMany
from service.placement.quantities import is_whole
from service.placement.simulate import MAX_NODES, check_size
from service.placement.snapshot import Snapshot, UnreadableSnapshot, read_snapshot
from service.planning.errors import InvalidRequest, NotFound, TooLarge, Violation
from service.planning.placement.requests import Cluster, NodeGroup

#: Where neither the request nor the catalogue says: 96 CPUs and 960 GiB for 8 devices, also for a node without any.
CPUS_PER_DEVICE: Final = 12
MEMORY_BYTES_PER_DEVICE: Final = 120 * 2**30
_DEVICES_OF_DEFAULT: Final = 8
_AMD: Final = "amd.com/gpu"


class ReadCluster(Struct, frozen=True):
    """Nodes and pods, and what was assumed about them."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    device_resource: str  # what most of its devices are called
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]


def read_cluster(catalogue: Catalogue, cluster: Cluster) -> ReadCluster:
    """The cluster of a request.

    Raises:
        InvalidRequest: there is none, or it cannot be read.
        NotFound: the catalogue has no such node type.
        TooLarge: it has more nodes or pods than are simulated.
    """
    if not cluster.nodes and cluster.snapshot is None:
        reason, remedy = "no cluster is given", 'give nodes ([{"count": 3, "devices": 8}]) or a snapshot'
        raise InvalidRequest(Violation("cluster", reason, remedy))
    snapshot = Snapshot((), (), 0) if cluster.snapshot is None else read_snapshot_of(cluster.snapshot, "cluster.snapshot")
    if sum(group.count for group in cluster.nodes) + len(snapshot.nodes) > MAX_NODES:
        total = sum(group.count for group in cluster.nodes) + len(snapshot.nodes)
        raise TooLarge("cluster.nodes", f"{total} nodes", MAX_NODES, "ask about a part of the cluster")
    assumptions: list[str] = []
    counted = [node for place, group in enumerate(cluster.nodes) for node in _nodes(catalogue, group, place, assumptions)]
    nodes = (*snapshot.nodes, *counted)
    _refuse_clashes(nodes)
    notes = []
    if snapshot.num_pods_elsewhere:
        notes.append(f"{snapshot.num_pods_elsewhere} pods lie on nodes that the snapshot does not hold and are left out")
    notes += _on_shared(nodes)
    return ReadCluster(nodes, snapshot.pods, _main_resource(nodes), tuple(notes), tuple(dict.fromkeys(assumptions)))


def read_snapshot_of(snapshot: object, field: str) -> Snapshot:
    """A snapshot that lies in a field of a request; errors name the field."""
    if not isinstance(snapshot, dict):
        raise InvalidRequest(Violation(field, "this should be an object"))
    try:
        found = read_snapshot(snapshot)
        check_size(len(found.nodes), len(found.pods))
    except UnreadableSnapshot as unreadable:
        faults = (error.under(field) for error in unreadable.errors)
        raise InvalidRequest(*(Violation(fault.path, fault.reason, fault.remedy) for fault in faults)) from None
    except TooMany as many:
        raise TooLarge(f"{field}.{many.path}", many.what, many.limit, many.remedy) from None
    return found


def _nodes(catalogue: Catalogue, group: NodeGroup, place: int, assumptions: list[str]) -> Iterator[Node]:
    field = f"cluster.nodes[{place}]"
    kind = _node_type(catalogue, group, field)
    if group.devices is None and kind is None:
        raise InvalidRequest(
            Violation(f"{field}.devices", "nothing says how many devices a node has", "give devices or node_type")
        )
    devices = group.devices if group.devices is not None else kind.num_devices if kind is not None else 0
    name = group.name or (kind.name if kind is not None else "node")
    allocatable = {CPU: round(1000 * _cpus(group, kind, devices, assumptions))}
    allocatable[MEMORY] = round(_memory_bytes(group, kind, devices, assumptions))
    allocatable[_device_resource(catalogue, group, kind, field)] = devices
    per_domain = group.nodes_per_link_domain or _nodes_per_domain(kind, devices)
    taints = tuple(_taint(each.key, each.value, each.effect, f"{field}.taints[{n}]") for n, each in enumerate(group.taints))
    node = Node(name=name, labels=dict(group.labels), taints=taints, allocatable=allocatable, group=name)
    for number in range(group.count):
        domain = f"{name}-domain-{number // per_domain + 1}" if per_domain > 1 else None
        yield replace(node, name=f"{name}-{number + 1}", link_domain=domain)


def _node_type(catalogue: Catalogue, group: NodeGroup, field: str) -> NodeType | None:
    if not group.node_type:
        return None
    try:
        return lookup.node_type(catalogue, group.node_type)
    except lookup.UnknownName as unknown:
        raise NotFound(f"{field}.node_type", "node type", group.node_type, unknown.nearest) from None


def _cpus(group: NodeGroup, kind: NodeType | None, devices: int, assumptions: list[str]) -> float:
    if group.cpus is not None:
        return group.cpus
    if kind is not None and kind.num_vcpus is not None:
        return kind.num_vcpus
    assumptions.append(f"nodes have {CPUS_PER_DEVICE} CPUs a device where nothing says how many")
    return CPUS_PER_DEVICE * (devices or _DEVICES_OF_DEFAULT)


def _memory_bytes(group: NodeGroup, kind: NodeType | None, devices: int, assumptions: list[str]) -> float:
    if group.memory_bytes is not None:
        return group.memory_bytes
    if kind is not None and kind.memory_bytes is not None:
        return kind.memory_bytes.value
    assumptions.append(f"nodes have {MEMORY_BYTES_PER_DEVICE // 2**30} GiB of memory a device where nothing says how much")
    return MEMORY_BYTES_PER_DEVICE * (devices or _DEVICES_OF_DEFAULT)


def _device_resource(catalogue: Catalogue, group: NodeGroup, kind: NodeType | None, field: str) -> str:
    if group.device_resource:
        if not is_whole(group.device_resource) or "/" not in group.device_resource:
            remedy = "write it with its domain, like nvidia.com/gpu"
            raise InvalidRequest(Violation(f"{field}.device_resource", "an extended resource has a domain", remedy))
        return group.device_resource
    is_amd = kind is not None and catalogue.accelerators[kind.accelerator].vendor == "AMD"
    return _AMD if is_amd else NVIDIA_GPU


def _nodes_per_domain(kind: NodeType | None, devices: int) -> int:
    """A rack whose nodes are counted as trays shares its link over all of them."""
    if kind is None or not devices:
        return 1
    return max((kind.num_devices_per_scale_up_domain or kind.num_devices) // devices, 1)


def _taint(key: str, value: str, effect: str, field: str) -> Taint:
    if effect and effect not in set(Effect):
        raise InvalidRequest(Violation(f"{field}.effect", f"{effect!r} is none of {', '.join(Effect)}"))
    return Taint(key, value, effect or Effect.NO_SCHEDULE)


def _refuse_clashes(nodes: tuple[Node, ...]) -> None:
    twice = [name for name, count in Counter(node.name for node in nodes).items() if count > 1]
    if twice:
        reason = f"two nodes would be called {twice[0]}"
        raise InvalidRequest(Violation("cluster.nodes", reason, "give each entry a name of its own"))


def _main_resource(nodes: tuple[Node, ...]) -> str:
    totals = {each: sum(node.allocatable.get(each, 0) for node in nodes) for each in DEVICE_RESOURCES}
    return max(DEVICE_RESOURCES, key=lambda each: totals[each])  # the first of them where there is none


def _on_shared(nodes: tuple[Node, ...]) -> Iterator[str]:
    shared = [node for node in nodes if not node.has_whole_devices]
    if shared:
        yield (
            f"{len(shared)} nodes offer time slices or MIG partitions under the name of whole devices; they are not counted as "
            "devices, and jobs take them only with takes_shared_devices"
        )
    profiles = sorted({each for node in nodes for each, amount in node.allocatable.items() if "/mig-" in each and amount})
    if profiles:
        yield f"MIG partitions under names of their own are not counted as devices: {', '.join(profiles[:5])}"
