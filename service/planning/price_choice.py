"""Which of several prices of one thing holds: the term and region asked for first, then the newest."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.planning.errors import InvalidRequest, Violation
from service.planning.money import ExchangeRate, Price, PriceTerm

_MAX_KNOWN: Final = 12


class Quote(Struct, frozen=True):
    """What is to be paid per hour, in ``currency``, and the price that it comes from, as it was printed.

    ``amount_per_node_hour`` is None where a device was asked for and the price is a device's. ``exchange_rate`` is None where
    nothing was converted.
    """

    amount_per_node_hour: float | None
    amount_per_device_hour: float
    currency: str
    is_own: bool
    price: Price
    exchange_rate: ExchangeRate | None
    notes: tuple[str, ...]


class NoPrice(Struct, frozen=True):
    """There is no price, why, and what would cure it. ``known`` are prices for other terms or regions, the newest first."""

    subject: str
    reason: str
    remedy: str
    known: tuple[Price, ...] = ()


class Wanted(Struct, frozen=True):
    """What is asked for; ``region`` and ``currency`` may be empty, which leaves them open."""

    term: PriceTerm
    region: str
    currency: str


class Offer(Struct, frozen=True):
    """A price that was chosen, whose it is, and what to know about the choice."""

    price: Price
    is_own: bool
    notes: tuple[str, ...] = ()


def published_offer(prices: Iterable[Price], wanted: Wanted) -> Offer | None:
    """The newest published price for the term and region, the lowest of several; None where there is none."""
    chosen, notes = _there([each for each in prices if each.term is wanted.term], wanted.region)
    if not chosen:
        return None
    return Offer(min(_newest(chosen), key=lambda each: each.amount_per_hour), is_own=False, notes=notes)


def own_offer(prices: Iterable[Price], wanted: Wanted, field: str) -> Offer | None:
    """The caller's newest price for the term and region, the mean of several; None where there is none.

    A price that states no term stands for every term that has no price of its own. A document may hold a machine's type many
    times, at slightly different prices. Raises InvalidRequest, naming ``field``, where those are in several currencies.
    """
    listed = list(prices)
    in_term = [each for each in listed if each.term is wanted.term]
    chosen, notes = _there(in_term, wanted.region)
    if not chosen:
        chosen, notes = _there([each for each in listed if each.term is None], wanted.region)
        notes = (*notes, "the term of this price is not stated")
    if not chosen:
        return None
    chosen = _newest(chosen)
    refuse_several_currencies(chosen, field)
    amounts = [each.amount_per_hour for each in chosen]
    if min(amounts) == max(amounts):
        return Offer(chosen[0], is_own=True, notes=notes)
    mean = replace(chosen[0], amount_per_hour=sum(amounts) / len(amounts))
    note = f"the mean of {len(amounts)} prices from {min(amounts):g} to {max(amounts):g}"
    return Offer(mean, is_own=True, notes=(*notes, note))


def refuse_several_currencies(prices: Sequence[Price], field: str) -> None:
    """Raises InvalidRequest where the prices are not all in one currency."""
    currencies = sorted({each.currency for each in prices})
    if len(currencies) > 1:
        subject = prices[0].node_type or prices[0].accelerator
        reason = f"the prices of {subject} are in {' and '.join(currencies)}, which are not put together"
        raise InvalidRequest(Violation(field, reason, "give them in one currency"))


def no_price(subject: str, wanted: Wanted, known: Sequence[Price]) -> NoPrice:
    """The word that there is none, with the prices that are known for other terms or regions."""
    remedy = "give a price of your own, or what it costs to buy"
    if not known:
        return NoPrice(subject, "no price of it is known", remedy)
    asked = f"{wanted.term}{f' in {wanted.region}' if wanted.region else ''}"
    kinds = sorted({f"{each.term or 'no stated term'}{f' in {each.region}' if each.region else ''}" for each in known})
    reason = f"no price of it is known for {asked}; known are prices for {', '.join(kinds)}"
    newest_first = sorted(known, key=lambda each: each.date, reverse=True)
    return NoPrice(subject, reason, remedy, tuple(newest_first[:_MAX_KNOWN]))


def _there(prices: list[Price], region: str) -> tuple[list[Price], tuple[str, ...]]:
    """The prices in a region, or else those that state none: never those of another."""
    if not region:
        return prices, ()
    there = [each for each in prices if each.region.casefold() == region.casefold()]
    if there:
        return there, ()
    return [each for each in prices if not each.region], ("the region of this price is not stated",)


def _newest(prices: list[Price]) -> list[Price]:
    """Those of the latest date, where a date that is less exact counts as earlier and none as the earliest."""
    latest = max(each.date for each in prices)
    return [each for each in prices if each.date == latest]
