"""Fleets: what is planned, what is refused and why, and what must never happen."""

import itertools
from collections import Counter

import pytest
from msgspec.structs import replace

from service.planning.errors import InvalidRequest, NotFound, TooLarge
from service.planning.fleet import candidates
from service.planning.fleet.demand import asked, weights
from service.planning.fleet.options import Options
from service.planning.fleet.pools import num_nodes
from service.planning.fleet.requests import Certainty, Demand, FleetWorkload, Percentile, ServiceLevel
from service.planning.fleet.results import ExcuseReason, FleetLimit, PoolRole, Ranking
from service.planning.money import CostSplit
from service.planning.planner import Planner
from service.planning.purchase import Power, PurchaseModel
from service.planning.requests import EngineSpec, Precision
from tests.planning.fleet_questions import fleet, own_prices, workload


def test_the_cheapest_fleet_comes_first_and_says_what_it_costs_and_on_which_day(planner: Planner) -> None:
    answer = planner.plan_fleet(fleet())
    assert Ranking.COST is answer.ranking
    costs = [plan.cost.cost_per_hour for plan in answer.plans if plan.cost]
    assert sorted(costs) == costs
    assert len(costs) == len(answer.plans) == 2
    first = answer.plans[0]
    assert first.cost is not None
    assert first.cost.price is not None
    assert ("USD", "2026-07-20") == (first.cost.currency, first.cost.price.date)
    assert first.cost.cost_per_unit_hour * first.num_nodes == pytest.approx(first.cost.cost_per_hour)
    assert first.cost.cost_per_hour * 8760 == pytest.approx(first.cost.cost_per_year)
    (pool,) = first.pools
    assert pool.num_replicas * pool.max_requests_per_second_per_replica >= 10.0
    assert (pool.num_replicas - 1) * pool.max_requests_per_second_per_replica < 10.0


def test_the_cost_of_tokens_adds_up_to_the_cost_of_the_hour(planner: Planner) -> None:
    for split in CostSplit:
        cost = planner.plan_fleet(fleet(cost_split=split)).plans[0].cost
        assert cost is not None
        hourly = 3600 / 1e6 * 10.0 * (2000 * cost.input_cost_per_million_tokens + 500 * cost.output_cost_per_million_tokens)
        if split is CostSplit.ALL_OUTPUT:
            assert 0.0 == cost.input_cost_per_million_tokens
        assert cost.cost_per_hour == pytest.approx(hourly)


def test_eight_devices_are_advised_where_eight_suffice(planner: Planner) -> None:
    """A planner that multiplies replicas of every rounding is known to have advised 88 of them for such a load."""
    asked = fleet("llama-3.1-70b", workload(6.0), nodes=("aws-p5.48xlarge",))
    assert 8 == planner.plan_fleet(asked).plans[0].num_devices


def test_times_under_the_demand_are_within_the_service_level(planner: Planner) -> None:
    for percentile in Percentile:
        level = ServiceLevel(ttft_seconds=1.0, tpot_seconds=0.05, end_to_end_seconds=20.0, percentile=percentile)
        for plan in planner.plan_fleet(fleet(level=level)).plans:
            (pool,) = plan.pools
            assert pool.ttft_seconds is not None
            assert pool.tpot_seconds is not None
            assert pool.end_to_end_seconds is not None
            assert pool.ttft_seconds <= 1.0
            assert pool.tpot_seconds <= 0.05
            assert pool.end_to_end_seconds <= 20.0


def test_an_infeasible_service_level_is_never_turned_into_replicas(planner: Planner) -> None:
    answer = planner.plan_fleet(fleet(level=ServiceLevel(ttft_seconds=1.0, tpot_seconds=0.001), nodes=("aws-p5.48xlarge",)))
    assert () == answer.plans
    assert answer.infeasible is not None
    nearest = answer.infeasible.nearest_plan
    assert nearest is not None
    assert nearest.pools[0].tpot_seconds is not None
    assert nearest.pools[0].tpot_seconds > 0.001
    level = answer.infeasible.nearest_service_level
    assert level is not None
    assert level.tpot_seconds == pytest.approx(0.001 * answer.infeasible.relaxation_ratio)
    assert planner.plan_fleet(fleet(level=level, nodes=("aws-p5.48xlarge",))).plans
    missed = [each for each in answer.excuses if each.reason is ExcuseReason.MISSES_SERVICE_LEVEL]
    assert all(each.limit is FleetLimit.TPOT and (each.at_least_seconds or 0) > 0.001 for each in missed)
    assert missed


