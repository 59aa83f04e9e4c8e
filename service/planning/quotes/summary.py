"""What an audited offer comes to, in one sentence."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from service.catalogue.entries import Sparsity
from service.planning.claims.results import Verdict
from service.planning.quotes.figures import JudgedFigure
from service.planning.quotes.requests import PriceUnit
from service.planning.quotes.results import LineVerdict, QuoteLine, QuoteTotal

_BASES: Final = frozenset({Sparsity.DENSE.value, Sparsity.STRUCTURED_2_4.value})
_EQUAL: Final = frozenset({Verdict.MATCHES, Verdict.MATCHES_ANOTHER_BASIS, Verdict.CONFLICTING_SOURCES})
_SAID: Final = {
    LineVerdict.HOLDS: ("holds", "hold"),
    LineVerdict.WRONG_FIGURES: ("is wrong", "are wrong"),
    LineVerdict.TO_CHECK: ("leaves something to ask", "leave something to ask"),
    LineVerdict.NOT_JUDGED: ("is not in the catalogue", "are not in the catalogue"),
}
#: Sums that are wrong and named; further ones are counted.
_MAX_NAMED: Final = 2


class PeakBases:
    """On which basis of sparsity the peaks under each heading are those of the catalogue, line by line."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], set[str]] = defaultdict(set)

    def take(self, figures: Iterable[JudgedFigure]) -> None:
        """Counts the figures of a line in; a line that gives a format on both bases mixes nothing up."""
        of_line: dict[tuple[str, str], set[str]] = defaultdict(set)
        for each in figures:
            if each.audited.matches and each.audited.verdict in _EQUAL:
                match = each.audited.matches[0]
                of_line[each.header, match.precision].add(match.sparsity)
        for place, bases in of_line.items():
            if len(bases) == 1:
                self._found[place] |= bases

    def mixed(self) -> Iterator[str]:
        """The headings under which some lines give the dense and others the sparse peak of a format, in words."""
        formats: dict[str, list[str]] = defaultdict(list)
        for (header, precision), bases in self._found.items():
            if _BASES <= bases:
                formats[header].append(precision.upper())
        for header, precisions in formats.items():
            yield f'the column "{header}" mixes dense and sparse {"/".join(precisions)} peaks'


def summary_of(lines: Sequence[QuoteLine], num_unread: int, totals: Sequence[QuoteTotal], bases: PeakBases) -> str:
    """How many lines hold and how many do not, headings that mix two bases, and whether the sums are right."""
    return "; ".join((_of_lines(lines), *_of_unread(num_unread), *_of_prices(lines), *bases.mixed(), *_of_sums(totals, lines)))


def _of_lines(lines: Sequence[QuoteLine]) -> str:
    if not lines:
        return "no line of a product is read"
    if len(lines) == 1:
        return f"the line {_SAID[lines[0].verdict][0]}"
    count = Counter(line.verdict for line in lines)
    held = count.pop(LineVerdict.HOLDS, 0)
    others = (f"{count[verdict]} {words[count[verdict] > 1]}" for verdict, words in _SAID.items() if count[verdict])
    return ", ".join((f"{held} of {len(lines)} lines {_SAID[LineVerdict.HOLDS][held != 1]}", *others))


def _of_unread(number: int) -> Iterator[str]:
    if number:
        yield f"{_counted(number, 'line')} cannot be read"


def _of_prices(lines: Sequence[QuoteLine]) -> Iterator[str]:
    """Of how many known products no list price stands beside the offer's."""
    judged = [line for line in lines if line.verdict is not LineVerdict.NOT_JUDGED and line.price_unit is not PriceUnit.ONCE]
    alone = sum(line.unit_price is not None and line.list_price is None for line in judged)
    if alone:
        yield f"no list price is known for {_counted(alone, 'line')}"


def _of_sums(totals: Sequence[QuoteTotal], lines: Sequence[QuoteLine]) -> Iterator[str]:
    currencies = {line.currency for line in lines}
    currency = f" {currencies.pop()}".rstrip() if len(currencies) == 1 else ""
    known = [(each, each.stated_total - each.computed_total) for each in totals if each.computed_total is not None]
    wrong = [(total, off) for total, off in known if not total.agrees]
    for total, off in wrong[:_MAX_NAMED]:
        yield f'the sum "{total.label}" on line {total.line} is wrong by {off:+,.2f}{currency}'
    if len(wrong) > _MAX_NAMED:
        yield f"{_counted(len(wrong), 'sum')} are wrong in all"
    if len(known) < len(totals):
        yield f"{_counted(len(totals) - len(known), 'sum')} cannot be checked"
    elif totals and not wrong:
        yield "the sum is right" if len(totals) == 1 else "the sums are right"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
