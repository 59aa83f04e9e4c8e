"""Messages to request dataclasses and result dataclasses to messages, by field name.

Both directions are written out as functions once per type, from descriptor and annotations together; what does not match
is refused then. ``None`` is "not given" in both directions.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from service.api.function_source import FunctionSource
from service.api.pairing import FieldPair, pairs
from service.api.structs import to_plain

T = TypeVar("T")
_Fill = Callable[[Any, Any], None]


class NotFinite(ArithmeticError):
    """A result holds a figure that is infinite or no number: a bug in what computed it."""


# -- from a request ---------------------------------------------------------------------------------------------------


def reader(message: type[Message], kind: type[T]) -> Callable[[Message], T]:
    """A function that turns a valid message into the dataclass; what is not set keeps the dataclass's default.

    It raises InvalidRequest where a Struct holds a number that is not finite.

    Raises:
        TypeError: message and dataclass do not match.
    """
    return _reader(message.DESCRIPTOR, kind, "")


def _reader(descriptor: Descriptor, kind: type[T], path: str) -> Callable[[Any], T]:
    function = FunctionSource("message")
    values = [_read_expression(function, pair, f"{path}{pair.name}") for pair in pairs(descriptor, kind)]
    function.line(f"return {function.name(kind)}({', '.join(values)})")
    return function.compiled()


def _read_expression(function: FunctionSource, pair: FieldPair, path: str) -> str:
    value = f"message.{pair.name}"
    convert = _conversion(pair, path)
    converted = value if convert is None else f"{function.name(convert)}({value})"
    if not pair.descriptor.has_presence or pair.default is dataclasses.MISSING:
        return converted
    default = function.name(pair.default)
    if convert is None:  # asking for presence costs as much as all the rest: only where the value does not tell
        return f"({value} or ({value} if message.HasField({pair.name!r}) else {default}))"
    return f"({converted} if message.HasField({pair.name!r}) else {default})"


def _conversion(pair: FieldPair, path: str) -> Callable[[Any], Any] | None:
    """How a value becomes the dataclass's; None where it is the same."""
    if pair.is_map:
        return dict
    if pair.is_struct:
        return lambda struct: to_plain(struct, path)
    if pair.descriptor.is_repeated:
        each = _reader(pair.message, pair.item, f"{path}.") if pair.message is not None else None
        return tuple if each is None else lambda values: tuple(map(each, values))
    if pair.message is not None:
        return _reader(pair.message, pair.annotation, f"{path}.")
    if pair.descriptor.enum_type is not None:
        values = pair.descriptor.enum_type.values
        return {value.number: pair.annotation(value.name) for value in values if value.number}.__getitem__
    return None


# -- to an answer -----------------------------------------------------------------------------------------------------


def writer(message: type[Message], kind: type) -> Callable[[Any], Message]:
    """A function that turns the dataclass into a message.

    It raises NotFinite where a figure is infinite or no number.

    Raises:
        TypeError: message and dataclass do not match.
    """
    fill = _filler(message.DESCRIPTOR, kind)

    def write(result: Any) -> Message:
        answer = message()
        fill(answer, result)
        return answer

    return write


def _filler(descriptor: Descriptor, kind: type) -> _Fill:
    function = FunctionSource("message", "result")
    matched = pairs(descriptor, kind)
    doubles = [pair.name for pair in matched if pair.is_double and not pair.is_map and not pair.is_optional]
    if doubles:  # the sum is finite only if all are
        total = " + ".join(f"result.{name}" for name in doubles)
        function.line(f"if not {function.name(math.isfinite)}({total}): {function.name(_refuse(doubles))}(result)")
    for pair in matched:
        _write_field(function, pair)
    if not matched:
        function.line("pass")
    return function.compiled()


def _write_field(function: FunctionSource, pair: FieldPair) -> None:
    indent = 1
    value = f"result.{pair.name}"
    if pair.is_optional:
        function.line(f"value = {value}")
        function.line("if value is not None:")
        value, indent = "value", 2
    target = f"message.{pair.name}"
    if pair.is_map:
        if pair.is_double:
            function.line(f"{function.name(_refuse_entries)}({value})", indent)
        function.line(f"{target}.update({value})", indent)
    elif pair.descriptor.is_repeated:
        _write_repeated(function, pair, target, value, indent)
    elif pair.message is not None:
        fill = _filler(pair.message, pair.annotation)
        function.line(f"inner = {target}", indent)
        function.line("inner.SetInParent()", indent)  # also where every field of it is left out
        function.line(f"{function.name(fill)}(inner, {value})", indent)
    else:  # the library takes an enum's value by name
        if pair.is_double and pair.is_optional:
            function.line(f"if not {function.name(math.isfinite)}(value): {function.name(_refuse([pair.name]))}(result)", 2)
        function.line(f"{target} = {value}", indent)


def _write_repeated(function: FunctionSource, pair: FieldPair, target: str, value: str, indent: int) -> None:
    if pair.message is None:
        function.line(f"{target}.extend({value})", indent)
        return
    fill = function.name(_filler(pair.message, pair.item))
    function.line(f"if {value}:", indent)
    function.line(f"add = {target}.add", indent + 1)
    function.line(f"for item in {value}: {fill}(add(), item)", indent + 1)


def _refuse(names: list[str]) -> Callable[[Any], None]:
    def refuse(result: Any) -> None:
        # All of them may be finite and only their sum not.
        for name in names:
            if not math.isfinite(getattr(result, name)):
                raise NotFinite(f"{type(result).__qualname__}.{name} is {getattr(result, name)}")

    return refuse


def _refuse_entries(values: Mapping[str, float]) -> None:
    for key, value in values.items():
        if not math.isfinite(value):
            raise NotFinite(f"{key} is {value}")


