"""Cost formulas: worked by hand, against a second formula, and what must hold whatever the figures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.formulas.cost import (
    capital_recovery_per_year,
    cost_per_million_tokens,
    cost_per_year,
    depreciation_per_year,
    device_watts_per_node,
    electricity_cost_per_hour,
    energy_joules_per_token,
    facility_watts_per_node,
    hosting_cost_per_hour,
    input_cost_per_million_tokens,
    maintenance_per_year,
    output_cost_per_million_tokens,
    owned_cost_per_hour,
    prefill_time_ratio,
    price_per_device_hour,
    price_per_node_hour,
    tokens_per_joule,
)

prices = st.floats(1e3, 1e8)
ratios = st.floats(0, 1)
rates = st.floats(0.001, 0.5)
years = st.floats(0.5, 20)
speeds = st.floats(1e-2, 1e7)


def test_a_loan_is_repaid_with_what_annuity_tables_print() -> None:
    # The worked example of the R package EngrEcon: 200,000 at 8 % over 30 years.
    payment = capital_recovery_per_year(purchase_price=200_000, residual_value=0, financing_rate=0.08, depreciation_years=30)
    assert payment == pytest.approx(17_765.49, abs=0.005)


@given(price=prices, residual=ratios, rate=rates, number=st.integers(1, 20))
def test_payments_and_residual_value_repay_the_purchase(price: float, residual: float, rate: float, number: int) -> None:
    payment = capital_recovery_per_year(
        purchase_price=price, residual_value=residual * price, financing_rate=rate, depreciation_years=number
    )
    owed = price
    for _ in range(number):  # year by year: interest is added, a payment taken off
        owed = owed * (1 + rate) - payment
    assert owed == pytest.approx(residual * price, rel=1e-6, abs=price * 1e-6)


@given(price=prices, residual=ratios, life=years)
def test_without_interest_it_is_straight_line_depreciation(price: float, residual: float, life: float) -> None:
    straight = depreciation_per_year(purchase_price=price, residual_value=residual * price, depreciation_years=life)
    almost = capital_recovery_per_year(
        purchase_price=price, residual_value=residual * price, financing_rate=1e-7, depreciation_years=life
    )
    assert almost == pytest.approx(straight, rel=1e-5, abs=price * 1e-5)


@given(price=prices, residual=ratios, rate=rates, life=years)
def test_interest_never_makes_it_cheaper(price: float, residual: float, rate: float, life: float) -> None:
    kept = {"purchase_price": price, "residual_value": residual * price, "depreciation_years": life}
    cost = capital_recovery_per_year(financing_rate=rate, **kept)
    assert cost >= depreciation_per_year(**kept) * (1 - 1e-9)
    assert capital_recovery_per_year(financing_rate=rate * 1.1, **kept) >= cost * (1 - 1e-9)


def test_a_node_of_400_000_by_hand() -> None:
    capital = depreciation_per_year(purchase_price=400_000, residual_value=40_000, depreciation_years=5)
    maintenance = maintenance_per_year(purchase_price=400_000, maintenance_ratio=0.05)
    facility = facility_watts_per_node(watts_per_node=10_200, power_utilization_ratio=0.75, power_usage_effectiveness=1.3)
    electricity = electricity_cost_per_hour(facility_watts_per_node=facility, electricity_price_per_kwh=0.1)
    hosting = hosting_cost_per_hour(watts_per_node=10_200, hosting_price_per_kw_month=150)
    cost = owned_cost_per_hour(
        capital_cost_per_year=capital,
        maintenance_cost_per_year=maintenance,
        electricity_cost_per_hour=electricity,
        hosting_cost_per_hour=hosting,
    )
    # 72,000 + 20,000 a year are 10.50228 an hour; 9.945 kW at 0.10 are 0.9945; 10.2 kW at 150 / 730 are 2.09589.
    assert (capital, maintenance, facility) == pytest.approx((72_000, 20_000, 9_945))
    assert (electricity, hosting) == pytest.approx((0.9945, 2.095890), rel=1e-6)
    assert cost == pytest.approx(13.592673, rel=1e-6)
    assert cost_per_year(cost_per_hour=cost) == pytest.approx(92_000 + 8760 * (electricity + hosting))


def test_devices_share_their_node() -> None:
    assert price_per_device_hour(price_per_node_hour=55.04, num_devices=8) == pytest.approx(6.88)
    assert price_per_node_hour(price_per_device_hour=2.99, num_devices=8) == pytest.approx(23.92)
    assert 5600 == device_watts_per_node(num_devices=8, max_watts_per_device=700)


def test_a_million_tokens_of_a_node_at_55_04_an_hour() -> None:
    # 5,000 tokens a second are 18 million an hour: 55.04 / 18.
    assert cost_per_million_tokens(cost_per_hour=55.04, tokens_per_second=5000) == pytest.approx(3.0577778)


@given(cost=st.floats(0.01, 1e4), into=speeds, out=speeds, prefill=st.floats(0, 1e3), decode=st.floats(1e-3, 1e3))
def test_input_and_output_by_time_add_up_to_the_hour(
    cost: float, into: float, out: float, prefill: float, decode: float
) -> None:
    ratio = prefill_time_ratio(prefill_seconds=prefill, decode_seconds=decode)
    of_input = input_cost_per_million_tokens(cost_per_hour=cost, prefill_time_ratio=ratio, input_tokens_per_second=into)
    of_output = output_cost_per_million_tokens(cost_per_hour=cost, prefill_time_ratio=ratio, output_tokens_per_second=out)
    assert (of_input * into + of_output * out) * 3600 / 1e6 == pytest.approx(cost)


@given(watts=st.floats(1, 1e6), rate=speeds)
def test_energy_per_token_and_tokens_per_joule_are_reciprocal(watts: float, rate: float) -> None:
    energy = energy_joules_per_token(watts=watts, tokens_per_second=rate)
    assert energy * tokens_per_joule(watts=watts, tokens_per_second=rate) == pytest.approx(1)


def test_energy_of_a_token_by_hand() -> None:
    # An H100 at 700 W and 3,500 tokens a second: 0.2 J, so 5 tokens a joule.
    assert energy_joules_per_token(watts=700, tokens_per_second=3500) == pytest.approx(0.2)
    assert tokens_per_joule(watts=700, tokens_per_second=3500) == pytest.approx(5)


@given(st.data())
def test_whatever_gets_dearer_never_makes_a_node_cheaper(data: st.DataObject) -> None:
    names = ("capital_cost_per_year", "maintenance_cost_per_year", "electricity_cost_per_hour", "hosting_cost_per_hour")
    parts = {name: data.draw(st.floats(0, 1e6), label=name) for name in names}
    dearer = {name: value + data.draw(st.floats(0, 1e6)) for name, value in parts.items()}
    assert owned_cost_per_hour(**dearer) >= owned_cost_per_hour(**parts)
