"""The catalogue's nouns for published prices: what a provider asks for a node type or a device per hour, and since when.

A price without its date, term and region means little: list prices move, and differ by half between terms. So each file
of ``prices/`` is what one source printed on one date, and every row of it says its term; where a source does not say when
it was read, the file says so in words. A currency is part of the unit, and is never turned into another here.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from service.catalogue.entries import Figure
from service.catalogue.sections import Section
from service.units import CURRENCIES

_DATE: Final = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?", re.ASCII)


class Term(StrEnum):
    """For how long one is bound, and the provider with one."""

    ON_DEMAND = "on_demand"  # by the hour, until one stops it
    SPOT = "spot"  # by the hour, until the provider takes it back
    ONE_YEAR = "1y"  # paid for a year, used or not
    THREE_YEARS = "3y"  # paid for three years, used or not


class PublishedPrice(Struct, frozen=True):
    """The price of a whole node, or of one device, per hour: exactly one of ``node_type`` and ``accelerator`` is given.

    ``amount_per_hour`` is in the unit ``<currency>/h``. ``date`` is an ISO date, a year and month, or a year, as exactly as
    the source says; None where it says nothing. ``region`` is the provider's name for it, None where none is printed.
    """

    node_type: str | None
    accelerator: str | None
    term: Term
    amount_per_hour: Figure
    region: str | None
    date: str | None


class Unpriced(Struct, frozen=True):
    """A node type for which the source was read and prints no price, and why."""

    node_type: str | None
    accelerator: str | None
    reason: str
    sources: tuple[str, ...]


class PublishedPrices(Struct, frozen=True):
    """What one source printed of one provider. ``undated`` says why there is no ``date``, where there is none."""

    name: str
    aliases: tuple[str, ...]
    title: str
    provider: str
    currency: str
    date: str | None
    undated: str | None
    region: str | None
    prices: tuple[PublishedPrice, ...]
    unpriced: tuple[Unpriced, ...]
    notes: tuple[str, ...]

    def rows(self) -> Iterator[tuple[str, PublishedPrice | Unpriced]]:
        """Every row with the key of the list that it stands in."""
        yield from (("prices", each) for each in self.prices)
        yield from (("unpriced", each) for each in self.unpriced)


def read_published_prices(section: Section) -> PublishedPrices:
    """One file of ``prices/``."""
    currency = section.word_of("currency", CURRENCIES, "currency")
    date, undated, region = _date(section), section.optional_text("undated"), section.optional_text("region")
    if (section.optional_text("date") is None) == (undated is None):
        section.refuse("date", "give either the date of the prices, or, under undated, why it is not known")
    return PublishedPrices(
        name=section.text("name"),
        aliases=(),
        title=section.text("title"),
        provider=section.text("provider"),
        currency=currency,
        date=date,
        undated=undated,
        region=region,
        prices=tuple(_prices(section, currency, date, region)),
        unpriced=tuple(_unpriced(section)),
        notes=section.texts("notes"),
    )


def _prices(published: Section, currency: str, date: str | None, region: str | None) -> Iterator[PublishedPrice]:
    seen: set[tuple[str | None, str | None, Term, str | None]] = set()
    for section in published.sections("prices", required=True):
        if currency not in CURRENCIES:
            continue  # which is refused already, and would be again in every row
        node_type, accelerator = _subject(section)
        price = PublishedPrice(
            node_type=node_type,
            accelerator=accelerator,
            term=section.choice("term", Term),
            amount_per_hour=section.own_figure(f"{currency}/h"),
            region=section.optional_text("region") or region,
            date=_date(section) or date,
        )
        section.done()
        key = (node_type, accelerator, price.term, price.region)
        if key in seen:
            section.refuse("", f"a second {price.term} price for {node_type or accelerator}")
        seen.add(key)
        yield price


def _unpriced(published: Section) -> Iterator[Unpriced]:
    for section in published.sections("unpriced"):
        node_type, accelerator = _subject(section)
        yield Unpriced(node_type, accelerator, section.text("reason"), section.sources("source"))
        section.done()


def _subject(section: Section) -> tuple[str | None, str | None]:
    node_type, accelerator = section.optional_text("node_type"), section.optional_text("accelerator")
    if (node_type is None) == (accelerator is None):
        section.refuse("", "must say of what: a node_type (the price of the whole node) or an accelerator (of one device)")
    return node_type, accelerator


def _date(section: Section) -> str | None:
    date = section.optional_text("date")
    if date is not None and not _DATE.fullmatch(date):
        section.refuse("date", f"{date!r} must read like 2026-07-20, 2026-07 or 2026")
        return None
    return date
