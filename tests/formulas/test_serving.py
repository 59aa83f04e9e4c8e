"""Formulas of the serving estimate, by hand and against queueing theory. That a sweep gives what its points give is tested for
every formula in test_registry."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.formulas import REGISTRY, serving
from service.formulas.serving import (
    collective_seconds,
    decode_attention_seconds,
    decoding_batch_size,
    expert_read_ratio,
    first_token_seconds,
    inter_token_seconds,
    prefill_pass_seconds,
    queue_seconds,
    requests_per_second,
    streaming_seconds,
)

LINK = {
    "log2_num_devices": 1,
    "link_bandwidth_one_way_bytes_per_second": 1e11,
    "collective_base_seconds": 5e-6,
    "collective_doubling_seconds": 1e-6,
    "collective_seconds_per_root_byte": 1e-9,
}
#: Worked with a pencil.
CASES: list[tuple[Callable[..., float], dict[str, float], float]] = [
    # 134 GB at nine tenths of 3.35 TB/s: 134 / 3.015 ms
    (streaming_seconds, {"num_bytes": 1.34e11, "bandwidth_bytes_per_second": 3.35e12, "bandwidth_ratio": 0.9}, 0.0444444444444),
    # two of eight experts a token, two tokens: 1 − (3/4)²
    (expert_read_ratio, {"num_experts": 8, "num_experts_per_token": 2, "num_tokens": 2, "routing_exponent": 1}, 0.4375),
    # four tokens that choose as alike as two would by chance
    (expert_read_ratio, {"num_experts": 8, "num_experts_per_token": 2, "num_tokens": 4, "routing_exponent": 0.5}, 0.4375),
    # 5 + 1 + 1 (a thousand roots) + 10 µs (1 MB once each way at 100 GB/s)
    (collective_seconds, {"message_bytes": 1e6, "num_devices": 2, **LINK}, 17e-6),
    # 3³ + 4³ = 91
    (decode_attention_seconds, {"cache_seconds": 3, "arithmetic_seconds": 4}, 4.497941445275415),
    # 4 and 9 to the power of 1.5 are 8 and 27; 35 to two thirds
    (prefill_pass_seconds, {"compute_seconds": 4, "fixed_seconds": 9}, 10.6998748057),
    (inter_token_seconds, {"decode_step_seconds": 0.02, "interference_seconds": 0.0025}, 0.0225),
    # 50 ms + a prompt of 200 ms + 105 ms for half of another and half a step
    (first_token_seconds, {"host_seconds": 0.05, "prefill_seconds": 0.2, "wait_seconds": 0.105}, 0.355),
    (decoding_batch_size, {"num_running": 10, "decode_seconds": 3, "first_token_seconds": 2}, 6.0),
    (requests_per_second, {"num_running": 10, "decode_seconds": 3, "first_token_seconds": 2}, 2.0),
    # M/D/1: ρ / (2 (1 − ρ)) services
    (queue_seconds, {"utilization_ratio": 0.8, "num_slots": 1, "service_seconds": 3, "squared_variation": 0}, 6.0),
]


@pytest.mark.parametrize(("body", "inputs", "expected"), CASES, ids=[case[0].__name__ for case in CASES])
def test_by_hand(body: Callable[..., float], inputs: dict[str, float], expected: float) -> None:
    assert body(**inputs) == pytest.approx(expected, rel=1e-9)
    swept = body(**{name: np.full(3, float(value)) for name, value in inputs.items()})
    assert np.asarray(swept) == pytest.approx(expected, rel=1e-9)


def test_every_formula_has_a_worked_value() -> None:
    own = {name for name, each in REGISTRY.items() if each.body.__module__ == serving.__name__}
    assert own == {body.__name__ for body, _, _ in CASES}


@given(st.integers(1, 512), st.floats(0.05, 1.0), st.floats(0.3, 1.0), st.floats(1.0, 1e4))
def test_one_token_reads_its_own_experts_and_more_tokens_more(
    experts: int, share: float, exponent: float, tokens: float
) -> None:
    fixed: dict[str, Any] = {"num_experts": experts, "num_experts_per_token": experts * share, "routing_exponent": exponent}
    assert expert_read_ratio(num_tokens=1, **fixed) == pytest.approx(share)
    read = expert_read_ratio(num_tokens=tokens, **fixed)
    assert share - 1e-12 <= read <= 1
    assert read <= expert_read_ratio(num_tokens=tokens * 2, **fixed) + 1e-12
    assert read <= expert_read_ratio(num_tokens=tokens, **(fixed | {"routing_exponent": 1.0})) + 1e-12


def test_a_collective_of_one_sends_nothing_and_a_large_one_is_bound_by_the_link() -> None:
    alone = collective_seconds(message_bytes=1e9, num_devices=1, **(LINK | {"log2_num_devices": 0}))
    assert alone == pytest.approx(5e-6 + 1e-9 * 1e9**0.5)
    large = collective_seconds(message_bytes=1e12, num_devices=8, **(LINK | {"log2_num_devices": 3}))
    assert large == pytest.approx(2 * 7 / 8 * 1e12 / 1e11, rel=1e-3)


@pytest.mark.parametrize("both", [decode_attention_seconds, prefill_pass_seconds])
@given(left=st.floats(1e-9, 1e3), right=st.floats(1e-9, 1e3))
def test_what_overlaps_takes_between_the_longer_and_both(both: Callable[..., float], left: float, right: float) -> None:
    names = list(REGISTRY[both.__name__].parameters)
    taken = both(**dict(zip(names, (left, right), strict=True)))
    assert max(left, right) * (1 - 1e-12) <= taken <= (left + right) * (1 + 1e-12)
    assert taken == pytest.approx(both(**dict(zip(names, (right, left), strict=True))))


@given(st.floats(1, 1e4), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_littles_law(running: float, decode: float, first: float) -> None:
    times = {"num_running": running, "decode_seconds": decode, "first_token_seconds": first}
    rate = requests_per_second(**times)
    assert rate * (decode + first) == pytest.approx(running)
    assert rate * decode == pytest.approx(decoding_batch_size(**times))


def erlang_wait(slots: int, utilization: float) -> float:
    """The exact mean wait of M/M/c, in services: by the recursion of Erlang's B."""
    offered = slots * utilization
    blocked = 1.0
    for number in range(1, slots + 1):
        blocked = offered * blocked / (number + offered * blocked)
    waiting = blocked / (1 - utilization * (1 - blocked))
    return waiting / (slots * (1 - utilization))


