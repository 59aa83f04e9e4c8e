"""What an operator's machines ask: is it alive, is it ready, what does it count. On the REST port, or on one of its own.

A port of its own is in plain HTTP and needs no key, so that a kubelet and a Prometheus get through while callers need
both; it belongs behind a network policy.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.errors import UnknownPath, WrongMethod, failure_of
from service.api.http_answers import send_body, send_failure
from service.telemetry import Telemetry


class Readiness(Struct):
    """Whether to send requests here: not before everything is loaded, and not while draining."""

    ready: bool = False


class Page:
    """Something fixed to read, or computed at each reading: its body, content type and status."""

    def __init__(self, render: Callable[[Request], tuple[bytes, str, int]]) -> None:
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        await send_body(send, *self._render(Request(scope)))


def operations_pages(telemetry: Telemetry, readiness: Readiness) -> Mapping[str, Page]:
    """The pages by their paths."""

    def ready(_: Request) -> tuple[bytes, str, int]:
        is_ready = readiness.ready
        return (b'{"status":"ready"}' if is_ready else b'{"status":"draining"}'), "application/json", 200 if is_ready else 503

    def metrics(request: Request) -> tuple[bytes, str, int]:
        return (*telemetry.exposition(request.headers.get("accept", "")), 200)

    alive = Page(lambda _: (b'{"status":"alive"}', "application/json", 200))
    return {"/healthz": alive, "/readyz": Page(ready), "/metrics": Page(metrics)}


def operations_app(pages: Mapping[str, Page]) -> ASGIApp:
    """The application of a port of its own, with these pages and nothing else."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        page = pages.get(scope["path"])
        if page is None:
            await send_failure(send, failure_of(UnknownPath(scope["path"]), scope["path"]))
        elif scope["method"] not in ("GET", "HEAD"):
            await send_failure(send, failure_of(WrongMethod(scope["method"], scope["path"], ["GET"]), scope["path"]))
        else:
            await page(scope, receive, send)

    return app
