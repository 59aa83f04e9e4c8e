"""Messages in the JSON of the REST API."""

import json

from google.protobuf import json_format
from google.protobuf.message import Message


def rest_json(message: Message) -> str:
    """The message as REST sends it: snake_case keys, zero and false printed, absent fields left out."""
    body = json_format.MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return json.dumps(body, indent=2, ensure_ascii=False)
