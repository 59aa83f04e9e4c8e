"""What an offer's line costs per device and per hour, and beside a list price; and whether its sum is right."""

import math
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from service.formulas.cost import HOURS_PER_MONTH, HOURS_PER_YEAR
from service.planning.errors import InvalidRequest
from service.planning.money import Price, PriceTerm
from service.planning.price_choice import NoPrice, Quote
from service.planning.prices import PriceBook
from service.planning.quotes.numbers import period_in
from service.planning.quotes.products import Product
from service.planning.quotes.requests import PriceUnit
from service.planning.quotes.results import QuoteFinding, Severity

HOURS: Final = MappingProxyType(
    {PriceUnit.PER_HOUR: 1.0, PriceUnit.PER_MONTH: HOURS_PER_MONTH, PriceUnit.PER_YEAR: HOURS_PER_YEAR}
)
#: Lengths that a total is often of, in the price's unit.
_LENGTHS: Final = MappingProxyType(
    {
        PriceUnit.PER_HOUR: ((HOURS_PER_MONTH, "a month of 730 hours"), (HOURS_PER_YEAR, "a year of 8,760 hours"),
                             (3 * HOURS_PER_YEAR, "three years"), (720.0, "30 days"), (744.0, "31 days"), (24.0, "a day")),
        PriceUnit.PER_MONTH: ((12.0, "12 months"), (24.0, "24 months"), (36.0, "36 months")),
        PriceUnit.PER_YEAR: ((2.0, "two years"), (3.0, "three years"), (5.0, "five years")),
    }
)  # fmt: skip
#: List prices differ so much between providers; beyond it a price is worth a question.
_ABOVE_LIST: Final = 1.05
_BELOW_LIST: Final = 0.5


class LinePrice(Struct, frozen=True):
    """The amounts of a line; ``None`` is what is not known. ``half_step`` is the rounding of the unit price."""

    quantity: float | None
    unit_price: float | None
    currency: str
    price_unit: PriceUnit | None
    is_per_device: bool
    discount_ratio: float | None
    stated_total: float | None
    half_step: float = 0.0
    total_half_step: float = 0.0

    @property
    def net_price(self) -> float | None:
        """What a unit costs, less the discount."""
        return None if self.unit_price is None else self.unit_price * (1 - (self.discount_ratio or 0.0))

    def per_device(self, num_devices_per_unit: int | None) -> float | None:
        """What a device costs, in the price's unit."""
        if self.net_price is None or self.is_per_device:
            return self.net_price
        return None if num_devices_per_unit is None else self.net_price / num_devices_per_unit

    def per_device_hour(self, per_device: float | None, depreciation_years: float) -> float | None:
        """The same per hour."""
        if per_device is None or self.price_unit is None:
            return None
        return per_device / HOURS.get(self.price_unit, depreciation_years * HOURS_PER_YEAR)


class ComputedTotal(Struct, frozen=True):
    """Quantity times unit price, less the discount, over the time that the line's total is for.

    ``length``: that time, in units of the price; ``words``: its name, "" where it is one unit.
    """

    amount: float
    length: float = 1.0
    words: str = ""


def computed_total(price: LinePrice, num_devices_per_unit: int | None, header: str) -> ComputedTotal | None:
    """What the line comes to; of a price per device, times the devices of a unit. ``header``: of the total's column."""
    if price.quantity is None or price.net_price is None:
        return None
    one = price.quantity * price.net_price * ((num_devices_per_unit or 1) if price.is_per_device else 1)
    length, words = _length_of_total(price, one, header)
    return ComputedTotal(one * length, length, words)


def _length_of_total(price: LinePrice, one: float, header: str) -> tuple[float, str]:
    """By the sum, where it is right for some length; else by the heading."""
    lengths = _LENGTHS.get(price.price_unit, ()) if price.price_unit else ()
    stated = price.stated_total
    if stated is not None:
        for length, words in ((1.0, ""), *lengths):
            if _agrees(stated, one * length, price, length):
                return length, words
    period, unit = period_in(header), price.price_unit
    if period is not None and unit is not None and {period, unit} <= HOURS.keys():
        named = HOURS[period] / HOURS[unit]
        if named < 1:
            return named, "an hour" if period is PriceUnit.PER_HOUR else "a month"
        return next((each for each in lengths if math.isclose(each[0], named)), (1.0, ""))
    return 1.0, ""


