"""Tables whose columns are the fields of a message: a field that is new in the schema is a new column, or said to be left out.

A heading is FOCUS's where FOCUS has a column for it, and else ``x_`` and the field's own name, which ends in its unit. A plan
or a price list is no bill: nothing here claims to conform to FOCUS.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from tonnage.tables import Cell

PREFIX = "x_"
"""FOCUS's for columns of one's own."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, which ends in its unit, and its cell for a row."""

    name: str
    read: Callable[[Any], Cell]


@dataclass(frozen=True)
class Table:
    """Rows under headings."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Any]

    @property
    def header(self) -> list[str]:
        """The headings."""
        return [each.name for each in self.columns]

    def cells(self) -> Iterator[list[Cell]]:
        """The rows as cells."""
        for row in self.rows:
            yield [column.read(row) for column in self.columns]


@dataclass(frozen=True)
class Layout:
    """How the fields of a message become columns. Paths are those of fields, with dots."""

    message: Descriptor
    names: Mapping[str, str] = field(default_factory=dict)
    """Headings of fields that are not called ``x_`` and their path."""
    left_out: frozenset[str] = frozenset()
    """Fields that are no columns, on purpose."""
    texts: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    """By the name of a message: how a field of its kind becomes a text; several are joined."""
    units: Mapping[str, str] = field(default_factory=dict)
    """By the name of a field that holds a figure of the catalogue: what its heading ends in."""
    first: Sequence[str] = ()
    """Headings that go before all others, in this order."""
    further: Sequence[Column] = ()
    """Columns that are no field."""

    def columns(self) -> list[Column]:
        """All columns. TypeError for a field that is neither a column by itself nor left out: decide which."""
        made = [*self._of(self.message, "", lambda row: row), *self.further]
        by_name = {each.name: each for each in made}
        if len(by_name) != len(made) or not set(self.first) <= set(by_name):
            raise TypeError(f"{self.message.name}: headings are given twice, or put first and not there")
        return [by_name[name] for name in self.first] + [each for each in made if each.name not in self.first]

    def _of(self, message: Descriptor, path: str, holder: Callable[[Any], Any]) -> Iterator[Column]:
        for each in message.fields:
            at = f"{path}{each.name}"
            if at in self.left_out:
                continue
            name = self.names.get(at, PREFIX + at.replace(".", "_"))
            kind = each.message_type
            if kind is None or kind.name in self.texts:
                yield Column(name, _reader(holder, each, self.texts.get(kind.name) if kind else None))
            elif each.is_repeated:
                raise TypeError(f"{message.name}.{each.name}: say how it becomes a text, or leave it out")
            elif kind.name == "Figure":
                value = self.names.get(at, f"{PREFIX}{each.name}_{self.units[each.name]}".removesuffix("_"))
                figure = _inner(holder, each)
                yield Column(value, _reader(figure, kind.fields_by_name["value"]))
                yield Column(f"{PREFIX}{each.name}_basis", _reader(figure, kind.fields_by_name["basis"]))
            else:
                yield from self._of(kind, f"{at}.", _inner(holder, each))


def _inner(holder: Callable[[Any], Any], each: FieldDescriptor) -> Callable[[Any], Any]:
    def read(row: Any) -> Any:
        message = holder(row)
        return getattr(message, each.name) if message is not None and message.HasField(each.name) else None

    return read


def _reader(
    holder: Callable[[Any], Any], each: FieldDescriptor, text: Callable[[Any], str] | None = None
) -> Callable[[Any], Cell]:
    def read(row: Any) -> Cell:
        message = holder(row)
        if message is None or (each.has_presence and not message.HasField(each.name)):
            return None
        value = getattr(message, each.name)
        if each.is_repeated:
            return joined(map(text or _shown(each), value))
        if text is not None:
            return text(value) or None
        return cell_of(value, each)

    return read


def _shown(each: FieldDescriptor) -> Callable[[Any], str]:
    return lambda value: str(cell_of(value, each))


def cell_of(value: Any, each: FieldDescriptor) -> Cell:
    """The value of a field as a cell: an enumeration's by name, a day as a date, None for an empty text."""
    if each.enum_type is not None:
        return each.enum_type.values_by_number[value].name if value else None
    return dated(value) if isinstance(value, str) else value


def dated(text: str) -> Cell:
    """A day as a date; anything less exact, and all else, as the text it is; None where it is empty.

    >>> dated("2026-07-20"), dated("2026-07"), dated("")
    (datetime.date(2026, 7, 20), '2026-07', None)
    """
    if _DATE.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            return text
    return text or None


def joined(texts: Iterable[str]) -> str | None:
    """Several texts in one cell."""
    return "; ".join(text for text in texts if text) or None


def messages_in(message: Message, *names: str) -> Iterator[Message]:
    """Every message of those kinds inside of a message, in order."""
    for each, value in message.ListFields():
        if each.message_type is None or (each.message_type.GetOptions().map_entry):
            continue
        for inner in value if each.is_repeated else (value,):
            if inner.DESCRIPTOR.name in names:
                yield inner
            yield from messages_in(inner, *names)
