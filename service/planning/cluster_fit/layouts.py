"""A replica laid out over nodes of one accelerator: the smallest legal shape that fits, cut into equal pods."""

from typing import Final

from msgspec import Struct

from service.planning import defaults
from service.planning.cluster_fit.device_groups import DeviceGroup
from service.planning.requests import Parallelism
from service.planning.results import FitCandidate
from service.planning.shape_search import ShapeSearch, describe

#: Devices of a node as far as shapes look.
_MOST_PER_NODE: Final = 1024


class Layout(Struct, frozen=True):
    """A replica: its shape and the pods that it is cut into. ``fills_nodes``: an empty node has no device left over."""

    parallelism: Parallelism
    num_pods: int
    devices_per_pod: int
    needs_one_link_domain: bool
    fills_nodes: bool
    max_sequences: float
    headroom_bytes_per_device: float

    @property
    def num_devices(self) -> int:
        """Devices of a replica."""
        return self.num_pods * self.devices_per_pod


class NoLayout(Struct, frozen=True):
    """Why no replica can be laid out."""

    reason: str


def given_layout(search: ShapeSearch, shape: Parallelism, group: DeviceGroup) -> Layout | NoLayout:
    """The layout of a legal shape that the request gives."""
    candidate = search.candidate(shape)
    if not candidate.fits:
        return NoLayout(_short(candidate, group))
    return _cut(candidate, search.devices_per_node, group)


def searched_layouts(search: ShapeSearch, group: DeviceGroup, max_num_nodes: int | None) -> tuple[Layout, ...] | NoLayout:
    """The smallest shape that fits the memory of the group's devices and can be laid out over its nodes.

    Where it leaves devices of an empty node over, the smallest that does not comes second: a model may need five devices, but
    is better served on all eight if they are no use to anybody else. TooLarge where there are more shapes than are looked at.
    """
    candidates = search.candidates(max_num_nodes, defaults.MAX_NUM_NODES)
    refusals = []
    layouts: list[Layout] = []
    for candidate in candidates:
        if candidate.fits:
            found = _cut(candidate, search.devices_per_node, group)
            if isinstance(found, NoLayout):
                refusals.append(found)
            elif found.num_pods <= (max_num_nodes or defaults.MAX_NUM_NODES) and (found.fills_nodes or not layouts):
                layouts.append(found)
                if found.fills_nodes:
                    break
    if layouts:
        return tuple(layouts)
    if refusals:
        return refusals[0]
    if not candidates:
        return NoLayout(f"an engine would accept no shape of this model on nodes of {search.devices_per_node} devices")
    closest = min(candidates, key=lambda each: -each.headroom_bytes_per_device)
    return NoLayout(f"no shape fits; the closest is {_short(closest, group)}")


def per_node(size: int) -> int:
    """Devices of a node as shapes take them."""
    return min(size, _MOST_PER_NODE)


def _short(candidate: FitCandidate, group: DeviceGroup) -> str:
    lacks = candidate.shortfall.description if candidate.shortfall else "it does not fit"
    return f"{describe(candidate.parallelism)} on {group.device.title}: {lacks}"


def _cut(candidate: FitCandidate, devices_per_node: int, group: DeviceGroup) -> Layout | NoLayout:
    """The shape in pods of one node each, all alike, so that a tensor group fills whole pods or a pod whole tensor groups.

    Experts that are not spread over groups are cut over all ranks of a stage, which then exchange as a tensor group does.
    """
    shape, total = candidate.parallelism, candidate.num_devices
    per_pod = _devices_per_pod(shape, total, devices_per_node)
    sharers = max(shape.tensor, shape.expert_tensor)
    crosses = sharers > per_pod
    if crosses:
        refusal = _crossing(sharers, total, per_pod, group)
        if refusal:
            return NoLayout(refusal)
    return Layout(
        parallelism=shape,
        num_pods=total // per_pod,
        devices_per_pod=per_pod,
        needs_one_link_domain=crosses,
        fills_nodes=devices_per_node % per_pod == 0,
        max_sequences=candidate.max_sequences,
        headroom_bytes_per_device=candidate.headroom_bytes_per_device,
    )


def _devices_per_pod(shape: Parallelism, total: int, most: int) -> int:
    return next(
        size
        for size in range(min(total, most), 0, -1)
        if total % size == 0 and (size % shape.tensor == 0 or shape.tensor % size == 0)
    )


def _crossing(sharers: int, total: int, per_pod: int, group: DeviceGroup) -> str:
    """Why tensor ranks must not reach over nodes here; empty where they may."""
    domain = group.largest_link_domain()
    over = f"tensor parallelism over {sharers} devices reaches over {-(-sharers // per_pod)} nodes of {per_pod}"
    instead = f"use tensor {per_pod} × pipeline {total // per_pod}, or nodes that share an NVLink domain"
    if not domain:
        return f"{over} {group.device.title} each, which no NVLink domain joins: {instead}"
    if total > domain:
        return f"{over}, and a replica of {total} devices is larger than the largest NVLink domain, which has {domain}"
    return ""
