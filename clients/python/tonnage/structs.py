"""JSON content as a message: what carries a config.json as it is."""

from collections.abc import Mapping
from typing import Any, cast

from google.protobuf.struct_pb2 import Struct

from tonnage.errors import InvalidRequest, Violation

_MAX_DEPTH = 28
"""Levels of JSON that a message holds: each is three of messages, of which parsers take 100."""


def struct(content: Mapping[str, object], field: str) -> Struct:
    """JSON content as a message. Raises InvalidRequest, naming the ``field``, for what is not JSON.

    Infinity and NaN pass, as published config.json files hold them in keys that no figure depends on.
    """
    if _is_deep(content):
        raise InvalidRequest.of(Violation(field, f"it is nested more than {_MAX_DEPTH} deep"))
    filled = Struct()
    try:
        filled.update(cast("dict[str, Any]", dict(content)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequest.of(Violation(field, f"it is not JSON: {error}")) from error
    return filled


def _is_deep(content: object) -> bool:
    """Whether content is nested deeper than a message may be."""
    level = [content]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, Mapping) else outer if isinstance(outer, list | tuple) else ())
        ]
        if not level:
            return False
    return any(isinstance(each, Mapping | list | tuple) for each in level)