def test_every_option_is_a_plan_or_has_an_excuse(planner: Planner) -> None:
    answer = planner.plan_fleet(fleet(nodes=(), max_plans=200))
    told = {(each.node_type, each.reason) for each in answer.excuses}
    planned = {plan.node_type for plan in answer.plans}
    assert set(planner.catalogue.node_types) == planned | {name for name, _ in told}
    reasons = Counter(reason for _, reason in told)
    assert all(reasons[reason] for reason in (ExcuseReason.NOT_CALIBRATED, ExcuseReason.DOES_NOT_FIT, ExcuseReason.NO_PRICE))
    unpriced = {name for name, reason in told if reason is ExcuseReason.NO_PRICE}
    assert unpriced == {plan.node_type for plan in answer.plans if plan.cost is None}
    priced = [plan.cost is not None for plan in answer.plans]
    assert sorted(priced, reverse=True) == priced  # those without a price come last


def test_assumptions_are_those_of_the_plans_shown(planner: Planner) -> None:
    # 70.6 GB of weights on one H100 leave room for a request of 8,250 tokens at 0.98 of its memory alone.
    load = workload(1.0, input_tokens=8000, output_tokens=500)
    level = ServiceLevel(ttft_seconds=20.0, tpot_seconds=1.0)
    question = fleet("llama-3.1-70b", load, nodes=(), accelerators=("h100-sxm", "mi300x"), level=level)
    question = replace(question, precision=Precision(weights="fp8"))
    usual, tight = "the engine may take 0.9 of the memory", "the engine may take 0.98 of the memory"
    found = planner.plan_fleet(question)
    assert usual in found.assumptions
    assert not any(tight in note for note in found.assumptions)
    # Where it is a plan, it is the only one that needs so much.
    narrow = planner.plan_fleet(replace(question, max_tensor=1)).assumptions
    assert f"mi300x one device: {usual}" in narrow
    assert any(note.startswith(f"h100-sxm one device: {tight}") for note in narrow)


def test_what_is_taken_for_granted_of_each_pool_is_said_of_it(planner: Planner) -> None:
    # Short requests fit beside the weights at 0.9 of the memory; a prompt of 30,000 tokens needs 0.98.
    short = workload(20.0, input_tokens=100, output_tokens=50, name="short")
    long = workload(0.02, input_tokens=30_000, output_tokens=500, name="long")
    level = ServiceLevel(ttft_seconds=60.0, tpot_seconds=0.5)
    answer = planner.plan_fleet(fleet("devstral-2-123b", short, long, nodes=(), accelerators=("h200-sxm",), level=level))
    pools = {pool.workloads: pool.parallelism.tensor for pool in answer.plans[0].pools}
    assert {("short",): 1, ("long",): 1} == pools
    assert any(note.startswith("h200-sxm one device for short: the engine may take 0.9 ") for note in answer.assumptions)
    assert any(note.startswith("h200-sxm one device for long: the engine may take 0.98 ") for note in answer.assumptions)
    assert not any("shared replicas" in note for note in answer.assumptions)


@pytest.mark.parametrize(
    ("of_workload", "of_request", "note"),
    [
        (Percentile.P99, None, None),
        (None, None, "times hold for nine requests in ten (default)"),
        (None, Percentile.P50, "times hold for nine requests in ten (default)"),  # a workload's level stands by itself
    ],
)
def test_the_default_percentile_is_said_where_it_is_taken(
    planner: Planner, of_workload: Percentile | None, of_request: Percentile | None, note: str | None
) -> None:
    level = ServiceLevel(ttft_seconds=1.0, percentile=of_workload)
    request = fleet("llama-3.1-70b", workload(service_level=level), level=ServiceLevel(ttft_seconds=1.0, percentile=of_request))
    told = [each for each in planner.plan_fleet(request).assumptions if each.startswith("times hold")]
    assert ([] if note is None else [note]) == told


def test_without_any_price_power_ranks(planner: Planner) -> None:
    answer = planner.plan_fleet(fleet(nodes=("aws-p5e.48xlarge", "dgx-h100")))
    assert Ranking.POWER is answer.ranking
    watts = [plan.facility_watts or 0.0 for plan in answer.plans]
    assert sorted(watts) == watts


