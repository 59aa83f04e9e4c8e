"""Reading one mapping of a catalogue file key by key, and noting everything that is wrong with it.

A violation never stops the reading: the reader returns a placeholder and goes on, so that one start shows every
mistake. Placeholders do not escape, because ``loader.load`` raises when there is any violation.
"""

import math
from collections.abc import Container, Iterator
from enum import StrEnum
from typing import Final, TypeVar

from msgspec import Struct, field

from service.catalogue.documents import Located, plain
from service.catalogue.entries import Basis, Confidence, Figure
from service.units import UNITS, in_base_units

Choice = TypeVar("Choice", bound=StrEnum)

_FIGURE_KEYS: Final = ("value", "unit", "basis", "source", "note", "confidence")


class Violation(Struct, frozen=True):
    """One broken rule: the file, its line (from 1), the field's path within the file, and the reason."""

    file: str
    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.field or '(file)'}: {self.reason}"


class Report(Struct):
    """Collects the violations of a load; ``source_ids`` are the sources that figures may name."""

    source_ids: Container[str]
    violations: list[Violation] = field(default_factory=list)

    def add(self, file: str, line: int, path: str, reason: str) -> None:
        """Notes one broken rule."""
        self.violations.append(Violation(file, line, path, reason))


class Section:
    """One mapping of a file. Each method takes one key; ``done`` then refuses the keys that nothing took."""

    __slots__ = ("_path", "_readable", "_report", "_taken", "_values", "file", "line")

    def __init__(self, file: str, located: Located, path: str, report: Report) -> None:
        self.file = file
        self.line = located.line
        self._path = path
        self._report = report
        self._taken: set[str] = set()
        self._values: dict[str, Located] = {}
        self._readable = True
        if isinstance(located.value, dict):
            self._values = located.value
        else:
            self.refuse("", "must be a mapping of keys to values")
            self._readable = False  # that its keys are missing goes without saying

    def refuse(self, key: str, reason: str) -> None:
        """Notes a broken rule at a key, or at the section itself where the key is empty or missing."""
        if self._readable:
            located = self._values.get(key)
            self._report.add(self.file, located.line if located else self.line, self._at(key), reason)

    def text(self, key: str) -> str:
        """A required word or sentence."""
        return self.optional_text(key, required=True) or ""

    def optional_text(self, key: str, *, required: bool = False) -> str | None:
        """A word or sentence, or None where the key is missing."""
        located = self._take(key, required=required)
        if located is None:
            return None
        if isinstance(located.value, str) and located.value.strip():
            return located.value
        self.refuse(key, "must be text that is not empty (quote a number that is meant as text)")
        return None

    def texts(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """A list of texts, where one text alone may stand for a list of one; empty where the key is missing."""
        located = self._take(key, required=required)
        if located is None:
            return ()
        items = located.value if isinstance(located.value, list) else [located]
        texts = tuple(item.value for item in items if isinstance(item.value, str) and item.value.strip())
        if len(texts) != len(items) or (required and not texts):
            self.refuse(key, "must be a text or a list of texts")
        elif len(set(texts)) != len(texts):
            self.refuse(key, "names the same thing twice")
        return texts

    def choice(self, key: str, kind: type[Choice]) -> Choice:
        """A required word out of an enumeration."""
        return self.optional_choice(key, kind, required=True) or next(iter(kind))

    def optional_choice(self, key: str, kind: type[Choice], *, required: bool = False) -> Choice | None:
        """A word out of an enumeration, or None where the key is missing."""
        located = self._take(key, required=required)
        if located is None:
            return None
        words = [str(member) for member in kind]
        if isinstance(located.value, str) and located.value in words:
            return kind(located.value)
        self.refuse(key, f"{located.value!r} is none of {', '.join(words)}")
        return None

    def word_of(self, key: str, words: Container[str], kind: str) -> str:
        """A required word out of a set; ``kind`` names the set in the refusal."""
        word = self.text(key)
        if word and word not in words:
            self.refuse(key, f"unknown {kind} {word!r}")
        return word

    def count(self, key: str) -> int:
        """A required whole number of at least 1."""
        return self.optional_count(key, required=True) or 1

    def optional_count(self, key: str, *, required: bool = False) -> int | None:
        """A whole number of at least 1, or None where the key is missing."""
        located = self._take(key, required=required)
        if located is None:
            return None
        value = located.value
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        self.refuse(key, "must be a whole number of at least 1")
        return None

    def optional_flag(self, key: str) -> bool:
        """True or false; false where the key is missing."""
        located = self._take(key, required=False)
        if located is None or isinstance(located.value, bool):
            return bool(located and located.value)
        self.refuse(key, "must be true or false")
        return False

    def figure(self, key: str, base_unit: str) -> Figure:
        """A required figure whose unit must reduce to ``base_unit``."""
        return self.optional_figure(key, base_unit, required=True) or _PLACEHOLDER

    def optional_figure(self, key: str, base_unit: str, *, required: bool = False) -> Figure | None:
        """A figure whose unit must reduce to ``base_unit``, or None where the key is missing."""
        located = self._take(key, required=required)
        if located is None:
            return None
        if isinstance(located.value, int | float):
            self.refuse(key, "a number without a source: write {value, unit, basis, source}")
            return None
        section = Section(self.file, located, self._at(key), self._report)
        figure = section.own_figure(base_unit)
        section.done()
        return figure

    def optional_number(self, key: str) -> float | None:
        """A plain number above zero that belongs to a figure beside it, or None where the key is missing."""
        return self._number(key) if key in self._values else None

    def own_figure(self, base_unit: str) -> Figure:
        """The figure whose keys stand directly in this section."""
        printed_value = self._number("value")
        printed_unit = self._unit(base_unit)
        basis = self.choice("basis", Basis)
        note = self.optional_text("note")
        if basis is Basis.DERIVED and note is None:
            self.refuse("basis", "a derived figure needs a note that shows the arithmetic")
        return Figure(
            value=in_base_units(printed_value, printed_unit),
            unit=UNITS[printed_unit][0],
            printed_value=printed_value,
            printed_unit=printed_unit,
            basis=basis,
            sources=self.sources("source"),
            note=note,
            confidence=self.optional_choice("confidence", Confidence),
        )

    def sources(self, key: str) -> tuple[str, ...]:
        """The ids of at least one known source."""
        if key not in self._values:
            self._taken.add(key)
            self.refuse(key, "no source is given")
            return ()
        ids = self.texts(key, required=True)
        for source_id in ids:
            if source_id not in self._report.source_ids:
                self.refuse(key, f"unknown source {source_id!r}")
        return ids

    def sections(self, key: str, *, required: bool = False) -> Iterator["Section"]:
        """The mappings of a list; the caller must call ``done`` on each."""
        located = self._take(key, required=required)
        if located is None:
            return
        if not isinstance(located.value, list) or (required and not located.value):
            self.refuse(key, "must be a list")
            return
        for number, item in enumerate(located.value):
            yield Section(self.file, item, f"{self._at(key)}[{number}]", self._report)

    def named_sections(self) -> Iterator[tuple[str, "Section"]]:
        """Every key of this section with the mapping under it; the caller must call ``done`` on each mapping."""
        for key, located in self._values.items():
            yield key, Section(self.file, located, self._at(key), self._report)

    def mapping(self, key: str) -> dict[str, object]:
        """A required mapping of anything, as it is."""
        return self.optional_mapping(key, required=True) or {}

    def optional_mapping(self, key: str, *, required: bool = False) -> dict[str, object] | None:
        """A mapping of anything, as it is, or None where the key is missing."""
        located = self._take(key, required=required)
        if located is None:
            return None
        if isinstance(located.value, dict) and located.value:
            mapping: dict[str, object] = plain(located)
            return mapping
        self.refuse(key, "must be a mapping that is not empty")
        return None

    def done(self) -> None:
        """Refuses every key that was not taken."""
        for key in self._values.keys() - self._taken:
            self.refuse(key, "unknown key")

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path and key else self._path or key

    def _take(self, key: str, *, required: bool) -> Located | None:
        self._taken.add(key)
        located = self._values.get(key)
        if located is None or located.value is None:
            if required:
                self.refuse(key, "required and missing")
            elif located is not None:
                self.refuse(key, "has no value: leave the key out where nothing is known")
            return None
        return located

    def _number(self, key: str) -> float:
        located = self._take(key, required=True)
        if located is None:
            return 1.0
        value = located.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, f"must be a number, not {value!r}")
        elif not (math.isfinite(value) and value > 0):
            self.refuse(key, f"must be finite and above zero, not {value}")
        else:
            return float(value)
        return 1.0

    def _unit(self, base_unit: str) -> str:
        unit = self.text("unit")
        if not unit:
            return "1"
        if unit not in UNITS:
            self.refuse("unit", f"unknown unit {unit!r}")
            return "1"
        if UNITS[unit][0] != base_unit:
            self.refuse("unit", f"{unit!r} is counted in {UNITS[unit][0]}, and this field in {base_unit}")
        return unit


_PLACEHOLDER: Final = Figure(value=1.0, unit="1", printed_value=1.0, printed_unit="1", basis=Basis.DERIVED, sources=())
