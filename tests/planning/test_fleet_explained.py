"""How a fleet came about: the steps lead to the plan's own figures, each replays, and each figure says where it comes from."""

import pytest
from msgspec.structs import replace

from service.formulas import REGISTRY
from service.planning.fleet.requests import Certainty, Demand, FleetWorkload, Percentile, PlanFleetRequest, ServiceLevel
from service.planning.fleet.results import FleetPlan, PlanFleetResponse, PoolRole
from service.planning.money import ExchangeRate, PriceList
from service.planning.planner import Planner
from service.planning.purchase import Power, PurchaseModel
from service.planning.results import Explanation
from tests.planning.fleet_questions import fleet, workload

BOUGHT = PurchaseModel(
    "aws-p5.48xlarge", 300_000.0, "EUR", Power(electricity_price_per_kwh=0.2), source="an offer", date="2026-05-01"
)
EUROS = PriceList(exchange_rates=(ExchangeRate("EUR", "USD", 1.1, "2026-05-01"),))
CHAT, CODE = workload(8.0, 1000, 300, name="chat"), workload(2.0, 6000, 800, name="code")
SHORT, TIGHT = workload(60.0, 2000, 200), ServiceLevel(2.0, 0.008, percentile=Percentile.P99)
ONE_TYPE = ("aws-p5.48xlarge",)
QUESTIONS = {
    "one workload": fleet(),
    "redundant": fleet(redundant_nodes=1, headroom_ratio=0.25, certainty=Certainty.CAUTIOUS),
    "by the device": fleet(nodes=(), accelerators=("h200-sxm",)),
    "apart": fleet("llama-3.1-8b", CHAT, CODE, nodes=ONE_TYPE),
    "prompts apart": fleet("llama-3.1-8b", SHORT, nodes=ONE_TYPE, level=TIGHT, disaggregated=True),
    "redundant apart": fleet("llama-3.1-8b", SHORT, nodes=ONE_TYPE, level=TIGHT, disaggregated=True, redundant_nodes=1),
    "bought": fleet(nodes=ONE_TYPE, purchases=(BOUGHT,), price_list=EUROS),
    "a range": fleet("llama-3.1-70b", FleetWorkload(2000, 500, Demand(10.0, 5.0, 20.0))),
    "experts": fleet("gpt-oss-120b", workload(30.0)),
}


def answered(planner: Planner, question: PlanFleetRequest) -> tuple[PlanFleetResponse, FleetPlan, Explanation]:
    answer = planner.plan_fleet(replace(question, explain=True))
    plan = answer.plans[0] if answer.plans else answer.infeasible and answer.infeasible.nearest_plan
    assert plan
    assert answer.explanation is not None
    return answer, plan, answer.explanation


def values(explained: Explanation, name: str) -> list[float]:
    return [step.value for step in explained.steps if step.name == name]


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_steps_lead_to_the_plan_and_replay(planner: Planner, name: str) -> None:
    _, plan, explained = answered(planner, QUESTIONS[name])
    for step in explained.steps:
        assert step.value == REGISTRY[step.name].body(**step.inputs)
        assert step.source
    assert [pool.num_replicas for pool in plan.pools] == values(explained, "num_replicas")
    carried = values(explained, "replica_requests_per_second") + values(explained, "prompt_requests_per_second")
    assert sorted(pool.max_requests_per_second_per_replica for pool in plan.pools) == pytest.approx(sorted(carried), rel=1e-9)
    shared = values(explained, "num_shared_nodes")
    assert plan.num_nodes == (shared[0] if shared else sum(values(explained, "num_nodes")))
    if not plan.node_type:
        assert plan.num_devices == sum(values(explained, "num_pool_devices"))
    assert plan.cost is not None
    assert [plan.cost.cost_per_hour] == values(explained, "fleet_cost_per_hour")
    assert [plan.cost.cost_per_year] == values(explained, "cost_per_year")
    assert [plan.cost.output_cost_per_million_tokens] == values(explained, "output_cost_per_million_tokens")
    assert [plan.output_tokens_per_joule] == values(explained, "tokens_per_joule")


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_figure_has_a_basis_and_what_is_not_the_callers_a_source(planner: Planner, name: str) -> None:
    _, plan, explained = answered(planner, QUESTIONS[name])
    figures = {figure.name: figure for figure in explained.figures}
    price = "purchase_price" if plan.cost and plan.cost.price is None else "price_per_hour"
    assert {"requests_per_second", "memory_bandwidth", "usable_memory", price} <= set(figures)
    assert {"max_watts_per_device", "watts_per_node"} & set(figures)
    for figure in explained.figures:
        assert figure.basis
        assert figure.sources or figure.basis == "caller"


def test_an_explained_plan_is_the_plain_one_and_only_who_asks_gets_it(planner: Planner) -> None:
    plain, explained = planner.plan_fleet(fleet()), planner.plan_fleet(fleet(explain=True))
    assert plain.explanation is None
    assert plain == replace(explained, explanation=None)


def test_the_pools_of_a_disaggregated_plan_are_both_explained(planner: Planner) -> None:
    _, plan, explained = answered(planner, QUESTIONS["prompts apart"])
    assert [PoolRole.PREFILL, PoolRole.DECODE] == [pool.role for pool in plan.pools]
    assert [plan.pools[0].max_requests_per_second_per_replica] == values(explained, "prompt_requests_per_second")
    assert [plan.pools[1].max_requests_per_second_per_replica] == values(explained, "replica_requests_per_second")


def test_where_nothing_meets_the_service_level_the_nearest_plan_is_explained(planner: Planner) -> None:
    answer, plan, explained = answered(planner, fleet(level=ServiceLevel(tpot_seconds=0.001)))
    assert () == answer.plans
    assert [pool.num_replicas for pool in plan.pools] == values(explained, "num_replicas")


def test_where_nothing_fits_there_is_nothing_to_explain(planner: Planner) -> None:
    answer = planner.plan_fleet(fleet("deepseek-v3", nodes=("aws-p4d.24xlarge",), explain=True))
    assert () == answer.plans
    assert answer.explanation is None


def test_a_purchase_is_explained_down_to_its_hour(planner: Planner) -> None:
    _, plan, explained = answered(planner, QUESTIONS["bought"])
    assert plan.cost is not None
    (owned,) = values(explained, "owned_cost_per_hour")
    assert plan.cost.cost_per_unit_hour == pytest.approx(1.1 * owned)
    assert [plan.cost.cost_per_unit_hour] == values(explained, "converted_amount")
    figures = {figure.name: figure for figure in explained.figures}
    assert (300_000.0, "EUR", ("an offer",)) == (
        figures["purchase_price"].value,
        figures["purchase_price"].unit,
        figures["purchase_price"].sources,
    )
