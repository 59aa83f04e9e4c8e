"""The MCP door as the service mounts it: there where it is wanted and its library is installed, and cleanly gone in the end.

The library takes a good part of the start to import (specs/decisions/0013), so nothing of it is imported before it is known to
be wanted: at the start where TONNAGE_MCP is true, else when somebody asks for the first time.
"""

import asyncio
import importlib.util
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.errors import UnknownPath, failure_of
from service.api.http_answers import send_failure
from service.api.mcp.guard import PATH, Guard
from service.api.servicers import Admission, Servicer
from service.catalogue.entries import Catalogue
from service.settings import McpMode
from service.telemetry import Telemetry

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_INSTALL: Final = "pip install 'tonnage-service[mcp]'"
_MAX_BODY_BYTES: Final = 2**18


def is_installed() -> bool:
    """Whether the library is there; does not import it."""
    return importlib.util.find_spec("mcp") is not None


def is_open(mode: McpMode) -> bool:
    """Whether chatbots are answered in that mode."""
    return mode != "false" and is_installed()


class McpDoor:
    """What answers at ``/mcp``.

    Args:
        app: the application.
        sessions: what runs behind it, where something does.
    """

    def __init__(self, app: ASGIApp, sessions: "Sessions | None" = None) -> None:
        self._app = app
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        await self._app(scope, receive, send)

    async def close(self) -> None:
        """Ends what runs behind it. Requests under way have to be over by then. Idempotent."""
        if self._sessions is not None:
            await self._sessions.close()


def mcp_door(
    mode: McpMode,
    *,
    servicers: Iterable[Servicer],
    admission: Admission,
    telemetry: Telemetry,
    catalogue: Catalogue,
    version: str,
    hosts: Iterable[str],
    token: str | None,
    max_request_bytes: int,
) -> McpDoor:
    """The door, to be closed in the end.

    Args:
        mode: whether there is to be one; "auto": where its library is installed.
        servicers: one per RPC.
        admission: bounds what is worked on at once, over all doors.
        telemetry: counts requests and tool calls.
        catalogue: whose names are understood.
        version: of the service.
        hosts: names that the service is reached by; none for this machine's own.
        token: what callers must present; None for no need.
        max_request_bytes: larger bodies are refused.

    Raises:
        ValueError: the door is wanted and its library is not installed.
    """
    if mode == "false":
        return McpDoor(_Absent("it is switched off: TONNAGE_MCP=false"))
    if not is_installed():
        if mode == "true":
            raise ValueError(f"TONNAGE_MCP is true and the MCP library is not installed: {_INSTALL}")
        return McpDoor(_Absent(f"the MCP library is not installed: {_INSTALL}"))

    def made() -> "StreamableHTTPSessionManager":
        from service.api.mcp.answers import Writer
        from service.api.mcp.asking import Asking
        from service.api.mcp.names import Names
        from service.api.mcp.server import Server
        from service.api.mcp.tools import Desk

        source_ids = {source.title: source.id for source in catalogue.sources.values()}
        server = Server(Desk(Asking(servicers, admission), Names(catalogue), Writer(source_ids)), telemetry, version)
        limit = min(_MAX_BODY_BYTES, max_request_bytes)
        server.streamable_http_app(stateless_http=True, json_response=True, host="", max_request_body_size=limit)
        return server.session_manager

    sessions = Sessions(made)
    if mode == "true":
        sessions.make()
    return McpDoor(Guard(sessions, telemetry.route("POST", PATH), hosts=hosts, token=token), sessions)


class _Absent:
    """Answers where there is no such door, and says why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_failure(send, failure_of(UnknownPath(PATH, self._reason), PATH))


class Sessions:
    """The library's session manager, from the first request to ``close``, in a task of its own.

    Its scopes must be left by the task that entered them, and the one that opens the service need not be the one that ends it.

    Args:
        make: makes the manager, in a second or so.
    """

    def __init__(self, make: Callable[[], "StreamableHTTPSessionManager"]) -> None:
        self._make = make
        self._manager: StreamableHTTPSessionManager | None = None
        self._started: asyncio.Task[StreamableHTTPSessionManager] | None = None
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def make(self) -> None:
        """Makes the manager now rather than for the first request."""
        self._manager = self._make()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if self._started is None:
            self._started = asyncio.create_task(self._start(), name="mcp-start")
        manager = await asyncio.shield(self._started)  # whoever asked first may go away, and others wait for the same
        await manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        """Ends the manager. Idempotent."""
        self._stop.set()
        if self._started is not None:
            await asyncio.wait([self._started])
        if self._running is not None:
            await self._running

    async def _start(self) -> "StreamableHTTPSessionManager":
        manager = self._manager
        if manager is None:  # on a thread: others are answered meanwhile
            manager = await asyncio.to_thread(self._make)
        is_open = asyncio.Event()
        self._running = asyncio.create_task(self._run(manager, is_open), name="mcp-sessions")
        await is_open.wait()
        return manager

    async def _run(self, manager: "StreamableHTTPSessionManager", is_open: asyncio.Event) -> None:
        async with manager.run():
            is_open.set()
            await self._stop.wait()
