"""What the headings of an offer mean. Every vendor has his own; what is not understood is said to be left out."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.planning.claims import words
from service.planning.claims.amounts import amount_of
from service.planning.quotes.numbers import currency_in, is_per_device, period_in
from service.planning.quotes.requests import PriceUnit
from service.planning.quotes.results import Meaning, QuoteColumn

_MAX_SHOWN: Final = 80


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_PRICE: Final = (
    r"price|preis|prix|precio|prezzo|msrp|uvp|kosten|tarif",
    r"cost\b|fee\b|rate\b",
    "[€$£]",
    r"^(?:usd|eur|gbp|chf|jpy|inr|cny)\b",
    r"\b(?:net|netto)\b",
)
_SUM = r"\b(?:total|extended|ext\.?|line (?:price|amount)|amount|sum|\w*summe|gesamt\w*|subtotal|betrag|montant|importe)\b"
#: "Total per month" and "total per hour" are totals, "total per GPU" and "total per GPU hour" are none.
_LENGTH = (
    r"\s*(?:hour|hr\b|h\b|stunde|std\b|heure|hora|day|tag\b|jour|month|mo\b|monat|mois|mes\b|year|yr\b|jahr|an\b|año|"
    r"\d+ ?(?:hours|stunden|days|tage|months|monate|years|jahre))"
)
_UNIT_WORDS = rf"\b(?:unit|each|einzel\w*|unitaire|unitario|stück\w*)\b|(?:\b(?:per|je|pro)\b|/)(?!{_LENGTH})"
_DEVICES = r"(?:gpus?|devices?|accelerators?|cards?|chips?)"
#: In this order: the first that fits is taken.
_MEANINGS: Final = (
    (
        Meaning.NOT_READ,
        _any(
            r"^(?:pos(?:ition)?|no|nr|line|lfd|#|item(?=\W{0,3}(?:no|nr|num|#)))\W{0,3}(?:no|nr|number|num|#)?\W{0,2}$",
            r"\b(?:cpu|host|system (?:memory|ram)|ddr\d?|dimm|ssd|nvme|storage|disk|warranty|garantie)\b",
            r"^(?:lead time|delivery|lieferzeit|availability|date|datum|valid\w*|url|link)\b",
        ),
    ),
    (Meaning.CURRENCY, _any(r"^(?:currency|curr|ccy|währung|devise|moneda|valuta)\b")),
    (Meaning.DISCOUNT, _any("discount|rabatt|nachlass|remise|descuento|sconto")),
    (
        Meaning.DEVICES_PER_UNIT,
        _any(
            rf"^(?:num(?:ber)?|no\.?|#)? ?(?:of )?{_DEVICES} ?(?:per|/|je|pro) ?(?!h\b|hour|hr)\w",
            rf"^(?:num(?:ber)?|no\.?|#) ?(?:of )?{_DEVICES}\b",
            rf"^{_DEVICES} count$",
            r"^(?:gpus|accelerators|devices)$",
        ),
    ),
    (Meaning.LINK_BANDWIDTH, _any("nvlink|interconnect|infinity fabric|scale[- ]?up|pcie (?:bandwidth|speed)")),
    (
        Meaning.MEMORY_BANDWIDTH,
        _any("bandwidth|bandbreite|bande passante|ancho de banda", r"\bmem(?:ory)? speed|\bmem\.? ?bw\b"),
    ),
    (Meaning.PEAK, _any(r"flops?\b|\b[tp]ops\b|\bpeak\b|spitzenleistung", r"\bcompute (?:performance|power)\b")),
    (Meaning.TOTAL_PRICE, _any(rf"^(?!.*(?:{_UNIT_WORDS})).*{_SUM}")),
    (
        Meaning.PRICE_UNIT,
        _any(
            "^(?:uom|unit|per|einheit|units? of (?:measure|price)|abrechnung\\w*)$",
            "^(?:price|pricing|charge|billing) (?:unit|basis|period|model|cycle)$",
        ),
    ),
    (Meaning.UNIT_PRICE, _any(*_PRICE)),
    (Meaning.MEMORY, _any(r"\bmem(?:ory)?\b|\bvram\b|\bhbm\w*|\bgddr\w*|\bcapacity\b", "speicher|mémoire|memoria")),
    (Meaning.POWER, _any(r"\bpower\b|\bt[dbg]p\b|\bwatts?\b|\bconsumption\b", "leistungsaufnahme|puissance")),
    (Meaning.SPARSITY, _any(r"^(?:sparsity|sparse|dense|sparse ?/ ?dense|dense ?/ ?sparse)\W*$")),
    (Meaning.TERM, _any(r"\bterm\b|\bduration\b|commit|contract|laufzeit|engagement|reservation|plazo")),
    (
        Meaning.QUANTITY,
        _any(
            r"\bqty\b|\bquantity\b",
            r"^(?:menge|anzahl|quantité|cantidad|quantità|units|count|pcs|pieces|stückzahl|stk|stück)\b",
        ),
    ),
    (Meaning.REGION, _any(r"\bregion\b|\blocation\b|\bzone\b|standort|data ?cent(?:er|re)")),
    (Meaning.DESCRIPTION, _any(r"\bdesc|\bdetails?\b|\bspec|config|remarks?|\bnotes?\b|comments?", "beschreibung|bemerkung")),
    (
        Meaning.PRODUCT,
        _any(
            r"\bsku\b|\bpart\b|\bmodell?\b|\bitem\b|\bgpu\b|\bsystem\b|\bserver\b|\bdevice\b|\bname\b",
            "produ[ck]t|artikel|article|bezeichnung|désignation|accelerator|instance|machine|offering|hardware",
        ),
    ),
)
_LIST_PRICE: Final = _any(r"\b(?:list|msrp|uvp|retail|standard|street)\b", "listen")
_BRACKETED: Final = re.compile(r"[(\[]([^)\]]{1,30})[)\]]")
_TOKENS: Final = re.compile(r"[^\s()\[\],;:|]{1,20}")
_UNIT_OF: Final = {
    Meaning.MEMORY: ("B",),
    Meaning.MEMORY_BANDWIDTH: ("B/s",),
    Meaning.LINK_BANDWIDTH: ("B/s",),
    Meaning.PEAK: ("FLOP/s",),
    Meaning.POWER: ("W",),
}
#: Of these a line has one.
_ALONE: Final = frozenset(
    {Meaning.QUANTITY, Meaning.DEVICES_PER_UNIT, Meaning.UNIT_PRICE, Meaning.TOTAL_PRICE, Meaning.DISCOUNT, Meaning.CURRENCY}
    | {Meaning.PRICE_UNIT, Meaning.TERM, Meaning.REGION, Meaning.SPARSITY}
)


class Heading(Struct, frozen=True):
    """A column as it is read: what the answer shows of it, and what its heading says of its amounts of money."""

    column: QuoteColumn
    currency: str = ""
    period: PriceUnit | None = None
    is_per_device: bool = False
    is_list_price: bool = False

    @property
    def meaning(self) -> Meaning:
        """What it was taken for."""
        return self.column.meaning


def heading_of(text: str) -> Heading:
    """What a heading means by itself."""
    plain = " ".join(text.replace("_", " ").split())
    meaning = next((meaning for meaning, pattern in _MEANINGS if pattern.search(plain)), Meaning.NOT_READ)
    if meaning is Meaning.NOT_READ and words.precisions(plain) and not plain.isdigit():
        meaning = Meaning.PEAK
    precisions = words.precisions(plain) if meaning is Meaning.PEAK else ()
    column = QuoteColumn(
        header=text.strip()[:_MAX_SHOWN],
        meaning=meaning,
        unit=unit_in(plain, meaning),
        precision=precisions[0] if len(precisions) == 1 else "",
        sparsity=words.sparsity(plain) if meaning is Meaning.PEAK else "",
    )
    if meaning not in {Meaning.UNIT_PRICE, Meaning.TOTAL_PRICE}:
        return Heading(column)
    is_unit = meaning is Meaning.UNIT_PRICE
    return Heading(
        column,
        currency=currency_in(plain),
        period=period_in(plain) if is_unit else None,
        is_per_device=is_unit and is_per_device(plain),
        is_list_price=is_unit and bool(_LIST_PRICE.search(plain)),
    )


def unit_in(text: str, meaning: Meaning) -> str:
    """The unit that a text names for cells of that meaning; empty where it names none.

    >>> unit_in("Memory (GB)", Meaning.MEMORY), unit_in("FP8 TFLOPS", Meaning.PEAK), unit_in("Memory", Meaning.MEMORY)
    ('GB', 'TFLOPS', '')
    """
    if meaning not in _UNIT_OF:
        return ""
    for candidate in (*_BRACKETED.findall(text), *_TOKENS.findall(text)):
        amount = amount_of(1.0, candidate)
        if amount is not None and amount.unit in _UNIT_OF[meaning]:
            return str(candidate)
    return ""


def headings_of(cells: Sequence[str]) -> tuple[tuple[Heading, ...], tuple[str, ...]]:
    """What every heading of a line means, each meaning of which a line has one taken once, and what was assumed in that."""
    found = [heading_of(cell) for cell in cells]
    if not any(each.meaning is Meaning.QUANTITY for each in found):
        # Where nothing else counts, "GPUs" does.
        place = next((n for n, each in enumerate(found) if each.column.header.casefold() in {"gpus", "accelerators"}), None)
        if place is not None:
            found[place] = replace(found[place], column=replace(found[place].column, meaning=Meaning.QUANTITY))
    notes: list[str] = []
    for meaning in Meaning:
        places = [n for n, each in enumerate(found) if each.meaning is meaning]
        if meaning not in _ALONE or len(places) < 2:
            continue
        kept = min(places, key=lambda place: (found[place].is_list_price, place))
        for place in places:
            if place != kept:
                found[place] = Heading(replace(found[place].column, meaning=Meaning.NOT_READ))
        names = ", ".join(repr(found[place].column.header) for place in places if place != kept)
        notes.append(f"{found[kept].column.header!r} is taken for the {_named(meaning)}, and {names} is not looked at")
    return tuple(found), tuple(notes)


def num_understood(headings: Iterable[Heading]) -> int:
    """How many headings mean something."""
    return sum(each.meaning is not Meaning.NOT_READ for each in headings)


def _named(meaning: Meaning) -> str:
    return meaning.value.lower().replace("_", " ")
