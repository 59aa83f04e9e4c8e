"""Fleets and comparisons: the request that is built, and what a person sees of the answer of a real service."""

import json
from pathlib import Path

import pytest

from tests.client.conftest import Run, ScriptedServer, answers
from tests.service_process import RunningService
from tonnage import Client, Demand, FleetWorkload, InvalidRequest, ServiceLevel
from tonnage.cli.exits import Exit
from tonnage.fleet_requests import compare_accelerators, plan_fleet
from tonnage.v1.catalogue_service_pb2 import Accelerator, GetAcceleratorResponse
from tonnage.v1.fleet_service_pb2 import PlanFleetRequest
from tonnage.v1.price_pb2 import CostSplit, Price

RANGE = ("--rate", "5:10:20", "--isl", "2000", "--osl", "500", "--ttft", "1", "--tpot", "0.05")


def test_what_is_given_is_what_is_asked() -> None:
    assert PlanFleetRequest() == plan_fleet()
    asked = plan_fleet(
        model="m",
        input_tokens=10,
        output_tokens=20,
        requests_per_second=(1, 2, 3),
        confidence=0.9,
        tpot_seconds=0.05,
        percentile="p99",
        node_types=["n"],
        engines=["vllm==0.19"],
        certainty="cautious",
        term="one-year",
        cost_split="all_output",
        redundant_nodes=1,
    )
    (load,) = asked.workloads
    assert Demand(low=1, mid=2, high=3, confidence=0.9) == load.requests_per_second
    assert ServiceLevel(tpot_seconds=0.05, percentile=ServiceLevel.P99) == asked.service_level
    assert ("vllm", "0.19") == (asked.engines[0].name, asked.engines[0].version)
    assert (PlanFleetRequest.CAUTIOUS, Price.ONE_YEAR, CostSplit.ALL_OUTPUT) == (asked.certainty, asked.term, asked.cost_split)
    assert ["a", "b"] == list(compare_accelerators(model="m", accelerators=("a", "b")).accelerators)


def test_names_that_mean_nothing_are_refused_at_once() -> None:
    with pytest.raises(InvalidRequest, match="none of expected, cautious"):
        plan_fleet(certainty="certain")
    with pytest.raises(InvalidRequest, match="not both"):
        plan_fleet(workloads=[FleetWorkload(input_tokens=1)], input_tokens=1)


def test_a_service_plans_and_compares(service: RunningService) -> None:
    load = FleetWorkload(input_tokens=2000, output_tokens=500, requests_per_second=Demand(mid=10))
    with Client(service.grpc) as client:
        answer = client.plan_fleet(model="llama-3.1-70b", workloads=[load], ttft_seconds=1.0, node_types=["aws-p5.48xlarge"])
        sides = client.compare_accelerators(
            model="llama-3.1-8b", accelerators=["h100-sxm", "b200"], input_tokens=100, output_tokens=100, concurrency=8
        )
    assert 1 == answer.plans[0].rank
    assert ["h100-sxm", "b200"] == [each.accelerator for each in sides.accelerators]


def test_people_see_fleets_prices_and_excuses(run_for_real: Run) -> None:
    code, shown, _ = run_for_real("plan", "llama-3.1-70b", *RANGE, "--node", "aws-p5.48xlarge")
    assert 0 == code
    for text in ("aws-p5.48xlarge vllm", "55.04 USD per hour, 2026-07-20", "Least regret", "no room for a single request"):
        assert text in shown


def test_programs_see_the_rest_answer(run_for_real: Run) -> None:
    _, shown, _ = run_for_real("plan", "llama-3.1-70b", *RANGE, "--node", "aws-p5.48xlarge", "--json")
    assert "COST" == json.loads(shown)["ranking"]


def test_an_infeasible_service_level_ends_as_what_does_not_fit(run_for_real: Run) -> None:
    code, shown, _ = run_for_real("plan", "llama-3.1-70b", "--rate", "1", "--tpot", "0.0001", "--node", "aws-p5.48xlarge")
    assert 3 == code
    assert "Infeasible" in shown


def test_a_plan_without_times_to_keep_names_the_options_for_them(run_for_real: Run) -> None:
    code, _, said = run_for_real("plan", "llama-3.1-70b", "--rate", "50")

    assert Exit.BAD_REQUEST == code
    assert "service_level (--ttft, --tpot, --end-to-end-seconds)" in said


LOAD = ("--rate", "50", "--isl", "1024", "--osl", "256", "--ttft", "2", "--tpot", "0.1")
TWO = ("plan", "llama-3.1-70b", *LOAD, "--accelerator", "h100-sxm", "--accelerator", "mi300x")


def test_prices_of_ones_own_come_before_the_catalogue_s(run_for_real: Run) -> None:
    _, shown, _ = run_for_real(
        *TWO, "--price", "H100-SXM5=1.25", "--price", "mi300x=5", "--term", "one-year", "--currency", "EUR"
    )
    for text in ("h100-sxm: 1.25 EUR per hour, not dated, given with --price", "mi300x: 5 EUR per hour", "25.00 EUR"):
        assert text in " ".join(shown.split())  # 20 H100

    code, answer, _ = run_for_real(
        "plan", "llama-3.1-70b", *LOAD, "--node", "p5.48xlarge", "--price", "p5.48xlarge=40", "--json"
    )
    (plan,) = json.loads(answer)["plans"]
    assert (0, 40, "aws-p5.48xlarge", True) == (
        *(code, plan["cost"]["cost_per_unit_hour"]),
        *(plan["cost"]["price"]["node_type"], plan["cost"]["price"]["is_own"]),
    )

    _, compared, _ = run_for_real("compare", "llama-3.1-8b", "h100-sxm", "mi300x", "--price", "mi300x=1.5", "--json")
    assert [False, True] == [each["price"]["is_own"] for each in json.loads(compared)["accelerators"]]


