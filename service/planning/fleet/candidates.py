"""The options of a fleet: hardware, engine and every legal shape of a replica within one node."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from service.architectures import Architecture
from service.architectures.architecture import QuantizedCut
from service.catalogue.entries import Catalogue
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import accelerator as find_accelerator
from service.catalogue.lookup import node_type as find_node_type
from service.planning.errors import NotFound, TooLarge
from service.planning.fleet.requests import PlanFleetRequest
from service.planning.requests import EngineSpec, Parallelism
from service.planning.shape import is_legal

#: Options of one plan: some two seconds of work.
MOST_CANDIDATES: Final = 3000
_DEFAULT_DEVICES_PER_NODE: Final = 8
_DEFAULT_ENGINE: Final = EngineSpec("vllm")


class Hardware(Struct, frozen=True):
    """What is rented or bought: whole nodes, or devices where ``node_type`` is empty."""

    node_type: str
    accelerator: str
    devices_per_node: int

    @property
    def by_device(self) -> bool:
        """Whether devices are paid for one by one."""
        return not self.node_type

    @property
    def name(self) -> str:
        """What to call it."""
        return self.node_type or self.accelerator


class Candidate(Struct, frozen=True):
    """One option."""

    hardware: Hardware
    engine: EngineSpec
    shape: Parallelism


def hardware(catalogue: Catalogue, request: PlanFleetRequest) -> tuple[Hardware, ...]:
    """What is allowed, without repetition. NotFound for a name that the catalogue does not know."""
    found = [_node(catalogue, name, f"node_types[{at}]") for at, name in enumerate(request.node_types)]
    found += [
        _devices(catalogue, name, f"accelerators[{at}]", request.devices_per_node)
        for at, name in enumerate(request.accelerators)
    ]
    if not found:
        found = [Hardware(node.name, node.accelerator, node.num_devices) for node in catalogue.node_types.values()]
    return tuple(dict.fromkeys(found))


def engines(request: PlanFleetRequest) -> tuple[EngineSpec, ...]:
    """Engines that are allowed."""
    return tuple(dict.fromkeys(request.engines)) or (_DEFAULT_ENGINE,)


def _node(catalogue: Catalogue, name: str, field: str) -> Hardware:
    try:
        node = find_node_type(catalogue, name)
    except UnknownName as unknown:
        raise NotFound(field, "node type", name, unknown.nearest) from None
    return Hardware(node.name, node.accelerator, node.num_devices)


def _devices(catalogue: Catalogue, name: str, field: str, per_node: int | None) -> Hardware:
    try:
        entry = find_accelerator(catalogue, name)
    except UnknownName as unknown:
        raise NotFound(field, "accelerator", name, unknown.nearest) from None
    if per_node is None:
        joined = entry.links[0].num_devices_in_domain if entry.links else None
        per_node = min(_DEFAULT_DEVICES_PER_NODE, joined or _DEFAULT_DEVICES_PER_NODE)
    return Hardware("", entry.name, per_node)


def shapes(
    architecture: Architecture, cuts: tuple[QuantizedCut, ...], devices_per_node: int, max_tensor: int | None
) -> tuple[Parallelism, ...]:
    """Legal shapes within a node: tensor ranks, and for experts also data-parallel attention over grouped experts."""
    most = devices_per_node if max_tensor is None else min(devices_per_node, max_tensor)
    return tuple(shape for shape in _possible(architecture, devices_per_node, most) if is_legal(architecture, shape, cuts))


def _possible(architecture: Architecture, devices: int, most_tensor: int) -> Iterator[Parallelism]:
    for tensor in range(1, most_tensor + 1):
        yield Parallelism(tensor=tensor)
    if architecture.experts is not None:
        for groups in range(2, devices + 1):
            if architecture.experts.num_experts % groups == 0:
                yield Parallelism(attention_data=groups, expert=groups)


def refuse_too_many(count: int) -> None:
    """TooLarge where there are more options than one plan may look at."""
    if count > MOST_CANDIDATES:
        raise TooLarge("node_types", f"{count} options of hardware, engine and shape", MOST_CANDIDATES, "allow fewer")
