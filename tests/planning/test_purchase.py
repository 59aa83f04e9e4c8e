"""What a bought node costs and draws, and what tokens cost of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.catalogue.entries import Catalogue
from service.formulas import REGISTRY
from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.explain import Recorder
from service.planning.money import CostSplit
from service.planning.purchase import Power, PurchaseModel, node_power, owned_cost
from service.planning.token_costs import TokenRates, token_costs

MODEL = PurchaseModel("dgx-h100", 400_000.0, "USD", Power(electricity_price_per_kwh=0.1))
FULL = PurchaseModel(
    node_type="dgx-h100",
    purchase_price=400_000.0,
    currency="EUR",
    power=Power(10_200.0, 0.75, 1.3, 0.1),
    depreciation_years=5.0,
    residual_value_ratio=0.1,
    financing_rate=0.08,
    maintenance_ratio=0.05,
    hosting_price_per_kw_month=150.0,
    date="2026-11",
    source="an offer",
)


def test_a_node_with_every_figure_given_by_hand(catalogue: Catalogue) -> None:
    cost = owned_cost(catalogue, FULL)
    # 8 % over 5 years: 1.08^5 = 1.4693280768, so (400,000 − 40,000 / 1.46933) · 0.08 / (1 − 1 / 1.46933) = 93,364.32 a year.
    assert cost.capital_cost_per_year == pytest.approx(93_364.32, abs=0.01)
    assert cost.maintenance_cost_per_year == pytest.approx(20_000)
    assert cost.electricity_cost_per_hour == pytest.approx(0.9945)
    assert cost.hosting_cost_per_hour == pytest.approx(2.0958904)
    assert cost.cost_per_node_hour == pytest.approx((93_364.32 + 20_000) / 8760 + 0.9945 + 2.0958904, rel=1e-6)
    assert cost.cost_per_device_hour == pytest.approx(cost.cost_per_node_hour / 8)
    assert (cost.currency, cost.date, cost.source, cost.notes) == ("EUR", "2026-11", "an offer", ())


def test_what_is_left_out_is_said(catalogue: Catalogue) -> None:
    cost = owned_cost(catalogue, MODEL)
    # 80,000 a year; a DGX H100 draws 10.2 kW at most, the facility 1.58 times that.
    assert cost.cost_per_node_hour == pytest.approx(80_000 / 8760 + 10.2 * 1.58 * 0.1)
    assert (cost.maintenance_cost_per_year, cost.hosting_cost_per_hour) == (0, 0)
    told = " ".join(cost.notes)
    for part in ("its most all the time", "1.58", "5 years", "worth nothing", "interest, maintenance, rent"):
        assert part in told


def test_the_price_of_electricity_has_to_be_given(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidRequest) as refused:
        owned_cost(catalogue, replace(MODEL, power=Power()))
    assert refused.value.violations[0].field == "purchase.power.electricity_price_per_kwh"
    free = owned_cost(catalogue, replace(MODEL, power=Power(electricity_price_per_kwh=0.0)))
    assert free.electricity_cost_per_hour == 0


def test_power_is_the_nodes_or_else_its_devices_and_never_guessed(catalogue: Catalogue) -> None:
    assert node_power(catalogue, "dgx-h100", Power(power_usage_effectiveness=1.0)).facility_watts_per_node == 10_200
    devices = node_power(catalogue, "aws-p5.48xlarge", Power())
    assert devices.watts_per_node == 5600
    assert "not their host" in devices.notes[0]
    with pytest.raises(Unanswerable) as refused:
        node_power(catalogue, "aws-trn2.48xlarge", Power())
    assert refused.value.field == "power.watts_per_node"
    assert node_power(catalogue, "aws-trn2.48xlarge", Power(watts_per_node=8000.0)).watts_per_node == 8000
    with pytest.raises(NotFound):
        node_power(catalogue, "nothing", Power())


def changed(model: PurchaseModel, fields: dict[str, Any]) -> PurchaseModel:
    return replace(model, **fields)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"purchase_price": 0.0}, "purchase_price"),
        ({"purchase_price": float("nan")}, "purchase_price"),
        ({"purchase_price": float("inf")}, "purchase_price"),
        ({"depreciation_years": 0.0}, "depreciation_years"),
        ({"residual_value_ratio": 1.1}, "residual_value_ratio"),
        ({"financing_rate": -0.1}, "financing_rate"),
        ({"maintenance_ratio": 2.0}, "maintenance_ratio"),
        ({"hosting_price_per_kw_month": -1.0}, "hosting_price_per_kw_month"),
        ({"currency": "dollars"}, "currency"),
        ({"date": "today"}, "date"),
        ({"power": Power(watts_per_node=-1.0)}, "power.watts_per_node"),
        ({"power": Power(power_utilization_ratio=2.0)}, "power.power_utilization_ratio"),
        ({"power": Power(power_usage_effectiveness=0.9)}, "power.power_usage_effectiveness"),
        ({"power": Power(electricity_price_per_kwh=float("nan"))}, "power.electricity_price_per_kwh"),
    ],
)
def test_bad_figures_are_refused_by_their_field(catalogue: Catalogue, change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        owned_cost(catalogue, changed(MODEL, change))
    assert f"purchase.{field}" == refused.value.violations[0].field


@given(st.data())
def test_whatever_gets_dearer_never_makes_it_cheaper(catalogue: Catalogue, data: st.DataObject) -> None:
    ranges = {
        "purchase_price": (1.0, 1e7),
        "financing_rate": (0.0, 1.0),
        "maintenance_ratio": (0.0, 1.0),
        "hosting_price_per_kw_month": (0.0, 1e4),
    }
    drawn = {name: data.draw(st.floats(*limits), label=name) for name, limits in ranges.items()}
    drawn["residual_value_ratio"] = data.draw(st.floats(0, 1))
    drawn["depreciation_years"] = data.draw(st.floats(0.1, 50))
    model = changed(MODEL, drawn)
    cost = owned_cost(catalogue, model).cost_per_node_hour
    for name, (_, high) in ranges.items():
        dearer = changed(model, {name: data.draw(st.floats(drawn[name], high))})
        assert owned_cost(catalogue, dearer).cost_per_node_hour >= cost * (1 - 1e-6)


def test_every_step_can_be_shown_and_recomputed(catalogue: Catalogue) -> None:
    recorder = Recorder()
    cost = owned_cost(catalogue, FULL, recorder)
    steps = recorder.explanation(()).steps
    assert steps[-1].value == cost.cost_per_device_hour
    for step in steps:
        assert REGISTRY[step.name].body(**step.inputs) == step.value


# -- tokens -----------------------------------------------------------------------------------------------------------

RATES = TokenRates(input_tokens_per_second=9000.0, output_tokens_per_second=1000.0, prefill_seconds=1.0, decode_seconds=3.0)


def test_a_node_at_36_an_hour_divided_three_ways() -> None:
    def costs(split: CostSplit) -> tuple[float, float]:
        found = token_costs(36.0, RATES, split)
        return found.input_cost_per_million_tokens, found.output_cost_per_million_tokens

    assert costs(CostSplit.ALL_OUTPUT) == pytest.approx((0, 10.0))  # 36 for 3.6 million
    assert costs(CostSplit.BLENDED) == pytest.approx((1.0, 1.0))  # 36 for 36 million
    assert costs(CostSplit.BY_TIME) == pytest.approx((9 / 32.4, 7.5))  # 9 for 32.4 million, 27 for 3.6


@given(
    cost=st.floats(0.01, 1e5),
    into=st.floats(0.01, 1e7),
    out=st.floats(0.01, 1e7),
    prefill=st.floats(0, 1e4),
    decode=st.floats(1e-3, 1e4),
    split=st.sampled_from(CostSplit),
)
def test_whichever_way_it_is_divided_the_parts_add_up_to_the_hour(
    cost: float, into: float, out: float, prefill: float, decode: float, split: CostSplit
) -> None:
    found = token_costs(cost, TokenRates(into, out, prefill, decode), split)
    both = found.input_cost_per_million_tokens * into + found.output_cost_per_million_tokens * out
    assert both * 3600 / 1e6 == pytest.approx(cost)
