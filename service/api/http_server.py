"""The HTTP server under the REST door: uvicorn, started and drained by us rather than by its own signal handlers."""

import asyncio
import contextlib
import logging
import math
import socket
from collections.abc import Generator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from service.api.http_connection import ConnectionLimits, identified, limited_by
from service.api.tls import Certificate

#: Longer than a load balancer or a client's pool keeps a connection that nobody uses: who reuses one must not find it closed.
_IDLE_SECONDS = 75
#: How long a request takes at most from being sent to being read, on a connection that is already open.
_ARRIVAL_SECONDS = 0.2


def listen(host: str, port: int, *, share_port: bool) -> socket.socket:
    """A socket that is bound to the address, any free port for 0.

    Args:
        host: name or address.
        port: the port.
        share_port: whether other processes may listen on the same port.

    Raises:
        OSError: the address cannot be had.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


class _Server(uvicorn.Server):
    """Leaves signals to the composition root, which drains both doors together."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class HttpServer:
    """Serves an ASGI application on a socket.

    Args:
        app: the application.
        limits: of each connection.
        drain_seconds: how long ``drain`` lets requests finish.
        certificate: for TLS; None without.
    """

    def __init__(
        self, app: ASGIApp, limits: ConnectionLimits, *, drain_seconds: float, certificate: Certificate | None = None
    ) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        config = uvicorn.Config(
            identified(app),
            http=limited_by(limits),
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=max(1, math.ceil(drain_seconds)),
        )
        config.load()
        config.ssl = None if certificate is None else certificate.context()
        self._config = config
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None

    async def start(self, listener: socket.socket) -> None:
        """Begins to serve; returns once connections are taken."""
        self._listener = listener.dup()
        self._serving = asyncio.create_task(self._server.serve([listener]), name="http-server")
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0.001)
        if self._serving.done():
            self._serving.result()

    def stop_keeping_alive(self) -> None:
        """Asks each caller to close its connection with the next answer, so that none is in use when all are closed."""
        close = (b"connection", b"close")
        self._config.encoded_headers.append(close)  # which are copied into the state once a second
        self._server.server_state.default_headers = [*self._server.server_state.default_headers, close]

    async def drain(self) -> None:
        """Takes no further connections, lets requests finish, and closes what is idle."""
        if self._serving is None or self._listener is None:
            return
        for server in self._server.servers:
            server.close()
        await asyncio.sleep(0.01)  # closing takes some turns of the loop
        for connection in _waiting(self._listener):
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection, ssl=self._config.ssl)
        # On a connection that was taken just now, the request may still be on its way: it is not idle yet.
        await asyncio.sleep(_ARRIVAL_SECONDS)
        self._server.should_exit = True
        await self._serving

    def _protocol(self) -> asyncio.Protocol:
        make: Any = self._config.http_protocol_class
        protocol: asyncio.Protocol = make(config=self._config, server_state=self._server.server_state, app_state={})
        return protocol


def _waiting(listener: socket.socket) -> list[socket.socket]:
    """The connections that the kernel has taken and nobody has picked up; closes the listener, which would reset them."""
    listener.setblocking(False)
    waiting = []
    with listener, contextlib.suppress(BlockingIOError):
        while True:
            waiting.append(listener.accept()[0])
    return waiting
