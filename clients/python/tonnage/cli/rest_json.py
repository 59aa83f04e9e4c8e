"""Messages in the JSON of the REST API."""

import json
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value

from tonnage.v1.capacity_service_pb2 import EstimateKvMemoryRequest


def rest_json(message: Message) -> str:
    """The message as REST sends it: snake_case keys, zero and false printed, absent fields left out."""
    body = json_format.MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return json.dumps(body, indent=2, ensure_ascii=False)


def request_body(request: EstimateKvMemoryRequest) -> dict[str, Any]:
    """The request as one posts it. The library writes no config.json that holds Infinity, so that part is written here."""
    rest = EstimateKvMemoryRequest()
    rest.CopyFrom(request)
    configs = {}
    for name in ("hf_config", "hf_quantization"):
        if request.model.HasField(name):
            configs[name] = _plain_struct(getattr(request.model, name))
            rest.model.ClearField(name)
    body: dict[str, Any] = json_format.MessageToDict(rest, preserving_proto_field_name=True)
    if configs:
        body["model"] = body.get("model", {}) | configs
    return body


def _plain_struct(struct: Struct) -> dict[str, Any]:
    return {key: _plain(value) for key, value in struct.fields.items()}


def _plain(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return int(value.number_value) if value.number_value.is_integer() else value.number_value
    if kind == "struct_value":
        return _plain_struct(value.struct_value)
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    return None if kind is None or kind == "null_value" else getattr(value, kind)
