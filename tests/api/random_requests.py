"""Random requests, from the descriptors: plausible ones, which reach the planner, and careless ones, which should not."""

from copy import deepcopy
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import settings
from hypothesis import strategies as st

from service.api.descriptors import descriptor_of, is_map, is_struct, value_of
from service.api.rules import FieldRules, field_rules
from service.catalogue.loader import load
from service.settings import specs_dir

#: A third of the profile's examples: there are many cases. ``pytest --hypothesis-profile=search`` makes it over 600 for each.
EXAMPLES: Final = settings(max_examples=settings().max_examples // 3)

_CATALOGUE: Final = load(specs_dir())
_INT32: Final = st.integers(-(2**31), 2**31 - 1)
_EDGES: Final = st.sampled_from([0, 1, -1, 2, 3, 7, 8, 9, 64, 4096, 131_072, 2**31 - 1, -(2**31)])
_SIZES: Final = st.sampled_from([1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 4096, 8192, 32_768, 131_072])
_SCALES: Final = st.floats(-3, 16).map(lambda exponent: 10.0**exponent)

_NAMES: Final = {
    "ModelSpec": [*_CATALOGUE.models, "meta-llama/Llama-3.1-70B"],
    "AcceleratorSpec": [*_CATALOGUE.accelerators, "h100"],
    "NodeSpec": [*_CATALOGUE.node_types],
    "EngineSpec": [*_CATALOGUE.engines, *_CATALOGUE.calibrations],
    "GetModelRequest": [*_CATALOGUE.model_names],
    "GetAcceleratorRequest": [*_CATALOGUE.accelerator_names],
    "GetNodeTypeRequest": [*_CATALOGUE.node_type_names],
}


def plain(value: Any) -> Any:
    """The value in dicts and lists only."""
    if hasattr(value, "items"):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


_CONFIGS: Final[list[dict[str, Any]]] = [plain(model.hf_config) for model in _CATALOGUE.models.values()]
_JSON: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), _INT32, st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=10), inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """A published config.json, with some of its values lost, replaced or scaled."""
    config: dict[str, Any] = deepcopy(draw(st.sampled_from(_CONFIGS)))  # a copy: what is drawn may be changed further on
    for key in draw(st.lists(st.sampled_from(sorted(config)), max_size=4)):
        change = draw(st.sampled_from(["drop", "replace", "edge"]))
        if change == "drop":
            config.pop(key, None)
        else:
            config[key] = draw(_JSON if change == "replace" else _EDGES)
    return config


# -- plausible --------------------------------------------------------------------------------------------------------


def plausible_json(message: type[Message]) -> st.SearchStrategy[dict[str, Any]]:
    """Requests that meet the rules of the schema, mostly, as JSON values."""
    return _plausible(descriptor_of(message))


@st.composite
def _plausible(draw: st.DrawFn, descriptor: Descriptor) -> dict[str, Any]:
    made: dict[str, Any] = {}
    chosen = {oneof.name: draw(st.sampled_from([field.name for field in oneof.fields])) for oneof in descriptor.oneofs}
    for field in descriptor.fields:
        rules = field_rules(field)
        oneof = field.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            wanted = chosen[oneof.name] == field.name
        else:
            # What planning wants for most answers is given mostly.
            wanted = rules.required or rules.excludes_zero or draw(st.sampled_from([True, True, False]))
        if field.name in {"nvml_gpu_utilization_ratio", "hf_quantization", "page_token", "observe"}:
            wanted = draw(st.integers(0, 9)) == 0
        if wanted:
            made[field.name] = draw(_plausible_value(field, rules))
    return made


def _plausible_value(field: FieldDescriptor, rules: FieldRules) -> st.SearchStrategy[Any]:
    if is_struct(field):
        return configs()
    if is_map(field):
        keys = st.sampled_from((rules.keys.choices if rules.keys else ()) or ("a", "cpu"))
        return st.dictionaries(keys, _plausible_value(value_of(field), rules.values or FieldRules()), max_size=4)
    if field.is_repeated:
        each = _plausible(field.message_type) if field.message_type is not None else _plausible_scalar(field, FieldRules())
        return st.lists(each, max_size=min(rules.max_items or 6, 6))
    if field.message_type is not None:
        return _plausible(field.message_type)
    return _plausible_scalar(field, rules)


