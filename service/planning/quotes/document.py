"""From an offer's text to its rows: delimiter, line of headings, decimal mark. Lenient, and said in the answer."""

import csv
import io
import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from service.planning.errors import InvalidRequest, TooLarge, Violation
from service.planning.quotes.headings import Heading, headings_of, num_understood
from service.planning.quotes.numbers import decimal_mark_of
from service.planning.quotes.results import Meaning, QuoteReading, UnreadQuoteLine

MAX_LINES: Final = 200
MAX_COLUMNS: Final = 60
MAX_CELL_CHARACTERS: Final = 2000
_MAX_RECORDS: Final = 1000
_HEADINGS_WITHIN: Final = 30  # lines of letterhead that may stand above them
_MAX_SHOWN: Final = 80
_DELIMITERS: Final = {",": ",", ";": ";", "\t": "tab", "|": "|"}
_BYTE_ORDER_MARK: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"
#: What Windows-1252 or UTF-8 leave behind where they were read as Latin-1.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_OF_A_PRODUCT: Final = frozenset({Meaning.PRODUCT, Meaning.DESCRIPTION})
_NUMERIC: Final = frozenset(Meaning) - _OF_A_PRODUCT - {Meaning.NOT_READ, Meaning.CURRENCY, Meaning.TERM, Meaning.REGION}


class Row(Struct, frozen=True):
    """A line of the offer with its cells, as many as there are headings."""

    line: int
    cells: tuple[str, ...]


class Offer(Struct, frozen=True):
    """An offer as it was read."""

    headings: tuple[Heading, ...]
    rows: tuple[Row, ...]
    unread: tuple[UnreadQuoteLine, ...]
    decimal_mark: str
    reading: QuoteReading


def read_offer(document: str) -> Offer:
    """The rows of an offer. Raises InvalidRequest where it is no table with headings, TooLarge where it has too many lines."""
    text = document.removeprefix(_BYTE_ORDER_MARK)
    _refuse_wrong_encoding(text)
    text, delimiters = _declared(text)
    found = [(*_headed(records := list(_records(text, each))), records, each) for each in delimiters]
    understood, place, records, delimiter = max(found, key=lambda each: each[0])
    if not understood:
        reason = "no line of headings is understood: one has to name the product, and another the price, quantity or a figure"
        remedy = "send CSV with headings such as Product, Quantity, Unit price, Currency, Memory (GB)"
        raise InvalidRequest(Violation("document", reason, remedy))
    line, cells = records[place]
    headings, notes = headings_of(cells)
    rows, unread = _rows(records[place + 1 :], headings)
    if len(rows) > MAX_LINES:
        raise TooLarge("document", f"{len(rows)} lines", MAX_LINES, "split the offer over several requests")
    mark, assumed = decimal_mark_of(_numeric_cells(rows, headings), delimiter)
    columns = tuple(each.column for each in headings)
    told = (*notes, *((assumed,) if assumed else ()))
    return Offer(headings, rows, unread, mark, QuoteReading(_DELIMITERS[delimiter], mark, line, columns, told))


def shown(text: str) -> str:
    """A cell as answers show it: short, on one line, without control characters."""
    plain = " ".join(_CONTROL.sub(" ", text).split())
    return plain if len(plain) <= _MAX_SHOWN else f"{plain[: _MAX_SHOWN - 1]}…"


def _refuse_wrong_encoding(text: str) -> None:
    remedy = "save it as CSV in UTF-8, or decode it before"
    if "\0" in text:
        raise InvalidRequest(Violation("document", "it holds NUL characters, as UTF-16 does where it is read as bytes", remedy))
    if "\N{REPLACEMENT CHARACTER}" in text:
        raise InvalidRequest(Violation("document", "it was read in a wrong encoding: some characters are lost", remedy))
    if _CONTROL.search(text):
        raise InvalidRequest(Violation("document", "it holds control characters, as text in a wrong encoding does", remedy))


def _declared(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with the delimiters that are possible; a first line "sep=;" says which it is, and is kept as an empty one."""
    first, _, rest = text.partition("\n")
    declared = first.strip().casefold().strip('"')
    if declared.startswith("sep=") and declared[4:] in _DELIMITERS:
        return f"\n{rest}", (declared[4:],)
    return text, tuple(_DELIMITERS)


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Records with the line on which each begins. Where a quote is never closed, every line is a record of its own."""
    try:
        yield from _parsed(text, delimiter)
    except csv.Error:
        yield from ((number, line.split(delimiter)) for number, line in enumerate(text.splitlines()[:_MAX_RECORDS], 1))


def _parsed(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    found: list[tuple[int, list[str]]] = []
    begin = 1
    for record in reader:
        if any(cell.strip() for cell in record):
            found.append((begin, record))
        begin = reader.line_num + 1
        if len(found) > _MAX_RECORDS:
            raise TooLarge("document", "it holds more lines", _MAX_RECORDS, "send only the lines of products")
    return found


def _headed(records: list[tuple[int, list[str]]]) -> tuple[int, int]:
    """How many headings are understood in the best line for them, and the place of that line."""
    best, place = 0, 0
    for number, (_line, cells) in enumerate(records[:_HEADINGS_WITHIN]):
        if len(cells) > MAX_COLUMNS:
            continue
        headings, _notes = headings_of([cell[:MAX_CELL_CHARACTERS] for cell in cells])
        understood = num_understood(headings)
        if understood > best and understood > 1 and any(each.meaning in _OF_A_PRODUCT for each in headings):
            best, place = understood, number
    return best, place


def _rows(
    records: list[tuple[int, list[str]]], headings: tuple[Heading, ...]
) -> tuple[tuple[Row, ...], tuple[UnreadQuoteLine, ...]]:
    rows, unread = [], []
    for line, cells in records:
        text = shown(" ".join(cell for cell in cells if cell.strip()))
        if any(cell.strip() for cell in cells[len(headings) :]):
            reason = f"{len(cells)} cells where there are {len(headings)} headings: a quote or a delimiter is amiss"
            unread.append(UnreadQuoteLine(line, text, reason))
        elif any(len(cell) > MAX_CELL_CHARACTERS for cell in cells):
            unread.append(UnreadQuoteLine(line, text, f"a cell is longer than {MAX_CELL_CHARACTERS} characters"))
        else:
            padded = [*cells, *([""] * len(headings))][: len(headings)]
            rows.append(Row(line, tuple(cell.strip() for cell in padded)))
    return tuple(rows), tuple(unread)


def _numeric_cells(rows: tuple[Row, ...], headings: tuple[Heading, ...]) -> Iterator[str]:
    places = [place for place, each in enumerate(headings) if each.meaning in _NUMERIC]
    return (row.cells[place] for row in rows for place in places)
