"""Messages as JSON: keys as in the schema, zero and false printed, what is not set left out, enums by name."""

from collections.abc import Callable
from typing import Any, TypeAlias

import orjson
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from service.api.function_source import FunctionSource
from service.api.pairing import is_map, is_struct
from service.api.structs import to_plain

Encode: TypeAlias = Callable[[Any], dict[str, Any]]


def encoder(message: type[Message]) -> Callable[[Message], bytes]:
    """A function that renders messages of the type as JSON in UTF-8; doubles take their shortest exact form."""
    as_dict, dumps = _encoder(message.DESCRIPTOR, {}), orjson.dumps
    return lambda answer: dumps(as_dict(answer))


def _encoder(descriptor: Descriptor, known: dict[str, Encode]) -> Encode:
    """The function for a message type, written once however often the type occurs."""
    if descriptor.full_name not in known:
        source = FunctionSource("message")
        source.line("out = {}")
        for field in descriptor.fields:
            indent = 1
            if field.has_presence:
                source.line(f"if message.HasField({field.name!r}):")
                indent = 2
            source.line(f"out[{field.name!r}] = {_expression(source, field, known)}", indent)
        source.line("return out")
        known[descriptor.full_name] = source.compiled()
    return known[descriptor.full_name]


def _expression(source: FunctionSource, field: FieldDescriptor, known: dict[str, Encode]) -> str:
    value = f"message.{field.name}"
    if is_map(field):
        inner = field.message_type.fields_by_name["value"]
        convert = _conversion(inner, known)
        if convert is None:
            return f"dict({value})"
        return f"{{key: {source.name(convert)}(item) for key, item in {value}.items()}}"
    convert = _conversion(field, known)
    if field.is_repeated:
        return f"list({value})" if convert is None else f"[{source.name(convert)}(item) for item in {value}]"
    return value if convert is None else f"{source.name(convert)}({value})"


def _conversion(field: FieldDescriptor, known: dict[str, Encode]) -> Callable[[Any], Any] | None:
    if is_struct(field):
        return lambda struct: to_plain(struct, field.name)
    if field.message_type is not None:
        return _encoder(field.message_type, known)
    if field.enum_type is not None:
        return _enum_names(field.enum_type)
    return None


def _enum_names(descriptor: EnumDescriptor) -> Callable[[int], str | int]:
    names = {value.number: value.name for value in descriptor.values}
    return lambda number: names.get(number, number)
