"""Replicas for a demand: worked by hand, against the estimate and the fleets, and by property."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.fleet.requests import Certainty, Percentile, ServiceLevel
from service.planning.fleet.results import PoolRole
from service.planning.planner import Planner
from service.planning.replicas import (
    MOST_REPLICAS,
    MOST_UNSEEN_SECONDS,
    Held,
    ReplicaPlanner,
    ReplicaSpec,
    ScalingRule,
    predicted_times,
    replicas_needed,
    rounded_tokens,
    settled,
    steadied,
)
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism
from service.planning.serving.requests import EstimateServingRequest, ServingObservation, Workload
from tests.planning.fleet_questions import fleet, workload

SPEC = ReplicaSpec(
    ModelSpec("llama-3.1-70b"),
    AcceleratorSpec("h100-sxm"),
    EngineSpec("vllm"),
    ServiceLevel(ttft_seconds=1.0, tpot_seconds=0.05),
    Parallelism(tensor=8),
)
RULE = ScalingRule()


@pytest.fixture(scope="module")
def replicas(planner: Planner) -> ReplicaPlanner:
    return ReplicaPlanner(planner.serving)


# -- what a replica carries -------------------------------------------------------------------------------------------


def test_a_replica_carries_what_a_fleet_says_that_it_carries(planner: Planner, replicas: ReplicaPlanner) -> None:
    for apart in (False, True):
        asked = fleet("llama-3.1-70b", workload(40.0, 2048, 512), nodes=("aws-p5.48xlarge",), disaggregated=apart)
        plan = next(plan for plan in planner.plan_fleet(asked).plans if plan.is_disaggregated is apart)
        spec = replace(SPEC, parallelism=plan.pools[0].parallelism, disaggregated=apart)
        pools = replicas.pools(spec, 2048, 512)
        assert [pool.role for pool in plan.pools] == [pool.role for pool in pools]
        assert [pool.max_requests_per_second_per_replica for pool in plan.pools] == [pool.rate for pool in pools]
        assert [pool.num_replicas for pool in plan.pools] == [replicas_needed(40.0, pool.rate, RULE) for pool in pools]


def test_at_its_most_the_estimate_keeps_the_service_level_and_beyond_it_does_not(
    planner: Planner, replicas: ReplicaPlanner
) -> None:
    (pool,) = replicas.pools(SPEC, 2048, 512)

    def tpot(rate: float) -> float:
        load = Workload(2048, 512, requests_per_second=rate)
        asked = EstimateServingRequest(SPEC.model, SPEC.accelerator, SPEC.engine, load, SPEC.parallelism)
        estimate = planner.estimate_serving(asked).estimate
        assert estimate is not None
        assert estimate.tpot_over_requests is not None
        return estimate.tpot_over_requests.p90.p50

    allowed = SPEC.service_level.tpot_seconds
    assert allowed is not None
    assert tpot(pool.rate) <= allowed < 1.03 * tpot(pool.rate * 1.06)  # the margin on percentiles is 3 %


def test_replicas_by_hand(replicas: ReplicaPlanner) -> None:
    (pool,) = replicas.pools(SPEC, 2000, 500)
    assert 5 < pool.rate < 12  # requests/s on eight devices
    for times, headroom, expected in (
        (0.3, 0.0, 1),
        (1.5, 0.0, 2),
        (2.0, 0.0, 2),
        (2.001, 0.0, 3),
        (1.9, 0.1, 3),
        (7.0, 0.5, 11),
    ):
        assert expected == replicas_needed(pool.rate * times, pool.rate, ScalingRule(headroom_ratio=headroom))


def test_the_cautious_end_of_the_interval_carries_less(replicas: ReplicaPlanner) -> None:
    expected = replicas.pools(SPEC, 2048, 512)[0].rate
    assert replicas.pools(replace(SPEC, certainty=Certainty.CAUTIOUS), 2048, 512)[0].rate < expected


def test_prompts_and_answers_apart(replicas: ReplicaPlanner) -> None:
    pools = replicas.pools(replace(SPEC, disaggregated=True), 2048, 512)
    assert [PoolRole.PREFILL, PoolRole.DECODE] == [pool.role for pool in pools]
    first, further = pools
    # At most nine tenths of a prompt replica's time goes to prompts.
    assert first.rate <= 0.9 / predicted_prompt_seconds(replicas, 2048) * 1.001
    assert predicted_times(first, 1.0, 1).tpot_seconds is None
    assert predicted_times(further, 1.0, 1).ttft_seconds is None
    longer = replicas.pools(replace(SPEC, disaggregated=True), 8192, 512)
    assert longer[0].rate < first.rate / 3  # a prompt four times as long


def predicted_prompt_seconds(replicas: ReplicaPlanner, tokens: int) -> float:
    (pool,) = replicas.pools(SPEC, tokens, 512)
    assert pool.capability is not None
    return pool.capability.curve.prompt_seconds(float(tokens), 0.0)


def test_times_are_within_the_service_level_under_every_demand_that_is_carried(replicas: ReplicaPlanner) -> None:
    (pool,) = replicas.pools(SPEC, 2048, 512)
    for rate in (0.1, 1.0, 7.0, 30.0, 101.0):
        number = replicas_needed(rate, pool.rate, RULE)
        times = predicted_times(pool, rate, number)
        assert times.ttft_seconds is not None
        assert times.tpot_seconds is not None
        assert 0 < times.ttft_seconds <= 1.0
        assert 0 < times.tpot_seconds <= 0.05


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (replace(SPEC, service_level=ServiceLevel(tpot_seconds=0.001)), "each further token takes at least"),
        (replace(SPEC, service_level=ServiceLevel(ttft_seconds=0.001)), "the first token takes at least"),
        (replace(SPEC, disaggregated=True, service_level=ServiceLevel(ttft_seconds=0.001)), "the first token takes at least"),
        (replace(SPEC, parallelism=Parallelism(tensor=1)), "no room for a single request"),
        (replace(SPEC, accelerator=AcceleratorSpec("tpu-v5e")), "nothing measured or known"),
    ],
)
def test_where_there_is_no_number_there_is_none(replicas: ReplicaPlanner, spec: ReplicaSpec, told: str) -> None:
    with pytest.raises(Unanswerable) as refusal:
        replicas.pools(spec, 2048, 512)
    assert told in refusal.value.missing
    assert refusal.value.remedy


def test_unknown_names_are_told(replicas: ReplicaPlanner) -> None:
    with pytest.raises(NotFound) as refusal:
        replicas.check(replace(SPEC, model=ModelSpec("lama-3.1-70b")))
    assert "llama-3.1-70b" in refusal.value.nearest
    replicas.check(SPEC)


@pytest.mark.parametrize("tokens", [0.0, -1.0, math.nan, math.inf, 1e9])
def test_lengths_that_can_be_none(replicas: ReplicaPlanner, tokens: float) -> None:
    with pytest.raises(InvalidRequest):
        replicas.pools(SPEC, tokens, 512)


@given(st.floats(0.01, 1e6))
def test_tokens_are_rounded_up_and_little(tokens: float) -> None:
    rounded = rounded_tokens("input_tokens", tokens)
    assert math.ceil(tokens) <= rounded <= max(math.ceil(tokens), tokens * (1 + 1 / 63))
    assert rounded == rounded_tokens("input_tokens", rounded)


# -- from a demand to a number ----------------------------------------------------------------------------------------

rates = st.floats(0.0, 1e5, allow_nan=False)
capacities = st.floats(0.05, 500.0)
rules = st.builds(
    ScalingRule,
    headroom_ratio=st.floats(0, 2),
    min_replicas=st.integers(1, 5),
    max_replicas=st.none() | st.integers(5, 1000),
    scale_to_zero=st.booleans(),
    downscale_ratio=st.floats(0.1, 1.0),
    downscale_seconds=st.floats(0, 600),
)


@given(rates, rates, capacities, rules)
def test_more_demand_never_needs_fewer(one: float, other: float, each: float, rule: ScalingRule) -> None:
    rule = replace(rule, max_replicas=rule.max_replicas or 10**5)
    assert replicas_needed(min(one, other), each, rule) <= replicas_needed(max(one, other), each, rule)


@given(rates, capacities, capacities, rules)
def test_replicas_that_carry_more_are_never_more(rate: float, one: float, other: float, rule: ScalingRule) -> None:
    rule = replace(rule, max_replicas=rule.max_replicas or 10**5)
    assert replicas_needed(rate, max(one, other), rule) <= replicas_needed(rate, min(one, other), rule)


@given(
    st.sampled_from(("ttft_seconds", "tpot_seconds")),
    st.floats(0.02, 5.0),
    st.floats(1.0, 3.0),
    st.sampled_from(Percentile),
    st.booleans(),
)
def test_a_tighter_service_level_never_needs_fewer(
    replicas: ReplicaPlanner, which: str, seconds: float, tighter: float, percentile: Percentile, apart: bool
) -> None:
    def needed(allowed: float) -> float:
        level = replace(SPEC.service_level, percentile=percentile, **{which: allowed})
        try:
            pools = replicas.pools(replace(SPEC, service_level=level, disaggregated=apart), 1024, 256)
        except Unanswerable:
            return math.inf
        return sum(replicas_needed(100.0, pool.rate, RULE) for pool in pools)

    assert needed(seconds / tighter) >= needed(seconds)


def test_none_only_where_it_is_allowed_and_nothing_is_asked_for() -> None:
    zero = ScalingRule(scale_to_zero=True, min_replicas=3)
    assert 3 == replicas_needed(0.0, 1.0, replace(zero, scale_to_zero=False))
    assert 0 == replicas_needed(0.0, 1.0, zero)
    assert 3 == replicas_needed(1e-9, 1.0, zero)
    assert 1 == replicas_needed(1e-9, 1.0, ScalingRule(scale_to_zero=True))


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf, -math.inf, 1e300])
def test_what_can_be_no_demand(rate: float) -> None:
    for rule in (RULE, ScalingRule(max_replicas=4)):
        with pytest.raises(InvalidRequest):
            replicas_needed(rate, 1.0, rule)


def test_more_replicas_than_anybody_has_are_an_error_and_not_a_number() -> None:
    with pytest.raises(Unanswerable) as refusal:
        replicas_needed(1e6, 1.0, RULE)
    assert "1000000 replicas" in refusal.value.missing
    assert MOST_REPLICAS == replicas_needed(float(MOST_REPLICAS), 1.0, RULE)
    assert 7 == replicas_needed(1e6, 1.0, ScalingRule(max_replicas=7))


# -- without swinging -------------------------------------------------------------------------------------------------


@given(st.integers(0, 2000), rates, capacities, rules)
def test_settled_is_never_too_few_nor_more_than_there_are_without_need(
    current: int, rate: float, each: float, rule: ScalingRule
) -> None:
    rule = replace(rule, max_replicas=rule.max_replicas or 10**5)
    needed = replicas_needed(rate, each, rule)
    number = settled(current, rate, each, rule)
    assert needed <= number <= max(current, needed)


def test_near_a_step_nothing_swings() -> None:
    """Each carries 10: 29 and 31 by turns need 3 and 4, but 29 does not leave 3 replicas a tenth of room."""
    number = 3
    for rate in (31.0, 29.0, 31.0, 29.0):
        number = settled(number, rate, 10.0, RULE)
        assert 4 == number
    assert 3 == settled(4, 26.9, 10.0, RULE)


def test_up_at_once_and_down_after_the_window() -> None:
    rule = ScalingRule(downscale_seconds=120.0)
    held = steadied(None, 0.0, 45.0, 10.0, rule)
    assert 5 == held.replicas
    held = steadied(held, 15.0, 95.0, 10.0, rule)
    assert 10 == held.replicas  # at once
    for now in range(30, 150, 15):  # falls at 30, so that the window ends at 150
        held = steadied(held, float(now), 20.0, 10.0, rule)
        assert 10 == held.replicas
    held = steadied(held, 150.0, 20.0, 10.0, rule)
    assert 3 == held.replicas  # 20 / 9 = 2.2


def test_down_to_the_most_that_was_needed_within_the_window() -> None:
    rule = ScalingRule(downscale_seconds=60.0)
    held = steadied(None, 0.0, 100.0, 10.0, rule)
    for now, rate in ((15.0, 20.0), (30.0, 60.0), (45.0, 20.0), (60.0, 20.0)):
        held = steadied(held, now, rate, 10.0, rule)
        assert 10 == held.replicas
    held = steadied(held, 75.0, 20.0, 10.0, rule)
    assert 7 == held.replicas  # 60 / 9 = 6.7, at 30
    for now in (90.0, 105.0, 120.0):
        held = steadied(held, now, 20.0, 10.0, rule)
        assert 7 == held.replicas
    assert 3 == steadied(held, 135.0, 20.0, 10.0, rule).replicas


def test_a_gap_without_readings_is_no_time_in_which_fewer_would_have_done() -> None:
    rule = ScalingRule(downscale_seconds=120.0)
    held = steadied(Held(10, 0.0), 15.0, 20.0, 10.0, rule)
    later = 15.0 + MOST_UNSEEN_SECONDS + 100.0
    held = steadied(held, later, 20.0, 10.0, rule)
    assert (10, later) == (held.replicas, held.falling_since)


def test_one_reading_told_twice_counts_once() -> None:
    rule = ScalingRule(downscale_seconds=60.0)
    held = Held(10, 0.0)
    for _ in range(100):
        held = steadied(held, 15.0, 20.0, 10.0, rule)
    assert 10 == held.replicas


def test_none_after_the_window_too() -> None:
    rule = ScalingRule(scale_to_zero=True, downscale_seconds=30.0)
    held = steadied(None, 0.0, 5.0, 10.0, rule)
    for now, expected in ((15.0, 1), (30.0, 1), (45.0, 0)):
        held = steadied(held, now, 0.0, 10.0, rule)
        assert expected == held.replicas
    assert 1 == steadied(held, 60.0, 0.1, 10.0, rule).replicas


@given(st.lists(st.tuples(st.floats(0.1, 200.0), rates), min_size=1, max_size=40), capacities, rules)
def test_whatever_is_read_there_are_never_too_few(readings: list[tuple[float, float]], each: float, rule: ScalingRule) -> None:
    rule = replace(rule, max_replicas=rule.max_replicas or 10**5)
    held, now = None, 0.0
    for gap, rate in readings:
        now += gap
        before, held = held, steadied(held, now, rate, each, rule)
        assert replicas_needed(rate, each, rule) <= held.replicas <= (rule.max_replicas or 0)
        if before is not None and held.replicas < before.replicas:
            assert before.falling_since is not None or rule.downscale_seconds == 0.0
            assert now - (before.falling_since or now) >= rule.downscale_seconds


# -- observed beside predicted ----------------------------------------------------------------------------------------


def test_what_is_observed_as_predicted_has_the_ratio_one(planner: Planner, replicas: ReplicaPlanner) -> None:
    load = Workload(2048, 512, requests_per_second=4.0)
    asked = EstimateServingRequest(SPEC.model, SPEC.accelerator, SPEC.engine, load, SPEC.parallelism)
    estimate = planner.estimate_serving(asked).estimate
    assert estimate is not None
    assert estimate.ttft_seconds is not None
    assert estimate.tpot_seconds is not None
    seen = ServingObservation(1000, estimate.tpot_seconds.p50, estimate.ttft_seconds.p50, estimate.running_requests)
    ratios = replicas.observed_ratios(SPEC, seen, 2048, 512)
    assert {"ttft_seconds": pytest.approx(1, abs=0.01), "tpot_seconds": pytest.approx(1, abs=0.01)} == ratios
    # As many in flight at half the speed are half the load, at which more speed is predicted.
    slow = ServingObservation(1000, estimate.tpot_seconds.p50 * 2, estimate.ttft_seconds.p50 * 2, estimate.running_requests)
    assert replicas.observed_ratios(SPEC, slow, 2048, 512)["tpot_seconds"] > 2.0
    assert {} == replicas.observed_ratios(SPEC, replace(slow, running_requests=None), 2048, 512)
    assert {} == replicas.observed_ratios(SPEC, replace(slow, running_requests=1e6), 2048, 512)
