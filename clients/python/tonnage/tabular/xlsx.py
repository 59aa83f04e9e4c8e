"""Tables as a workbook: real numbers with formats, dates as dates, no formulas that would run, equal bytes for equal tables.

openpyxl is loaded by the first workbook, not before.
"""

import contextlib
import io
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import IO, TYPE_CHECKING, Any
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from tonnage.tables import Cell, is_like_formula
from tonnage.tabular.columns import Table

if TYPE_CHECKING:
    from openpyxl.workbook.workbook import Workbook

MAX_ROWS = 1_048_576
"""What a sheet holds, headings included."""

_MADE = datetime(2000, 1, 1)  # of every workbook: the day on which it was asked for is no part of the answer
_ZIPPED = (2000, 1, 1, 0, 0, 0)
_CORE = "docProps/core.xml"
_END_OF_ROWS = b"</sheetData>"
_NO_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_FORMATS = (
    (re.compile(r"_ratio(_p\d\d)?$"), "0.0%"),
    (re.compile(r"UnitPrice$|_price$|_total$|_per_(device_|unit_)?(hour|year)$|_cost_per_hour$"), "#,##0.00##"),
    (re.compile(r"_seconds(_p\d\d)?$"), "0.0000"),
    (re.compile(r"_(bytes|flops_per_second|bytes_per_second|hertz|watts|parameters)$"), "#,##0"),
    (re.compile(r"cost_per_million|price_per_"), "#,##0.0000"),
    (re.compile(r"_per_second"), "#,##0.00"),
    (re.compile(r"(^|_)(num|rank|line|tokens|size)(_|$)"), "#,##0"),
)
_PLAIN = re.compile(r"\w[^\x00-\x1f]{0,1000}\Z")  # text that nothing is to be done about
_TEXT_CHARACTERS = 32_767  # that a cell holds
_MIN_WIDTH, _MAX_WIDTH, _MEASURED_ROWS = 8, 60, 200


def xlsx_bytes(tables: Iterable[Table]) -> bytes:
    """The tables as the sheets of a workbook."""
    writer = WorkbookWriter()
    for table in tables:
        writer.add(table)
    return writer.saved()


class WorkbookWriter:
    """Writes a workbook sheet by sheet, row by row; what was written is held on disk, not in memory.

    Raises:
        ModuleNotFoundError: openpyxl is not installed.
    """

    def __init__(self) -> None:
        from openpyxl import Workbook

        self._workbook: Workbook = Workbook(write_only=True)
        self._streamed: list[StreamedSheet] = []
        # Of a workbook that is never saved, because its asker went away or the disk is full, nothing must stay behind.
        weakref.finalize(self, _cleaned_up, self._workbook, self._streamed)

    def add(self, table: Table) -> None:
        """A sheet with all its rows."""
        rows = list(table.cells())
        sheet = self.sheet(table.title, table.header, rows[:_MEASURED_ROWS])
        for row in rows:
            sheet.append(row)

    def sheet(self, title: str, header: Sequence[str], measured: Sequence[Sequence[Cell]] = ()) -> "Sheet":
        """A new sheet with its headings; columns are as wide as they and the measured rows need."""
        return Sheet(self._workbook, title, header, measured)

    def streamed(self, title: str, header: Sequence[str]) -> "StreamedSheet":
        """A new sheet for very many rows."""
        self._streamed.append(StreamedSheet(self.sheet(title, header)))
        return self._streamed[-1]

    def saved(self) -> bytes:
        """The whole workbook."""
        from openpyxl.writer.excel import ExcelWriter

        target = io.BytesIO()
        with _FixedZip(target, self._workbook, self._streamed) as archive:
            ExcelWriter(self._workbook, archive).save()
        return target.getvalue()


def _cleaned_up(workbook: "Workbook", streamed: "Sequence[StreamedSheet]") -> None:
    """Removes the files that openpyxl keeps until a workbook is saved or the process ends, and those of ours."""
    for each in streamed:
        with contextlib.suppress(OSError):  # what it still holds back finds no room either
            each.rows.close()
    for sheet in workbook.worksheets:
        writer: Any = getattr(sheet, "_writer", None)
        if writer is not None and os.path.exists(writer.out):
            with contextlib.suppress(Exception):  # in order, else each of openpyxl's generators complains as it goes
                sheet.close()
            writer.cleanup()


