"""Prices as they are asked and answered: field for field the messages of protos/tonnage/v1/price.proto."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from service.formulas.cost import converted_amount
from service.planning.errors import InvalidRequest, Violation

_CURRENCY: Final = re.compile(r"[A-Z]{3}", re.ASCII)
_DATE: Final = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?", re.ASCII)


class PriceBasis(StrEnum):
    """What an amount pays for."""

    PER_NODE = "PER_NODE"
    PER_DEVICE = "PER_DEVICE"
    PER_DEVICE_ON_TOP = "PER_DEVICE_ON_TOP"


class PriceTerm(StrEnum):
    """For how long one is bound."""

    ON_DEMAND = "ON_DEMAND"
    SPOT = "SPOT"
    ONE_YEAR = "ONE_YEAR"
    THREE_YEARS = "THREE_YEARS"


class PriceFormat(StrEnum):
    """What kind of document the caller's prices come in."""

    YAML = "YAML"
    OPENCOST_CSV = "OPENCOST_CSV"
    INFRACOST_JSON = "INFRACOST_JSON"


class CostSplit(StrEnum):
    """How a node's cost is divided between input and output tokens."""

    ALL_OUTPUT = "ALL_OUTPUT"
    BLENDED = "BLENDED"
    BY_TIME = "BY_TIME"


class Price(Struct, frozen=True):
    """A price per hour, of ``node_type`` where that is given and else of ``accelerator``; ``term`` is None where not known."""

    amount_per_hour: float
    currency: str
    node_type: str = ""
    accelerator: str = ""
    basis: PriceBasis | None = None
    term: PriceTerm | None = None
    region: str = ""
    date: str = ""
    provider: str = ""
    source: str = ""
    note: str = ""
    num_devices: int | None = None
    source_url: str = ""
    is_own: bool = False


class ExchangeRate(Struct, frozen=True):
    """Units of ``to_currency`` for one of ``from_currency``, on a date."""

    from_currency: str
    to_currency: str
    rate: float
    date: str


class PriceList(Struct, frozen=True):
    """The caller's own prices, one by one and as a document."""

    prices: tuple[Price, ...] = ()
    document: str = ""
    format: PriceFormat | None = None
    currency: str = ""
    date: str = ""
    region: str = ""
    source: str = ""
    exchange_rates: tuple[ExchangeRate, ...] = ()


class UnreadPrice(Struct, frozen=True):
    """A row of the caller's list that gave no price, and why."""

    place: str
    name: str
    reason: str


def is_currency(text: str) -> bool:
    """Whether a text looks like an ISO 4217 code; whether the code exists is not checked.

    >>> is_currency("EUR"), is_currency("eur"), is_currency("€")
    (True, False, False)
    """
    return _CURRENCY.fullmatch(text) is not None


def is_date(text: str) -> bool:
    """Whether a text is an ISO date, or one without its day, or without its month.

    >>> is_date("2026-07-20"), is_date("2026-07"), is_date("2026"), is_date("2026-13"), is_date("20.7.2026")
    (True, True, True, False, False)
    """
    return _DATE.fullmatch(text) is not None


class Exchange:
    """The caller's exchange rates. Nothing is known besides: no rate is looked up, and none is made of two others."""

    def __init__(self, rates: Iterable[ExchangeRate] = (), field: str = "price_list.exchange_rates") -> None:
        """Raises InvalidRequest for a rate of a currency to itself, of no currency, without a date, or given twice."""
        self._field = field
        self._rates: dict[tuple[str, str], ExchangeRate] = {}
        wrong = [Violation(f"{field}[{n}]", fault) for n, rate in enumerate(rates) if (fault := self._refused(rate))]
        if wrong:
            raise InvalidRequest(*wrong)

    def _refused(self, rate: ExchangeRate) -> str:
        pair = (rate.from_currency, rate.to_currency)
        if not (is_currency(pair[0]) and is_currency(pair[1])):
            return f"{pair[0]!r} to {pair[1]!r} are not two ISO 4217 codes such as USD"
        if pair[0] == pair[1]:
            return f"a rate of {pair[0]} to itself"
        if not is_date(rate.date):
            return f"the date {rate.date!r} does not read like 2026-07-20"
        if not 0 < rate.rate < float("inf"):
            return f"the rate {rate.rate} is not finite and above zero"
        if pair in self._rates or pair[::-1] in self._rates:
            return f"a second rate between {pair[0]} and {pair[1]}"
        self._rates[pair] = rate
        return ""

    def rate(self, currency: str, wanted: str) -> ExchangeRate | None:
        """The rate from one currency to another, or the reciprocal of the one back; None where they are the same.

        Raises InvalidRequest where the caller gave neither.
        """
        if currency == wanted:
            return None
        if (given := self._rates.get((currency, wanted))) is not None:
            return given
        if (back := self._rates.get((wanted, currency))) is not None:
            return ExchangeRate(currency, wanted, 1.0 / back.rate, back.date)
        reason = f"amounts in {currency} and {wanted} meet, and no exchange rate between them is given"
        raise InvalidRequest(Violation(self._field, reason, "give the rate with its date, or all prices in one currency"))

    def converted(self, amount: float, currency: str, wanted: str) -> float:
        """The amount in the wanted currency. Raises InvalidRequest where there is no rate."""
        rate = self.rate(currency, wanted)
        return amount if rate is None else converted_amount(amount=amount, exchange_rate=rate.rate)

    def total(self, amounts: Iterable[tuple[float, str]], wanted: str) -> float:
        """The sum of amounts, each with its currency, in the wanted one. Raises InvalidRequest where a rate is missing."""
        return sum(self.converted(amount, currency, wanted) for amount, currency in amounts)
