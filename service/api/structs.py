"""``google.protobuf.Struct`` to and from plain Python values. The library's own way is half as fast and keeps no integers."""

import math
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value

from service.planning.errors import InvalidRequest, Violation

#: Each level of JSON is three of messages, of which a parser takes 100, and the Struct itself lies some levels deep.
MAX_DEPTH: Final = 28


def to_plain(struct: Struct, path: str) -> dict[str, Any]:
    """The Struct as a dict; whole numbers become integers, as they were before they were sent.

    The depth is bounded by the parser, which refuses messages nested more than 100 deep.

    Raises:
        InvalidRequest: a number in it is not finite.
    """
    return {key: _plain(value, f"{path}.{key}") for key, value in struct.fields.items()}


def _plain(value: Value, path: str) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return _number(value.number_value, path)
    if kind == "struct_value":
        return to_plain(value.struct_value, path)
    if kind == "list_value":
        return [_plain(item, f"{path}[{index}]") for index, item in enumerate(value.list_value.values)]
    return None if kind is None or kind == "null_value" else getattr(value, kind)


def _number(number: float, path: str) -> int | float:
    if not math.isfinite(number):
        raise InvalidRequest(Violation(path, f"{number} is no number that a JSON document can hold"))
    return int(number) if number.is_integer() else number


class TooDeep(ValueError):
    """A JSON value is nested deeper than a message can be."""


def fill_struct(struct: Struct, values: Mapping[str, Any], depth: int = 1) -> None:
    """Copies what ``orjson.loads`` makes of a JSON object into the Struct; numbers lose what a double cannot hold.

    Raises:
        TooDeep: it is nested more than ``MAX_DEPTH`` deep.
    """
    if depth > MAX_DEPTH:
        raise TooDeep(f"it is nested more than {MAX_DEPTH} deep")
    fields = struct.fields
    for key, value in values.items():
        _fill(fields[key], value, depth)


def _fill(target: Value, value: Any, depth: int) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif value is None:
        target.null_value = NULL_VALUE
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        target.number_value = value
    elif isinstance(value, dict):
        target.struct_value.SetInParent()
        fill_struct(target.struct_value, value, depth + 1)
    else:
        _fill_list(target.list_value, value, depth + 1)


def _fill_list(target: ListValue, values: list[Any], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise TooDeep(f"it is nested more than {MAX_DEPTH} deep")
    target.SetInParent()
    for value in values:
        _fill(target.values.add(), value, depth)
