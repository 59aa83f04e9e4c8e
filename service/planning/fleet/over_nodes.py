"""Where a model does not fit a node: what is short there, and the smallest replica over several nodes that would hold it.

Such a replica is named and not planned: what stages and collectives over a network take is not calibrated.
"""

from collections.abc import Iterator
from math import ceil
from typing import Final

from msgspec import Struct

from service.planning.errors import InvalidRequest, Unanswerable
from service.planning.fleet.candidates import Hardware
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.serving.estimate import Deployment, ServingEstimator
from service.planning.serving.places import asked_places, most_for_weights
from service.planning.shape_search import describe

#: Nodes of one replica that are looked at.
_MOST_NODES: Final = 16


class Misfit(Struct, frozen=True):
    """A model on hardware whose nodes do not hold it.

    ``nearest``: the shape within a node that comes closest. ``devices_in_domain``: devices that the fastest link joins, in
    several nodes where they are more than one holds. ``weight_bytes``: of all weights, none of them held twice.
    """

    model: ModelSpec
    hardware: Hardware
    engine: EngineSpec
    precision: Precision
    nearest: Deployment
    devices_in_domain: int
    weight_bytes: float
    context_tokens: float
    memory_ratio: float | None
    most_tensor: int

    @property
    def room_bytes(self) -> float:
        """What a device has for weights and caches at the very most."""
        return max(0.0, most_for_weights(self.nearest.plan, self.engine, self.memory_ratio) or 0.0)

    @property
    def fewest_nodes(self) -> int:
        """No fewer hold the weights, however they are split."""
        per_node = self.room_bytes * self.hardware.devices_per_node
        return max(2, ceil(self.weight_bytes / per_node)) if per_node else _MOST_NODES + 1


class WiderReplica(Struct, frozen=True):
    """A replica over several nodes that holds weights and at least one request."""

    shape: Parallelism
    num_nodes: int
    num_requests: float


def wider_replica(serving: ServingEstimator, misfit: Misfit) -> WiderReplica | None:
    """The replica of the fewest nodes, plain stages first; None where none of up to 16 nodes holds the model."""
    for nodes in range(misfit.fewest_nodes, _MOST_NODES + 1):
        for shape in _shapes(misfit, nodes):
            held = _held(serving, misfit, shape)
            if held >= 1:
                return WiderReplica(shape, nodes, held)
    return None


def _shapes(misfit: Misfit, nodes: int) -> Iterator[Parallelism]:
    """Shapes that fill so many nodes: a stage a node, several stages a node, or groups of experts over all."""
    devices = misfit.hardware.devices_per_node
    sizes = [size for size in range(devices, 0, -1) if devices % size == 0 and size <= misfit.most_tensor]
    yield from (Parallelism(tensor=size, pipeline=nodes * (devices // size)) for size in sizes)
    if misfit.nearest.split.architecture.experts is not None:
        yield Parallelism(attention_data=nodes * devices, expert=nodes * devices)


def _held(serving: ServingEstimator, misfit: Misfit, shape: Parallelism) -> float:
    """Requests that a shape holds at a time; 0 where no engine splits the model so."""
    named = AcceleratorSpec(misfit.hardware.accelerator)
    try:
        deployed = serving.deployment(misfit.model, named, misfit.engine, misfit.precision, shape)
    except (InvalidRequest, Unanswerable):
        return 0.0
    held, _ = asked_places(deployed.split, deployed.plan, misfit.engine, misfit.memory_ratio, misfit.context_tokens)
    return held.by_memory or 0.0


def misfit_text(misfit: Misfit, wider: WiderReplica | None) -> str:
    """What is short on the nearest shape, and what would hold the model."""
    footprint = misfit.nearest.split.footprint
    weights = max(stage.weight_bytes for stage in footprint.stages)
    devices = misfit.hardware.devices_per_node
    short = (
        f"no shape within a node of {devices} leaves room for a single request: {describe(footprint.shape)}, the nearest, "
        f"takes {weights / 1e9:.4g} GB of weights on each device, which has {misfit.room_bytes / 1e9:.4g} GB for all"
    )
    if wider is None:
        return f"{short}; no replica over up to {_MOST_NODES} nodes holds it either"
    text = (
        f"{short}; {describe(wider.shape)} over {wider.num_nodes} nodes would hold it with {wider.num_requests:.0f} requests "
        f"of {misfit.context_tokens:.0f} tokens, but what stages and collectives over a network take is not calibrated"
    )
    joined = misfit.devices_in_domain
    if misfit.hardware.by_device or joined < wider.num_nodes * devices:
        return text
    named = f"accelerators {misfit.hardware.accelerator} with devices_per_node {wider.num_nodes * devices}"
    return f"{text}; its fastest link joins {joined} devices over nodes: ask for {named}"
