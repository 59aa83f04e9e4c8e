"""What is served, read from the descriptors: every RPC with its messages and its HTTP rule. Nothing here is written twice."""

from typing import Any, Final, cast

from google.api import annotations_pb2
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from msgspec import Struct

from tonnage.v1 import (
    capacity_service_pb2,
    catalogue_service_pb2,
    claim_service_pb2,
    fleet_service_pb2,
    kernel_service_pb2,
    placement_service_pb2,
    serving_service_pb2,
    sweep_service_pb2,
)

FILES: Final[tuple[FileDescriptor, ...]] = (
    capacity_service_pb2.DESCRIPTOR,
    catalogue_service_pb2.DESCRIPTOR,
    kernel_service_pb2.DESCRIPTOR,
    claim_service_pb2.DESCRIPTOR,
    serving_service_pb2.DESCRIPTOR,
    fleet_service_pb2.DESCRIPTOR,
    sweep_service_pb2.DESCRIPTOR,
    placement_service_pb2.DESCRIPTOR,
)


class HttpRule(Struct, frozen=True):
    """The ``google.api.http`` option of an RPC: ``POST``, ``/v1/decode:estimate``, and whether the request is the body."""

    method: str
    template: str
    has_body: bool


class Rpc(Struct, frozen=True):
    """One RPC as the schema declares it."""

    service: str  # "tonnage.v1.CapacityService"
    name: str  # "EstimateDecode"
    request: type[Message]
    response: type[Message]
    http: HttpRule
    descriptor: MethodDescriptor

    @property
    def path(self) -> str:
        """The RPC as it goes over the wire: ``/tonnage.v1.CapacityService/EstimateDecode``."""
        return f"/{self.service}/{self.name}"

    @property
    def is_streaming(self) -> bool:
        """Whether it is answered in parts."""
        return self.descriptor.server_streaming


def _http_rule(method: MethodDescriptor) -> HttpRule:
    rule = method.GetOptions().Extensions[cast(Any, annotations_pb2).http]
    verb = rule.WhichOneof("pattern")
    if verb not in {"get", "post"} or rule.additional_bindings or rule.body not in {"", "*"}:
        raise ValueError(f"{method.full_name}: only one get, or one post with body '*', can be mounted")
    template: str = getattr(rule, verb)
    if method.server_streaming and not rule.body:
        raise ValueError(f"{method.full_name}: what streams takes its request as a body")
    if rule.body and "{" in template:
        raise ValueError(f"{method.full_name}: a body of '*' leaves no field for the path")
    return HttpRule(verb.upper(), template, bool(rule.body))


def _rpcs(file: FileDescriptor) -> list[Rpc]:
    return [
        Rpc(
            service=service.full_name,
            name=method.name,
            request=GetMessageClass(method.input_type),
            response=GetMessageClass(method.output_type),
            http=_http_rule(method),
            descriptor=method,
        )
        for service in file.services_by_name.values()
        for method in service.methods
    ]


RPCS: Final[tuple[Rpc, ...]] = tuple(rpc for file in FILES for rpc in _rpcs(file))
SERVICES: Final[tuple[str, ...]] = tuple(dict.fromkeys(rpc.service for rpc in RPCS))
