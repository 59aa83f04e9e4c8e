"""Reads requests that are as they should be straight into their structs; says None to all others.

This is what keeps validation off the hot path: the checks are written into the reading, from the same rules that the
validator goes by, and cost a tenth of it. Whatever is not plainly right (a broken rule, an unknown key, a null, an inline
config.json) gets None, and then the strict way decides, which can say what is wrong. It may therefore be ignorant, but never
more lenient; a test compares the two.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from msgspec import NODEFAULT

from service.api.descriptors import descriptor_of
from service.api.pairing import FieldPair, pairs
from service.api.rules import FieldRules, field_rules, must_have_one
from service.function_source import FunctionSource

_TYPES = {
    FieldDescriptor.CPPTYPE_DOUBLE: "float",
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    FieldDescriptor.CPPTYPE_STRING: "str",
}


def quick_message_reader(message: type[Message], kind: type) -> Callable[[Message], Any]:
    """A function that reads a message, or says None."""
    return _reader(descriptor_of(message), kind, _write_from_message)


def quick_json_reader(message: type[Message], kind: type) -> Callable[[object], Any]:
    """A function that reads what ``orjson.loads`` made of a body, or says None."""
    return _reader(descriptor_of(message), kind, _write_from_json)


_Write = Callable[[FunctionSource, FieldPair, FieldRules, str], None]


@cache
def _reader(descriptor: Descriptor, kind: type, write: _Write) -> Callable[[Any], Any]:
    source = FunctionSource("given")
    matched = pairs(descriptor, kind)
    if write is _write_from_json:
        source.line("if type(given) is not dict: return None")
        source.line("seen, get = 0, given.get")
    for pair in matched:
        write(source, pair, field_rules(pair.descriptor), f"v_{pair.name}")
    for oneof in descriptor.oneofs:
        if must_have_one(oneof):
            count = " + ".join(f"(v_{member.name} is not None)" for member in oneof.fields)
            source.line(f"if {count} != 1: return None")
    if write is _write_from_json:
        source.line("if seen != len(given): return None")
    source.line(f"return {source.name(kind)}({', '.join(f'v_{pair.name}' for pair in matched)})")
    return source.compiled()


def _write_from_message(source: FunctionSource, pair: FieldPair, rules: FieldRules, value: str) -> None:
    """Statements that put the field into the variable, from a message."""
    field = pair.descriptor
    if pair.is_map:
        source.line(f"if given.{pair.name}: return None")
        source.line(f"{value} = {source.name(pair.default)}")
        return
    if field.is_repeated:
        source.line(f"{value} = {source.name(_list_reader(pair, rules, _write_from_message))}(given.{pair.name})")
        source.line(f"if {value} is None: return None")
        return
    if pair.message is not None:
        source.line(f"if given.HasField({pair.name!r}):")
        _write_inner(source, pair, f"given.{pair.name}", value, _write_from_message)
        _write_absent(source, pair, rules, value)
        return
    source.line(f"{value} = given.{pair.name}")
    source.line(f"if {value}:")
    if field.enum_type is not None:
        _write_enum(source, pair, value, {number.number: number.name for number in field.enum_type.values})
    else:
        source.line(f"if not ({_condition(source, rules, value)}): return None", 2)
    if field.has_presence:  # a zero that is given: the strict way looks whether it may be
        source.line(f"elif given.HasField({pair.name!r}): return None")
        _write_absent(source, pair, rules, value)
    elif rules.excludes_zero:
        source.line("else: return None")


def _write_from_json(source: FunctionSource, pair: FieldPair, rules: FieldRules, value: str) -> None:
    """Statements that put the field into the variable, from a dict."""
    field = pair.descriptor
    source.line(f"{value} = get({pair.name!r})")
    source.line(f"if {value} is not None:")
    if pair.is_map:
        source.line("return None", 2)
    elif field.is_repeated:
        source.line("seen += 1", 2)
        source.line(f"{value} = {source.name(_list_reader(pair, rules, _write_from_json))}({value})", 2)
        source.line(f"if {value} is None: return None", 2)
    elif pair.message is not None:
        source.line("seen += 1", 2)
        _write_inner(source, pair, value, value, _write_from_json)
    else:
        source.line("seen += 1", 2)
        if field.enum_type is not None:
            source.line(f"if type({value}) is not str: return None", 2)
            _write_enum(source, pair, value, {number.name: number.name for number in field.enum_type.values if number.number})
        else:
            _write_typed(source, field, rules, value)
    _write_absent(source, pair, rules, value)


def _write_inner(source: FunctionSource, pair: FieldPair, given: str, value: str, write: _Write) -> None:
    if pair.is_struct or pair.message is None:
        source.line("return None", 2)
        return
    read = _reader(pair.message, pair.annotation, write)
    source.line(f"{value} = {source.name(read)}({given})", 2)
    source.line(f"if {value} is None: return None", 2)


def _list_reader(pair: FieldPair, rules: FieldRules, write: _Write) -> Callable[[Any], tuple[Any, ...] | None]:
    """A function that reads a list of messages or scalars; their rules are those of each item's own type."""
    most = rules.max_items
    if pair.message is not None:
        each = _reader(pair.message, pair.item, write)
    elif write is _write_from_json:
        each = _scalar_reader(pair.descriptor)
    else:
        each = None  # as the message holds it

    def read(given: Any) -> tuple[Any, ...] | None:
        if write is _write_from_json and type(given) is not list:
            return None
        if most is not None and len(given) > most:
            return None
        found = tuple(given) if each is None else tuple(map(each, given))
        return None if any(item is None for item in found) else found

    return read


