"""Who may reach the MCP door: a host that is meant, a page that is ours, a token where one is set."""

import hmac
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.errors import ForeignHost, ForeignOrigin, Unauthenticated, WrongMethod, failure_of
from service.api.http_answers import send_failure
from service.telemetry import RouteMetrics

PATH: Final = "/mcp"
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_ANY: Final = "*"


class Guard:
    """Lets requests through to the application behind it.

    Against web pages that reach into a network by a name of their own (DNS rebinding), the Host must be one that is expected,
    and so must the Origin, which only browsers send.

    Args:
        app: the application.
        metrics: counts requests.
        hosts: names, each with or without a port, that the service is reached by; "*" for any. None given: this machine's own.
        token: what callers must present; None for no need.
    """

    def __init__(self, app: ASGIApp, metrics: RouteMetrics, *, hosts: Iterable[str], token: str | None) -> None:
        self._app = app
        self._metrics = metrics
        self._hosts = frozenset(host.lower() for host in hosts) or frozenset(_LOCAL_HOSTS)
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        begun, status = self._metrics.begin(), 499

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check(scope, Headers(scope=scope))
        except (ForeignHost, ForeignOrigin, Unauthenticated, WrongMethod) as error:
            await send_failure(counted, failure_of(error, PATH))
        else:
            await self._app(scope, receive, counted)
        finally:
            self._metrics.end(begun, status)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "")
        if not self._is_expected(host):
            raise ForeignHost(host)
        origin = headers.get("origin")
        if origin is not None and not self._is_expected(urlsplit(origin).netloc if "//" in origin else origin):
            raise ForeignOrigin(origin)
        if self._token is not None:
            scheme, _, presented = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(presented.strip().encode(), self._token):
                raise Unauthenticated("this needs the token of the MCP door; send it as 'authorization: Bearer …'")
        if scope["method"] != "POST":  # sessions and streams are not kept: there is nothing to GET or to DELETE
            raise WrongMethod(scope["method"], PATH, ["POST"])

    def _is_expected(self, host: str) -> bool:
        host = host.lower()
        return _ANY in self._hosts or host in self._hosts or _name(host) in self._hosts


def _name(host: str) -> str:
    """The name without its port.

    >>> _name("localhost:8080"), _name("[::1]:8080"), _name("tonnage")
    ('localhost', '::1', 'tonnage')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
