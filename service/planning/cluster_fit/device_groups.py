"""The nodes of a cluster by their accelerator: what labels, node types and, where these are silent, the request say."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from service.catalogue import lookup
from service.catalogue.entries import Catalogue
from service.placement.cluster import DEVICE_RESOURCES, Node
from service.placement.enumeration import first_of
from service.planning.device import Device
from service.planning.errors import InvalidRequest, Violation
from service.planning.node_groups.devices import NodeDevices
from service.planning.placement.cluster import ReadCluster
from service.planning.placement.requests import Cluster
from service.planning.requests import AcceleratorSpec
from service.planning.resolve import Resolver

#: Accelerators that are looked at, those with most devices.
MAX_GROUPS: Final = 12


class DeviceGroup(Struct, frozen=True):
    """Nodes with whole devices of one accelerator under one name, and the accelerator."""

    device: Device
    resource: str
    nodes: tuple[Node, ...]

    @property
    def num_devices(self) -> int:
        """Devices of all of them."""
        return sum(map(self.devices_of, self.nodes))

    def devices_of(self, node: Node) -> int:
        """Devices of one of them."""
        return node.allocatable.get(self.resource, 0)

    def sizes(self) -> tuple[int, ...]:
        """Devices that a node may have, those of most devices first."""
        counts = Counter(map(self.devices_of, self.nodes))
        return tuple(sorted(counts, key=lambda size: (-counts[size] * size, -size)))

    def largest_link_domain(self) -> int:
        """Devices of the largest link domain that reaches beyond a node's own; 0 where no node names one."""
        domains: Counter[str] = Counter()
        for node in self.nodes:
            if node.link_domain is not None:
                domains[node.link_domain] += self.devices_of(node)
        return max(domains.values(), default=0)


class DeviceGroups(Struct, frozen=True):
    """The groups, those with most devices first, and what is to be said about the other nodes."""

    groups: tuple[DeviceGroup, ...]
    notes: tuple[str, ...]


def device_groups(resolver: Resolver, asked: Cluster, cluster: ReadCluster, otherwise: AcceleratorSpec | None) -> DeviceGroups:
    """The nodes by accelerator.

    Args:
        resolver: knows the catalogue.
        asked: the cluster as it was asked for: its node types say what counted nodes have.
        cluster: the same as nodes.
        otherwise: what the devices are of nodes that do not say it.

    Raises:
        InvalidRequest: there are devices, and nothing says of any what they are.
        NotFound: ``otherwise`` is not in the catalogue.
    """
    fallback = None if otherwise is None else resolver.device(otherwise)
    typed = dict(_by_node_type(resolver.catalogue, asked, cluster.nodes))
    reader = NodeDevices(resolver.catalogue)
    found: dict[tuple[str, str], tuple[Device, list[Node]]] = {}
    silent: list[Node] = []
    for node in cluster.nodes:
        resource = next((each for each in DEVICE_RESOURCES if node.allocatable.get(each)), None)
        if resource is None or not node.has_whole_devices:
            continue
        device = _device(resolver, reader, node, typed.get(node.name)) or fallback
        if device is None:
            silent.append(node)
        else:
            found.setdefault((device.title, resource), (device, []))[1].append(node)
    if silent and not found:
        raise InvalidRequest(_silent_violation(silent))
    groups = [DeviceGroup(device, resource, tuple(nodes)) for (_, resource), (device, nodes) in found.items()]
    groups.sort(key=lambda group: (-group.num_devices, group.device.title, group.resource))
    return DeviceGroups(tuple(groups[:MAX_GROUPS]), tuple(_notes(silent, groups)))


def _device(resolver: Resolver, reader: NodeDevices, node: Node, typed: str | None) -> Device | None:
    if typed is not None:
        return resolver.device(AcceleratorSpec(name=typed))
    said = reader.device(node)
    return None if said is None else resolver.device(said.spec)


def _by_node_type(catalogue: Catalogue, asked: Cluster, nodes: tuple[Node, ...]) -> Iterator[tuple[str, str]]:
    """Name and accelerator of counted nodes: they come last, in the order in which they are asked for."""
    place = len(nodes) - sum(group.count for group in asked.nodes)
    for group in asked.nodes:
        if group.node_type:
            accelerator = lookup.node_type(catalogue, group.node_type).accelerator
            yield from ((node.name, accelerator) for node in nodes[place : place + group.count])
        place += group.count


def _silent_violation(silent: list[Node]) -> Violation:
    which = "nodes" if len(silent) > 1 else "node"
    reason = f"nothing says what the devices of {len(silent)} {which} are ({_names(silent)})"
    return Violation("accelerator", reason, "give accelerator, node_type, or the label nvidia.com/gpu.product")


def _notes(silent: list[Node], groups: list[DeviceGroup]) -> Iterator[str]:
    if silent:
        yield f"{len(silent)} nodes are left out, for nothing says what their devices are ({_names(silent)}): give accelerator"
    if len(groups) > MAX_GROUPS:
        rest = sum(len(group.nodes) for group in groups[MAX_GROUPS:])
        yield f"{len(groups)} accelerators are more than are looked at; the {rest} nodes with fewest devices are left out"


def _names(nodes: Iterable[Node]) -> str:
    return first_of([node.name for node in nodes])
