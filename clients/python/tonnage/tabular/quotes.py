"""Audited offers as tables: a line of the offer a row."""

from tonnage.tabular.columns import Column, Layout, joined
from tonnage.tabular.prices import of_price
from tonnage.v1.claim_service_pb2 import AuditedClaim, QuoteColumn, QuoteFinding, QuoteLine, QuoteTotal, UnreadQuoteLine

_PRICE = ("amount_per_hour", "currency", "basis", "term", "date", "source", "note", "num_devices", "source_url", "is_own")


def _finding(finding: QuoteFinding) -> str:
    at = f" {finding.field}:" if finding.field else ""
    return f"[{QuoteFinding.Severity.Name(finding.severity)}]{at} {finding.text}"


LINES = Layout(
    QuoteLine.DESCRIPTOR,
    names={
        "currency": "BillingCurrency",
        **of_price("list_price."),
        **{f"list_price.{name}": f"x_list_price_{name}" for name in _PRICE},
    },
    left_out=frozenset({"claims", "list_price.node_type", "list_price.accelerator"}),  # claims have a sheet of their own
    texts={"QuoteFinding": _finding},
    first=(
        *("x_line", "x_product", "x_verdict", "x_findings", "x_accelerator", "x_node_type", "x_candidates"),
        *("x_quantity", "x_num_devices_per_unit", "x_num_devices", "x_unit_price", "BillingCurrency", "x_price_unit"),
        *("x_term", "x_discount_ratio", "x_stated_total", "x_computed_total", "x_price_per_device", "x_price_per_device_hour"),
        *("x_list_price_per_device_hour", "x_list_price_ratio", "x_list_price_date", "ProviderName", "RegionId"),
    ),
)
TOTALS = Layout(QuoteTotal.DESCRIPTOR)
UNREAD = Layout(UnreadQuoteLine.DESCRIPTOR)
HEADINGS = Layout(QuoteColumn.DESCRIPTOR)


FIGURES = (
    Column("x_line", lambda row: row[0].line),
    Column("x_product", lambda row: row[0].product),
    Column("x_text", lambda row: row[1].text),
    Column("x_verdict", lambda row: AuditedClaim.Verdict.Name(row[1].verdict)),
    Column("x_value_in_unit", lambda row: row[1].reading.value if row[1].reading.HasField("value") else None),
    Column("x_unit", lambda row: row[1].reading.unit or None),
    Column(
        "x_like_for_like_value_in_unit", lambda row: row[1].like_for_like.value if row[1].HasField("like_for_like") else None
    ),
    Column("x_like_for_like", lambda row: row[1].like_for_like.description or None),
    Column("x_reasons", lambda row: joined(row[1].reasons)),
    Column("x_sources", lambda row: joined(source.id for source in row[1].sources)),
)
