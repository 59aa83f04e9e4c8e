"""What every tool answers: one shape, so that a model learns it once, and short enough to be read whole."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

MAX_ROWS: Final = 8
MAX_SENTENCES: Final = 16
MAX_SOURCES: Final = 12
_MAX_STEPS: Final = 30
_CITED_SOURCES: Final = 4


class Answer(BaseModel):
    """An answer. Names of figures end in their unit; bound_, expected_ and estimate_ say of what kind they are."""

    summary: str
    figures: dict[str, Any]
    rows: list[dict[str, Any]]
    steps: list[str]
    notes: list[str]
    assumptions: list[str]
    sources: list[str]
    next: list[str]
    catalogue_revision: str


class Writer:
    """Writes answers.

    Args:
        source_ids: id by title, of the documents that the catalogue names.
    """

    def __init__(self, source_ids: Mapping[str, str]) -> None:
        self._source_ids = source_ids

    def __call__(
        self,
        reply: Mapping[str, Any],
        summary: str,
        *,
        figures: Mapping[str, Any] | None = None,
        rows: Iterable[Mapping[str, Any]] = (),
        explained: bool = False,
        notes: Iterable[str] = (),
        assumptions: Iterable[str] = (),
        sources: Iterable[str] = (),
        hints: Iterable[str] = (),
    ) -> Answer:
        """The answer to a tool call.

        Args:
            reply: what the service answered: its assumptions, explanation and catalogue go in.
            summary: one to three sentences to quote.
            figures: by name; None is left out.
            rows: a table, of which the first rows are kept.
            explained: whether the formulas are shown, each with what went in.
            notes: what to know beside the figures.
            assumptions: what the tool itself took for granted.
            sources: ids or titles, beside those that the explanation names.
            hints: what to ask next.
        """
        cited = unique(self._source_ids.get(each, each) for each in [*sources, *_sources_of(reply)])
        if cited:
            summary += f" [Sources: {'; '.join(cited[:_CITED_SOURCES])}]"
        return Answer(
            summary=summary,
            figures={name: _plain(value) for name, value in (figures or {}).items() if value is not None},
            rows=[{name: _plain(value) for name, value in row.items()} for row, _ in zip(rows, range(MAX_ROWS), strict=False)],
            steps=_steps_of(reply)[:_MAX_STEPS] if explained else [],
            notes=_first(unique(notes)),
            assumptions=_first(unique([*assumptions, *reply.get("assumptions", ())])),
            sources=cited[:MAX_SOURCES],
            next=unique(hints)[:MAX_SENTENCES],
            catalogue_revision=reply.get("catalogue_revision", ""),
        )


def unique(items: Iterable[str]) -> list[str]:
    """The items in their order, each once, none empty."""
    return [item for item in dict.fromkeys(items) if item]


def _plain(value: Any) -> Any:
    """A figure without the digits that binary floating point adds, and without a point where it is whole.

    >>> _plain(79.80000000000001), _plain(28.0), _plain(1029173203808.0), _plain("28.0"), _plain(True)
    (79.8, 28, 1029173203808, '28.0', True)
    """
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.15g}")
    return int(rounded) if rounded.is_integer() else rounded


def _first(sentences: list[str]) -> list[str]:
    """As many as a model should have to read; where some are left out, the last line says how many."""
    if len(sentences) <= MAX_SENTENCES:
        return sentences
    left_out = len(sentences) - MAX_SENTENCES + 1
    return [*sentences[: MAX_SENTENCES - 1], f"{left_out} more are left out here; the REST API gives all"]


def _sources_of(reply: Mapping[str, Any]) -> list[str]:
    """The ids of the sources that the figures of an explained reply rest on."""
    figures = reply.get("explanation", {}).get("figures", ())
    return unique(source for figure in figures for source in figure["sources"])


def _steps_of(reply: Mapping[str, Any]) -> list[str]:
    """A line for each formula of an explained reply: its value, what went in, who printed it."""
    steps = reply.get("explanation", {}).get("steps", ())
    return unique(
        f"{step['name']} = {step['expression']} = {step['value']:.6g} with "
        f"{', '.join(f'{name} {value:.6g}' for name, value in step['inputs'].items())} [{step['source']}]"
        for step in steps
    )
