"""Answers as JSON: keys as in the schema, zero and false printed, what is not set left out, enums by name.

Results are rendered straight from their structs; messages, which are what a shared cache holds, by their fields. Both give
the same bytes: the keys of a map, which a message keeps in no order, are sorted.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

import orjson
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from service.api.descriptors import descriptor_of, is_map, is_struct
from service.api.messages import column_items, write_finite_check
from service.api.pairing import FieldPair, pairs
from service.api.structs import to_plain
from service.function_source import FunctionSource

Encode: TypeAlias = Callable[[Any], dict[str, Any]]

_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY


def result_encoder(message: type[Message], kind: type) -> Callable[[Any], bytes]:
    """A function that renders a result, which the message type stands for, as JSON in UTF-8.

    It raises NotFinite where a figure is infinite or no number.
    """
    as_dict, dumps = _result_encoder(descriptor_of(message), kind), orjson.dumps
    return lambda result: dumps(as_dict(result), None, _OPTIONS)


def _fragment(column: Any) -> orjson.Fragment:
    return orjson.Fragment(orjson.dumps(column, None, _OPTIONS))


@cache
def _result_encoder(descriptor: Descriptor, kind: type) -> Encode:
    source = FunctionSource("result")
    matched = {pair.name: pair for pair in pairs(descriptor, kind)}
    write_finite_check(source, list(matched.values()))
    source.line("out = {}")
    for field in descriptor.fields:  # in the order of the schema
        pair = matched[field.name]
        source.line(f"value = result.{pair.name}")
        if pair.is_optional:
            source.line("if value is not None:")
        source.line(f"out[{pair.name!r}] = {_result_expression(source, pair)}", 1 + pair.is_optional)
        if pair.is_optional and not field.has_presence:
            source.line(f"else: out[{pair.name!r}] = {field.default_value!r}")
    source.line("return out")
    return source.compiled()


def _result_expression(source: FunctionSource, pair: FieldPair) -> str:
    if pair.is_map:
        item = "item * 1.0" if pair.is_double else "item"
        return f"{{key: {item} for key, item in sorted(value.items())}}"
    if pair.is_column:
        # Column by column, since the library lets no other thread run while it writes.
        items = source.name(column_items(pair)) + "(value)" if pair.descriptor.enum_type else "value"
        return f"{source.name(_fragment)}({items})"
    if pair.message is not None:
        encode = source.name(_result_encoder(pair.message, pair.item if pair.descriptor.is_repeated else pair.annotation))
        return f"[{encode}(item) for item in value]" if pair.descriptor.is_repeated else f"{encode}(value)"
    if pair.is_double and pair.descriptor.is_repeated:
        return "[item * 1.0 for item in value]"
    # A count may be kept as an integer where the schema has a double: it must not depend on that how it is printed.
    return "value * 1.0" if pair.is_double else "value"


def message_encoder(message: type[Message]) -> Callable[[Message], bytes]:
    """A function that renders messages of the type as JSON in UTF-8; doubles take their shortest exact form."""
    as_dict, dumps = _message_encoder(descriptor_of(message)), orjson.dumps
    return lambda answer: dumps(as_dict(answer))


@cache
def _message_encoder(descriptor: Descriptor) -> Encode:
    """The function for a message type, written once however often the type occurs."""
    source = FunctionSource("message")
    source.line("out = {}")
    for field in descriptor.fields:
        indent = 1
        if field.has_presence:
            source.line(f"if message.HasField({field.name!r}):")
            indent = 2
        source.line(f"out[{field.name!r}] = {_message_expression(source, field)}", indent)
    source.line("return out")
    return source.compiled()


def _message_expression(source: FunctionSource, field: FieldDescriptor) -> str:
    value = f"message.{field.name}"
    if is_map(field):
        return f"dict(sorted({value}.items()))"
    convert = _conversion(field)
    if field.is_repeated:
        return f"list({value})" if convert is None else f"[{source.name(convert)}(item) for item in {value}]"
    return value if convert is None else f"{source.name(convert)}({value})"


def _conversion(field: FieldDescriptor) -> Callable[[Any], Any] | None:
    if is_struct(field):
        return to_plain
    if field.message_type is not None:
        return _message_encoder(field.message_type)
    return None if field.enum_type is None else _enum_names(field.enum_type)


def _enum_names(descriptor: EnumDescriptor) -> Callable[[int], str | int]:
    names = {value.number: value.name for value in descriptor.values}
    return lambda number: names.get(number, number)
