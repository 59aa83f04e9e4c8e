"""Cost and energy: what a node costs per hour, owned or rented, and what a token costs of it.

Amounts are in whatever currency went in; a formula that takes several takes them all in the same one. A year has 8,760
hours and a month 730, a twelfth of it: the convention of cloud bills, leap days left out.

Dividing a node's cost between input and output tokens is a choice, not a measurement, so each way has formulas of its own:

- all output: output tokens bear everything and input tokens nothing, ``cost_per_million_tokens`` over the output rate;
- blended: every token costs the same, ``cost_per_million_tokens`` over the rate of input and output together;
- by time: prefill and decode each bear the part of the time that they take, ``input_…`` and ``output_…``. Idle time is then
  borne in the same proportion, and the two add up to the whole cost.
"""

from typing import Final

from service.formulas.registry import formula

HOURS_PER_YEAR: Final = 8760.0  # 365 · 24
HOURS_PER_MONTH: Final = 730.0  # 8760 / 12

_DEFINITION: Final = "definition"
_ECONOMY: Final = "Newnan, Eschenbach, Lavelle and Oxford, Engineering Economic Analysis, 14th ed., 2020"
_PUE: Final = "ISO/IEC 30134-2:2016: energy of the whole facility over energy of its IT equipment"


# -- owning a node ----------------------------------------------------------------------------------------------------


@formula("(P − S) / n", source=f"straight-line depreciation; {_ECONOMY}")
def depreciation_per_year(*, purchase_price: float, residual_value: float, depreciation_years: float) -> float:
    """What a purchase loses per year, on average, until only its residual value is left.

    >>> depreciation_per_year(purchase_price=400_000.0, residual_value=40_000.0, depreciation_years=5.0)
    72000.0
    """
    return (purchase_price - residual_value) / depreciation_years


@formula("(P − S / (1 + r)^n) · r / (1 − 1 / (1 + r)^n)", source=f"capital recovery with salvage value; {_ECONOMY}")
def capital_recovery_per_year(
    *, purchase_price: float, residual_value: float, financing_rate: float, depreciation_years: float
) -> float:
    """What a purchase costs per year with interest: equal payments at each year's end that repay all but the residual value.

    Holds for a rate above zero; as the rate goes to zero it goes to ``depreciation_per_year``.

    At 10 % over one year, 100 is repaid with 110, less a residual value of 11:

    >>> round(capital_recovery_per_year(purchase_price=100.0, residual_value=11.0, financing_rate=0.1,
    ...     depreciation_years=1.0), 9)
    99.0
    """
    discount: float = (1.0 + financing_rate) ** -depreciation_years
    return (purchase_price - residual_value * discount) * financing_rate / (1.0 - discount)


@formula("P · m", source=_DEFINITION)
def maintenance_per_year(*, purchase_price: float, maintenance_ratio: float) -> float:
    """Support, spares and repairs per year, as a part of the purchase price.

    >>> maintenance_per_year(purchase_price=400_000.0, maintenance_ratio=0.05)
    20000.0
    """
    return purchase_price * maintenance_ratio


@formula("n · W_device", source="definition: the devices alone; processors, memory, network and fans come on top")
def device_watts_per_node(*, num_devices: float, max_watts_per_device: float) -> float:
    """Power that the accelerators of a node may draw together.

    >>> device_watts_per_node(num_devices=8, max_watts_per_device=700.0)
    5600.0
    """
    return num_devices * max_watts_per_device


@formula("W · u · PUE", source=_PUE)
def facility_watts_per_node(
    *, watts_per_node: float, power_utilization_ratio: float, power_usage_effectiveness: float
) -> float:
    """Power that the building draws for a node: what the node draws on average, and cooling and losses with it.

    >>> facility_watts_per_node(watts_per_node=10_000.0, power_utilization_ratio=0.8, power_usage_effectiveness=1.25)
    10000.0
    """
    return watts_per_node * power_utilization_ratio * power_usage_effectiveness


@formula("W_facility / 1000 · p_kWh", source="definition: 1 kWh is 1,000 W over an hour")
def electricity_cost_per_hour(*, facility_watts_per_node: float, electricity_price_per_kwh: float) -> float:
    """What a node's electricity costs per hour.

    >>> electricity_cost_per_hour(facility_watts_per_node=10_000.0, electricity_price_per_kwh=0.12)
    1.2
    """
    return facility_watts_per_node / 1000.0 * electricity_price_per_kwh


@formula("W / 1000 · p_kW_month / 730", source="definition: colocation is let by the kW reserved, whether drawn or not")
def hosting_cost_per_hour(*, watts_per_node: float, hosting_price_per_kw_month: float) -> float:
    """What a node's place in a data centre costs per hour: the power reserved for it, its most, is what is let.

    >>> hosting_cost_per_hour(watts_per_node=10_000.0, hosting_price_per_kw_month=146.0)
    2.0
    """
    return watts_per_node / 1000.0 * hosting_price_per_kw_month / HOURS_PER_MONTH