def _plausible_scalar(field: FieldDescriptor, rules: FieldRules) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([value.name for value in field.enum_type.values if value.number])
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _plausible_text(field, rules)
    if field.cpp_type == FieldDescriptor.CPPTYPE_INT32:
        lowest, highest = int(rules.gte or 0), int(rules.lte or 2**31 - 1)
        return st.one_of(_SIZES.map(lambda size: max(lowest, min(highest, size))), st.integers(lowest, highest))
    least, most = rules.gte or 5e-324, rules.lte or 1e15
    return st.one_of(_SCALES.map(lambda scale: max(least, min(scale, most))), st.floats(least, most))


def _plausible_text(field: FieldDescriptor, rules: FieldRules) -> st.SearchStrategy[str]:
    if rules.choices:
        return st.sampled_from(rules.choices)
    if field.name == "compute_capability":
        return st.sampled_from([*_CATALOGUE.compute_capability_names, "6.1"])
    if field.name == "resource_usage_text":
        return st.sampled_from(["", "ptxas info : Used 40 registers, used 1 barriers, 512 bytes smem", "nothing of the kind"])
    if field.name.endswith("_dtype"):
        return st.sampled_from(["auto", "fp8", "fp8_e4m3", "bfloat16", "float32", "fp7"])
    holder = field.containing_type
    names = _NAMES.get(holder.name) if holder is not None and field.name == "name" else None
    return st.sampled_from(names) if names else st.text(max_size=min(rules.max_len or 30, 30))


# -- careless ---------------------------------------------------------------------------------------------------------


@st.composite
def careless_json(draw: st.DrawFn, message: type[Message]) -> Any:
    """Requests with anything in them, as JSON values."""
    value = draw(_plausible(descriptor_of(message)))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(_objects_in(value)))
        key = draw(st.sampled_from([*place, "name", "batch_size", "contextTokens", "x"]))
        place[key] = draw(st.one_of(_JSON, _EDGES))
    return value


def _objects_in(value: Any) -> list[dict[str, Any]]:
    """The object and all objects in it."""
    inner = [each for each in value.values() if isinstance(each, dict)]
    return [value, *(found for each in inner for found in _objects_in(each))]


@st.composite
def careless_message(draw: st.DrawFn, message: type[Message]) -> Message:
    """Messages with anything that their types can hold."""
    made = message()
    _fill_carelessly(draw, made)
    return made


def _fill_carelessly(draw: st.DrawFn, message: Message) -> None:
    for field in descriptor_of(message).fields:
        if draw(st.integers(0, 3)) == 0:
            continue
        if is_struct(field):
            getattr(message, field.name).update(draw(configs()))
        elif is_map(field):
            for _ in range(draw(st.integers(0, 2))):
                key = draw(st.sampled_from(["bf16", "fp8", "x", ""]))
                getattr(message, field.name)[key] = draw(_careless_scalar(value_of(field), FieldRules()))
        elif field.is_repeated:
            _fill_list_carelessly(draw, getattr(message, field.name), field)
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            _fill_carelessly(draw, getattr(message, field.name))
        else:
            setattr(message, field.name, draw(_careless_scalar(field, field_rules(field))))


def _fill_list_carelessly(draw: st.DrawFn, items: Any, field: FieldDescriptor) -> None:
    for _ in range(draw(st.integers(0, 3))):
        if field.message_type is not None:
            _fill_carelessly(draw, items.add())
        else:
            items.append(draw(_careless_scalar(field, FieldRules())))


def _careless_scalar(field: FieldDescriptor, rules: FieldRules) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.integers(0, 6)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return st.one_of(_plausible_text(field, rules), st.text(max_size=250))
    if field.cpp_type == FieldDescriptor.CPPTYPE_INT32:
        return st.one_of(_SIZES, _EDGES, _INT32)
    return st.one_of(_SCALES, st.floats(), st.just(0.5))
