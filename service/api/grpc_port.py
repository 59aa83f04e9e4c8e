"""A port that speaks gRPC: services, health and reflection on it, from the moment it opens until it is drained."""

from collections.abc import Mapping, Sequence
from typing import Final

import grpc
from grpc_health.v1 import _async, health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from service.api.errors import Failure
from service.api.failure_bodies import as_status
from service.request_context import CURRENT, REQUEST_ID, RequestContext, request_of

#: A caller whose machine has gone says nothing, not even that it goes: it is asked whether it is there, and given up on.
_ARE_YOU_THERE_SECONDS: Final = 60.0
_NO_ANSWER_SECONDS: Final = 20.0
#: Callers may ask for signs of life so often; the library's own 5 minutes would cut off those that ask more often.
_SHORTEST_PING_SECONDS: Final = 5.0

Context = grpc.aio.ServicerContext[bytes, bytes]


class GrpcPort:
    """A server with some services on it.

    Args:
        services: the handlers of every service, by the names of service and method.
        options: of the library.
        max_concurrent_rpcs: beyond, the library refuses without looking.
        credentials: for TLS; None without.
    """

    def __init__(
        self,
        services: "Mapping[str, Mapping[str, grpc.RpcMethodHandler[bytes, bytes]]]",
        *,
        options: Sequence[tuple[str, int]],
        max_concurrent_rpcs: int,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self._services = tuple(services)
        self._credentials = credentials
        self._server = grpc.aio.server(options=[*_keepalive(), *options], maximum_concurrent_rpcs=max_concurrent_rpcs)
        self._health = _async.HealthServicer()
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(name, dict(methods)) for name, methods in services.items()]
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)

    def bind(self, host: str, port: int) -> int:
        """Takes the port, any free one for 0, and returns it. RuntimeError where it cannot be had."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self._credentials is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, self._credentials)

    async def start(self) -> None:
        """Begins to serve and says so to whoever asks for its health."""
        await self._server.start()
        for name in self._services:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop_being_healthy(self) -> None:
        """Says NOT_SERVING, for good, so that callers go elsewhere while calls are still answered."""
        await self._health.enter_graceful_shutdown()

    async def drain(self, seconds: float) -> None:
        """Takes no further calls, and lets those under way finish within so many seconds."""
        await self._server.stop(seconds)


def _keepalive() -> list[tuple[str, int]]:
    seconds = {
        "grpc.keepalive_time_ms": _ARE_YOU_THERE_SECONDS,
        "grpc.keepalive_timeout_ms": _NO_ANSWER_SECONDS,
        "grpc.http2.ping_timeout_ms": _NO_ANSWER_SECONDS,  # without it the one above closes nothing
        "grpc.http2.min_ping_interval_without_data_ms": _SHORTEST_PING_SECONDS,
    }
    return [("grpc.keepalive_permit_without_calls", 1), *((name, round(value * 1000)) for name, value in seconds.items())]


def opened(context: Context) -> RequestContext:
    """The request that a call is, which is from now on the current one; its id goes back with the call's status."""
    request = request_of(context.invocation_metadata() or ())
    CURRENT.set(request)
    context.set_trailing_metadata(((REQUEST_ID, request.request_id),))
    return request


async def abort(context: Context, failure: Failure) -> bytes:
    """Ends the call with a failure, details included. Never returns."""
    trailer: list[tuple[str, bytes | str]] = [("grpc-status-details-bin", as_status(failure).SerializeToString())]
    if failure.request_id is not None:
        trailer.append((REQUEST_ID, failure.request_id))
    return await context.abort(failure.code, failure.message, tuple(trailer))