class Sheet:
    """A sheet under way."""

    def __init__(self, workbook: "Workbook", title: str, header: Sequence[str], measured: Sequence[Sequence[Cell]]) -> None:
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.styles import Font
        from openpyxl.utils import get_column_letter

        self._sheet: Any = workbook.create_sheet(title)
        self._new: Any = WriteOnlyCell
        self._sheet.freeze_panes = "A2"
        for place, name in enumerate(header):
            lengths = [len(name), *(len(str(row[place])) for row in measured if row[place] is not None)]
            self._sheet.column_dimensions[get_column_letter(place + 1)].width = min(max(_MIN_WIDTH, *lengths), _MAX_WIDTH) + 2
        heads = [self._text(name) for name in header]
        for head in heads:
            head.font = Font(bold=True)
        self._sheet.append(heads)
        # One cell a column is filled anew for every row: a cell is written before the next row comes.
        self._cells = [self._number(name) for name in header]

    def append(self, row: Sequence[Cell]) -> None:
        """A row of as many cells as there are headings."""
        self._sheet.append([self._filled(cell, value) for cell, value in zip(self._cells, row, strict=True)])

    def _number(self, name: str) -> Any:
        """A cell for the numbers of a column; None where they are shown as they are."""
        shown = next((shown for pattern, shown in _FORMATS if pattern.search(name)), None)
        if shown is None:
            return None
        cell = self._new(self._sheet, value=0)
        cell.number_format = shown
        return cell

    def _filled(self, cell: Any, value: Cell) -> Any:
        if isinstance(value, str):
            return value if _PLAIN.match(value) else self._text(value)
        if value is None or cell is None or isinstance(value, bool | date):
            return value
        cell.value = value
        return cell

    def _text(self, value: str) -> Any:
        cell = self._new(self._sheet, value=_NO_XML.sub("\N{REPLACEMENT CHARACTER}", value)[:_TEXT_CHARACTERS])
        cell.data_type = "s"  # also what begins as a formula does, or reads like an error
        if is_like_formula(value):
            cell.quotePrefix = True  # so that it stays a text where somebody edits it
        return cell


class StreamedSheet:
    """A sheet whose rows are put together as XML: openpyxl takes fifteen microseconds a cell, this a twentieth of it."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self.rows: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed once it is in the archive)

    @property
    def path(self) -> str:
        """Where it lies in the archive, once it is being saved."""
        return str(self._sheet._sheet.path).lstrip("/")

    def append(self, row: Iterable[Cell]) -> None:
        """One row."""
        self.append_columns([[cell_xml(value)] for value in row])

    def append_columns(self, columns: Sequence[Sequence[str]]) -> None:
        """Rows given by their columns, every cell as ``cell_xml`` makes it."""
        rows = "</row><row>".join(map("".join, zip(*columns, strict=True)))
        self.rows.write(f"<row>{rows}</row>".encode())


def cell_xml(value: Cell) -> str:
    """A cell as a sheet has it.

    >>> cell_xml("=1<2"), cell_xml(1.5), cell_xml(True), cell_xml(None)
    ('<c t="inlineStr"><is><t>=1&lt;2</t></is></c>', '<c><v>1.5</v></c>', '<c t="b"><v>1</v></c>', '<c/>')
    """
    if value is None:
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{value:d}</v></c>'
    if isinstance(value, str | date):
        text = _NO_XML.sub("\N{REPLACEMENT CHARACTER}", str(value))[:_TEXT_CHARACTERS]
        return f'<c t="inlineStr"><is><t>{escape(text)}</t></is></c>'
    return number_xml(repr(value))


def number_xml(printed: str) -> str:
    """A printed number as a cell."""
    return f"<c><v>{printed}</v></c>"


class _FixedZip(ZipFile):
    """An archive whose members carry no time of their making, and whose streamed sheets have their rows."""

    def __init__(self, target: io.BytesIO, workbook: "Workbook", streamed: Sequence[StreamedSheet]) -> None:
        super().__init__(target, "w", ZIP_DEFLATED)
        self._workbook = workbook
        self._streamed = streamed

    def writestr(self, zinfo_or_arcname: Any, data: Any, *_: Any, **__: Any) -> None:
        super().writestr(_member(zinfo_or_arcname), self._core() if zinfo_or_arcname == _CORE else data)

    def write(self, filename: Any, arcname: Any = None, *_: Any, **__: Any) -> None:
        rows = next((each.rows for each in self._streamed if each.path == arcname), None)
        member = _member(arcname)
        if rows is not None:
            setattr(member, "_compresslevel", 1)  # noqa: B010 (no stub has it); at the usual level it takes three times as long
        with open(filename, "rb") as source, self.open(member, "w") as target:
            if rows is None:
                shutil.copyfileobj(source, target)
                return
            head, end, tail = source.read().partition(_END_OF_ROWS)
            target.write(head)
            rows.seek(0)
            shutil.copyfileobj(rows, target)
            target.write(end + tail)
            rows.close()

    def _core(self) -> bytes:
        from openpyxl.xml.functions import tostring

        properties = self._workbook.properties
        properties.creator = "Tonnage"
        properties.created = properties.modified = _MADE
        made: bytes = tostring(properties.to_tree())
        return made


def _member(name: str) -> ZipInfo:
    info = ZipInfo(name, _ZIPPED)
    info.compress_type = ZIP_DEFLATED
    return info