@given(st.floats(0.01, 0.99))
def test_one_slot_is_exact(utilization: float) -> None:
    found = queue_seconds(utilization_ratio=utilization, num_slots=1, service_seconds=1, squared_variation=1)
    assert found == pytest.approx(erlang_wait(1, utilization), rel=1e-9)


@pytest.mark.parametrize("slots", [2, 4, 16, 64, 256])
@pytest.mark.parametrize("utilization", [0.7, 0.9, 0.97, 0.99])
def test_several_slots_are_close_where_the_wait_matters(slots: int, utilization: float) -> None:
    found = queue_seconds(utilization_ratio=utilization, num_slots=slots, service_seconds=1, squared_variation=1)
    # The fit is for loads at which one waits at all: within 8 %, or a hundredth of a service.
    assert found == pytest.approx(erlang_wait(slots, utilization), rel=0.08, abs=0.011)


def test_nobody_waits_where_nobody_comes_and_without_end_where_it_is_full() -> None:
    def wait(utilization: float) -> float:
        return queue_seconds(utilization_ratio=utilization, num_slots=8, service_seconds=1, squared_variation=0.5)

    assert wait(1e-6) < 1e-12
    assert wait(1 - 1e-9) > 1e7
    assert all(math.isfinite(wait(each / 100)) for each in range(1, 100))
