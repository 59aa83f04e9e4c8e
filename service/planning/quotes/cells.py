"""The cells of an offer's line by what they mean; what cannot be read is said, and makes the line unread where it counts."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from service.planning.claims import words
from service.planning.money import PriceTerm, is_currency
from service.planning.quotes.document import Offer, Row, shown
from service.planning.quotes.headings import Heading
from service.planning.quotes.numbers import Money, currency_in, is_per_device, money_of, number_in, period_in, value_of
from service.planning.quotes.pricing import LinePrice
from service.planning.quotes.requests import AuditQuoteRequest
from service.planning.quotes.results import Meaning, QuoteFinding, Severity

_NOTHING: Final = re.compile(
    r"(?:-|–|—|n/?a|tba|tbd|p\.?o\.?a\.?|on request|auf anfrage|incl(?:uded|\.)?|inkl(?:usive|\.)?|)", re.I
)
_YEARS = r"[- ]?(?:y|yrs?|years?|jahre?)\b"
_MONTHS = r"[- ]?(?:m|mo|mth|months?|monate)\b"
_TERMS: Final = (
    (PriceTerm.SPOT, re.compile(r"\bspot\b|preempt|interruptible", re.I)),
    (PriceTerm.THREE_YEARS, re.compile(rf"\b(?:3|three|drei){_YEARS}|\b36{_MONTHS}", re.I)),
    (PriceTerm.ONE_YEAR, re.compile(rf"\b(?:1|one|ein){_YEARS}|\b12{_MONTHS}|^annual", re.I)),
    (PriceTerm.ON_DEMAND, re.compile(r"on[- ]?demand|pay[- ]as[- ]you|payg|no commit|\bhourly\b", re.I)),
)
_FORMULA: Final = re.compile(r"\s*[=@]|\s*[+-]\s*[A-Za-z(]")
_MAX_QUANTITY: Final = 1e7
_MAX_AMOUNT: Final = 1e12


class Unreadable(Exception):
    """A line that cannot be read, and why."""


class Line(Struct, frozen=True):
    """A row with ways to its cells."""

    offer: Offer
    row: Row

    def cells(self) -> Iterator[tuple[Heading, str]]:
        """Every cell with its heading."""
        return zip(self.offer.headings, self.row.cells, strict=True)

    def texts(self, *meanings: Meaning) -> list[str]:
        """The cells of those meanings that hold something, in that order."""
        return [cell for meaning in meanings for heading, cell in self.cells() if heading.meaning is meaning and cell]

    def cell(self, meaning: Meaning) -> tuple[Heading | None, str]:
        """The one cell of a meaning; None and "" where there is none."""
        return next(((heading, cell) for heading, cell in self.cells() if heading.meaning is meaning), (None, ""))

    def header(self, meaning: Meaning) -> str:
        """The heading of a meaning."""
        heading, _ = self.cell(meaning)
        return heading.column.header if heading else ""

    def sparsity(self) -> str:
        """What a column of its own says of the line's peaks."""
        heading, cell = self.cell(Meaning.SPARSITY)
        if heading is None or not cell:
            return ""
        answers = {"yes": "structured_2_4", "ja": "structured_2_4", "true": "structured_2_4", "no": "dense", "nein": "dense"}
        said = answers.get(cell.casefold(), "")
        is_of_dense = heading.column.header.casefold().startswith("dense")
        if said and is_of_dense:
            return "dense" if said == "structured_2_4" else "structured_2_4"
        return said or words.sparsity(cell)

    def number(self, meaning: Meaning) -> float | None:
        """The number of that meaning; None where there is none. Unreadable where the cell holds something else."""
        heading, cell = self.cell(meaning)
        if heading is None or _NOTHING.fullmatch(cell):
            return None
        if _FORMULA.match(cell):
            raise Unreadable(f"{heading.column.header} {shown(cell)!r} is a formula, not its value")
        found = number_in(cell)
        value = value_of(found.group(), self.offer.decimal_mark) if found else None
        if value is None:
            raise Unreadable(f"{heading.column.header} {shown(cell)!r} reads like no number")
        return value

    def money(self, meaning: Meaning) -> Money | None:
        """The amount of that meaning; None where there is none. Unreadable where the cell holds something else."""
        heading, cell = self.cell(meaning)
        if heading is None or _NOTHING.fullmatch(cell):
            return None
        if _FORMULA.match(cell):
            raise Unreadable(f"{heading.column.header} {shown(cell)!r} is a formula, not its value")
        money = money_of(cell, self.offer.decimal_mark)
        if money is None:
            raise Unreadable(f"{heading.column.header} {shown(cell)!r} reads like no price")
        if abs(money.amount) > _MAX_AMOUNT:
            raise Unreadable(f"{heading.column.header} {shown(cell)!r} is more than {_MAX_AMOUNT:,.0f}")
        return money


