"""``google.protobuf.Struct`` to and from plain Python values. The library's own way is half as fast and keeps no integers.

Published config.json files hold numbers that are not finite ("time_step_limit": [0.0, Infinity]), which Python writes and a
double carries: they pass, and whoever reads such a key has to refuse it.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value

#: Each level of JSON is three of messages, of which a parser takes 100, and the Struct itself lies some levels deep.
MAX_DEPTH: Final = 28


def to_plain(struct: Struct) -> dict[str, Any]:
    """The Struct as a dict; whole numbers become integers, as they were before they were sent.

    The depth is bounded by the parser, which refuses messages nested more than 100 deep.
    """
    return {key: _plain(value) for key, value in struct.fields.items()}


def _plain(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "struct_value":
        return to_plain(value.struct_value)
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    return None if kind is None or kind == "null_value" else getattr(value, kind)


class TooDeep(ValueError):
    """A JSON value is nested deeper than a message can be."""


def fill_struct(struct: Struct, values: Mapping[str, Any], depth: int = 1) -> None:
    """Copies what ``json_decoding.loads`` makes of a JSON object into the Struct; numbers lose what a double cannot hold.

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
