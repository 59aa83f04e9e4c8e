"""JSON schemas of our messages: types, bounds from the validation rules, and the comments of the protos."""

from functools import cache
from importlib import resources
from typing import Any, Final

import orjson
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor

from service.api.descriptors import is_map, is_struct, value_of
from service.api.rules import FieldRules, field_rules, must_have_one

Schema = dict[str, Any]

_REF: Final = "#/components/schemas/"
_INT32: Final = {"minimum": -(2**31), "maximum": 2**31 - 1}


@cache
def comments() -> dict[str, str]:
    """The comments of the protos by full name; the stubs carry none, so they are generated into a file beside this one."""
    text = resources.files("service.api").joinpath("comments.json").read_bytes()
    found: dict[str, str] = orjson.loads(text)
    return found


def comment(full_name: str) -> str:
    """The comment of an element of the schema. KeyError where it has none: everything is documented."""
    return comments()[full_name]


class Schemas:
    """Collects the schemas of messages and of what they hold."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def request(self, descriptor: Descriptor) -> Schema:
        """A reference to the schema of a message that callers send: strict, with what must be given."""
        return self._reference(descriptor, is_request=True)

    def response(self, descriptor: Descriptor) -> Schema:
        """A reference to the schema of a message that we send: with what is always there."""
        return self._reference(descriptor, is_request=False)

    def parameter(self, field: FieldDescriptor) -> Schema:
        """The schema of a field that is sent in a path or a query."""
        return self._field(field, is_request=True)

    def _reference(self, descriptor: Descriptor, *, is_request: bool) -> Schema:
        name = descriptor.full_name.removeprefix("tonnage.v1.")
        if name not in self.components:
            self.components[name] = {}  # a message may hold itself
            self.components[name] = self._message(descriptor, is_request)
        return {"$ref": _REF + name}

    def _message(self, descriptor: Descriptor, is_request: bool) -> Schema:
        required = [each.name for each in descriptor.fields if _is_required(each, is_request)]
        properties = {}
        for field in descriptor.fields:
            value = self._field(field, is_request)
            if is_request and field.name not in required:
                value = _or_null(value)
            properties[field.name] = value | {"description": comment(field.full_name)}
        schema: Schema = {"type": "object", "description": comment(descriptor.full_name), "properties": properties}
        if required:
            schema["required"] = required
        if is_request:
            schema["additionalProperties"] = False
            for oneof in filter(must_have_one, descriptor.oneofs):
                schema["oneOf"] = [_only(member, oneof) for member in oneof.fields]
        return schema

    def _field(self, field: FieldDescriptor, is_request: bool) -> Schema:
        rules = field_rules(field)
        if is_map(field):
            each = self._single(value_of(field), rules.values, is_request)
            schema: Schema = {"type": "object", "additionalProperties": each}
            if rules.keys is not None and rules.keys.choices:
                schema["propertyNames"] = {"enum": list(rules.keys.choices)}
            return schema | _present(maxProperties=rules.max_pairs)
        if field.is_repeated:
            return {"type": "array", "items": self._single(field, None, is_request)} | _present(maxItems=rules.max_items)
        return self._single(field, rules, is_request)

    def _single(self, field: FieldDescriptor, rules: FieldRules | None, is_request: bool) -> Schema:
        rules = rules or FieldRules()
        if is_struct(field):
            return {"type": "object"}
        if field.message_type is not None:
            return self._reference(field.message_type, is_request=is_request)
        if field.enum_type is not None:
            return _enum(field.enum_type, is_request)
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return {"type": "boolean"}
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            choices = list(rules.choices) or None
            return {"type": "string"} | _present(minLength=rules.min_len, maxLength=rules.max_len, enum=choices)
        bounds = _present(exclusiveMinimum=rules.gt, minimum=rules.gte, maximum=rules.lte)
        if field.cpp_type == FieldDescriptor.CPPTYPE_INT32:
            whole = {key: int(value) for key, value in bounds.items()}
            return {"type": "integer", "format": "int32"} | (_INT32 if is_request else {}) | whole
        return {"type": "number", "format": "double"} | bounds


def _or_null(schema: Schema) -> Schema:
    """The same, or null, which is "not given"."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if "enum" in schema:
        schema = schema | {"enum": [*schema["enum"], None]}
    return schema | {"type": [schema["type"], "null"]}


def _only(member: FieldDescriptor, oneof: OneofDescriptor) -> Schema:
    """That one member of the oneof is given and no other."""
    null = {"type": "null"}
    properties = {each.name: {"not": null} if each.name == member.name else null for each in oneof.fields}
    return {"required": [member.name], "properties": properties}


def _is_required(field: FieldDescriptor, is_request: bool) -> bool:
    if not is_request:
        return not field.has_presence
    rules = field_rules(field)
    return rules.required or (not field.has_presence and rules.excludes_zero)


def _enum(descriptor: EnumDescriptor, is_request: bool) -> Schema:
    values = [value for value in descriptor.values if value.number or not is_request]
    lines = [f"- `{value.name}`: {comment(f'{descriptor.full_name}.{value.name}')}" for value in values if value.number]
    return {"type": "string", "enum": [value.name for value in values], "x-values": "\n".join(lines)}


def _present(**keywords: Any) -> Schema:
    return {key: value for key, value in keywords.items() if value is not None}
