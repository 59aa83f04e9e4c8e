"""Which answers have tables, and which tables those are."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from google.protobuf.message import Message

from tonnage.tables import csv_text
from tonnage.tabular import catalogue, explained, fleets, prices, provenance, quotes
from tonnage.tabular.columns import Column, Layout, Table
from tonnage.v1.catalogue_service_pb2 import (
    ListAcceleratorsResponse,
    ListModelsResponse,
    ListNodeTypesResponse,
    ListPricesResponse,
)
from tonnage.v1.claim_service_pb2 import AuditQuoteResponse
from tonnage.v1.fleet_service_pb2 import CompareAcceleratorsResponse, PlanFleetResponse


@dataclass(frozen=True, slots=True)
class TabularForm:
    """A form of a table: its name, its media type, and how files of it end."""

    name: str
    media_type: str
    ending: str


CSV = TabularForm("csv", "text/csv; charset=utf-8; header=present", ".csv")
XLSX = TabularForm("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx")
FORMS = (CSV, XLSX)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one kind of answer."""

    question: str
    """The RPC that it answers."""
    file_name: str
    """What to call a file of it, without its ending."""
    whole: Callable[[Any], Table]
    """The one table of the CSV."""
    results: Callable[[Any], Iterable[Table]]
    """The sheets of the workbook between the inputs and the sources."""


def _rows(title: str, layout: Layout, rows: Iterable[Any]) -> Table:
    return Table(title, layout.columns(), list(rows))


def _of_entries(question: str, file_name: str, layout: Layout, entries: Callable[[Any], Iterable[Any]]) -> Tables:
    """An entry of the catalogue a row, and every figure of all entries on a sheet of its own."""

    def results(answer: Any) -> Iterable[Table]:
        yield _rows("Results", layout, entries(answer))
        figures = [figure for entry in entries(answer) for figure in catalogue.figures_of(entry)]
        if figures:
            yield Table("Figures", catalogue.FIGURES, figures)

    return Tables(question, file_name, lambda answer: _rows("Results", layout, entries(answer)), results)


def _plans(answer: PlanFleetResponse) -> Table:
    return Table("Results", fleets.option_columns(), list(fleets.options_of(answer)))


def _plan_sheets(answer: PlanFleetResponse) -> Iterable[Table]:
    plans = fleets.PLANS.columns()
    chosen = [option for option in fleets.options_of(answer) if option.plan is not None]
    outcome = Column("x_outcome", lambda option: option.outcome)
    yield Table("Results", [outcome, *(_of_plan(column) for column in plans)], chosen)
    yield Table("Pools", fleets.pool_columns(), list(fleets.pools_of(answer)))
    yield _rows("Rejected options", fleets.EXCUSES, answer.excuses)
    yield _rows("Pareto front", fleets.FRONT, answer.pareto_front)
    yield _rows("Cost front", fleets.FRONT, answer.cost_front)
    if answer.HasField("explanation"):
        yield from explained.sheets([("", answer.explanation)])


def _of_plan(column: Column) -> Column:
    return Column(column.name, lambda option: column.read(option.plan))


def _compared(answer: CompareAcceleratorsResponse) -> Table:
    return _rows("Results", fleets.COMPARED, answer.accelerators)


def _compared_sheets(answer: CompareAcceleratorsResponse) -> Iterable[Table]:
    yield _compared(answer)
    yield _rows("Beside the first", fleets.GENERATIONS, answer.generations)
    told = [each for each in answer.accelerators if each.HasField("explanation")]
    yield from explained.sheets((each.accelerator, each.explanation) for each in told)


def _quote(answer: AuditQuoteResponse) -> Table:
    return Table("Results", [*quotes.LINES.columns(), Column("x_summary", lambda _: answer.summary)], list(answer.lines))


def _quote_sheets(answer: AuditQuoteResponse) -> Iterable[Table]:
    yield Table("Summary", [Column("x_summary", lambda each: each.summary)], [answer])
    yield _rows("Results", quotes.LINES, answer.lines)
    claims = [(line, claim) for line in answer.lines for claim in line.claims]
    yield Table("Claims", quotes.FIGURES, claims)
    yield _rows("Totals", quotes.TOTALS, answer.totals)
    yield _rows("Unread lines", quotes.UNREAD, answer.unread_lines)
    yield _rows("Headings", quotes.HEADINGS, answer.reading.columns)


def _prices(answer: ListPricesResponse) -> Table:
    return _rows("Results", prices.PRICES, answer.prices)


_TABLES: Mapping[str, Tables] = {
    PlanFleetResponse.DESCRIPTOR.full_name: Tables("PlanFleet", "tonnage-fleet-plan", _plans, _plan_sheets),
    CompareAcceleratorsResponse.DESCRIPTOR.full_name: Tables(
        "CompareAccelerators", "tonnage-accelerators-compared", _compared, _compared_sheets
    ),
    ListAcceleratorsResponse.DESCRIPTOR.full_name: _of_entries(
        "ListAccelerators", "tonnage-accelerators", catalogue.ACCELERATORS, lambda answer: answer.accelerators
    ),
    ListNodeTypesResponse.DESCRIPTOR.full_name: _of_entries(
        "ListNodeTypes", "tonnage-node-types", catalogue.NODE_TYPES, lambda answer: answer.node_types
    ),
    ListModelsResponse.DESCRIPTOR.full_name: _of_entries(
        "ListModels", "tonnage-models", catalogue.MODELS, lambda answer: answer.models
    ),
    ListPricesResponse.DESCRIPTOR.full_name: Tables("ListPrices", "tonnage-prices", _prices, lambda answer: [_prices(answer)]),
    AuditQuoteResponse.DESCRIPTOR.full_name: Tables("AuditQuote", "tonnage-quote-audit", _quote, _quote_sheets),
}


def has_tables(answer: str) -> bool:
    """Whether answers of the message of that full name have tables."""
    return answer in _TABLES


def file_name(answer: str, form: TabularForm) -> str:
    """What to call a file that holds an answer of the message of that full name."""
    return _TABLES[answer].file_name + form.ending


def csv_of(answer: Message) -> str:
    """The answer as one CSV, the catalogue's revision in its last column. KeyError for an answer without tables."""
    table = _TABLES[answer.DESCRIPTOR.full_name].whole(answer)
    columns = [[column.read(row) for row in table.rows] for column in table.columns]
    revision = [str(getattr(answer, "catalogue_revision", ""))] * len(table.rows)
    return csv_text([*columns, revision], header=[*table.header, "x_catalogue_revision"])


def workbook_of(request: Message, answer: Message) -> list[Table]:
    """The sheets of an answer: what was asked, the results, their sources, what was assumed. KeyError as for ``csv_of``."""
    tables = _TABLES[answer.DESCRIPTOR.full_name]
    return [
        provenance.inputs(tables.question, request, getattr(answer, "catalogue_revision", ""), version()),
        *tables.results(answer),
        provenance.sources(answer),
        provenance.assumptions(answer),
    ]


def version() -> str:
    """The release of Tonnage, of the service's distribution or of the client's: both carry the same."""
    for distribution in ("tonnage-service", "tonnage"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"
