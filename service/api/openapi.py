"""The OpenAPI document, from the descriptors, the validation rules and the comments of the protos.

    python -m service.api.openapi    prints it, as committed in clients/openapi.json

The service serves the same document.
"""

import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import orjson

from service.api import examples, stream_forms
from service.api.descriptors import descriptor_of
from service.api.docs_page import docs_page
from service.api.negotiation import PARAMETER
from service.api.openapi_schemas import Schema, Schemas, comment
from service.api.renderings import Rendering, offered_by
from service.api.schema import RPCS, Rpc
from service.api.stream_forms import Form

_VARIABLE: Final = re.compile(r"\{(\w+)(=\*\*)?\}")

#: Fields of a list's request that name an entry of another list.
_LOOKED_UP: Final = frozenset({"node_type", "accelerator"})

_FAILURES: Final = {
    "400": (
        "The request is malformed, contradicts itself, or needs a figure that does not exist (FAILED_PRECONDITION). "
        "All faults are listed."
    ),
    "404": "The catalogue has no such name; the nearest are listed.",
    "406": "The Accept header allows none of the media types that there are; they are listed.",
    "413": "The body is larger than is taken.",
    "415": "The body is not declared as application/json in UTF-8.",
    "429": "Too much is being worked on; Retry-After says when to come back.",
    "500": "A bug; the log says why under the error_id.",
}

_STATUS: Final[Schema] = {
    "type": "object",
    "description": "google.rpc.Status: why a request was not answered.",
    "required": ["code", "message", "details"],
    "properties": {
        "code": {"type": "integer", "description": "The gRPC status code: 3 INVALID_ARGUMENT, 5 NOT_FOUND, …"},
        "message": {"type": "string", "description": "For people."},
        "details": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"$ref": "#/components/schemas/ErrorInfo"},
                    {"$ref": "#/components/schemas/BadRequest"},
                    {"$ref": "#/components/schemas/RetryInfo"},
                    {"$ref": "#/components/schemas/RequestInfo"},
                ]
            },
        },
    },
}


def _detail(name: str, description: str, properties: dict[str, Schema]) -> Schema:
    kind: Schema = {"const": f"type.googleapis.com/google.rpc.{name}"}
    return {
        "type": "object",
        "description": description,
        "required": ["@type", *properties],
        "properties": {"@type": kind, **properties},
    }


_DETAILS: Final[dict[str, Schema]] = {
    "Status": _STATUS,
    "ErrorInfo": _detail(
        "ErrorInfo",
        "The reason for programs.",
        {
            "reason": {"type": "string", "pattern": "^[A-Z][A-Z_]+$"},
            "domain": {"const": "tonnage"},
            "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    ),
    "BadRequest": _detail(
        "BadRequest",
        "What is wrong with which fields.",
        {"field_violations": {"type": "array", "items": {"$ref": "#/components/schemas/FieldViolation"}}},
    ),
    "FieldViolation": {
        "type": "object",
        "description": "One thing wrong with one field.",
        "required": ["field", "description", "reason"],
        "properties": {
            "field": {"type": "string", "description": "Path in the request: parallelism.tensor."},
            "description": {"type": "string", "description": "What is wrong and what to do."},
            "reason": {"type": "string", "pattern": "^[A-Z][A-Z0-9_]+$"},
        },
    },
    "RetryInfo": _detail("RetryInfo", "When to come back.", {"retry_delay": {"type": "string", "pattern": "^[0-9]+s$"}}),
    "RequestInfo": _detail(
        "RequestInfo",
        "Which request it was, in the log and in the head of this answer.",
        {"request_id": {"type": "string", "minLength": 1, "maxLength": 128}},
    ),
}


def document() -> dict[str, Any]:
    """The whole document."""
    schemas = Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for rpc in RPCS:
        path = _VARIABLE.sub(r"{\1}", rpc.http.template)
        paths.setdefault(path, {})[rpc.http.method.lower()] = _operation(rpc, schemas)
    services = dict.fromkeys(rpc.service for rpc in RPCS)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tonnage",
            "version": "v1",
            "description": f"{comment('tonnage/v1/capacity_service.proto')} Keys may also be written in lower camel case.",
        },
        "tags": [{"name": name.rpartition(".")[2], "description": comment(name)} for name in services],
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.components.items())) | _DETAILS},
    }