@pytest.mark.parametrize("disaggregated", [False, True])
def test_doubling_the_demand_never_costs_less(planner: Planner, disaggregated: bool) -> None:
    before = 0.0
    for doubling in range(8):
        cost = (
            planner.plan_fleet(fleet("llama-3.1-70b", workload(0.7 * 2**doubling), disaggregated=disaggregated)).plans[0].cost
        )
        assert cost is not None
        assert cost.cost_per_hour >= before
        before = cost.cost_per_hour


@pytest.mark.parametrize("time", ["ttft_seconds", "tpot_seconds", "end_to_end_seconds"])
@pytest.mark.parametrize("disaggregated", [False, True])
def test_a_tighter_service_level_never_costs_less(planner: Planner, time: str, disaggregated: bool) -> None:
    loose = ServiceLevel(ttft_seconds=3.0, tpot_seconds=0.2, end_to_end_seconds=90.0)
    before = 0.0
    for step in range(12):
        level = replace(loose, **{time: getattr(loose, time) * 0.8**step})
        answer = planner.plan_fleet(fleet("llama-3.1-70b", workload(23.0), level=level, disaggregated=disaggregated))
        cost = answer.plans[0].cost.cost_per_hour if answer.plans and answer.plans[0].cost else float("inf")
        assert cost >= before
        before = cost


def test_a_cheaper_price_never_costs_more(planner: Planner) -> None:
    before = float("inf")
    for price in (60.0, 40.0, 20.0, 10.0, 5.0):
        cost = planner.plan_fleet(fleet(price_list=own_prices(aws_p5__48xlarge=price))).plans[0].cost
        assert cost is not None
        assert cost.cost_per_hour <= before
        before = cost.cost_per_hour


def test_being_cautious_takes_no_fewer_devices(planner: Planner) -> None:
    sure, likely = (
        planner.plan_fleet(fleet(certainty=certainty, nodes=("aws-p5.48xlarge",))).plans[0].num_devices
        for certainty in (Certainty.CAUTIOUS, Certainty.EXPECTED)
    )
    assert sure >= likely


def test_headroom_is_carried_beyond_the_demand(planner: Planner) -> None:
    plain = planner.plan_fleet(fleet("llama-3.1-70b", workload(40.0))).plans[0]
    roomy = planner.plan_fleet(fleet("llama-3.1-70b", workload(40.0), headroom_ratio=0.5)).plans[0]
    assert roomy.max_requests_per_second >= 60.0 > plain.max_requests_per_second
    assert 60.0 == roomy.sized_for_requests_per_second


def test_a_node_may_be_lost_and_the_rest_still_carries_the_demand(planner: Planner) -> None:
    for nodes in (("aws-p5.48xlarge",), ("aws-g6e.12xlarge",)):
        plan = planner.plan_fleet(fleet("llama-3.1-8b", workload(20.0), nodes=nodes, redundant_nodes=1)).plans[0]
        (pool,) = plan.pools
        per_node = planner.catalogue.node_types[plan.node_type].num_devices // pool.num_devices_per_replica
        assert 1 == plan.num_redundant_nodes
        assert (plan.num_nodes - 1) * per_node * pool.max_requests_per_second_per_replica >= 20.0


def test_replicas_are_packed_on_nodes_whole() -> None:
    assert 1 == num_nodes([4], [2], 8, 0)
    assert 2 == num_nodes([3], [3], 8, 0)  # two of three devices fit a node of eight
    assert 1 == num_nodes([4, 2], [1, 2], 8, 0)
    assert 4 == num_nodes([4, 2], [1, 2], 8, 1)  # a spare node for each pool, and none shared


def test_pools_apart_are_chosen_where_they_cost_less_and_said_so(planner: Planner) -> None:
    quick = ServiceLevel(ttft_seconds=0.1, tpot_seconds=0.007)
    chat = workload(30.0, 200, 300, name="chat", service_level=quick)
    patient = ServiceLevel(ttft_seconds=60.0, tpot_seconds=0.5)
    batch = workload(8.0, 12000, 400, name="batch", service_level=patient)
    best = planner.plan_fleet(fleet("llama-3.1-8b", chat, batch, level=None, nodes=("aws-p5.48xlarge",))).plans[0]
    assert not best.is_mixed
    assert [("chat",), ("batch",)] == [pool.workloads for pool in best.pools]
    assert {PoolRole.AGGREGATED} == {pool.role for pool in best.pools}


