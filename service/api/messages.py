"""Messages to request structs and result structs to messages, by field name.

Both directions are written out as functions once per type, from descriptor and annotations together; what does not match
is refused then. ``None`` is "not given" in both directions.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from msgspec import NODEFAULT

from service.api.descriptors import descriptor_of
from service.api.pairing import FieldPair, pairs
from service.api.structs import to_plain
from service.function_source import FunctionSource

_Fill = Callable[[Any, Any], None]


class NotFinite(ArithmeticError):
    """A result holds a figure that is infinite or no number: a bug in what computed it."""


# -- from a request ---------------------------------------------------------------------------------------------------


def reader(message: type[Message], kind: type) -> Callable[[Message], Any]:
    """A function that turns a valid message into the struct; what is not set keeps the struct's default.

    Raises:
        TypeError: message and struct do not match.
    """
    return _reader(descriptor_of(message), kind)


@cache  # messages within messages are mostly the same few
def _reader(descriptor: Descriptor, kind: type) -> Callable[[Any], Any]:
    source = FunctionSource("message")
    values = [_read_expression(source, pair) for pair in pairs(descriptor, kind)]
    source.line(f"return {source.name(kind)}({', '.join(values)})")
    return source.compiled()


def _read_expression(source: FunctionSource, pair: FieldPair) -> str:
    value = f"message.{pair.name}"
    convert = _conversion(pair)
    converted = value if convert is None else f"{source.name(convert)}({value})"
    if not pair.descriptor.has_presence or pair.default is NODEFAULT:
        return converted
    default = source.name(pair.default)
    if convert is None:  # asking for presence costs as much as all the rest: only where the value does not tell
        return f"({value} or ({value} if message.HasField({pair.name!r}) else {default}))"
    return f"({converted} if message.HasField({pair.name!r}) else {default})"


def _conversion(pair: FieldPair) -> Callable[[Any], Any] | None:
    """How a value becomes the struct's; None where it is the same."""
    if pair.is_map:
        return dict
    if pair.is_struct:
        return to_plain
    if pair.descriptor.is_repeated:
        each = _reader(pair.message, pair.item) if pair.message is not None else None
        return tuple if each is None else lambda values: tuple(map(each, values))
    if pair.message is not None:
        return _reader(pair.message, pair.annotation)
    if pair.descriptor.enum_type is not None:
        values = pair.descriptor.enum_type.values
        return {value.number: pair.annotation(value.name) for value in values if value.number}.__getitem__
    return None


# -- to an answer -----------------------------------------------------------------------------------------------------


def writer(message: type[Message], kind: type) -> Callable[[Any], Message]:
    """A function that turns the struct into a message.

    It raises NotFinite where a figure is infinite or no number.

    Raises:
        TypeError: message and struct do not match.
    """
    fill = _filler(descriptor_of(message), kind)

    def write(result: Any) -> Message:
        answer = message()
        fill(answer, result)
        return answer

    return write


@cache
def _filler(descriptor: Descriptor, kind: type) -> _Fill:
    return filler_of(pairs(descriptor, kind))


def filler_of(matched: Sequence[FieldPair]) -> _Fill:
    """A function that puts these fields of a struct into a message."""
    source = FunctionSource("message", "result")
    write_finite_check(source, matched)
    for pair in matched:
        _write_field(source, pair)
    if not matched:
        source.line("return")
    return source.compiled()


def write_finite_check(source: FunctionSource, matched: Sequence[FieldPair]) -> None:
    """Statements that raise NotFinite where a double of ``result`` is not finite."""
    for pair in matched:
        if pair.descriptor.is_repeated and pair.is_double and not pair.is_map:
            column = f"result.{pair.name}"
            # Of a column the sum of squares, which takes half the time of its sum.
            total = f"{column}.dot({column})" if pair.is_column else f"sum({column})"
            source.line(f"if not {source.name(math.isfinite)}({total}):")
            source.line(f"{source.name(_refuse_items)}({pair.name!r}, result.{pair.name})", 2)
    doubles = [pair for pair in matched if pair.is_double and (pair.is_map or not pair.descriptor.is_repeated)]
    certain = [pair.name for pair in doubles if not pair.is_map and not pair.is_optional]
    if certain:  # the sum is finite only if all are
        total = " + ".join(f"result.{name}" for name in certain)
        source.line(f"if not {source.name(math.isfinite)}({total}): {source.name(_refuse)}(result, {certain!r})")
    for pair in doubles:
        if pair.is_map:
            source.line(f"{source.name(_refuse_entries)}(result.{pair.name})")
        elif pair.is_optional:
            source.line(f"if result.{pair.name} is not None and not {source.name(math.isfinite)}(result.{pair.name}):")
            source.line(f"{source.name(_refuse)}(result, [{pair.name!r}])", 2)


def _write_field(source: FunctionSource, pair: FieldPair) -> None:
    indent = 1
    value = f"result.{pair.name}"
    if pair.is_optional:
        source.line(f"value = {value}")
        source.line("if value is not None:")
        value, indent = "value", 2
    target = f"message.{pair.name}"
    if pair.is_map:
        source.line(f"{target}.update({value})", indent)
    elif pair.descriptor.is_repeated:
        _write_repeated(source, pair, target, value, indent)
    elif pair.message is not None:
        fill = _filler(pair.message, pair.annotation)
        source.line(f"inner = {target}", indent)
        source.line("inner.SetInParent()", indent)  # also where every field of it is left out
        source.line(f"{source.name(fill)}(inner, {value})", indent)
    else:  # the library takes an enum's value by name
        source.line(f"{target} = {value}", indent)


def _write_repeated(source: FunctionSource, pair: FieldPair, target: str, value: str, indent: int) -> None:
    if pair.is_column:
        source.line(f"{target}.extend({source.name(column_items(pair))}({value}))", indent)
        return
    if pair.message is None:
        source.line(f"{target}.extend({value})", indent)
        return
    fill = source.name(_filler(pair.message, pair.item))
    source.line(f"if {value}:", indent)
    source.line(f"add = {target}.add", indent + 1)
    source.line(f"for item in {value}: {fill}(add(), item)", indent + 1)


def _refuse(result: Any, names: list[str]) -> None:
    # All of them may be finite and only their sum not.
    for name in names:
        if not math.isfinite(getattr(result, name)):
            raise NotFinite(f"{type(result).__qualname__}.{name} is {getattr(result, name)}")


def column_items(pair: FieldPair) -> Callable[[Any], list[Any]]:
    """A function that makes a list of a column, of members of an enumeration by their names."""
    if pair.descriptor.enum_type is None:
        return lambda column: column.tolist()
    names = [str(member) for member in pair.item]
    return lambda column: [names[place] for place in column.places.tolist()]


def _refuse_items(name: str, column: Any) -> None:
    for row, value in enumerate(column):  # all of them may be finite and only their sum not
        if not math.isfinite(value):
            raise NotFinite(f"{name} is {value} in row {row}")


def _refuse_entries(values: Mapping[str, float]) -> None:
    for key, value in values.items():
        if not math.isfinite(value):
            raise NotFinite(f"{key} is {value}")
