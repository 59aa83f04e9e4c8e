"""Numbers and amounts of money as offers print them: decimal points and commas, thousands, currencies on either side."""

import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from service.planning.quotes.requests import PriceUnit
from service.units import CURRENCIES

POINT: Final = "."
COMMA: Final = ","

_NUMBER: Final = re.compile(r"[+\u2212-]?(?:\d{1,15}(?:[.,'’ \u00a0\u202f]\d{1,15}){0,6}|[.,]\d{1,15})")
_GROUPS: Final = re.compile(r"['’ \u00a0\u202f]")
_SIGNS: Final = MappingProxyType({"€": "EUR", "£": "GBP", "US$": "USD", "$": "USD", "₹": "INR", "₩": "KRW"})
_CODE: Final = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(CURRENCIES)})(?![A-Za-z])", re.IGNORECASE)
_SIGN: Final = re.compile(r"US\$|[€£$₹₩]")
_PER = r"(?:\bper|/|\bje|\bpro)\W{0,2}"
_OF_ONE = r"(?:(?:gpu|device|card|node|unit|instance)\W{1,2})?"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_PERIODS: Final = (
    (
        PriceUnit.PER_HOUR,
        _any(
            _PER + _OF_ONE + r"(?:hours?|hrs?|h|std|stunde)\b",
            r"\bhour(?:s|ly)?\b",
            r"\b(?:gpu|instance|node)-?hrs?\b",
            "stündlich",
        ),
    ),
    (
        PriceUnit.PER_MONTH,
        _any(_PER + r"(?:mo|mth)\b", r"\bmonth(?:s|ly)?\b", r"\bmonat(?:lich\w*|s\w*)?\b", r"\bp\.?m\.?(?=\W|$)"),
    ),
    (
        PriceUnit.PER_YEAR,
        _any(
            _PER + r"(?:yr|annum)\b", r"\byear(?:ly)?\b", r"\bannual(?:ly)?\b", r"\bjahr\b", "jährlich", r"\bp\.?a\.?(?=\W|$)"
        ),
    ),
    (
        PriceUnit.ONCE,
        _any(
            r"\b(?:purchase|bought|buy|once|one[- ]time|outright|capex|perpetual|each|ea)\b",
            r"\b(?:stück|stk|piece|pcs|kauf|einmalig)\b",
        ),
    ),
)
_PER_DEVICE: Final = _any(_PER + r"(?:gpu|device|card|accelerator|chip|karte)\b", r"\bgpu[- ]?h(?:ou)?rs?\b")


class Money(Struct, frozen=True):
    """An amount, with what stands beside it; ``currency`` is empty where nothing does."""

    amount: float
    currency: str
    period: PriceUnit | None
    is_per_device: bool
    half_step: float  # how far rounding may have moved it


def decimal_marks(text: str) -> set[str]:
    """The mark that must part whole numbers from decimals in a printed number; both where either could; none without a mark.

    >>> sorted(decimal_marks("1.234,5")), sorted(decimal_marks("1,234,567")), sorted(decimal_marks("1.979"))
    ([','], ['.'], [',', '.'])
    """
    points, commas = text.count(POINT), text.count(COMMA)
    if points and commas:
        return {max(POINT, COMMA, key=text.rfind)}
    if not points and not commas:
        return set()
    own, other = (POINT, COMMA) if points else (COMMA, POINT)
    if text.count(own) > 1:
        return {other}
    whole, _, decimals = text.lstrip("+-\u2212").partition(own)
    may_be_thousands = len(decimals) == 3 and 1 <= len(whole) <= 3 and not whole.startswith("0")
    return {POINT, COMMA} if may_be_thousands else {own}


def number_in(text: str) -> re.Match[str] | None:
    """The only number of a text; None where it holds none or several."""
    found = list(_NUMBER.finditer(text))
    return found[0] if len(found) == 1 else None


def value_of(printed: str, mark: str) -> float | None:
    """A printed number under that decimal mark; None where it is none.

    >>> value_of("1.979", ","), value_of("1.979", "."), value_of("2'450,50", ","), value_of("1,23.4", "."), value_of("-5", ".")
    (1979.0, 1.979, 2450.5, None, -5.0)
    """
    marks = decimal_marks(_GROUPS.sub("", printed))
    own = mark if mark in marks or not marks else marks.pop()
    thousands = COMMA if own == POINT else POINT
    sign = -1.0 if printed[:1] in {"-", "\u2212"} else 1.0
    text = printed.lstrip("+-\u2212")
    whole, _, decimals = text.partition(own)
    groups = re.split(r"['’ \u00a0\u202f]|" + re.escape(thousands), whole)
    if any(len(group) != 3 for group in groups[1:]) or (len(groups) > 1 and not 1 <= len(groups[0]) <= 3):
        return None
    if decimals and not decimals.isdigit():
        return None
    return sign * float(f"{''.join(groups) or 0}.{decimals or 0}")


def half_step(printed: str, mark: str) -> float:
    """How far rounding may have moved a printed number.

    >>> half_step("2,45", ","), half_step("2450", ".")
    (0.005, 0.5)
    """
    decimals = printed.partition(mark)[2] if mark in decimal_marks(_GROUPS.sub("", printed)) else ""
    return 0.5 * 10.0 ** -len(decimals)


def money_of(text: str, mark: str) -> Money | None:
    """An amount of money; None where the text holds no number, or several."""
    bracketed = text.strip()
    is_negative = bracketed.startswith("(") and bracketed.endswith(")")
    found = number_in(text)
    value = value_of(found.group(), mark) if found else None
    if found is None or value is None:
        return None
    beside = f"{text[: found.start()]} {text[found.end() :]}"
    amount = -value if is_negative else value
    return Money(amount, currency_in(beside), period_in(beside), is_per_device(beside), half_step(found.group(), mark))


def currency_in(text: str) -> str:
    """The currency that a text names by its code or sign; empty where it names none.

    >>> currency_in("Unit price (EUR)"), currency_in("US$/GPU-hr"), currency_in("Price")
    ('EUR', 'USD', '')
    """
    if found := _CODE.search(text):
        return found.group().upper()
    sign = _SIGN.search(text)
    return _SIGNS[sign.group()] if sign else ""


def period_in(text: str) -> PriceUnit | None:
    """What a price pays for by the words beside it; None where they do not say."""
    return next((period for period, pattern in _PERIODS if pattern.search(text)), None)


def is_per_device(text: str) -> bool:
    """Whether the words beside a price say that it is of one device."""
    return bool(_PER_DEVICE.search(text))


def decimal_mark_of(cells: Iterable[str], delimiter: str) -> tuple[str, str]:
    """The decimal mark of an offer and, where that was assumed, in which way."""
    points = commas = 0
    is_open = False
    for cell in cells:
        found = number_in(cell)
        marks = decimal_marks(_GROUPS.sub("", found.group())) if found else set()
        points += marks == {POINT}
        commas += marks == {COMMA}
        is_open = is_open or len(marks) == 2
    if points != commas:
        mark, other = (POINT, commas) if points > commas else (COMMA, points)
        told = f"most numbers have a decimal {_NAMES[mark]}, {other} the other" if other else ""
        return mark, told
    mark = COMMA if delimiter == ";" else POINT
    why = f"no number shows whether a decimal {_NAMES[mark]} is meant: it is taken to be, as is usual with this delimiter"
    return mark, why if is_open else ""


_NAMES: Final = MappingProxyType({POINT: "point", COMMA: "comma"})