def test_workloads_that_go_together_share_their_replicas(planner: Planner) -> None:
    one, other = (workload(0.5, 1000, 300, name=name) for name in ("a", "b"))
    best = planner.plan_fleet(fleet("llama-3.1-70b", one, other, nodes=("aws-p5.48xlarge",))).plans[0]
    assert best.is_mixed
    assert ("a", "b") == best.pools[0].workloads


def test_two_workloads_alike_carry_what_one_of_both_does(planner: Planner) -> None:
    """The arithmetic of a mix comes down to that of a single kind where its kinds do not differ."""
    halves = tuple(workload(10.0, name=name) for name in ("a", "b"))
    mixed = planner.plan_fleet(fleet("llama-3.1-70b", *halves, nodes=("aws-p5.48xlarge",))).plans[0]
    whole = planner.plan_fleet(fleet("llama-3.1-70b", workload(20.0), nodes=("aws-p5.48xlarge",))).plans[0]
    assert mixed.pools[0].max_requests_per_second_per_replica == pytest.approx(
        whole.pools[0].max_requests_per_second_per_replica, rel=1e-3
    )


def test_prompts_apart_have_replicas_of_their_own(planner: Planner) -> None:
    answer = planner.plan_fleet(fleet("llama-3.1-70b", workload(30.0), disaggregated=True))
    apart = next(plan for plan in answer.plans if plan.is_disaggregated)
    prompts, answers = apart.pools
    assert (PoolRole.PREFILL, PoolRole.DECODE) == (prompts.role, answers.role)
    assert (None, None) == (prompts.tpot_seconds, answers.ttft_seconds)
    assert prompts.ttft_seconds is not None
    assert prompts.ttft_seconds <= 1.0
    for pool in apart.pools:
        assert pool.num_replicas * pool.max_requests_per_second_per_replica >= 30.0
    slower = planner.plan_fleet(fleet("llama-3.1-70b", workload(30.0), disaggregated=True, transfer_bytes_per_second=1e7))
    assert not any(plan.is_disaggregated for plan in slower.plans)  # the cache of a prompt takes longer than is allowed


def test_the_fleet_of_least_regret_lies_within_the_range(planner: Planner) -> None:
    load = FleetWorkload(2000, 500, Demand(10.0, 5.0, 80.0))
    answer = planner.plan_fleet(fleet("llama-3.1-70b", load))
    regret = answer.least_regret
    assert regret is not None
    assert regret.requests_per_second in {5.0, 10.0, 80.0}
    assert 0.0 <= regret.expected_regret_per_hour <= regret.max_regret_per_hour
    assert 1.0 == pytest.approx(sum(regret.weights))
    assert 80.0 == answer.plans[0].sized_for_requests_per_second
    careless = planner.plan_fleet(fleet("llama-3.1-70b", load, unserved_cost_ratio=1.0)).least_regret
    assert careless is not None
    assert careless.plan.num_devices <= regret.plan.num_devices
    assert planner.plan_fleet(fleet()).least_regret is None


def test_weights_have_mean_and_spread_of_the_range() -> None:
    for confidence, end in ((0.8, 0.304), (0.9, 0.185)):
        assert [end, 1 - 2 * end, end] == pytest.approx(weights(confidence), abs=1e-3)


def test_a_purchase_comes_before_every_price(planner: Planner) -> None:
    power = Power(electricity_price_per_kwh=0.1)
    bought = PurchaseModel("dgx-h100", 300_000.0, "USD", power, date="2026-01")
    plan = planner.plan_fleet(fleet(nodes=("dgx-h100",), purchases=(bought,))).plans[0]
    assert plan.cost is not None
    assert plan.cost.price is None
    assert "2026-01" == plan.cost.purchase_date
    assert 300_000.0 / 5 / 8760 < plan.cost.cost_per_unit_hour < 2 * 300_000.0 / 5 / 8760


