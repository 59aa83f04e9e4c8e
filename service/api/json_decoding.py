"""JSON to request messages: strict, and every fault at once.

Keys are taken as in the schema (``batch_size``) and in lower camel case (``batchSize``); ``null`` is "not given". A number
in quotes, ``true`` for a number, an unknown key or a number that the field cannot hold is refused rather than guessed at.
``Infinity`` and ``NaN``, which are no JSON but which Python writes, are taken inside a config.json and nowhere else.
"""

import json
import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, TypeAlias

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from service.api.descriptors import descriptor_of, is_map, is_struct, value_of
from service.api.errors import MAX_VIOLATIONS, FieldViolation, Unreadable, shortened
from service.api.structs import TooDeep, fill_struct

#: Puts a JSON value into a field: message, value, path of the message ("model."), faults found so far.
Set: TypeAlias = Callable[[Any, Any, str, list[FieldViolation]], None]
#: Turns a JSON value into what a scalar field holds: value, path of the field, faults; None where it cannot.
_Convert: TypeAlias = Callable[[Any, str, list[FieldViolation]], Any]

_INT32_LOWEST: Final = -(2**31)
_INT32_HIGHEST: Final = 2**31 - 1
_NO_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
#: Digits of integers that a double surely holds, and orjson can check.
_MAX_INTEGER_DIGITS: Final = 18


class NotFiniteLiteral(float):
    """``NaN``, ``Infinity`` or ``-Infinity`` in a body. No conversion takes it for a number: only a Struct holds it."""


def loads(body: bytes) -> Any:
    """What the body holds, as plain Python values; ``NotFiniteLiteral`` for what Python writes where JSON has no number.

    Raises:
        Unreadable: it is not JSON; says where parsing stopped.
    """
    if not body:
        raise Unreadable("the body is empty; send a JSON object")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.doc[error.pos : error.pos + 9].startswith(_NO_NUMBERS):
            return _loads_as_python(body)
        where = f"line {error.lineno}, column {error.colno} (character {error.pos})"
        raise Unreadable(f"the body is not JSON: {error.msg}, at {where}") from None


def _loads_as_python(body: bytes) -> Any:
    """What a body with numbers that are not finite holds: otherwise as strict as ``orjson.loads``.

    Raises:
        Unreadable: it is not JSON in any other way.
    """
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=NotFiniteLiteral, parse_int=_integer, parse_float=_fraction)
        orjson.dumps(value, default=float)  # refuses lone surrogates, which no message holds
    except (ValueError, TypeError, RecursionError) as error:  # JSON's and UTF-8's errors are ValueErrors
        raise Unreadable(f"the body is not JSON: {error}") from None
    return value


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _MAX_INTEGER_DIGITS else _fraction(text)


