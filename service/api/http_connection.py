"""One HTTP connection, with limits that uvicorn does not have.

On how many there are, how large a head is, how slowly a request may come in: who sends a byte a second, or opens
connections and says nothing, must not cost others anything.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import grpc
from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.api.departures import Departures, GatheringTransport
from service.api.errors import Failure
from service.api.failure_bodies import as_json
from service.request_context import CURRENT, REQUEST_ID, TRACEPARENT, request_of

_CODES: Final = {
    400: (grpc.StatusCode.INVALID_ARGUMENT, "UNREADABLE_REQUEST"),
    408: (grpc.StatusCode.DEADLINE_EXCEEDED, "REQUEST_TOO_SLOW"),
    431: (grpc.StatusCode.RESOURCE_EXHAUSTED, "HEAD_TOO_LARGE"),
    503: (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CONNECTIONS"),
}


#: Where an application finds which request it answers.
REQUEST: Final = "tonnage.request"
_REQUEST_ID: Final = REQUEST_ID.encode()
_OURS: Final = frozenset((_REQUEST_ID, TRACEPARENT.encode()))


class ConnectionLimits(Struct, frozen=True):
    """What a connection may do. ``refused`` counts what was cut off, by HTTP status."""

    max_connections: int
    max_head_bytes: int
    arrival_seconds: float
    refused: Callable[[int], None]


class LimitedProtocol(HttpToolsProtocol):
    """A connection under limits, which the subclass that ``limited_by`` makes holds."""

    limits: ConnectionLimits
    departures: Departures

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._arrival: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._is_arriving = False
        self._is_head_read = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes the connection where there is room, and waits only so long for a request."""
        super().connection_made(GatheringTransport(transport, self.departures, self.tasks))
        if len(self.connections) > self.limits.max_connections:
            self._refuse(503, f"{self.limits.max_connections} connections are open, which is the limit; try again in a second")
            return
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Lets go of the timers with the connection."""
        self._arrived()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """More is written than the caller has taken. Who takes nothing for as long as a request may need is cut off."""
        super().pause_writing()
        self._taking = self.loop.call_later(self.limits.arrival_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The caller has taken what there was."""
        self._taken()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Reads on, unless the head grows beyond its limit."""
        if self.transport.is_closing():
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if not self._is_arriving:
            return
        if self._arrival is None:
            self._expect()
        if not self._is_head_read and self._head_bytes > self.limits.max_head_bytes:
            self._refuse(431, f"the request line and headers are longer than {self.limits.max_head_bytes} bytes")

    def on_message_begin(self) -> None:
        """Another request begins."""
        super().on_message_begin()
        self._is_arriving = True
        self._is_head_read = False

    def on_headers_complete(self) -> None:
        """What comes now is the body, which has a limit of its own."""
        self._is_head_read = True
        ours = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.headers if name in _OURS]
        request = request_of(ours)
        self.scope[REQUEST] = request  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()
        cycle = self._unanswered()
        if cycle is not None:  # whatever answers, its head says which request it was
            cycle.default_headers = [*cycle.default_headers, (_REQUEST_ID, request.request_id.encode())]

    def on_message_complete(self) -> None:
        """The request has arrived."""
        self._arrived()
        self._is_arriving = False
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets an answer of the same form as everything else that is refused."""
        self._refuse(400, msg)

    def _expect(self) -> None:
        self._arrival = self.loop.call_later(self.limits.arrival_seconds, self._too_slow)

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _taken(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _too_slow(self) -> None:
        self._arrival = None
        cycle = self._unanswered()
        if cycle is not None and cycle.response_started:
            self.transport.abort()  # answered before it was read, and still not read
            return
        self._refuse(408, f"no whole request came within {self.limits.arrival_seconds:g} s")

    def _refuse(self, status: int, reason: str) -> None:
        """Says why in the shape of every failure, and closes. A request that is being read ends as if its caller had gone."""
        self.limits.refused(status)
        code, name = _CODES[status]
        body = as_json(Failure(code, status, reason, name, (), {}, {}, None))
        head = (
            STATUS_LINE[status],
            b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body),
        )
        self.transport.write(b"".join((*head, body)))
        self._arrived()
        cycle = self._unanswered()
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def _unanswered(self) -> Any:
        """The request that is being worked on or read, as uvicorn keeps it; None where there is none."""
        cycle: Any = self.cycle  # which is None until there was one, whatever its type says
        return None if cycle is None or cycle.response_complete else cycle


def identified(app: ASGIApp) -> ASGIApp:
    """The application, with the request that it answers as the current one."""

    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        CURRENT.set(scope.get(REQUEST))
        await app(scope, receive, send)

    return front


def limited_by(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """The protocol class under these limits; uvicorn makes an instance for each connection."""
    return cast(type[asyncio.Protocol], type("Limited", (LimitedProtocol,), {"limits": limits, "departures": Departures()}))