@pytest.mark.parametrize("given", ["h100-sxm", "h100-sxm=2,45", "=3", "h100-sxm=0", "h100-sxm=nan", "h100-sxm=$3"])
def test_a_price_that_is_none_is_refused_with_what_to_give(run: Run, scripted: ScriptedServer, given: str) -> None:
    code, _, refusal = run(*TWO, "--price", given)
    assert Exit.BAD_REQUEST == code
    assert f"--price {given}: give NAME=AMOUNT" in refusal
    assert [] == scripted.requests


@pytest.mark.parametrize(
    ("given", "code", "part"),
    [
        (("h100-sxn=3",), Exit.NOT_FOUND, "--price h100-sxn: the catalogue has no accelerator and no node type of that name"),
        (("h100-sxn=3",), Exit.NOT_FOUND, "the nearest are h100-sxm"),
        (("h100-sxm=3", "H100-SXM5=2"), Exit.BAD_REQUEST, "--price gives h100-sxm twice"),
        (("h100-sxm=1e9",), Exit.BAD_REQUEST, "price_list.prices[0].amount_per_hour (--price)"),
    ],
)
def test_a_price_of_nothing_known_or_beyond_measure_is_refused(
    run_for_real: Run, given: tuple[str, ...], code: Exit, part: str
) -> None:
    prices = [word for each in given for word in ("--price", each)]
    ended, _, refusal = run_for_real(*TWO, *prices)
    assert code == ended
    assert part in refusal


def test_a_price_goes_before_those_of_the_request_file_and_in_its_currency(
    run: Run, scripted: ScriptedServer, tmp_path: Path
) -> None:
    scripted.script["GetAccelerator"] = answers(GetAcceleratorResponse(accelerator=Accelerator(name="one")))
    file = tmp_path / "question.json"
    listed = [{"accelerator": name, "amount_per_hour": 9, "currency": "EUR"} for name in ("one", "two")]
    own = {"prices": listed, "document": "prices: []"}
    file.write_text(json.dumps({"currency": "EUR", "term": "SPOT", "price_list": own}))

    run("plan", "--request", str(file), "--price", "one=2.5")

    asked = scripted.requests[-1]
    assert isinstance(asked, PlanFleetRequest)
    price = Price(accelerator="one", amount_per_hour=2.5, currency="EUR", term=Price.SPOT, source="given with --price")
    other = Price(accelerator="two", amount_per_hour=9, currency="EUR")
    assert ([other, price], "prices: []") == (list(asked.price_list.prices), asked.price_list.document)


@pytest.mark.parametrize(
    ("term", "ranked"), [("one-year", "mi300x, h100-sxm; ranked by power"), ("spot", "mi300x; ranked after")]
)
def test_people_see_that_a_price_is_not_known_and_how_fleets_are_ranked_without(
    run_for_real: Run, term: str, ranked: str
) -> None:
    _, shown, _ = run_for_real(*TWO, "--term", term)
    prices, _, rejected = shown.partition("Rejected\n")
    assert f"no {term} price is known for {ranked}" in " ".join(prices.split())
    assert "known are prices for ON_DEMAND" in prices
    assert "ON_DEMAND" not in rejected


def test_a_rate_that_is_none_is_refused(run_for_real: Run) -> None:
    code, _, refusal = run_for_real("plan", "llama-3.1-70b", "--rate", "5:10", "--tpot", "0.05")
    assert 2 == code
    assert "LOW:MID:HIGH" in refusal


def test_people_see_accelerators_side_by_side(run_for_real: Run) -> None:
    code, shown, _ = run_for_real("compare", "llama-3.1-8b", "v100-sxm2-32", "gb300", "--compute", "fp16")
    assert 0 == code
    assert "dense peak × 120, bandwidth × 8.9" in " ".join(shown.split())


def test_people_see_costs_by_bound_and_by_estimate_apart(run_for_real: Run) -> None:
    _, shown, _ = run_for_real("compare", "llama-3.1-8b", "h100-sxm", "v100-sxm2-32", "--compute", "fp16")
    bound, estimate = (
        next(line for line in shown.splitlines() if name in line) for name in ("per M output tokens, b", "  est")
    )
    assert 2 == bound.count("≥")
    assert " to " in estimate
    assert "none" in estimate  # nothing is calibrated on a V100


def test_what_a_plan_and_a_comparison_rest_on_is_shown_where_it_is_asked_for(run_for_real: Run) -> None:
    plan = ("plan", "llama-3.1-70b", *RANGE, "--node", "aws-p5.48xlarge")
    _, plain, _ = run_for_real(*plan)
    _, explained, _ = run_for_real(*plan, "--explain")
    assert "num_replicas" not in plain
    for text in ("num_replicas = ", "fleet_cost_per_hour = ", "price_per_hour", "memory_bandwidth"):
        assert text in explained
    _, compared, _ = run_for_real("compare", "llama-3.1-8b", "h100-sxm", "b200", "--explain")
    assert 2 == compared.count("prefill_bound_seconds = ")
