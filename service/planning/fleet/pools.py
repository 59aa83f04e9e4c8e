"""Ways to run a mix on one kind of hardware: one pool, a pool a workload, or prompts and answers apart.

A way says what one replica of each of its pools carries; ``replicas`` are then whole numbers for any demand.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from service.planning.fleet.candidates import Hardware
from service.planning.fleet.curve import Curve
from service.planning.fleet.demand import Mix
from service.planning.fleet.results import FleetLimit, PoolRole
from service.planning.fleet.sizing import Capability
from service.planning.requests import Parallelism

#: Replicas of one pool at most.
MOST_REPLICAS: Final = 1_000_000
_EXACT: Final = 1e-9
#: Combinations of shapes that are tried for pools apart; with more, each pool takes the shape of the fewest devices.
_MOST_COMBINATIONS: Final = 4096


def replicas_for(requests_per_second: float, each_per_second: float) -> int:
    """Whole replicas that carry a rate, each its part; what rounding adds to a whole number makes no further one."""
    return math.ceil(requests_per_second / each_per_second - _EXACT)


class Pool(Struct, frozen=True):
    """Replicas of one shape for one mix. ``rate``: requests per second that one of them carries at most."""

    role: PoolRole
    mix: Mix
    shape: Parallelism
    rate: float
    limit: FleetLimit
    capability: Capability | None  # None for prompts alone
    ttft_seconds: float | None = None  # with disaggregation: at the percentile, of prompts at their fullest
    prompts: Curve | None = None  # with disaggregation: what computes the prompts

    def replicas(self, at: int, headroom: float) -> int:
        """Replicas that carry one of the three demands with its headroom."""
        return max(1, replicas_for(self.mix.rates[at] * (1 + headroom), self.rate))


class Units(Struct, frozen=True):
    """Replicas of each pool, and nodes, devices and units that are paid for."""

    replicas: tuple[int, ...]
    nodes: int
    devices: int
    units: int


class Way(Struct, frozen=True):
    """Pools that carry everything between them."""

    pools: tuple[Pool, ...]
    is_disaggregated: bool
    is_mixed: bool

    def capacity_ratio(self, replicas: Sequence[int], at: int) -> float:
        """What the replicas carry at most over one of the three demands: of the pools the smallest."""
        return min(count * pool.rate / pool.mix.rates[at] for pool, count in zip(self.pools, replicas, strict=True))


def num_nodes(devices_per_replica: Iterable[int], replicas: Iterable[int], devices_per_node: int, redundant: int) -> int:
    """Nodes that hold the replicas, none of them cut through, with as many more for each pool as may be lost.

    Pools share nodes where their replicas fill them without gaps and no node may be lost: a lost one would take replicas of
    both.
    """
    pairs = list(zip(devices_per_replica, replicas, strict=True))
    if share_nodes([size for size, _ in pairs], devices_per_node, redundant):
        return -(-sum(size * count for size, count in pairs) // devices_per_node)
    return sum(-(-count // (devices_per_node // size)) + redundant for size, count in pairs)


def share_nodes(devices_per_replica: Sequence[int], devices_per_node: int, redundant: int) -> bool:
    """Whether several pools share nodes."""
    sizes = sorted(set(devices_per_replica))
    nested = all(larger % smaller == 0 for smaller, larger in zip(sizes, [*sizes[1:], devices_per_node], strict=True))
    return len(devices_per_replica) > 1 and nested and not redundant


def num_units(way: Way, hardware: Hardware, at: int, headroom: float, redundant: int) -> Units:
    """What a way takes for one of the three demands."""
    replicas = tuple(pool.replicas(at, headroom) for pool in way.pools)
    sizes = [pool.shape.num_devices for pool in way.pools]
    nodes = num_nodes(sizes, replicas, hardware.devices_per_node, redundant)
    if not hardware.by_device:
        return Units(replicas, nodes, nodes * hardware.devices_per_node, nodes)
    spare = sum(hardware.devices_per_node // size * size for size in sizes) * redundant
    devices = sum(size * count for size, count in zip(sizes, replicas, strict=True)) + spare
    return Units(replicas, nodes, devices, devices)


def aggregated(mix: Mix, shape: Parallelism, found: Capability) -> Way:
    """One pool for everything."""
    return Way((Pool(PoolRole.AGGREGATED, mix, shape, found.rate, found.limit, found),), False, True)


def apart(
    found: dict[int, list[tuple[Parallelism, Capability]]], mixes: Sequence[Mix], taken: Callable[[Way], int]
) -> Way | None:
    """A pool for each workload, of the shapes that together take the fewest units; None where a workload has none."""
    options = [
        [Pool(PoolRole.AGGREGATED, mix, shape, each.rate, each.limit, each) for shape, each in found.get(index, [])]
        for index, mix in enumerate(mixes)
    ]
    if not all(options):
        return None
    if math.prod(map(len, options)) > _MOST_COMBINATIONS:
        options = [[min(pools, key=_devices)] for pools in options]
    ways = (Way(pools, False, False) for pools in itertools.product(*options))
    return min(ways, key=lambda way: (taken(way), [pool.shape for pool in way.pools]))


def _devices(pool: Pool) -> float:
    return pool.shape.num_devices / pool.rate


def work_seconds(pool: Pool) -> tuple[float, float]:
    """Device seconds of a replica that a request's prompt and its answer take, for dividing cost by time."""
    if pool.capability is None:
        return 1.0 / pool.rate, 0.0
    curve = pool.capability.curve
    points = curve.at(curve.grid(2)[-1:])
    decode = float(np.max(points.state.step.seconds) / points.decoding[0]) * curve.traffic.output_tokens
    if curve.is_disaggregated:
        return 0.0, decode
    return float(np.max(points.state.prompt.seconds)), decode
