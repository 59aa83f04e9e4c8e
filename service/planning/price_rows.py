"""What the readers of price documents have in common: checking a cell, and gathering what was read, left out and wrong.

Documents come from strangers. A cell that a spreadsheet would run as a formula is refused as well as what is no number, so
that nothing harmful is handed on in an answer that somebody opens as a table.
"""

import math
import re
from typing import Final

from msgspec import Struct, field

from service.planning.errors import InvalidRequest, Violation
from service.planning.money import Price, UnreadPrice, is_currency, is_date

MAX_ROWS: Final = 10_000
MAX_AMOUNT_PER_HOUR: Final = 1e6
_MAX_TEXT: Final = 500
_MAX_SHOWN: Final = 60
_MAX_VIOLATIONS: Final = 50
_NUMBER: Final = re.compile(r"\d{1,60}(\.\d{1,60})?([eE][+-]?\d{1,3})?", re.ASCII)
_FORMULA: Final = re.compile(r"[=+\-@\t\r]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class OwnPrice(Struct, frozen=True):
    """A price of the caller's and where it stands: "line 7", "prices[0]"."""

    place: str
    price: Price


class PriceRows(Struct):
    """Gathers the rows of a document; ``path`` is the request field that holds it."""

    path: str
    prices: list[OwnPrice] = field(default_factory=list)
    unread: list[UnreadPrice] = field(default_factory=list)
    _violations: list[Violation] = field(default_factory=list)
    _num_wrong: int = 0

    def add(self, place: str, price: Price) -> None:
        """Keeps a price."""
        self.prices.append(OwnPrice(place, price))

    def leave_out(self, place: str, name: str, reason: str) -> None:
        """Notes a row that is well formed, and no price."""
        self.unread.append(UnreadPrice(place, shown(name), reason))

    def refuse(self, place: str, name: str, reason: str, remedy: str = "") -> None:
        """Notes a fault; the reading goes on, so that every fault is told at once."""
        self._num_wrong += 1
        if len(self._violations) < _MAX_VIOLATIONS:
            at = f"{self.path}[{place}]" if place else self.path
            self._violations.append(Violation(f"{at}.{name}" if name else at, reason, remedy))

    def done(self) -> None:
        """Raises InvalidRequest with the faults, the first fifty of them, where there are any."""
        hidden = self._num_wrong - len(self._violations)
        if hidden:
            self._violations.append(Violation(self.path, f"and {hidden} more faults"))
        if self._violations:
            raise InvalidRequest(*self._violations)

    def text(self, place: str, name: str, value: object) -> str:
        """A name or remark; "" where there is none."""
        if value is None:
            return ""
        if not isinstance(value, str):
            self.refuse(place, name, f"must be text, not {shown(value)}")
        elif len(value) > _MAX_TEXT:
            self.refuse(place, name, f"is longer than {_MAX_TEXT} characters")
        elif _FORMULA.match(value) or _CONTROL.search(value):
            self.refuse(place, name, f"{shown(value)} could be run as a formula by a spreadsheet, or holds control characters")
        else:
            return value.strip()
        return ""

    def amount(
        self, place: str, name: str, value: object, *, per_hours: float = 1.0, may_be_zero: bool = False
    ) -> float | None:
        """An amount per hour out of one per so many hours: a number, or its digits as text; None where it is neither."""
        number = _number(value)
        if number is None:
            self.refuse(place, name, f"must be a price: digits with a decimal point, not {shown(value)}")
        elif number < 0 or (number == 0 and not may_be_zero):
            self.refuse(place, name, f"must be above zero, not {shown(value)}")
        elif number / per_hours > MAX_AMOUNT_PER_HOUR:
            self.refuse(place, name, f"{shown(value)} is more than {MAX_AMOUNT_PER_HOUR:,.0f} an hour")
        else:
            return number / per_hours
        return None

    def currency(self, place: str, name: str, value: object) -> str:
        """An ISO 4217 code; "" where it is none."""
        if isinstance(value, str) and is_currency(value):
            return value
        remedy = "give the ISO 4217 code, such as USD"
        self.refuse(
            place,
            name,
            "the currency is not given" if value is None or value == "" else f"{shown(value)} is no currency",
            remedy,
        )
        return ""

    def date(self, place: str, name: str, value: object) -> str:
        """An ISO date, or a part of one; "" where there is none."""
        if value is None or value == "":
            return ""
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if isinstance(text, str) and is_date(text):
            return text
        self.refuse(place, name, f"{shown(value)} does not read like 2026-07-20, 2026-07 or 2026")
        return ""


def shown(value: object) -> str:
    """A value of a document as messages may show it: short, and on one line."""
    text = (
        value if isinstance(value, str) else f"{type(value).__name__}" if isinstance(value, dict | list) else repr(value)[:200]
    )
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = value.strip()
        if not _NUMBER.fullmatch(value.removeprefix("-")):
            return None
        value = float(value)
    if isinstance(value, int):
        # An integer may be too large for a float; then it is too large for a price as well.
        value = float(min(max(value, -(10**30)), 10**30))
    return value if isinstance(value, float) and math.isfinite(value) else None
