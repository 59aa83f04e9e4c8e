"""Fleet formulas: worked by hand, and against the whole numbers that plans are made of."""

import math

from hypothesis import given
from hypothesis import strategies as st

from service.formulas.fleet import (
    fleet_cost_per_hour,
    num_nodes,
    num_pool_devices,
    num_replicas,
    num_shared_nodes,
    prompt_requests_per_second,
    replica_requests_per_second,
    replicas_per_node,
)

counts = st.integers(1, 1000)


def test_ten_requests_a_second_by_hand() -> None:
    """Replicas of two devices, 40 in flight for 16 s each: 2.5 requests/s. Twelve requests/s take five of them.

    Those fill a node of eight devices and begin a second; a third may be lost.
    """
    each = replica_requests_per_second(num_decoding=40.0, decode_seconds=16.0)
    assert 2.5 == each
    count = num_replicas(requests_per_second=10.0, headroom_ratio=0.2, replica_requests_per_second=each)
    assert 5.0 == count
    per_node = replicas_per_node(devices_per_node=8.0, num_devices_per_replica=2.0)
    nodes = num_nodes(num_replicas=count, replicas_per_node=per_node, redundant_nodes=1.0)
    assert 3.0 == nodes
    assert 150.0 == fleet_cost_per_hour(cost_per_unit_hour=50.0, num_units=nodes)
    devices = num_pool_devices(num_devices_per_replica=2.0, num_replicas=count, redundant_nodes=1.0, replicas_per_node=per_node)
    assert 18.0 == devices
    assert 3.0 == num_shared_nodes(num_devices=devices, devices_per_node=8.0)


def test_a_prompt_of_a_quarter_of_a_second_on_a_replica_half_busy() -> None:
    assert 2.0 == prompt_requests_per_second(utilization_ratio=0.5, prompt_seconds=0.25)


@given(demand=st.floats(1e-3, 1e7), headroom=st.floats(0, 10), each=st.floats(1e-3, 1e5))
def test_replicas_just_suffice(demand: float, headroom: float, each: float) -> None:
    count = num_replicas(requests_per_second=demand, headroom_ratio=headroom, replica_requests_per_second=each)
    assert count == math.floor(count) >= 1
    needed = demand * (1 + headroom)
    assert count * each >= needed * (1 - 1e-8)
    assert count == 1 or (count - 1) * each < needed


@given(replicas=counts, size=st.integers(1, 72), more=st.integers(0, 72), redundant=st.integers(0, 3))
def test_nodes_hold_their_replicas_whole(replicas: int, size: int, more: int, redundant: int) -> None:
    per_node = replicas_per_node(devices_per_node=float(size + more), num_devices_per_replica=float(size))
    nodes = num_nodes(num_replicas=float(replicas), replicas_per_node=per_node, redundant_nodes=float(redundant))
    assert (nodes - redundant) * per_node >= replicas > (nodes - redundant - 1) * per_node
