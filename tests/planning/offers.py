"""Offers audited, for the tests."""

from service.planning.planner import Planner
from service.planning.quotes.requests import AuditQuoteRequest
from service.planning.quotes.results import AuditQuoteResponse, QuoteLine, Severity


def audited(planner: Planner, document: str, **options: object) -> AuditQuoteResponse:
    return planner.audit_quote(AuditQuoteRequest(document, **options))  # type: ignore[arg-type]


def only(planner: Planner, header: str, cells: str, **options: object) -> QuoteLine:
    answer = audited(planner, f"{header}\n{cells}\n", **options)
    assert () == answer.unread_lines
    (line,) = answer.lines
    return line


def told(line: QuoteLine, severity: Severity) -> str:
    return " ".join(each.text for each in line.findings if each.severity is severity)
