"""From what one replica carries to how many of them, on how many nodes, at what cost."""

from collections.abc import Callable
from typing import Final

from service.formulas.registry import formula

#: What rounding adds to a whole number makes no further replica.
_EXACT: Final = 1e-9
_LITTLE: Final = "Little, A proof for the queuing formula L = λW, Operations Research 9(3), 1961"


@formula("N / D", source=_LITTLE)
def replica_requests_per_second(*, num_decoding: float, decode_seconds: float) -> float:
    """Requests per second of a replica on which so many decode, each for so long.

    >>> replica_requests_per_second(num_decoding=30.0, decode_seconds=15.0)
    2.0
    """
    return num_decoding / decode_seconds


@formula("ρ / S", source="definition: the part of the time that it is busy, over the time that each takes")
def prompt_requests_per_second(*, utilization_ratio: float, prompt_seconds: float) -> float:
    """Requests per second of a replica that computes one prompt after the other.

    >>> prompt_requests_per_second(utilization_ratio=0.5, prompt_seconds=0.25)
    2.0
    """
    return utilization_ratio / prompt_seconds


@formula("max(1, ⌈λ · (1 + h) / λ_replica⌉)", source="definition: replicas are whole")
def num_replicas(
    *,
    requests_per_second: float,
    headroom_ratio: float,
    replica_requests_per_second: float,
    maximum: Callable[[float, float], float] = max,
) -> float:
    """Replicas that carry a demand with its headroom.

    An array passes ``maximum=np.maximum``.

    >>> num_replicas(requests_per_second=10.0, headroom_ratio=0.2, replica_requests_per_second=5.0)
    3.0
    """
    parts = requests_per_second * (1.0 + headroom_ratio) / replica_requests_per_second
    return maximum(1.0, -((_EXACT - parts) // 1.0))


@formula("⌊g / s⌋", source="definition: a replica is not cut over nodes")
def replicas_per_node(*, devices_per_node: float, num_devices_per_replica: float) -> float:
    """Replicas that a node holds whole.

    >>> replicas_per_node(devices_per_node=8.0, num_devices_per_replica=3.0)
    2.0
    """
    return devices_per_node // num_devices_per_replica


@formula("⌈R / k⌉ + x", source="definition: as many nodes more as may be lost")
def num_nodes(*, num_replicas: float, replicas_per_node: float, redundant_nodes: float) -> float:
    """Nodes that hold the replicas of a pool, those that may be lost included.

    >>> num_nodes(num_replicas=5.0, replicas_per_node=2.0, redundant_nodes=1.0)
    4.0
    """
    return -(-num_replicas // replicas_per_node) + redundant_nodes


@formula("⌈D / g⌉", source="definition: pools whose replicas fill a node without gaps share nodes")
def num_shared_nodes(*, num_devices: float, devices_per_node: float) -> float:
    """Nodes that several pools share.

    >>> num_shared_nodes(num_devices=20.0, devices_per_node=8.0)
    3.0
    """
    return -(-num_devices // devices_per_node)


@formula("s · (R + x · k)", source="definition: as many devices more as the nodes hold that may be lost")
def num_pool_devices(
    *, num_devices_per_replica: float, num_replicas: float, redundant_nodes: float, replicas_per_node: float
) -> float:
    """Devices of a pool, those of nodes that may be lost included.

    >>> num_pool_devices(num_devices_per_replica=2.0, num_replicas=5.0, redundant_nodes=1.0, replicas_per_node=4.0)
    18.0
    """
    return num_devices_per_replica * (num_replicas + redundant_nodes * replicas_per_node)


@formula("c_unit · n", source="definition: every node, or every device, at the same price")
def fleet_cost_per_hour(*, cost_per_unit_hour: float, num_units: float) -> float:
    """What a fleet costs per hour.

    >>> fleet_cost_per_hour(cost_per_unit_hour=55.04, num_units=2.0)
    110.08
    """
    return cost_per_unit_hour * num_units
