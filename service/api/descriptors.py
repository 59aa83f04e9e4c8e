"""What the descriptors say, in the words that this room needs."""

from typing import Final, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

_STRUCT: Final = "google.protobuf.Struct"


def descriptor_of(message: type[Message] | Message) -> Descriptor:
    """The descriptor of a message type; its stubs name the C implementation's class beside the documented one."""
    return cast(Descriptor, message.DESCRIPTOR)


def is_map(field: FieldDescriptor) -> bool:
    """Whether the field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def is_struct(field: FieldDescriptor) -> bool:
    """Whether the field holds any JSON object."""
    return field.message_type is not None and field.message_type.full_name == _STRUCT


def value_of(field: FieldDescriptor) -> FieldDescriptor:
    """The field that describes the values: of a map its entries', else the field itself."""
    if field.message_type is None or not is_map(field):
        return field
    return field.message_type.fields_by_name["value"]