def _fraction(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {shortened(text, 40)} is infinity when parsed as double")
    return number


def filler(message: type[Message]) -> Callable[[Any], tuple[Message, list[FieldViolation]]]:
    """A function that turns what ``loads`` gave into a message, as far as it can be, and says what is wrong with the rest."""
    fill = _filler(descriptor_of(message), {})

    def filled(value: Any) -> tuple[Message, list[FieldViolation]]:
        request, found = message(), list[FieldViolation]()
        fill(request, value, "", found)
        return request, found

    return filled


def refuse(found: list[FieldViolation], path: str, description: str, reason: str) -> None:
    """Notes a fault, unless there are so many already that nobody would read it."""
    if len(found) < MAX_VIOLATIONS:
        found.append(FieldViolation(path, description, reason))


def setters(descriptor: Descriptor, known: dict[str, Set] | None = None) -> dict[str, tuple[str, Set]]:
    """The way to set each field, by either spelling of its name, with the name as in the schema."""
    ways: dict[str, tuple[str, Set]] = {}
    for field in descriptor.fields:
        way = _setter(field, {} if known is None else known)
        oneof = field.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            way = _exclusively(field, oneof.name, way)
        ways[field.json_name] = ways[field.name] = (field.name, way)
    return ways


def unknown(key: str, path: str, names: Iterable[str], found: list[FieldViolation]) -> None:
    """Notes a key that is no field, with the names that it may stand for."""
    if len(found) >= MAX_VIOLATIONS:
        return  # what a key may stand for takes long to find out, and no more is listed
    names = list(names)
    near = get_close_matches(key[:60], names, n=3)
    known = f"the fields are {', '.join(names)}" if names else "none is taken here"
    hint = f"did you mean {' or '.join(near)}?" if near else known
    refuse(found, f"{path}{shortened(key, 60)}", f"there is no such field; {hint}", "UNKNOWN_FIELD")


def _filler(descriptor: Descriptor, known: dict[str, Set]) -> Set:
    """Fills a message of the type from a JSON object."""
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    ways: dict[str, tuple[str, Set]] = {}
    names = [field.name for field in descriptor.fields]

    def fill(message: Any, value: Any, path: str, found: list[FieldViolation]) -> None:
        if type(value) is not dict:
            _refuse_kind(found, path.rstrip("."), "an object", value)
            return
        for key, item in value.items():
            way = ways.get(key)
            if way is None:
                unknown(key, path, names, found)
            elif key != way[0] and value.get(way[0]) is not None:
                refuse(found, f"{path}{way[0]}", f"it is given twice, also as {key}", "DUPLICATE_FIELD")
            elif item is not None:
                way[1](message, item, path, found)

    known[descriptor.full_name] = fill
    ways.update(setters(descriptor, known))
    return fill


def _exclusively(field: FieldDescriptor, oneof: str, way: Set) -> Set:
    name = field.name

    def set_one(message: Any, value: Any, path: str, found: list[FieldViolation]) -> None:
        other = message.WhichOneof(oneof)
        if other is not None and other != name:
            refuse(found, f"{path}{name}", f"it excludes {other}, which is given too; leave one out", "DUPLICATE_FIELD")
        else:
            way(message, value, path, found)

    return set_one


def _setter(field: FieldDescriptor, known: dict[str, Set]) -> Set:
    if is_map(field):
        return partial(_set_map, field.name, _conversion(value_of(field)))
    if field.is_repeated:
        return _repeated_setter(field, known)
    if is_struct(field):
        return partial(_set_struct, field.name)
    if field.message_type is not None:
        return partial(_set_message, field.name, _filler(field.message_type, known))
    return partial(_set_scalar, field.name, _conversion(field))


def _set_scalar(name: str, convert: _Convert, message: Any, value: Any, path: str, found: list[FieldViolation]) -> None:
    converted = convert(value, path + name, found)
    if converted is not None:
        setattr(message, name, converted)


def _set_message(name: str, fill: Set, message: Any, value: Any, path: str, found: list[FieldViolation]) -> None:
    inner = getattr(message, name)
    inner.SetInParent()  # an empty object is given, too
    fill(inner, value, f"{path}{name}.", found)


def _set_struct(name: str, message: Any, value: Any, path: str, found: list[FieldViolation]) -> None:
    if type(value) is not dict:
        _refuse_kind(found, f"{path}{name}", "an object", value)
        return
    struct = getattr(message, name)
    struct.SetInParent()
    try:
        fill_struct(struct, value)
    except TooDeep as error:
        refuse(found, f"{path}{name}", str(error), "TOO_DEEP")


def _set_map(name: str, convert: _Convert, message: Any, value: Any, path: str, found: list[FieldViolation]) -> None:
    if type(value) is not dict:
        _refuse_kind(found, f"{path}{name}", "an object", value)
        return
    entries = getattr(message, name)
    for key, item in value.items():
        converted = convert(item, f'{path}{name}["{shortened(key, 60)}"]', found)
        if converted is not None:
            entries[key] = converted


def _repeated_setter(field: FieldDescriptor, known: dict[str, Set]) -> Set:
    fill = None if field.message_type is None else _filler(field.message_type, known)
    convert = _conversion(field) if field.message_type is None else None
    name = field.name

    def set_all(message: Any, value: Any, path: str, found: list[FieldViolation]) -> None:
        if type(value) is not list:
            _refuse_kind(found, f"{path}{name}", "an array", value)
            return
        items = getattr(message, name)
        for index, item in enumerate(value):
            if fill is not None:
                fill(items.add(), item, f"{path}{name}[{index}].", found)
            elif convert is not None and (converted := convert(item, f"{path}{name}[{index}]", found)) is not None:
                items.append(converted)

    return set_all


def _conversion(field: FieldDescriptor) -> _Convert:
    if field.enum_type is not None:
        numbers = {value.name: value.number for value in field.enum_type.values}
        return partial(_to_enum, numbers)
    return _CONVERSIONS[field.cpp_type]


def _to_double(value: Any, path: str, found: list[FieldViolation]) -> float | None:
    if type(value) is float or type(value) is int:
        return value
    _refuse_no_number(value, path, found)
    return None


def _to_int32(value: Any, path: str, found: list[FieldViolation]) -> int | None:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int:
        if _INT32_LOWEST <= value <= _INT32_HIGHEST:
            return value
        bounds = f"{_INT32_LOWEST} to {_INT32_HIGHEST}"
        refuse(found, path, f"{shortened(str(value), 40)} is out of range: the field holds {bounds}", "OUT_OF_RANGE")
        return None
    if type(value) is float:
        refuse(found, path, f"{value!r} is not a whole number", "WRONG_TYPE")
        return None
    _refuse_no_number(value, path, found)
    return None


def _refuse_no_number(value: Any, path: str, found: list[FieldViolation]) -> None:
    hint = "; write it without quotes" if type(value) is str and _is_number(value) else ""
    _refuse_kind(found, path, "a number", value, hint)


def _refuse_kind(found: list[FieldViolation], path: str, expected: str, value: Any, hint: str = "") -> None:
    """Notes a value of another kind than the field's. Unreadable where it is no JSON at all."""
    if isinstance(value, NotFiniteLiteral):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        raise Unreadable(f"the body is not JSON: {name} is no number in JSON, at {shortened(path) or 'its beginning'}")
    refuse(found, path, f"{expected} is expected, not {_kind(value)}{hint}", "WRONG_TYPE")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _to_bool(value: Any, path: str, found: list[FieldViolation]) -> bool | None:
    if type(value) is bool:
        return value
    _refuse_kind(found, path, "true or false", value)
    return None


def _to_string(value: Any, path: str, found: list[FieldViolation]) -> str | None:
    if type(value) is str:
        return value
    _refuse_kind(found, path, "a string", value)
    return None


def _to_enum(numbers: dict[str, int], value: Any, path: str, found: list[FieldViolation]) -> int | None:
    number = numbers.get(value) if type(value) is str else None
    if isinstance(value, NotFiniteLiteral):
        _refuse_kind(found, path, "one of its values", value)
    elif number is None:
        shown = repr(shortened(value, 60)) if type(value) is str else _kind(value)
        names = ", ".join(name for name, number in numbers.items() if number)
        refuse(found, path, f"{shown} is none of its values; it is one of {names}", "INVALID_VALUE")
    return number


_CONVERSIONS: Final[dict[int, _Convert]] = {
    FieldDescriptor.CPPTYPE_DOUBLE: _to_double,
    FieldDescriptor.CPPTYPE_INT32: _to_int32,
    FieldDescriptor.CPPTYPE_BOOL: _to_bool,
    FieldDescriptor.CPPTYPE_STRING: _to_string,
}


def _kind(value: Any) -> str:
    """What kind of JSON value it is, in words."""
    if value is None:
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is str:
        return f"the string {shortened(value, 40)!r}"
    if type(value) is dict:
        return "an object"
    return "an array" if type(value) is list else f"the number {value!r}"
