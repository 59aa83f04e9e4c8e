"""The caller's own prices, one by one and as a document, into one list; what gave no price is listed beside it."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from service.planning.money import Price, PriceBasis, PriceFormat, PriceList
from service.planning.price_infracost import read_infracost_json
from service.planning.price_opencost import read_opencost_csv
from service.planning.price_rows import PriceRows, shown
from service.planning.price_yaml import read_yaml

MAX_DOCUMENT_CHARACTERS: Final = 1 << 20
_BYTE_ORDER_MARK: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"

_READERS: Final = MappingProxyType[PriceFormat, Callable[[str, dict[str, str], PriceRows], None]](
    {
        PriceFormat.YAML: read_yaml,
        PriceFormat.OPENCOST_CSV: read_opencost_csv,
        PriceFormat.INFRACOST_JSON: read_infracost_json,
    }
)


def read_price_list(price_list: PriceList, field: str = "price_list") -> PriceRows:
    """The prices of the list and the rows that are none. Raises InvalidRequest, naming row and field, for what is malformed.

    ``field`` is where the list stands in the request.
    """
    inline = PriceRows(f"{field}.prices")
    for number, price in enumerate(price_list.prices):
        _read_price(str(number), price, inline)
    inline.done()
    rows = PriceRows(f"{field}.document")
    _read_document(price_list, field, rows)
    rows.done()
    rows.prices[:0] = inline.prices
    return rows


def _read_document(price_list: PriceList, field: str, rows: PriceRows) -> None:
    if not price_list.document:
        return
    if price_list.format is None:
        outside = PriceRows(field)
        outside.refuse("", "format", "the document's format is not given", f"give one of {', '.join(PriceFormat)}")
        outside.done()
    elif len(price_list.document) > MAX_DOCUMENT_CHARACTERS:
        rows.refuse("", "", f"longer than {MAX_DOCUMENT_CHARACTERS} characters", "send only the rows of nodes and devices")
    else:
        outside = PriceRows(field)
        defaults = {
            "currency": outside.currency("", "currency", price_list.currency) if price_list.currency else "",
            "date": outside.date("", "date", price_list.date),
            "region": outside.text("", "region", price_list.region),
            "source": outside.text("", "source", price_list.source),
        }
        outside.done()
        _READERS[price_list.format](price_list.document.removeprefix(_BYTE_ORDER_MARK), defaults, rows)


def _read_price(place: str, price: Price, rows: PriceRows) -> None:
    """Checks a price that came by itself."""
    rows.currency(place, "currency", price.currency)
    rows.date(place, "date", price.date)
    rows.amount(place, "amount_per_hour", price.amount_per_hour)
    for name in ("node_type", "accelerator", "region", "provider", "source", "source_url", "note"):
        rows.text(place, name, getattr(price, name))
    if not (price.node_type or price.accelerator):
        rows.refuse(place, "", "must say of what: a node_type or an accelerator")
        return
    basis = price.basis or (PriceBasis.PER_NODE if price.node_type else PriceBasis.PER_DEVICE)
    if (basis is PriceBasis.PER_NODE) != bool(price.node_type):
        named = shown(price.node_type or price.accelerator)
        rows.refuse(place, "basis", f"{basis} does not go with {named}", "PER_NODE goes with a node_type, all else without one")
    rows.add(f"prices[{place}]", replace(price, basis=basis, num_devices=None, is_own=True))
