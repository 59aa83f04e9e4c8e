"""The gRPC door. Handlers take and return raw bytes, so that an answer at hand costs no parsing."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import grpc
from grpc_health.v1 import _async, health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from service.api.errors import Failure, as_status, failure_of
from service.api.schema import SERVICES
from service.api.servicers import Admission, Servicer
from service.api.streaming import encoded_parts, usable_seconds
from service.telemetry import RpcMetrics, Telemetry

#: Name of the rendering in the in-process tier.
FLAVOUR = "protobuf"
#: RPCs that may wait for their turn, for each that may be worked on: beyond, the library refuses without looking.
_QUEUED_PER_ADMITTED = 4

Handler = Callable[[bytes, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[bytes]]
StreamHandler = Callable[[bytes, grpc.aio.ServicerContext[bytes, bytes]], AsyncIterator[bytes]]


def handler(servicer: Servicer, metrics: RpcMetrics, admission: Admission) -> Handler:
    """The handler of one RPC."""
    name, path = servicer.rpc.name, servicer.rpc.path
    peek, store = servicer.cache.peek, servicer.cache.store
    begin, end = metrics.begin, metrics.end

    async def compute(request: bytes) -> bytes:
        admission.enter("grpc")
        try:
            message = servicer.parse(request)
            question = servicer.question(message)
            is_live = servicer.is_live(question)
            if is_live:
                question = await servicer.observed(question)
            if servicer.is_shared and not is_live:
                answer = await servicer.shared(message, question)
            else:
                answer = servicer.codec.write(servicer.plan(question)).SerializeToString()
        finally:
            admission.leave()
        if not is_live:
            store(name, FLAVOUR, request, answer)
        return answer

    async def handle(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        begun = begin()
        code = "CANCELLED"  # what is left when neither an answer nor an error comes of it
        try:
            answer = peek(name, FLAVOUR, request)
            if answer is None:
                answer = await compute(request)
            code = "OK"
            return answer
        except Exception as error:
            failure = failure_of(error, path)
            code = failure.code.name
            return await _abort(context, failure)
        finally:
            end(begun, code)

    return handle


def stream_handler(servicer: Servicer, metrics: RpcMetrics, admission: Admission) -> StreamHandler:
    """The gRPC handler of an RPC that streams."""
    begin, end, path = metrics.begin, metrics.end, servicer.rpc.path

    async def handle(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> AsyncIterator[bytes]:
        begun = begin()
        code = "CANCELLED"  # what is left when neither an answer nor an error comes of it
        try:
            admission.enter("grpc")
            try:
                question = servicer.question(servicer.parse(request))
                seconds = usable_seconds(context.time_remaining())
                async for part in encoded_parts(servicer, question, servicer.codec.write_bytes, seconds):
                    yield part
            finally:
                admission.leave()
            code = "OK"
        except Exception as error:
            failure = failure_of(error, path)
            code = failure.code.name
            await _abort(context, failure)
        finally:
            end(begun, code)

    return handle


async def _abort(context: grpc.aio.ServicerContext[bytes, bytes], failure: Failure) -> bytes:
    details = as_status(failure).SerializeToString()
    return await context.abort(failure.code, failure.message, (("grpc-status-details-bin", details),))


class GrpcServer:
    """The server with all services, health and reflection on it.

    Args:
        servicers: one per RPC.
        telemetry: counts calls.
        admission: bounds what is worked on at once.
        max_concurrent_requests: the bound, from which that of waiting calls follows.
        max_request_bytes: larger requests are refused by the library, with RESOURCE_EXHAUSTED.
        share_port: whether other processes may listen on the same port.
    """

    def __init__(
        self,
        servicers: Iterable[Servicer],
        telemetry: Telemetry,
        admission: Admission,
        *,
        max_concurrent_requests: int,
        max_request_bytes: int,
        share_port: bool,
    ) -> None:
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", max_request_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", int(share_port)),
            ],
            maximum_concurrent_rpcs=max_concurrent_requests * _QUEUED_PER_ADMITTED,
        )
        self._health = _async.HealthServicer()
        by_service: dict[str, dict[str, grpc.RpcMethodHandler[bytes, bytes]]] = {name: {} for name in SERVICES}
        for each in servicers:
            metrics = telemetry.rpc(each.rpc.path)
            by_service[each.rpc.service][each.rpc.name] = (
                grpc.unary_stream_rpc_method_handler(stream_handler(each, metrics, admission))
                if each.rpc.is_streaming
                else grpc.unary_unary_rpc_method_handler(handler(each, metrics, admission))
            )
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(name, methods) for name, methods in by_service.items()]
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)

    def bind(self, host: str, port: int) -> int:
        """Takes the port, any free one for 0, and returns it. RuntimeError where it cannot be had."""
        return self._server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    async def start(self) -> None:
        """Begins to serve and says so to whoever asks for its health."""
        await self._server.start()
        for name in SERVICES:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop_being_healthy(self) -> None:
        """Says NOT_SERVING, for good, so that callers go elsewhere while calls are still answered."""
        await self._health.enter_graceful_shutdown()

    async def drain(self, seconds: float) -> None:
        """Takes no further calls, and lets those under way finish within so many seconds."""
        await self._server.stop(seconds)
