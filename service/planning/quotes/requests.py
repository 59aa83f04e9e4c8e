"""What can be asked of an offer. Field for field the request messages of protos/tonnage/v1/claim_service.proto."""

from enum import StrEnum

from msgspec import Struct

from service.planning.money import PriceList, PriceTerm


class PriceUnit(StrEnum):
    """What a unit price pays for."""

    ONCE = "ONCE"
    PER_HOUR = "PER_HOUR"
    PER_MONTH = "PER_MONTH"
    PER_YEAR = "PER_YEAR"


class AuditQuoteRequest(Struct, frozen=True):
    """An offer, and what it leaves unsaid."""

    document: str
    currency: str = ""
    price_unit: PriceUnit | None = None
    term: PriceTerm | None = None
    region: str = ""
    price_list: PriceList | None = None
    precision: str = ""
    depreciation_years: float | None = None
