"""The sums of an offer: subtotals and totals, each against the lines above it."""

import re
from typing import Final

from service.planning.claims.names import Names
from service.planning.quotes.cells import Line
from service.planning.quotes.document import shown
from service.planning.quotes.results import Meaning, QuoteLine, QuoteTotal

_SUBTOTAL: Final = re.compile(r"^(?:sub[- ]?total|zwischensumme|sous[- ]?total)\b", re.IGNORECASE)
_TOTAL: Final = re.compile(
    r"^(?:(?:grand |net |gross |order |offer |overall )?total|(?:gesamt|end|netto|brutto)?summe|gesamt\w*|sum)\b", re.IGNORECASE
)
_TAXES: Final = "vat|tax|sales tax|mwst|ust|mehrwertsteuer|tva|iva"
_EXTRA: Final = re.compile(
    rf"^(?:{_TAXES}|taxes|shipping|freight|delivery|versand|fracht|handling|discount|rabatt)\b", re.IGNORECASE
)
#: Of these a rate says what they come to; a discount may be of a part alone.
_TAX: Final = re.compile(rf"^(?:{_TAXES})\b\D{{0,20}}(\d{{1,2}}(?:[.,]\d{{1,3}})?) ?%", re.IGNORECASE)
#: What the totals of so many lines may be off by, each rounded to a cent.
_CENT: Final = 0.005


class Sums:
    """Adds up the lines of an offer as they come."""

    def __init__(self) -> None:
        self._all = 0.0
        self._since = 0.0
        self._extra = 0.0
        self._num_lines = 0
        self._is_complete = True
        self._currencies: set[str] = set()
        self._totals: list[QuoteTotal] = []

    @property
    def totals(self) -> tuple[QuoteTotal, ...]:
        """The sums that were found."""
        return tuple(self._totals)

    def take_line(self, line: QuoteLine, *, is_total_wrong: bool) -> None:
        """Counts a line in: with what it states, or, where that is wrong, with what it comes to."""
        is_stated = line.stated_total is not None and not is_total_wrong
        amount = line.stated_total if is_stated else line.computed_total
        self._num_lines += 1
        if amount is None:
            self.miss()
            return
        self._currencies.add(line.currency)
        self._all += amount
        self._since += amount

    def miss(self) -> None:
        """Counts a line in whose amount is not known."""
        self._is_complete = False

    def take_sum(self, line: Line, names: Names) -> bool:
        """Whether the line is a sum, or tax, freight or a credit that belongs to one; then it is taken."""
        label = next((cell for cell in line.row.cells if cell and not cell[0].isdigit()), "")
        kinds = [kind for kind in (_SUBTOTAL, _TOTAL, _EXTRA) if kind.search(label)]
        if not kinds or any(mention.names for mention in names.mentions(label)):
            return False
        money = line.money(Meaning.TOTAL_PRICE) or line.money(Meaning.UNIT_PRICE)
        if money is None:
            return False
        if money.currency:
            self._currencies.add(money.currency)  # of another than the lines, it cannot be held against them
        if kinds[0] is _EXTRA:
            self._take_extra(line, label, money.amount)
            return True
        self._totals.append(self._judged(line, label, money.amount, is_part=kinds[0] is _SUBTOTAL))
        return True

    def _take_extra(self, line: Line, label: str, stated: float) -> None:
        """Counts tax, freight or a credit in; a tax whose rate stands there with what it comes to."""
        ratio = _ratio_in(label)
        if ratio is None or not self._is_complete or len(self._currencies) > 1:
            self._extra += stated
            return
        right = min((self._all, self._all + self._extra), key=lambda base: abs(base * ratio - stated)) * ratio
        printed = (right, *(total.stated_total * ratio for total in self._totals))  # of a sum that is wrong it may be right
        if all(abs(each - stated) > _CENT * (self._num_lines + 1) for each in printed):
            self._totals.append(QuoteTotal(line.row.line, shown(label), stated, right, agrees=False))
        self._extra += right

    def _judged(self, line: Line, label: str, stated: float, *, is_part: bool) -> QuoteTotal:
        rounding = _CENT * (self._num_lines + 1)
        sums = [self._since] if is_part else [self._all + self._extra, self._all]
        is_known = self._is_complete and len(self._currencies) == 1
        agreeing = [each for each in sums if abs(each - stated) <= rounding]
        if is_part:
            self._since = 0.0
        computed = (agreeing or sums)[0] if is_known else None
        return QuoteTotal(line.row.line, shown(label), stated, computed, bool(agreeing) and is_known)


def _ratio_in(label: str) -> float | None:
    """The rate that a tax names.

    >>> _ratio_in("VAT 19%"), _ratio_in("MwSt. (8,1 %)"), _ratio_in("Freight"), _ratio_in("Discount 5 %")
    (0.19, 0.081, None, None)
    """
    found = _TAX.search(label)
    return round(float(found[1].replace(",", ".")) / 100, 6) if found else None
