"""What is answered about an offer. Field for field the response messages of protos/tonnage/v1/claim_service.proto."""

from enum import StrEnum

from msgspec import Struct

from service.planning.claims.results import AuditedClaim
from service.planning.money import Price, PriceTerm, UnreadPrice
from service.planning.quotes.requests import PriceUnit


class Meaning(StrEnum):
    """What the cells of a column are."""

    PRODUCT = "PRODUCT"
    DESCRIPTION = "DESCRIPTION"
    QUANTITY = "QUANTITY"
    DEVICES_PER_UNIT = "DEVICES_PER_UNIT"
    UNIT_PRICE = "UNIT_PRICE"
    TOTAL_PRICE = "TOTAL_PRICE"
    DISCOUNT = "DISCOUNT"
    CURRENCY = "CURRENCY"
    PRICE_UNIT = "PRICE_UNIT"
    TERM = "TERM"
    REGION = "REGION"
    MEMORY = "MEMORY"
    MEMORY_BANDWIDTH = "MEMORY_BANDWIDTH"
    LINK_BANDWIDTH = "LINK_BANDWIDTH"
    PEAK = "PEAK"
    POWER = "POWER"
    SPARSITY = "SPARSITY"
    NOT_READ = "NOT_READ"


class Severity(StrEnum):
    """How much a finding matters."""

    NOTE = "NOTE"
    CHECK = "CHECK"
    WRONG = "WRONG"


class LineVerdict(StrEnum):
    """Whether a line holds."""

    HOLDS = "HOLDS"
    TO_CHECK = "TO_CHECK"
    WRONG_FIGURES = "WRONG_FIGURES"
    NOT_JUDGED = "NOT_JUDGED"


class QuoteColumn(Struct, frozen=True):
    """A column, and what it was taken for."""

    header: str
    meaning: Meaning
    unit: str = ""
    precision: str = ""
    sparsity: str = ""


class QuoteReading(Struct, frozen=True):
    """How an offer was read."""

    delimiter: str
    decimal_mark: str
    header_line: int
    columns: tuple[QuoteColumn, ...]
    notes: tuple[str, ...]


class QuoteFinding(Struct, frozen=True):
    """Something to know about a line."""

    severity: Severity
    field: str
    text: str


class QuoteLine(Struct, frozen=True):
    """A line, audited and normalised to one device; ``None`` is what is not known."""

    line: int
    product: str
    accelerator: str
    node_type: str
    candidates: tuple[str, ...]
    quantity: float | None
    num_devices_per_unit: int | None
    num_devices: float | None
    unit_price: float | None
    currency: str
    price_unit: PriceUnit | None
    term: PriceTerm | None
    discount_ratio: float | None
    stated_total: float | None
    computed_total: float | None
    price_per_device: float | None
    price_per_device_hour: float | None
    list_price: Price | None
    list_price_per_device_hour: float | None
    list_price_ratio: float | None
    peak_precision: str
    peak_dense_flops_per_second: float | None
    memory_bandwidth_bytes_per_second: float | None
    memory_bytes: float | None
    price_per_dense_petaflops: float | None
    price_per_gigabyte_per_second: float | None
    price_per_gigabyte: float | None
    claims: tuple[AuditedClaim, ...]
    findings: tuple[QuoteFinding, ...]
    verdict: LineVerdict


class QuoteTotal(Struct, frozen=True):
    """A line that sums up others."""

    line: int
    label: str
    stated_total: float
    computed_total: float | None
    agrees: bool


class UnreadQuoteLine(Struct, frozen=True):
    """A line that could not be read, and why."""

    line: int
    text: str
    reason: str


class AuditQuoteResponse(Struct, frozen=True):
    """The offer, line by line."""

    reading: QuoteReading
    lines: tuple[QuoteLine, ...]
    totals: tuple[QuoteTotal, ...]
    unread_lines: tuple[UnreadQuoteLine, ...]
    unread_prices: tuple[UnreadPrice, ...]
    assumptions: tuple[str, ...]
    catalogue_revision: str
    summary: str
