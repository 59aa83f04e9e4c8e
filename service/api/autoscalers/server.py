"""One gRPC server for each door of an autoscaler: own port, own TLS, own limits, beside the main door and like it otherwise."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import grpc
from msgspec import Struct

from service.api.errors import failure_of
from service.api.grpc_port import Context, GrpcPort, abort, opened
from service.api.tls import Certificate, TlsFiles
from service.telemetry import RpcMetrics, RpcName, Telemetry

#: Autoscalers keep one connection as long as it lives. It is closed gently after so long: they then look our address up anew.
MAX_CONNECTION_AGE_SECONDS: Final = 300.0
#: What a call may still take after its connection reached that age.
_AGE_GRACE_SECONDS: Final = 60.0

#: Answers a serialized request with a serialized response. Errors are those of the table in ``service.api.errors``; whatever
#: else is raised is a bug, answered INTERNAL.
Answer = Callable[[bytes, Context], Awaitable[bytes]]
#: The same in parts.
AnswerStream = Callable[[bytes, Context], AsyncIterator[bytes]]


class UnaryMethod(Struct, frozen=True):
    """One method of an autoscaler's contract, with what answers it."""

    name: RpcName
    answer: Answer


class StreamingMethod(Struct, frozen=True):
    """One method that is answered in parts. Its name has the type "server_stream"."""

    name: RpcName
    answer: AnswerStream


Method = UnaryMethod | StreamingMethod


class Limits(Struct, frozen=True, kw_only=True):
    """What a door takes."""

    max_request_bytes: int
    max_concurrent_requests: int
    max_connection_age_seconds: float = MAX_CONNECTION_AGE_SECONDS


class AutoscalerServer(GrpcPort):
    """A server with the services of one contract on it.

    Args:
        door: what it is called in addresses, logs and metrics: "expander".
        methods: what it serves.
        telemetry: counts calls; it has to know the methods' names.
        limits: what it takes.
        tls: its certificate; None for a port without TLS.
        share_port: whether other processes may listen on the same port.

    Raises:
        TlsFilesError: the certificate cannot be used.
    """

    def __init__(
        self,
        door: str,
        methods: Sequence[Method],
        telemetry: Telemetry,
        *,
        limits: Limits,
        tls: TlsFiles | None = None,
        share_port: bool = False,
    ) -> None:
        self.door = door
        self.has_tls = tls is not None
        services: dict[str, dict[str, grpc.RpcMethodHandler[bytes, bytes]]] = {method.name.service: {} for method in methods}
        for method in methods:
            services[method.name.service][method.name.method] = _handler(method, telemetry.rpc(method.name.path))
        super().__init__(
            services,
            options=_options(limits, share_port=share_port),
            max_concurrent_rpcs=limits.max_concurrent_requests,
            credentials=None if tls is None else Certificate(tls, telemetry.tls_reloads(door)).credentials(),
        )


def _options(limits: Limits, *, share_port: bool) -> list[tuple[str, int]]:
    def milliseconds(seconds: float) -> int:
        return round(seconds * 1000)

    return [
        ("grpc.max_receive_message_length", limits.max_request_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", int(share_port)),
        ("grpc.max_connection_age_ms", milliseconds(limits.max_connection_age_seconds)),
        ("grpc.max_connection_age_grace_ms", milliseconds(_AGE_GRACE_SECONDS)),
    ]


def _handler(method: Method, metrics: RpcMetrics) -> "grpc.RpcMethodHandler[bytes, bytes]":
    if isinstance(method, UnaryMethod):
        return grpc.unary_unary_rpc_method_handler(_unary(method.answer, method.name.path, metrics))
    return grpc.unary_stream_rpc_method_handler(_streaming(method.answer, method.name.path, metrics))


def _unary(answer: Answer, path: str, metrics: RpcMetrics) -> Answer:
    async def handle(request: bytes, context: Context) -> bytes:
        opened(context)
        begun, code = metrics.begin(), "CANCELLED"  # what is left when neither an answer nor an error comes of it
        try:
            answered = await answer(request, context)
            code = "OK"
            return answered
        except Exception as error:
            failure = failure_of(error, path)
            code = failure.code.name
            return await abort(context, failure)
        finally:
            metrics.end(begun, code)

    return handle


def _streaming(answer: AnswerStream, path: str, metrics: RpcMetrics) -> AnswerStream:
    async def handle(request: bytes, context: Context) -> AsyncIterator[bytes]:
        opened(context)
        begun, code = metrics.begin(), "CANCELLED"
        try:
            async for part in answer(request, context):
                yield part
            code = "OK"
        except Exception as error:
            failure = failure_of(error, path)
            code = failure.code.name
            await abort(context, failure)
        finally:
            metrics.end(begun, code)

    return handle