def total_finding(
    price: LinePrice, found: ComputedTotal | None, num_devices_per_unit: int | None, header: str
) -> QuoteFinding | None:
    """What is to be said of the line's sum; None where it is right for one unit of the price, or cannot be told."""
    stated = price.stated_total
    if stated is None or found is None:
        return None
    computed = found.amount
    if _agrees(stated, computed, price, found.length):
        return QuoteFinding(Severity.NOTE, header, f"The total is right, for {found.words}.") if found.words else None
    whole = num_devices_per_unit or 1
    other = computed / whole if price.is_per_device else computed * whole
    counted = "per unit, not per device" if price.is_per_device else "per device, not per unit"
    if whole > 1 and _agrees(stated, other, price, found.length):
        return QuoteFinding(Severity.CHECK, header, f"The total is right only if the unit price is {counted}: ask which.")
    if price.discount_ratio and _agrees(stated, computed / (1 - price.discount_ratio), price, found.length):
        return QuoteFinding(Severity.WRONG, header, "The total leaves out the discount.")
    over = f" for {found.words}" if found.words else ""
    off = f"{stated:,.2f} stands there, {stated - computed:+,.2f}"
    return QuoteFinding(Severity.WRONG, header, f"Quantity times unit price is {computed:,.2f}{over}; {off}.")


def _agrees(stated: float, computed: float, price: LinePrice, factor: float = 1.0) -> bool:
    """Whether two totals are the same within the rounding of what they were made of."""
    rounding = price.half_step * (price.quantity or 0.0) * factor + max(price.total_half_step, 0.005)
    return abs(stated - computed) <= rounding * (1 + 1e-9) + 1e-9 * abs(stated)


class ListPrice(Struct, frozen=True):
    """The list price to compare with, and what to know about it."""

    price: Price | None
    per_device_hour: float | None
    findings: tuple[QuoteFinding, ...]


def list_price_of(book: PriceBook, product: Product, currency: str, term: PriceTerm, region: str, header: str) -> ListPrice:
    """The list price of the line's node type, or else of its accelerator, in the line's currency."""
    node_type = product.node_type
    try:
        found: Quote | NoPrice
        if node_type:
            found = book.node_price(node_type, term=term, region=region, currency=currency)
        else:
            found = book.device_price(product.accelerator, term=term, region=region, currency=currency)
    except InvalidRequest as refused:
        violation = refused.violations[0]
        text = f"No list price to compare with: {violation.reason}; {violation.remedy}."
        return ListPrice(None, None, (QuoteFinding(Severity.NOTE, header, text),))
    if isinstance(found, NoPrice):
        text = f"No list price to compare with: {found.reason}."
        return ListPrice(None, None, (QuoteFinding(Severity.NOTE, header, text),))
    notes = tuple(QuoteFinding(Severity.NOTE, header, f"The list price is {note}.") for note in found.notes)
    return ListPrice(found.price, found.amount_per_device_hour, notes)


def comparison(ratio: float, listed: Price, header: str) -> QuoteFinding:
    """How an offer stands beside a list price, which always shows its date."""
    day = f"of {listed.date}" if listed.date else "without a date"
    beside = f"the {'own' if listed.is_own else 'list'} price {day} ({listed.provider or listed.source or 'no source given'})"
    if ratio > _ABOVE_LIST:
        more = f"{ratio:.3g} times" if ratio >= 2 else f"{ratio - 1:.0%} more than"
        return QuoteFinding(Severity.CHECK, header, f"A device-hour costs {more} {beside}.")
    if ratio < _BELOW_LIST:
        text = f"A device-hour costs {ratio:.0%} of {beside}: ask what it does not hold, such as host, network or support."
        return QuoteFinding(Severity.CHECK, header, text)
    kind = "as much as" if abs(ratio - 1) < 0.005 else f"{abs(1 - ratio):.0%} {'more' if ratio > 1 else 'less'} than"
    return QuoteFinding(Severity.NOTE, header, f"A device-hour costs {kind} {beside}.")
