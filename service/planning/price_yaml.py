"""The caller's prices in our own form, which is that of the catalogue's ``prices/``: any file of it can be sent back.

    currency: USD
    date: "2026-11-01"
    source: contract 4711
    prices:
      - {node_type: aws-p5.48xlarge, value: 31.5, unit: USD/h, term: 1y, region: us-east-1}
      - {accelerator: h100-sxm, value: 1460, unit: USD/month}

What stands beside the list holds for every row without its own. A bare list of rows is taken too. A month has 730 hours and a
year 8,760. A row is the price of a node or, with ``accelerator``, of one device with its part of the host.
"""

from types import MappingProxyType
from typing import Final

from service.catalogue.documents import DocumentError, Located, parse, plain
from service.formulas.cost import HOURS_PER_MONTH, HOURS_PER_YEAR
from service.planning.money import Price, PriceBasis, PriceTerm
from service.planning.price_rows import MAX_ROWS, PriceRows, shown

_SHARED: Final = ("currency", "date", "region", "term", "provider", "source")
_BESIDE: Final = frozenset((*_SHARED, "prices", "unpriced", "name", "title", "undated", "notes"))
_IN_ROW: Final = frozenset((*_SHARED, "node_type", "accelerator", "value", "unit", "basis", "confidence", "note"))
_TERMS: Final = MappingProxyType(
    {
        "on_demand": PriceTerm.ON_DEMAND,
        "spot": PriceTerm.SPOT,
        "1y": PriceTerm.ONE_YEAR,
        "3y": PriceTerm.THREE_YEARS,
    }
)
_HOURS: Final = MappingProxyType({"h": 1.0, "month": HOURS_PER_MONTH, "year": HOURS_PER_YEAR})


def read_yaml(document: str, defaults: dict[str, str], rows: PriceRows) -> None:
    """Reads the document into ``rows``; ``defaults`` are the request's currency, date, region and source."""
    try:
        root = parse(document)
    except DocumentError as error:
        rows.refuse(f"line {error.line}", "", error.reason)
        return
    shared: dict[str, object] = {key: value for key, value in defaults.items() if value}
    items = root
    if isinstance(root.value, dict):
        for key in root.value.keys() - _BESIDE:
            rows.refuse(f"line {root.value[key].line}", shown(key), "unknown key", f"known are {', '.join(sorted(_BESIDE))}")
        shared |= {key: plain(root.value[key]) for key in _SHARED if key in root.value}
        items = root.value.get("prices", Located(None, root.line))
        _read_unpriced(root.value.get("unpriced"), rows)
    if not isinstance(items.value, list) or not items.value:
        rows.refuse(f"line {items.line}", "prices", "must be a list of prices", "see the documented form")
        return
    if len(items.value) > MAX_ROWS:
        rows.refuse("", "", f"{len(items.value)} prices are more than {MAX_ROWS}")
        return
    seen: dict[tuple[object, ...], str] = {}
    for item in items.value:
        _read_row(item, shared, rows, seen)


def _read_row(item: Located, shared: dict[str, object], rows: PriceRows, seen: dict[tuple[object, ...], str]) -> None:
    place = f"line {item.line}"
    if not isinstance(item.value, dict):
        rows.refuse(place, "", "must be a mapping such as {node_type: …, value: …}")
        return
    for key in item.value.keys() - _IN_ROW:
        rows.refuse(place, shown(key), "unknown key", f"known are {', '.join(sorted(_IN_ROW))}")
    cells = shared | {key: plain(value) for key, value in item.value.items()}
    node_type, accelerator = (rows.text(place, key, cells.get(key)) for key in ("node_type", "accelerator"))
    if bool(node_type) == bool(accelerator):
        rows.refuse(place, "", "must say of what: a node_type (the whole node) or an accelerator (one device)")
    currency, hours = _unit(place, cells, rows)
    amount = rows.amount(place, "value", cells.get("value"), per_hours=hours)
    term = _term(place, cells.get("term"), rows)
    region = rows.text(place, "region", cells.get("region"))
    date = rows.date(place, "date", cells.get("date"))
    first = seen.setdefault((node_type, accelerator, term, region.casefold(), date), place)
    if first != place:
        rows.refuse(place, "", f"a second price for the same thing, term, region and date; the first is on {first}")
    if amount is None:
        return
    basis = PriceBasis.PER_NODE if node_type else PriceBasis.PER_DEVICE
    provider, note = (rows.text(place, key, cells.get(key)) for key in ("provider", "note"))
    source = _source(place, cells.get("source"), rows)
    price = Price(amount, currency, node_type, accelerator, basis, term, region, date, provider, source, note)
    rows.add(place, price)


def _unit(place: str, cells: dict[str, object], rows: PriceRows) -> tuple[str, float]:
    """Currency and hours that the amount is for."""
    unit = rows.text(place, "unit", cells.get("unit"))
    if not unit:
        return rows.currency(place, "currency", cells.get("currency")), 1.0
    currency, _, period = unit.partition("/")
    if period not in _HOURS:
        rows.refuse(place, "unit", f"{shown(unit)} must read like USD/h, USD/month or USD/year")
        return "", 1.0
    stated = cells.get("currency")
    if stated is not None and stated != currency:
        rows.refuse(place, "unit", f"{shown(unit)} contradicts the currency {shown(stated)}")
    return rows.currency(place, "unit", currency), _HOURS[period]


def _term(place: str, value: object, rows: PriceRows) -> PriceTerm | None:
    if value is None:
        return None
    if isinstance(value, str):
        if value in _TERMS:
            return _TERMS[value]
        if value in PriceTerm.__members__:
            return PriceTerm[value]
    rows.refuse(place, "term", f"{shown(value)} is none of {', '.join(_TERMS)}")
    return None


def _source(place: str, value: object, rows: PriceRows) -> str:
    values = value if isinstance(value, list) else [value]
    return ", ".join(text for each in values if (text := rows.text(place, "source", each)))


def _read_unpriced(unpriced: Located | None, rows: PriceRows) -> None:
    """Rows that say themselves that there is no price."""
    if unpriced is None:
        return
    for item in unpriced.value if isinstance(unpriced.value, list) else [unpriced]:
        cells = plain(item)
        place = f"line {item.line}"
        if not isinstance(cells, dict):
            rows.refuse(place, "unpriced", "must be a list of mappings")
            continue
        name = rows.text(place, "node_type", cells.get("node_type")) or rows.text(
            place, "accelerator", cells.get("accelerator")
        )
        rows.leave_out(place, name, rows.text(place, "reason", cells.get("reason")) or "listed as without a price")
