"""Which field of a message is which field of a struct: matched by name, and refused where the two do not agree."""

import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Final

import msgspec
import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from service.api.descriptors import is_map, is_struct, value_of
from service.planning.columns import Choices

_SCALARS: Final = {
    FieldDescriptor.CPPTYPE_DOUBLE: float,
    FieldDescriptor.CPPTYPE_INT32: int,
    FieldDescriptor.CPPTYPE_BOOL: bool,
    FieldDescriptor.CPPTYPE_STRING: str,
}
#: Columns as NumPy holds them: only types whose items all take as many bytes on the wire as in an array.
_COLUMNS: Final = {
    FieldDescriptor.TYPE_DOUBLE: np.float64,
    FieldDescriptor.TYPE_SFIXED32: np.int32,
    FieldDescriptor.TYPE_BOOL: np.bool_,
}


class FieldPair(msgspec.Struct, frozen=True):
    """A field of a message and the field of that name of a struct."""

    descriptor: FieldDescriptor
    annotation: Any  # of the struct, without None
    is_optional: bool  # whether the struct may hold None
    default: Any  # of the struct; msgspec.NODEFAULT where it has none

    @property
    def name(self) -> str:
        """The name of both."""
        return self.descriptor.name

    @property
    def item(self) -> Any:
        """The annotation of one item of a repeated field."""
        return typing.get_args(self.annotation)[0]

    @property
    def is_column(self) -> bool:
        """Whether the struct holds it as an array."""
        return typing.get_origin(self.annotation) in {np.ndarray, Choices}

    @property
    def message(self) -> Descriptor | None:
        """What messages it holds, be it one or several; None for scalars, enums and maps."""
        return None if self.is_map else self.descriptor.message_type

    @property
    def is_map(self) -> bool:
        """Whether it is a map."""
        return is_map(self.descriptor)

    @property
    def is_struct(self) -> bool:
        """Whether it holds any JSON object."""
        return is_struct(self.descriptor)

    @property
    def is_double(self) -> bool:
        """Whether it holds a double; for a map, whether its values are doubles."""
        return value_of(self.descriptor).cpp_type == FieldDescriptor.CPPTYPE_DOUBLE


@cache
def pairs(descriptor: Descriptor, kind: type) -> tuple[FieldPair, ...]:
    """The fields of both in the order of the struct.

    Raises:
        TypeError: a field is on one side only, or is not of the same kind on both.
    """
    fields = msgspec.structs.fields(kind)
    if one_sided := {each.name for each in fields} ^ set(descriptor.fields_by_name):
        raise TypeError(f"{descriptor.full_name} and {kind.__qualname__} do not share {', '.join(sorted(one_sided))}")
    return tuple(_pair(descriptor.fields_by_name[each.name], each) for each in fields)


def _pair(descriptor: FieldDescriptor, field: msgspec.structs.FieldInfo) -> FieldPair:
    hint = field.type
    is_optional = typing.get_origin(hint) in (typing.Union, types.UnionType)
    if is_optional:
        (hint,) = (each for each in typing.get_args(hint) if each is not types.NoneType)
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    pair = FieldPair(descriptor, hint, is_optional, default)
    if not _agree(pair):
        raise TypeError(f"{descriptor.full_name} is not of the kind that the struct holds: {hint}")
    return pair


def _agree(pair: FieldPair) -> bool:
    origin = typing.get_origin(pair.annotation)
    if pair.is_map or pair.is_struct:
        return origin is Mapping
    if pair.is_column:
        return pair.descriptor.is_repeated and _agree_on_column(pair)
    if pair.descriptor.is_repeated:
        return origin is tuple and _agree_on_one(pair.descriptor, pair.item)
    return _agree_on_one(pair.descriptor, pair.annotation)


def _agree_on_column(pair: FieldPair) -> bool:
    if typing.get_origin(pair.annotation) is Choices:
        # An enum's number takes one byte, as its place does, as long as it is below 128.
        enum = pair.descriptor.enum_type
        return enum is not None and _agree_on_one(pair.descriptor, pair.item) and max(enum.values_by_number) < 128
    (kind,) = typing.get_args(typing.get_args(pair.annotation)[1])
    return kind is _COLUMNS.get(pair.descriptor.type)


def _agree_on_one(descriptor: FieldDescriptor, annotation: Any) -> bool:
    if descriptor.message_type is not None:
        return issubclass(annotation, msgspec.Struct)
    if descriptor.enum_type is not None:
        names = {value.name for value in descriptor.enum_type.values if value.number != 0}
        return issubclass(annotation, StrEnum) and names == {str(member) for member in annotation}
    return _SCALARS.get(descriptor.cpp_type) is annotation
