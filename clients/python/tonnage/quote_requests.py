"""From keyword arguments to request messages, for vendors' offers, and from a file's bytes to its text."""

from tonnage.errors import InvalidRequest, Violation
from tonnage.fleet_requests import _named
from tonnage.price_requests import _term
from tonnage.requests import _either, _message
from tonnage.v1.claim_service_pb2 import AuditQuoteRequest, QuoteLine
from tonnage.v1.price_pb2 import PriceList

_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def audit_quote(
    request: AuditQuoteRequest | None = None,
    /,
    *,
    document: str | bytes | None = None,
    currency: str | None = None,
    price_unit: str | None = None,
    term: str | None = None,
    region: str | None = None,
    price_list: PriceList | None = None,
    precision: str | None = None,
    depreciation_years: float | None = None,
) -> AuditQuoteRequest:
    """Asks whether a vendor's offer holds: each line's figures against the catalogue, its price against list prices, its sums.

    Args:
        request: A ready request, in place of all that follows.
        document: The offer as CSV, or a file's bytes in UTF-8, UTF-16 or Windows-1252.
        currency: The currency of prices that do not say theirs: "EUR".
        price_unit: "once", "per_hour", "per_month" or "per_year": what a unit price pays for where the offer does not say.
        term: "on_demand", "spot", "one_year" or "three_years", where the offer does not say. Default on_demand.
        region: The region of the list prices to compare with. Default any.
        price_list: List prices of one's own, and exchange rates.
        precision: The number format of the dense peak that prices are divided by. Default bf16.
        depreciation_years: Years over which a price paid once is spread. Default 5.

    Raises:
        InvalidRequest: The offer has no heading that is understood, or an option means nothing.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        AuditQuoteRequest,
        document=decoded(document) if isinstance(document, bytes) else document,
        currency=currency,
        price_unit=_named(QuoteLine.PriceUnit, "price_unit", price_unit),
        term=None if term is None else _term(term),
        region=region,
        price_list=price_list,
        precision=precision,
        depreciation_years=depreciation_years,
    )
    return _either(request, asked)


def decoded(content: bytes) -> str:
    """A file's bytes as text: UTF-8, or UTF-16 where it begins with its mark, or else Windows-1252, as spreadsheets write it.

    >>> decoded("Größe".encode("utf-16")), decoded("Größe".encode("cp1252")), decoded("Größe".encode("utf-8-sig"))
    ('Größe', 'Größe', 'Größe')

    Raises:
        InvalidRequest: it is no text in any of them.
    """
    encodings = ("utf-16",) if content.startswith(_UTF_16_MARKS) else ("utf-8-sig", "cp1252")
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    reason = "it is text in none of UTF-8, UTF-16 with its mark, and Windows-1252; save it as CSV in UTF-8"
    raise InvalidRequest.of(Violation("document", reason))
