"""Query and path parameters to request messages, as strict as JSON bodies are."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from service.api.descriptors import descriptor_of
from service.api.errors import FieldViolation, Unreadable
from service.api.json_decoding import Set, refuse, setters, unknown

Decode: TypeAlias = Callable[[bytes, Mapping[str, Any]], tuple[Message, list[FieldViolation]]]

_MAX_PARAMETERS: Final = 100
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def query_decoder(message: type[Message], in_path: Iterable[str]) -> Decode:
    """A function from a query string and the path's parameters to a message and what is wrong with it.

    It raises Unreadable where the query string cannot be taken apart.

    Args:
        message: the request.
        in_path: names of the fields that come from the path, and may not come from the query.

    Raises:
        ValueError: a field of the message cannot be written into a query.
    """
    descriptor = descriptor_of(message)
    for field in descriptor.fields:
        if field.message_type is not None or field.is_repeated:
            raise ValueError(f"{field.full_name} cannot be written into a query")
    in_path = frozenset(in_path)
    ways = setters(descriptor)
    names = [field.name for field in descriptor.fields if field.name not in in_path]
    fields = descriptor.fields_by_name

    def decode(query: bytes, path_parameters: Mapping[str, Any]) -> tuple[Message, list[FieldViolation]]:
        request, found, seen = message(), list[FieldViolation](), set[str]()
        for name, value in path_parameters.items():
            ways[name][1](request, value, "", found)
        for key, text in _parameters(query):
            name, way = ways.get(key, (key, None))
            if name in in_path:
                refuse(found, name, "it stands in the path already; leave it out of the query", "DUPLICATE_FIELD")
            elif way is None:
                unknown(key, "", names, found)
            elif name in seen:
                refuse(found, name, "it is given twice", "DUPLICATE_FIELD")
            else:
                seen.add(name)
                _set(way, request, fields[name], text, found)
        return request, found

    return decode


def _parameters(query: bytes) -> list[tuple[str, str]]:
    if not query:
        return []
    try:
        text = query.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MAX_PARAMETERS)
    except ValueError as error:  # UnicodeDecodeError is one
        raise Unreadable(f"the query string cannot be read: {error}") from None


def _set(way: Set, request: Message, field: FieldDescriptor, text: str, found: list[FieldViolation]) -> None:
    if field.cpp_type in {FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_ENUM}:
        way(request, text, "", found)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        way(request, {"true": True, "false": False}.get(text, text), "", found)
    elif _NUMBER.fullmatch(text):
        way(request, _number(text), "", found)
    else:
        way(request, text, "", found)


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdigit() and len(text) < 20 else float(text)
