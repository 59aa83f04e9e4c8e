"""Asking the running service over either door, for an answer or for the way in which there is none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import httpx
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from service.api.schema import RPCS, Rpc

BY_NAME: dict[str, Rpc] = {rpc.name: rpc for rpc in RPCS}
POSTED = [rpc.name for rpc in RPCS if rpc.http.has_body and not rpc.is_streaming]
#: A model of 8 billion parameters by its config.json.
SMALL_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "rope_theta": 500000.0,
}


@dataclass(frozen=True)
class Refusal:
    """Why there is no answer, as both doors say it."""

    code: str
    http_status: int | None
    message: str
    reason: str
    metadata: Mapping[str, str]
    violations: Mapping[str, str]  # field → description
    retry_seconds: int | None

    def without_status(self) -> tuple[Any, ...]:
        """What must be the same over both doors."""
        return self.code, self.message, self.reason, dict(self.metadata), dict(self.violations), self.retry_seconds


CODES = {code.value[0]: code.name for code in grpc.StatusCode}


def refusal_in(response: httpx.Response) -> Refusal:
    """The refusal that an HTTP response holds; fails where it is not as documented."""
    assert "application/json" == response.headers["content-type"]
    body = response.json()
    assert {"code", "message", "details"} == body.keys()
    details = {each["@type"].removeprefix("type.googleapis.com/google.rpc."): each for each in body["details"]}
    info = details["ErrorInfo"]
    assert "tonnage" == info["domain"]
    violations = details.get("BadRequest", {"field_violations": []})["field_violations"]
    assert all({"field", "description", "reason"} == each.keys() for each in violations)
    retry = details.get("RetryInfo", {}).get("retry_delay")
    return Refusal(
        code=CODES[body["code"]],
        http_status=response.status_code,
        message=body["message"],
        reason=info["reason"],
        metadata=info["metadata"],
        violations={each["field"]: each["description"] for each in violations},
        retry_seconds=None if retry is None else int(retry.removesuffix("s")),
    )


def refusal_of(error: grpc.RpcError) -> Refusal:
    """The refusal that a failed call holds; fails where its details are not as documented."""
    assert isinstance(error, grpc.Call)
    status = rpc_status.from_call(error)
    assert status is not None
    details = _details(status)
    info = details["ErrorInfo"]
    assert "tonnage" == info.domain
    violations = details["BadRequest"].field_violations if "BadRequest" in details else ()
    return Refusal(
        code=error.code().name,
        http_status=None,
        message=status.message,
        reason=info.reason,
        metadata=dict(info.metadata),
        violations={each.field: each.description for each in violations},
        retry_seconds=details["RetryInfo"].retry_delay.seconds if "RetryInfo" in details else None,
    )


def _details(status: status_pb2.Status) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for packed in status.details:
        for kind in (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo):
            if packed.Is(kind.DESCRIPTOR):
                detail = kind()
                packed.Unpack(detail)
                found[kind.DESCRIPTOR.name] = detail
    return found


@dataclass(frozen=True)
class Doors:
    """Clients of a running service."""

    http: httpx.Client
    channel: grpc.Channel

    def post(self, rpc: str, question: Any) -> httpx.Response:
        """The response to a question with a body."""
        return self.http.post(BY_NAME[rpc].http.template, json=question)

    def post_bytes(self, rpc: str, body: bytes, content_type: str = "application/json") -> httpx.Response:
        """The response to a body as it is."""
        return self.http.post(BY_NAME[rpc].http.template, content=body, headers={"content-type": content_type})

    def call_bytes(self, rpc: str, request: bytes) -> bytes:
        """The response to a message as it is."""
        answer: bytes = self.channel.unary_unary(BY_NAME[rpc].path, None, None)(request, timeout=60)
        return answer

    def call(self, rpc: str, request: Message) -> Message:
        """The response to a message."""
        return BY_NAME[rpc].response.FromString(self.call_bytes(rpc, request.SerializeToString()))

    def rest_refusal(self, rpc: str, question: Any) -> Refusal:
        """Why REST does not answer the question."""
        return refusal_in(self.post(rpc, question))

    def grpc_refusal(self, rpc: str, question: Any) -> Refusal:
        """Why gRPC does not answer the question."""
        try:
            self.call(rpc, message_of(rpc, question))
        except grpc.RpcError as error:
            return refusal_of(error)
        raise AssertionError(f"{rpc} answered {question}")


def message_of(rpc: str, question: Any) -> Message:
    """The request message of a question."""
    return json_format.ParseDict(question, BY_NAME[rpc].request())


def json_of(message: Message) -> Any:
    """The message as the protobuf library has it in JSON, under the rules of our door."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