@formula("(C + M) / 8760 + E + H", source=f"{_DEFINITION}: total cost of ownership, by the hour that the node is owned")
def owned_cost_per_hour(
    *,
    capital_cost_per_year: float,
    maintenance_cost_per_year: float,
    electricity_cost_per_hour: float,
    hosting_cost_per_hour: float,
) -> float:
    """What an owned node costs per hour, busy or idle: capital, maintenance, electricity, hosting.

    >>> owned_cost_per_hour(capital_cost_per_year=72_000.0, maintenance_cost_per_year=15_600.0,
    ...     electricity_cost_per_hour=1.2, hosting_cost_per_hour=2.0)
    13.2
    """
    yearly = (capital_cost_per_year + maintenance_cost_per_year) / HOURS_PER_YEAR
    return yearly + electricity_cost_per_hour + hosting_cost_per_hour


# -- renting one ------------------------------------------------------------------------------------------------------


@formula("c_node / n", source="definition: the host is paid for by its devices in equal parts")
def price_per_device_hour(*, price_per_node_hour: float, num_devices: float) -> float:
    """A node's price per hour for each of its devices.

    >>> price_per_device_hour(price_per_node_hour=55.04, num_devices=8)
    6.88
    """
    return price_per_node_hour / num_devices


@formula("c_device · n", source="definition: every device of the node at the same price")
def price_per_node_hour(*, price_per_device_hour: float, num_devices: float) -> float:
    """A node's price per hour where it is priced by the device.

    >>> price_per_node_hour(price_per_device_hour=2.5, num_devices=8)
    20.0
    """
    return price_per_device_hour * num_devices


@formula("amount · rate", source="definition: the rate is what one unit of the first currency buys of the second")
def converted_amount(*, amount: float, exchange_rate: float) -> float:
    """An amount in another currency.

    >>> converted_amount(amount=100.0, exchange_rate=1.25)
    125.0
    """
    return amount * exchange_rate


@formula("c · 8760", source="definition: 365 days of 24 hours")
def cost_per_year(*, cost_per_hour: float) -> float:
    """What an hourly cost comes to in a year without pause.

    >>> cost_per_year(cost_per_hour=10.0)
    87600.0
    """
    return cost_per_hour * HOURS_PER_YEAR


# -- a token's part ---------------------------------------------------------------------------------------------------


@formula("c / (3600 · r) · 10^6", source="definition: an hour yields 3,600 times what a second does")
def cost_per_million_tokens(*, cost_per_hour: float, tokens_per_second: float) -> float:
    """What a million tokens cost where all of the rate's tokens share the cost alike.

    Over the output rate alone it is the price of output when input rides free; over input and output it is the blended one.

    >>> cost_per_million_tokens(cost_per_hour=36.0, tokens_per_second=1000.0)
    10.0
    """
    return cost_per_hour / (3600.0 * tokens_per_second) * 1e6


@formula("t_prefill / (t_prefill + t_decode)", source=_DEFINITION)
def prefill_time_ratio(*, prefill_seconds: float, decode_seconds: float) -> float:
    """The part of the busy time that goes to reading prompts.

    >>> prefill_time_ratio(prefill_seconds=1.0, decode_seconds=3.0)
    0.25
    """
    return prefill_seconds / (prefill_seconds + decode_seconds)


@formula("c · s / (3600 · r_in) · 10^6", source="definition: prefill bears its part of the time")
def input_cost_per_million_tokens(*, cost_per_hour: float, prefill_time_ratio: float, input_tokens_per_second: float) -> float:
    """What a million input tokens cost where prefill bears its part of the time.

    >>> input_cost_per_million_tokens(cost_per_hour=36.0, prefill_time_ratio=0.25, input_tokens_per_second=10_000.0)
    0.25
    """
    return cost_per_hour * prefill_time_ratio / (3600.0 * input_tokens_per_second) * 1e6


@formula("c · (1 − s) / (3600 · r_out) · 10^6", source="definition: decode bears the rest of the time")
def output_cost_per_million_tokens(
    *, cost_per_hour: float, prefill_time_ratio: float, output_tokens_per_second: float
) -> float:
    """What a million output tokens cost where decode bears its part of the time.

    >>> output_cost_per_million_tokens(cost_per_hour=36.0, prefill_time_ratio=0.25, output_tokens_per_second=1000.0)
    7.5
    """
    return cost_per_hour * (1.0 - prefill_time_ratio) / (3600.0 * output_tokens_per_second) * 1e6


@formula("W / r", source="definition: a watt is a joule per second")
def energy_joules_per_token(*, watts: float, tokens_per_second: float) -> float:
    """Energy that a token takes. With the facility's watts it counts cooling and losses, with the node's it does not.

    >>> energy_joules_per_token(watts=10_000.0, tokens_per_second=4000.0)
    2.5
    """
    return watts / tokens_per_second


@formula("r / W", source="definition: a watt is a joule per second")
def tokens_per_joule(*, watts: float, tokens_per_second: float) -> float:
    """Tokens that a joule yields: the reciprocal of the energy per token.

    >>> tokens_per_joule(watts=10_000.0, tokens_per_second=4000.0)
    0.4
    """
    return tokens_per_second / watts
