"""The gate in front of the REST door, as a bare ASGI application."""

from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.access.callers import Scope as AccessScope
from service.api.access.gate import Gate, credentials_of, scope_of_rpc
from service.api.errors import failure_of
from service.api.http_answers import send_failure
from service.api.schema import Rpc
from service.telemetry import RouteMetrics

_HEADERS: Final = {b"authorization", b"x-api-key"}
_API: Final = "/v1/"


def guarded(app: ASGIApp, gate: Gate, rpcs: Iterable[Rpc], metrics: RouteMetrics, *, open_paths: Iterable[str] = ()) -> ASGIApp:
    """The application behind the gate.

    Whatever is not the API, ``/metrics`` or MCP stays open: health, documentation and the page hold no secret, and say
    nothing that is not in the distribution.

    Args:
        app: the application.
        gate: lets requests in.
        rpcs: every RPC, of which those with a body are known by their path.
        metrics: counts what is refused.
        open_paths: paths that check their callers themselves.
    """
    scopes = {rpc.http.template: scope_of_rpc(rpc.name) for rpc in rpcs if rpc.http.has_body}
    unguarded = frozenset(open_paths)

    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        wanted = None if scope["type"] != "http" or scope["path"] in unguarded else _wanted(scope["path"], scopes)
        if wanted is None:
            await app(scope, receive, send)
            return
        try:
            turn = gate.enter(_credentials(scope), _peer(scope), wanted)
        except Exception as error:
            begun = metrics.begin()
            failure = failure_of(error, scope["path"])
            metrics.end(begun, failure.http_status)
            await send_failure(send, failure)
            return
        try:
            await app(scope, receive, send)
        finally:
            turn.leave()

    return front


def _wanted(path: str, scopes: dict[str, AccessScope]) -> AccessScope | None:
    if path.startswith(_API):
        return scopes.get(path, "read")
    return {"/metrics": "admin", "/mcp": "plan"}.get(path)  # type: ignore[return-value]


def _credentials(scope: Scope) -> str:
    return credentials_of({name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _HEADERS})


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return "unknown" if client is None else str(client[0])