def quantity_of(line: Line) -> float | None:
    """How many units. Unreadable where that is no number above zero."""
    quantity = line.number(Meaning.QUANTITY)
    if quantity is not None and not 0 < quantity <= _MAX_QUANTITY:
        raise Unreadable(
            f"{line.header(Meaning.QUANTITY)} must be above zero and at most {_MAX_QUANTITY:,.0f}, not {quantity:g}"
        )
    return quantity


def devices_of(line: Line) -> int | None:
    """How many devices make a unit, by a column of its own. Unreadable where that is no such number."""
    number = line.number(Meaning.DEVICES_PER_UNIT)
    if number is None:
        return None
    if number != int(number) or not 1 <= number <= 1e5:
        raise Unreadable(f"{line.header(Meaning.DEVICES_PER_UNIT)} must be a whole number of devices, not {number:g}")
    return int(number)


def price_of(line: Line, quantity: float | None, request: AuditQuoteRequest) -> LinePrice:
    """The amounts of a line. Unreadable where one of them is no amount."""
    money, total = line.money(Meaning.UNIT_PRICE), line.money(Meaning.TOTAL_PRICE)
    heading, _ = line.cell(Meaning.UNIT_PRICE)
    unit_cell = line.cell(Meaning.PRICE_UNIT)[1]
    currencies = (
        *(currency_in(cell) or cell.upper() for cell in line.texts(Meaning.CURRENCY)),
        *((money.currency,) if money else ()),
        *((heading.currency,) if heading else ()),
        *((total.currency,) if total else ()),
        *(each.currency for each, _cell in line.cells() if each.meaning is Meaning.TOTAL_PRICE),
        request.currency,
    )
    currency = next((each for each in currencies if each), "")
    if currency and not is_currency(currency):
        raise Unreadable(f"the currency {shown(currency)!r} is no ISO 4217 code such as USD")
    periods = (period_in(unit_cell), money.period if money else None, heading.period if heading else None, request.price_unit)
    if money is not None and money.amount <= 0:
        raise Unreadable(f"a price of {money.amount:g}: a credit or something given away, not a product's price")
    return LinePrice(
        quantity=quantity,
        unit_price=money.amount if money else None,
        currency=currency,
        price_unit=next((each for each in periods if each), None),
        is_per_device=is_per_device(f"per {unit_cell}")
        or bool(money and money.is_per_device)
        or bool(heading and heading.is_per_device),
        discount_ratio=_discount(line),
        stated_total=total.amount if total else None,
        half_step=money.half_step if money else 0.0,
        total_half_step=total.half_step if total else 0.0,
    )


def term_of(line: Line, request: AuditQuoteRequest) -> tuple[PriceTerm, QuoteFinding | None]:
    """For how long one is bound, and what was assumed."""
    said = " ".join((*line.texts(Meaning.TERM), *line.texts(Meaning.PRICE_UNIT)))
    found = next((term for term, pattern in _TERMS if pattern.search(said)), None)
    if found is not None:
        return found, None
    if terms := line.texts(Meaning.TERM):
        text = f"The term {shown(terms[0])!r} is not understood: {request.term or PriceTerm.ON_DEMAND} is taken."
        return request.term or PriceTerm.ON_DEMAND, QuoteFinding(Severity.CHECK, line.header(Meaning.TERM), text)
    return request.term or PriceTerm.ON_DEMAND, None


def _discount(line: Line) -> float | None:
    value = line.number(Meaning.DISCOUNT)
    if value is None:
        return None
    heading, cell = line.cell(Meaning.DISCOUNT)
    is_percent = "%" in cell or (heading is not None and "%" in heading.column.header) or abs(value) >= 1
    ratio = abs(value) / 100 if is_percent else abs(value)
    if ratio >= 1:
        raise Unreadable(f"{line.header(Meaning.DISCOUNT)} {shown(cell)!r} is not below 100 %")
    return ratio