def test_accelerators_are_paid_for_by_the_device(planner: Planner) -> None:
    answer = planner.plan_fleet(fleet("llama-3.1-8b", workload(2.0), nodes=(), accelerators=("h100-sxm",)))
    plan = answer.plans[0]
    assert plan.cost is not None
    assert ("", "h100-sxm", 1) == (plan.node_type, plan.accelerator, plan.num_devices)
    assert plan.cost.cost_per_hour == plan.cost.cost_per_unit_hour


def test_the_fronts_have_nothing_that_another_point_beats(planner: Planner) -> None:
    answer = planner.plan_fleet(fleet())
    users = [point.output_tokens_per_second_per_user for point in answer.pareto_front]
    devices = [point.output_tokens_per_second_per_device for point in answer.pareto_front]
    assert sorted(users, reverse=True) == users
    assert sorted(devices) == devices
    assert len(users) > 10
    costs = [point.cost_per_million_output_tokens or 0.0 for point in answer.cost_front]
    assert sorted(costs, reverse=True) == costs
    assert min(costs) > 0.0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"service_level": None}, "service_level"),
        ({"service_level": ServiceLevel(percentile=Percentile.P99)}, "service_level"),
        ({"workloads": ()}, "workloads"),
        ({"workloads": (workload(name="a"), workload(name="a"))}, "workloads"),
        ({"workloads": (FleetWorkload(10, 10, Demand(5.0, 1.0)),)}, "workloads[0].requests_per_second"),
        ({"workloads": (FleetWorkload(10, 10, Demand(5.0, 6.0, 7.0)),)}, "workloads[0].requests_per_second"),
        ({"currency": "dollars"}, "currency"),
    ],
)
def test_what_contradicts_itself_is_refused_by_its_field(planner: Planner, change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.plan_fleet(replace(fleet(), **change))
    assert field in {each.field for each in refusal.value.violations}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"node_types": ("aws-p6",)}, "node_types[0]"),
        ({"node_types": (), "accelerators": ("h1000",)}, "accelerators[0]"),
        ({"engines": (EngineSpec("vlm"),)}, "engine.name"),
    ],
)
def test_unknown_names_are_told_with_the_nearest(planner: Planner, change: dict[str, object], field: str) -> None:
    with pytest.raises(NotFound) as refusal:
        planner.plan_fleet(replace(fleet(), **change))
    assert field == refusal.value.field
    assert refusal.value.nearest


def test_what_takes_too_long_is_refused_and_not_left_out(planner: Planner) -> None:
    ticks = itertools.count(0.0, 20.0)
    request = fleet(nodes=())
    with pytest.raises(TooLarge, match="longer than 30 seconds"):
        Options(planner.serving, request, asked(request), clock=lambda: next(ticks)).try_all()


def test_too_many_options_are_refused(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MOST_CANDIDATES", 5)
    with pytest.raises(TooLarge, match="5"):
        planner.plan_fleet(fleet(nodes=()))


def test_answers_of_one_token_have_no_time_between_tokens_and_no_pool_that_decodes(planner: Planner) -> None:
    found = planner.plan_fleet(fleet("llama-3.1-8b", workload(output_tokens=1), disaggregated=True))
    assert {(False, PoolRole.AGGREGATED), (True, PoolRole.PREFILL)} >= {
        (plan.is_disaggregated, pool.role) for plan in found.plans for pool in plan.pools
    }
    assert {None} == {pool.tpot_seconds for plan in found.plans for pool in plan.pools}


def test_devices_that_are_let_by_the_machine_say_what_whole_machines_cost(planner: Planner) -> None:
    hardware = {"nodes": (), "accelerators": ("h100-sxm", "mi300x")}
    asked = fleet("llama-3.1-70b", workload(50.0, 1024, 256), level=ServiceLevel(2.0, 0.1), **hardware)
    by_name = {plan.accelerator: plan for plan in planner.plan_fleet(asked).plans}
    for plan in by_name.values():
        assert plan.cost is not None
        machines = -(-plan.num_devices // 8)
        whole = f"{machines * 8 * plan.cost.cost_per_unit_hour:,.2f}"
        assert plan.num_devices % 8  # else there is nothing to say
        assert f"let in machines of 8: {machines} whole ones cost {whole} USD an hour" in plan.cost.notes


def test_a_fleet_of_whole_machines_has_nothing_to_say_of_them(planner: Planner) -> None:
    for plan in planner.plan_fleet(fleet()).plans:
        assert plan.cost is not None
        assert not any("whole ones" in note for note in plan.cost.notes)
