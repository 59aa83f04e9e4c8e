"""Whether a request has the shape that the schema asks for, by the rules in the descriptors.

The rules are protovalidate's; the sentences are ours, and are only made up where a rule is broken.
"""

from collections.abc import Iterable
from typing import Any, Final

import protovalidate
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from service.api.descriptors import descriptor_of
from service.api.errors import FieldViolation, shortened

#: A config.json is some kilobytes, some hundred at most. Checking and reading a megabyte of tiny values takes 0.3 s.
MAX_STRUCT_BYTES: Final = 1 << 20
#: Above this size only the first violation is looked for: one message must not hold up the others by its many faults.
_MAX_COLLECTED_BYTES: Final = 1 << 16

_validator = protovalidate.Validator()
_collect: Final = _validator.collect_violations


def violations(message: Message, already: Iterable[FieldViolation] = ()) -> list[FieldViolation]:
    """All that is wrong with the message, one entry a fault; empty where it may be planned for.

    Args:
        message: a request.
        already: what was found wrong while parsing; what it makes wrong in consequence is not said again.
    """
    size = message.ByteSize()
    if size > MAX_STRUCT_BYTES and (large := list(_large_structs(message, ""))):
        return [*already, *large]
    found = _collect(message, fail_fast=size > _MAX_COLLECTED_BYTES)
    if not found:
        return list(already)
    known = [each.field for each in already]
    new = (_rephrased(message, violation) for violation in found)
    return [*already, *(each for each in new if not _follows(each.field, known))]


def _large_structs(message: Message, path: str) -> Iterable[FieldViolation]:
    for descriptor, value in message.ListFields():
        inner = descriptor.message_type
        if inner is None or descriptor.is_repeated:
            continue
        if inner.full_name != "google.protobuf.Struct":
            yield from _large_structs(value, f"{path}{descriptor.name}.")
        elif value.ByteSize() > MAX_STRUCT_BYTES:
            reason = f"it takes {value.ByteSize()} bytes; at most {MAX_STRUCT_BYTES} are read"
            yield FieldViolation(f"{path}{descriptor.name}", reason, "TOO_LARGE")


def _follows(path: str, known: list[str]) -> bool:
    """Whether a fault at the path is a consequence of one already known: at it, in it, or around it."""
    return any(
        path == each or each.startswith((f"{path}.", f"{path}[")) or path.startswith((f"{each}.", f"{each}[")) for each in known
    )


def _rephrased(message: Message, violation: protovalidate.Violation) -> FieldViolation:
    proto = violation.proto
    assert proto.field is not None  # our rules are all about a field or a oneof
    names = [element.field_name for element in proto.field.elements]
    subscripts = [element.subscript for element in proto.field.elements]
    path = ".".join(
        name if subscript is None else f"{name}[{_subscript(subscript)}]"
        for name, subscript in zip(names, subscripts, strict=True)
    )
    parent = _descriptor(descriptor_of(message), names[:-1])
    oneof = parent.oneofs_by_name.get(names[-1])
    if oneof is not None:
        members = ", ".join(member.name for member in oneof.fields)
        return FieldViolation(".".join(names[:-1]), f"give exactly one of {members}", "REQUIRED")
    is_entry = subscripts[-1] is not None
    described = _sentence(parent.fields_by_name[names[-1]], proto.rule_id, violation, is_entry=is_entry)
    return FieldViolation(path, described, _reason(proto.rule_id, described))


def _descriptor(descriptor: Descriptor, names: list[str]) -> Descriptor:
    for name in names:
        inner = descriptor.fields_by_name[name].message_type
        assert inner is not None  # a path only leads through messages
        descriptor = inner
    return descriptor


def _subscript(subscript: Any) -> str:
    value = shortened(str(subscript.value), 60)
    return f'"{value}"' if subscript.field == "string_key" else value


def _sentence(descriptor: FieldDescriptor, rule: str, violation: protovalidate.Violation, *, is_entry: bool) -> str:
    value, bound, message = violation.field_value, violation.rule_value, violation.proto.message
    kind = rule.partition(".")[2]
    if rule == "required":
        return f"it must be given{_choices(descriptor)}"
    if rule.startswith("enum."):
        what = "it must be given" if value == 0 else f"{value} is none of its values"
        return f"{what}{_choices(descriptor)}"
    if kind == "in":
        what = "key" if violation.proto.for_key else "value"
        return f"the {what} {shortened(str(value), 60)!r} is not accepted; it is one of {', '.join(map(str, bound))}"
    if kind == "max_len":
        return f"it has {len(value)} characters; at most {bound} are taken"
    if kind == "min_len":
        return "it must not be empty"
    if kind == "max_pairs":
        return f"it has {len(value)} entries; at most {bound} are taken"
    if value == 0 and not descriptor.has_presence and not is_entry:
        return f"it must be given, and {message.removeprefix('must ')}"
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{shown} is out of range: it {message}"


def _choices(descriptor: FieldDescriptor) -> str:
    if descriptor.enum_type is None:
        return ""
    return f"; it is one of {', '.join(value.name for value in descriptor.enum_type.values if value.number != 0)}"


def _reason(rule: str, described: str) -> str:
    if described.startswith("it must be given"):
        return "REQUIRED"
    return "OUT_OF_RANGE" if rule.partition(".")[2].startswith(("g", "l")) else "INVALID_VALUE"
