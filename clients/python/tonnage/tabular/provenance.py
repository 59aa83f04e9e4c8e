"""What goes with every table of a workbook: the request, the sources, what was assumed."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from tonnage.tables import Cell
from tonnage.tabular.columns import Column, Table, cell_of, dated, messages_in
from tonnage.v1.catalogue_service_pb2 import Source
from tonnage.v1.price_pb2 import Price, UnreadPrice

CONVENTIONS = (
    "Units stand in the headings: bytes, seconds, floating-point operations per second, watts; ratios are parts of one.",
    "Headings that do not begin with x_ are FOCUS's, by the FinOps Foundation. A plan, an offer or a price list is no bill, "
    "and conformance to FOCUS is not claimed.",
    "A bound is what physics allows; an estimate is what a named engine does by a calibration that the answer names.",
)
_MAX_CHARACTERS = 1000

_FIELDS = (Column("field", lambda row: row[0]), Column("value", lambda row: row[1]))
_SOURCES = tuple(
    Column(name, lambda row, place=place: row[place])  # type: ignore[misc]  # bound by its default
    for place, name in enumerate(("x_kind", "x_id", "x_title", "x_publisher", "x_date", "x_url"))
)
_NOTES = (Column("x_kind", lambda row: row[0]), Column("x_text", lambda row: row[1]))


def inputs(question: str, request: Message, catalogue_revision: str, version: str) -> Table:
    """The request, field by field, under what answered it."""
    rows: list[tuple[str, Cell]] = [("question", question)]
    rows += [("catalogue_revision", catalogue_revision), ("tonnage_version", version)]
    rows += ((f"request.{path}", value) for path, value in _given(request))
    return Table("Inputs", _FIELDS, rows)


def _given(message: Message, path: str = "") -> Iterator[tuple[str, Cell]]:
    for field, value in message.ListFields():
        at = f"{path}{field.name}"
        kind = field.message_type
        if kind is not None and kind.full_name == "google.protobuf.Struct":
            yield at, _shortened(json.dumps(json_format.MessageToDict(value), sort_keys=True))
        elif kind is not None and kind.GetOptions().map_entry:
            yield at, _shortened(", ".join(f"{key}: {value[key]}" for key in sorted(value)))
        elif kind is not None:
            for number, inner in enumerate(value if field.is_repeated else (value,)):
                place = f"{at}[{number}]" if field.is_repeated else at
                rows = list(_given(inner, f"{place}."))
                yield from rows or [(place, "as it is by default")]
        elif field.is_repeated:
            yield at, _shortened(", ".join(str(cell_of(each, field)) for each in value))
        else:
            cell = cell_of(value, field)
            yield at, _shortened(cell) if isinstance(cell, str) else cell


def _shortened(text: str) -> str:
    if len(text) <= _MAX_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[:60]}… ({len(text)} characters, SHA-256 {digest})"


def sources(answer: Message) -> Table:
    """Every document that a figure of the answer comes from, and every price's, with day and address."""
    rows: dict[tuple[Any, ...], None] = {}
    for found in messages_in(answer, "Source", "Price"):
        if isinstance(found, Source):
            rows[_document(found)] = None
        elif isinstance(found, Price) and (found.source or found.source_url):
            rows["price", None, found.source or None, found.provider or None, dated(found.date), found.source_url or None] = (
                None
            )
    return Table("Sources", _SOURCES, list(rows))


def documents(found: Iterable[Any]) -> Table:
    """The same of documents that are known already: messages, or whatever has the same fields."""
    return Table("Sources", _SOURCES, [_document(each) for each in found])


def _document(found: Any) -> tuple[Any, ...]:
    return "figure", found.id, found.title, found.publisher or None, dated(found.date), found.url or None


def assumptions(answer: Message) -> Table:
    """What the answer assumed, what of the caller's prices was not read, and the conventions."""
    rows = [("assumption", text) for text in getattr(answer, "assumptions", ())]
    rows += (
        ("price not read", f"{found.place}: {found.name}: {found.reason}")
        for found in messages_in(answer, "UnreadPrice")
        if isinstance(found, UnreadPrice)
    )
    return conventions(rows)


def conventions(rows: list[tuple[str, str]]) -> Table:
    """Rows of notes, and those that go with every workbook."""
    return Table("Assumptions", _NOTES, [*rows, *(("convention", text) for text in CONVENTIONS)])
