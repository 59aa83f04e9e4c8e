"""YAML text into values that remember their line.

Scalars follow the YAML 1.2 core schema, so that a ``config.json`` pasted into a file keeps its numbers: ``1e-05`` is a
number and ``no`` is a word. Anchors, aliases, tags and repeated keys are refused: a catalogue file says what it says.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import yaml
from msgspec import Struct

#: A scalar, or a list or mapping of ``Located``.
Value: TypeAlias = "str | int | float | bool | list[Located] | dict[str, Located] | None"


class Located(Struct, frozen=True):
    """A value and the line of its file (from 1) on which it begins."""

    value: Value
    line: int


class DocumentError(ValueError):
    """A file that is no plain YAML document: ``line`` and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"{line}: {reason}")
        self.line = line
        self.reason = reason


# Only the tree of nodes is wanted: the loader that resolves nothing is the fastest, and constructs no object.
_NODES: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_PLAIN_TAGS: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))
_WORDS: Final[dict[str, bool | float | None]] = (
    dict.fromkeys(("", "~", "null", "Null", "NULL"))
    | dict.fromkeys(("true", "True", "TRUE"), True)
    | dict.fromkeys(("false", "False", "FALSE"), False)
    | dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan"))
    | dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf"))
    | dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf"))
)
_INTEGER: Final = re.compile(r"[-+]?[0-9]+", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_MAX_DEPTH: Final = 32
_MAX_DIGITS: Final = 300


def parse(text: str) -> Located:
    """The one document of a YAML text.

    Raises ``DocumentError`` for bad syntax, a second document, an alias, an anchor, a tag, a key that is repeated or no
    scalar, or nesting deeper than 32.
    """
    try:
        # The node tree no longer shows where an alias stood, so the rare text that may hold one is scanned first.
        if "&" in text or "*" in text:
            _refuse_aliases(yaml.parse(text, Loader=_NODES))
        node = yaml.compose(text, Loader=_NODES)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise DocumentError(1 if mark is None else mark.line + 1, f"no valid YAML: {error.problem or error}") from error
    except yaml.YAMLError as error:
        raise DocumentError(1, f"no valid YAML: {error}") from error
    if node is None:
        raise DocumentError(1, "the file is empty")
    return _located(node, 0)


def plain(located: Located) -> Any:
    """The same value as ordinary dicts, lists and scalars, as ``json.loads`` would give them."""
    value = located.value
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def _refuse_aliases(events: Iterator[Any]) -> None:
    for event in events:
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is None:
            continue
        line: int = event.start_mark.line + 1
        mark, kind = ("*", "alias") if type(event) is yaml.AliasEvent else ("&", "anchor")
        raise DocumentError(line, f"the {kind} {mark}{anchor} is refused: write the value out")


def _located(node: Any, depth: int) -> Located:
    line = node.start_mark.line + 1
    if depth > _MAX_DEPTH:
        raise DocumentError(line, f"nested deeper than {_MAX_DEPTH} levels")
    if node.tag not in _PLAIN_TAGS:
        raise DocumentError(line, f"the tag {node.tag} is refused: only plain scalars, lists and mappings are read")
    if isinstance(node, yaml.ScalarNode):
        return Located(node.value if node.style else _scalar(node.value), line)
    if isinstance(node, yaml.SequenceNode):
        return Located([_located(item, depth + 1) for item in node.value], line)
    return Located(_mapping(node, depth), line)


def _mapping(node: Any, depth: int) -> dict[str, Located]:
    values: dict[str, Located] = {}
    for key, item in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise DocumentError(line, "a key must be a word")
        if key.value in values:
            first = values[key.value].line
            raise DocumentError(line, f"the key {key.value!r} is given twice, first on line {first}")
        located = _located(item, depth + 1)
        values[key.value] = Located(located.value, line)
    return values


def _scalar(text: str) -> str | int | float | bool | None:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMBER_STARTS and len(text) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text