def _scalar_reader(field: FieldDescriptor) -> Callable[[Any], Any]:
    """A function that reads one scalar of a JSON list; None for what is not plainly of its type, and for enums."""
    kind: Any = {"float": float, "int": int, "bool": bool, "str": str}.get(_TYPES.get(field.cpp_type, ""))

    def read(given: Any) -> Any:
        if kind is float and type(given) is int:
            return float(given)
        if type(given) is not kind or (kind is int and not -(2**31) <= given < 2**31):
            return None
        return given

    return read


def _write_enum(source: FunctionSource, pair: FieldPair, value: str, names: dict[Any, str]) -> None:
    members = {member.value: member for member in pair.annotation}
    by_given = {given: members[name] for given, name in names.items() if name in members}
    source.line(f"{value} = {source.name(by_given)}.get({value})", 2)
    source.line(f"if {value} is None: return None", 2)


def _write_typed(source: FunctionSource, field: FieldDescriptor, rules: FieldRules, value: str) -> None:
    kind = _TYPES[field.cpp_type]
    if kind == "float":
        source.line(f"if type({value}) is int: {value} = float({value})", 2)
    condition = f"type({value}) is {kind} and {_condition(source, rules, value)}"
    if kind == "int" and (rules.gte is None or rules.lte is None):
        condition += f" and {-(2**31)} <= {value} < {2**31}"
    source.line(f"if not ({condition}): return None", 2)


def _write_absent(source: FunctionSource, pair: FieldPair, rules: FieldRules, value: str) -> None:
    """The branch for a field that is not given."""
    if rules.required or (pair.default is NODEFAULT and pair.descriptor.has_presence):
        source.line("else: return None")
    elif pair.descriptor.is_repeated and not pair.is_map:
        source.line(f"else: {value} = ()")
    elif pair.descriptor.has_presence or pair.is_map:
        source.line(f"else: {value} = {source.name(pair.default)}")
    elif rules.excludes_zero:
        source.line("else: return None")
    else:
        source.line(f"else: {value} = {pair.descriptor.default_value!r}")


def _condition(source: FunctionSource, rules: FieldRules, value: str) -> str:
    """An expression that is true where the value meets the rules; NaN meets none."""
    conditions = []
    if rules.gt is not None:
        conditions.append(f"{value} > {rules.gt!r}")
    if rules.gte is not None:
        conditions.append(f"{value} >= {rules.gte!r}")
    if rules.lte is not None:
        conditions.append(f"{value} <= {rules.lte!r}")
    if rules.min_len is not None:
        conditions.append(f"len({value}) >= {rules.min_len}")
    if rules.max_len is not None:
        conditions.append(f"len({value}) <= {rules.max_len}")
    if rules.choices:
        conditions.append(f"{value} in {source.name(frozenset(rules.choices))}")
    if rules.finite:
        conditions.append(f"{value} - {value} == 0")
    return " and ".join(conditions) or "True"
