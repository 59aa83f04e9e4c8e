"""Prices as tables, with FOCUS's headings where they fit."""

from collections.abc import Callable
from typing import Any

from tonnage.tables import Cell
from tonnage.tabular.columns import Column, Layout
from tonnage.v1.price_pb2 import Price

HOURS = "Hours"
"""What FOCUS calls the unit of a price per hour."""

_CATEGORIES = {Price.ON_DEMAND: "Standard", Price.SPOT: "Dynamic", Price.ONE_YEAR: "Committed", Price.THREE_YEARS: "Committed"}


def of_price(path: str) -> dict[str, str]:
    """FOCUS's headings for fields of a price that stands at a path."""
    return {f"{path}provider": "ProviderName", f"{path}region": "RegionId"}


def categories(price: Callable[[Any], Price | None]) -> tuple[Column, ...]:
    """What FOCUS says of every price: the category of the service, that of the pricing, and the unit."""

    def pricing(row: Any) -> Cell:
        found = price(row)
        return None if found is None else _CATEGORIES.get(found.term, "Other")

    return (
        Column("ServiceCategory", lambda _: "Compute"),
        Column("PricingCategory", pricing),
        Column("PricingUnit", lambda row: None if price(row) is None else HOURS),
    )


PRICES = Layout(
    Price.DESCRIPTOR,
    names=of_price("") | {"amount_per_hour": "ListUnitPrice", "currency": "BillingCurrency"},
    left_out=frozenset({"is_own"}),  # those of a catalogue are nobody's own
    first=(
        *("x_node_type", "x_accelerator", "ListUnitPrice", "BillingCurrency", "PricingUnit", "x_basis", "x_term"),
        *("PricingCategory", "ProviderName", "RegionId", "x_date", "x_num_devices", "ServiceCategory"),
    ),
    further=categories(lambda row: row),
)
