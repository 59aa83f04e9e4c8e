"""The explorer page at ``/`` and its files under ``/explorer/``: what a browser runs, which asks nothing but the REST door.

The files come with the distribution and load nothing from elsewhere; the policy sent with them has the browser hold them
to that.
"""

from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Final

from starlette.types import Receive, Scope, Send

from service.api.http_answers import Headers, send_body

#: Pictures from ``blob:`` and ``data:`` are the charts themselves, on their way to a PNG.
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final[Headers] = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    # Kept, and asked about at each use: after an upgrade nobody runs old scripts against a new page.
    (b"cache-control", b"no-cache"),
]
_CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX: Final = "index.html"
#: Where the page offers engines. No RPC lists them, so the service writes those of its catalogue there.
_ENGINES: Final = "<!-- engines of the catalogue -->"


class Asset:
    """One file of the page, as an ASGI application.

    Args:
        name: of the file; its ending decides the content type.
        body: what is in it.
    """

    def __init__(self, name: str, body: bytes) -> None:
        self._body = body
        self._content_type = _CONTENT_TYPES[name[name.rindex(".") :]]
        self._tag = f'"{sha256(body).hexdigest()[:32]}"'.encode()
        self._headers: Headers = [*_HEADERS, (b"etag", self._tag)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the file, or nothing where the browser says that it has it."""
        if self._tag in _known_tags(scope):
            await send({"type": "http.response.start", "status": 304, "headers": self._headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send_body(send, self._body, self._content_type, headers=self._headers)


def _known_tags(scope: Scope) -> set[bytes]:
    """The tags of the versions that the browser has."""
    lists = (value for name, value in scope["headers"] if name == b"if-none-match")
    return {tag.strip().removeprefix(b"W/") for each in lists for tag in each.split(b",")}


def _with_engines(index: str, engines: Mapping[str, str]) -> str:
    """The page with an option for each engine."""
    return index.replace(
        _ENGINES, "".join(f'<option value="{escape(name)}">{escape(engines[name])}</option>' for name in engines)
    )


def explorer_pages(engines: Mapping[str, str]) -> Mapping[str, Asset]:
    """The page and its files, by path.

    Args:
        engines: that the page offers: their titles by name.
    """
    bodies = {each.name: each.read_bytes() for each in (files("service.api.explorer") / "assets").iterdir()}
    bodies[_INDEX] = _with_engines(bodies[_INDEX].decode(), engines).encode()
    assets = {name: Asset(name, body) for name, body in bodies.items()}
    index = assets.pop(_INDEX)
    return {"/": index} | {f"/explorer/{name}": asset for name, asset in sorted(assets.items())}
