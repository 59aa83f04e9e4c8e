"""The validation rules of a field as the descriptors hold them, for whoever has to state or to check them.

The stubs carry protovalidate's options without depending on its proto, so they are read here by what the validator itself
knows of them.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import orjson
from google.protobuf.descriptor import FieldDescriptor, OneofDescriptor
from msgspec import Struct, field
from protobuf.wkt.google.protobuf.descriptor_pb import FieldOptions, OneofOptions
from protovalidate import ViolationPb

_EXTENSIONS: Final = {extension.name: extension.type for extension in ViolationPb.desc().file.extensions}
#: Rule → field of ``FieldRules``, and how its value is read; 64-bit numbers are strings in JSON.
_RULES: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "gt": ("gt", float),
    "gte": ("gte", float),
    "lte": ("lte", float),
    "min_len": ("min_len", int),
    "max_len": ("max_len", int),
    "max_pairs": ("max_pairs", int),
    "max_items": ("max_items", int),
    "defined_only": ("defined_only", bool),
    "finite": ("finite", bool),
    "in": ("choices", tuple),
    "not_in": ("not_in", tuple),
}


class FieldRules(Struct, frozen=True):
    """The rules of one field; ``None``, false and empty where there is none of that kind."""

    required: bool = False
    gt: float | None = None
    gte: float | None = None
    lte: float | None = None
    min_len: int | None = None
    max_len: int | None = None
    max_pairs: int | None = None
    max_items: int | None = None
    defined_only: bool = False
    finite: bool = False
    choices: tuple[str, ...] = ()
    not_in: tuple[int, ...] = ()
    keys: "FieldRules | None" = field(default=None)
    values: "FieldRules | None" = field(default=None)

    @property
    def excludes_zero(self) -> bool:
        """Whether a field without presence has to be given, since zero breaks a rule."""
        above = (self.gt is not None and self.gt >= 0) or (self.gte is not None and self.gte > 0)
        return bool(above or self.min_len or self.choices or 0 in self.not_in)


@cache
def field_rules(descriptor: FieldDescriptor) -> FieldRules:
    """The rules of the field.

    Raises:
        ValueError: it has rules that are not known here.
    """
    options = FieldOptions.from_binary(descriptor.GetOptions().SerializeToString())
    extension: Any = _EXTENSIONS["field"]
    if extension not in options:
        return FieldRules()
    return _rules(orjson.loads(options[extension].to_json(use_proto_field_name=True)), descriptor.full_name)


def must_have_one(descriptor: OneofDescriptor) -> bool:
    """Whether one member of the oneof must be set."""
    options = OneofOptions.from_binary(descriptor.GetOptions().SerializeToString())
    extension: Any = _EXTENSIONS["oneof"]
    return extension in options and bool(options[extension].required)


def _rules(rules: dict[str, Any], name: str) -> FieldRules:
    """From ``{"required": true, "int32": {"gte": 1}}``."""
    found: dict[str, Any] = {}
    if rules.pop("required", False):
        found["required"] = True
    for typed in rules.values():
        for rule, value in typed.items():
            if rule in _RULES:
                field_name, convert = _RULES[rule]
                found[field_name] = convert(value)
            elif rule in {"keys", "values"}:
                found[rule] = _rules(value, f"{name}.{rule}")
            else:
                raise ValueError(f"{name}: the rule {rule} is not known to the doors")
    return FieldRules(**found)
