"""The gRPC door. Handlers take and return raw bytes, so that an answer at hand costs no parsing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final

import grpc

from service.api.access.callers import Scope
from service.api.access.gate import Gate, Turn, credentials_of, scope_of_rpc
from service.api.errors import failure_of
from service.api.grpc_port import Context, GrpcPort, abort, opened
from service.api.schema import SERVICES
from service.api.servicers import Admission, Servicer
from service.api.streaming import encoded_parts, usable_seconds
from service.telemetry import RpcMetrics, Telemetry

#: Name of the rendering in the in-process tier.
FLAVOUR = "protobuf"
#: A caller who takes a part no sooner may go on as slowly, but not in a place that others could have.
_TAKING_SECONDS: Final = 20.0
#: RPCs that may wait for their turn, for each that may be worked on: beyond, the library refuses without looking.
_QUEUED_PER_ADMITTED = 4

Handler = Callable[[bytes, Context], Awaitable[bytes]]
StreamHandler = Callable[[bytes, Context], AsyncIterator[bytes]]


def handler(servicer: Servicer, metrics: RpcMetrics, admission: Admission, gate: Gate | None) -> Handler:
    """The handler of one RPC. Without a gate, everybody may ask."""
    scope = scope_of_rpc(servicer.rpc.name)
    name, path = servicer.rpc.name, servicer.rpc.path
    peek, store = servicer.cache.peek, servicer.cache.store
    begin, end = metrics.begin, metrics.end
    answers_at_once = servicer.answers_at_once

    def at_once(request: bytes) -> bytes:
        answer = servicer.codec.write(servicer.plan(servicer.question(servicer.parse(request)))).SerializeToString()
        store(name, FLAVOUR, request, answer)
        return answer

    async def compute(request: bytes, context: Context) -> bytes:
        with admission.place("grpc") as place:
            if servicer.is_shared:
                place.take()
            message = servicer.parse(request)
            question = servicer.question(message)
            is_live = servicer.is_live(question)
            if is_live:
                place.take()
                question = await servicer.observed(question)
            if servicer.is_shared and not is_live:
                answer = await servicer.shared(message, question, usable_seconds(context.time_remaining()))
            else:
                answer = servicer.codec.write(servicer.plan(question)).SerializeToString()
        if not is_live:
            store(name, FLAVOUR, request, answer)
        return answer

    async def handle(request: bytes, context: Context) -> bytes:
        opened(context)
        begun = begin()
        code = "CANCELLED"  # what is left when neither an answer nor an error comes of it
        turn = None
        try:
            if gate is not None:
                turn = _entered(gate, context, scope)
            answer = peek(name, FLAVOUR, request)
            if answer is None:
                answer = at_once(request) if answers_at_once else await compute(request, context)
            code = "OK"
            return answer
        except Exception as error:
            failure = failure_of(error, path)
            code = failure.code.name
            return await abort(context, failure)
        finally:
            if turn is not None:
                turn.leave()
            end(begun, code)

    return handle


def stream_handler(servicer: Servicer, metrics: RpcMetrics, admission: Admission, gate: Gate | None) -> StreamHandler:
    """The gRPC handler of an RPC that streams."""
    scope = scope_of_rpc(servicer.rpc.name)
    begin, end, path = metrics.begin, metrics.end, servicer.rpc.path

    async def handle(request: bytes, context: Context) -> AsyncIterator[bytes]:
        opened(context)
        begun = begin()
        code = "CANCELLED"  # what is left when neither an answer nor an error comes of it
        turn = None
        try:
            if gate is not None:
                turn = _entered(gate, context, scope)
            with admission.place("grpc") as place:
                place.take()
                question = servicer.question(servicer.parse(request))
                seconds = usable_seconds(context.time_remaining())
                async for part in encoded_parts(servicer, question, servicer.codec.write_bytes, seconds):
                    stalled = asyncio.get_running_loop().call_later(_TAKING_SECONDS, place.give_back)
                    yield part
                    stalled.cancel()
            code = "OK"
        except Exception as error:
            failure = failure_of(error, path)
            code = failure.code.name
            await abort(context, failure)
        finally:
            if turn is not None:
                turn.leave()
            end(begun, code)

    return handle


def _entered(gate: Gate, context: Context, scope: Scope) -> Turn:
    headers = {str(key): value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
    return gate.enter(credentials_of(headers), _host_of(context.peer()), scope)


def _host_of(peer: str) -> str:
    """The address without the port, which changes with each connection.

    >>> _host_of("ipv4:10.0.0.7:41234"), _host_of("ipv6:%5B::1%5D:41234")
    ('ipv4:10.0.0.7', 'ipv6:%5B::1%5D')
    """
    return peer.rpartition(":")[0] or peer


class GrpcServer(GrpcPort):
    """The server with all services of ours on it.

    Args:
        servicers: one per RPC.
        telemetry: counts calls.
        admission: bounds what is worked on at once.
        gate: checks callers; None where everybody may ask.
        max_concurrent_requests: the bound, from which that of waiting calls follows.
        max_request_bytes: larger requests are refused by the library, with RESOURCE_EXHAUSTED.
        share_port: whether other processes may listen on the same port.
        credentials: for TLS; None without.
    """

    def __init__(
        self,
        servicers: Iterable[Servicer],
        telemetry: Telemetry,
        admission: Admission,
        gate: Gate | None,
        *,
        max_concurrent_requests: int,
        max_request_bytes: int,
        share_port: bool,
        credentials: grpc.ServerCredentials | None,
    ) -> None:
        by_service: dict[str, dict[str, grpc.RpcMethodHandler[bytes, bytes]]] = {name: {} for name in SERVICES}
        for each in servicers:
            metrics = telemetry.rpc(each.rpc.path)
            by_service[each.rpc.service][each.rpc.name] = (
                grpc.unary_stream_rpc_method_handler(stream_handler(each, metrics, admission, gate))
                if each.rpc.is_streaming
                else grpc.unary_unary_rpc_method_handler(handler(each, metrics, admission, gate))
            )
        super().__init__(
            by_service,
            options=[
                ("grpc.max_receive_message_length", max_request_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", int(share_port)),
            ],
            max_concurrent_rpcs=max_concurrent_requests * _QUEUED_PER_ADMITTED,
            credentials=credentials,
        )