def _operation(rpc: Rpc, schemas: Schemas) -> dict[str, Any]:
    text = comment(rpc.descriptor.full_name)
    operation: dict[str, Any] = {
        "operationId": rpc.name,
        "tags": [rpc.service.rpartition(".")[2]],
        "summary": text.partition(":")[0].partition(". ")[0].rstrip("."),
        "description": text,
    }
    if rpc.http.has_body:
        content = {"schema": schemas.request(descriptor_of(rpc.request)), "example": examples.REQUESTS[rpc.name]}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    else:
        operation["parameters"] = _parameters(rpc, schemas)
    forms = _forms(rpc)
    usual, *further = forms
    if further:
        operation.setdefault("parameters", []).append(_format_parameter(forms))
    content = {usual.media_type: {"schema": schemas.response(descriptor_of(rpc.response))}}
    content |= {form.media_type.partition(";")[0]: {"schema": _body_schema(form)} for form in further}
    operation["responses"] = {
        "200": {"description": comment(descriptor_of(rpc.response).full_name), "content": content},
        **{status: _failure(status) for status in _failing_statuses(rpc)},
    }
    return operation


def _parameters(rpc: Rpc, schemas: Schemas) -> list[dict[str, Any]]:
    in_path = {match[1] for match in _VARIABLE.finditer(rpc.http.template)}
    return [
        {
            "name": field.name,
            "in": "path" if field.name in in_path else "query",
            "required": field.name in in_path,
            "description": comment(field.full_name),
            "schema": schemas.parameter(field),
            **({"example": examples.REQUESTS[rpc.name][field.name]} if field.name in examples.REQUESTS[rpc.name] else {}),
        }
        for field in descriptor_of(rpc.request).fields
    ]


def _forms(rpc: Rpc) -> tuple[Rendering | Form, ...]:
    """The forms in which an RPC is answered, the usual one first."""
    return stream_forms.offered_by(rpc.name) if rpc.is_streaming else offered_by(descriptor_of(rpc.response))


def _body_schema(form: Rendering | Form) -> Schema:
    """Text, or bytes as they are, which have no type in JSON."""
    return {"type": "string"} if form.media_type.startswith(("text/", "image/svg")) else {}


def _format_parameter(forms: tuple[Rendering | Form, ...]) -> dict[str, Any]:
    return {
        "name": PARAMETER,
        "in": "query",
        "required": False,
        "description": f"The form of the answer. It goes before the Accept header. Default: {forms[0].name}.",
        "schema": {"type": "string", "enum": [*dict.fromkeys(("json", *(form.name for form in forms)))]},
    }


def _failing_statuses(rpc: Rpc) -> list[str]:
    if rpc.http.has_body:
        return list(_FAILURES)
    # A list looks up only what it is restricted to, but a path that is none is a 404 anywhere below it.
    looks_up = "{" in rpc.http.template or not _LOOKED_UP.isdisjoint(descriptor_of(rpc.request).fields_by_name)
    return ["400", *(["404"] if looks_up else []), "406", "429", "500"]


def _failure(status: str) -> dict[str, Any]:
    failure: dict[str, Any] = {
        "description": _FAILURES[status],
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}},
    }
    if status == "429":
        failure["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return failure


def documents() -> dict[str, Callable[[], tuple[bytes, str]]]:
    """What the REST door serves to read: path → what gives body and content type, made when it is first read."""
    made = cache(document)
    return {
        "/openapi.json": cache(lambda: (orjson.dumps(made()), "application/json")),
        "/docs": cache(lambda: (docs_page(made()).encode(), "text/html; charset=utf-8")),
    }


if __name__ == "__main__":
    sys.stdout.write(orjson.dumps(document(), option=orjson.OPT_INDENT_2).decode() + "\n")
