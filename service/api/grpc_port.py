"""A port that speaks gRPC: services, health and reflection on it, from the moment it opens until it is drained."""

from collections.abc import Mapping, Sequence

import grpc
from grpc_health.v1 import _async, health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from service.api.errors import Failure, as_status

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
        self._server = grpc.aio.server(options=list(options), maximum_concurrent_rpcs=max_concurrent_rpcs)
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


async def abort(context: Context, failure: Failure) -> bytes:
    """Ends the call with a failure, details included. Never returns."""
    details = as_status(failure).SerializeToString()
    return await context.abort(failure.code, failure.message, (("grpc-status-details-bin", details),))
