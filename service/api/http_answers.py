"""Answers of the REST door below the level of any framework: what is sent for a body, and for a failure."""

from typing import Final, TypeAlias

from starlette.types import Message, Receive, Scope, Send

from service.api.errors import (
    BodyTooLarge,
    Failure,
    TooManyPending,
    UnsupportedContentEncoding,
    UnsupportedContentType,
)
from service.api.failure_bodies import as_json

Headers: TypeAlias = list[tuple[bytes, bytes]]

_JSON: Final = (b"content-type", b"application/json")
_PLAIN_JSON: Final = b"application/json"


class Disconnected(Exception):
    """The caller went away before the whole request had arrived."""


async def send_json(send: Send, body: bytes, status: int = 200, headers: Headers | None = None) -> None:
    """Sends a JSON body."""
    length = (b"content-length", b"%d" % len(body))
    all_headers = [_JSON, length] if headers is None else [_JSON, length, *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


async def send_failure(send: Send, failure: Failure) -> None:
    """Sends ``google.rpc.Status`` as JSON, under the status and headers of the table."""
    headers = [(name.encode(), value.encode()) for name, value in failure.headers.items()]
    await send_json(send, as_json(failure), failure.http_status, headers)


async def send_body(send: Send, body: bytes, content_type: str, status: int = 200, headers: Headers | None = None) -> None:
    """Sends a body of another type."""
    own = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *(headers or ())]})
    await send({"type": "http.response.body", "body": body})


class Bodies:
    """Reads the bodies of requests, each and all together under a limit.

    Args:
        limit_bytes: of one body.
        pending_bytes: of all bodies that are on their way at once: many that come slowly must not fill the memory.
    """

    def __init__(self, limit_bytes: int, pending_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pending_bytes = pending_bytes
        self._pending = 0

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request that declares it as JSON in UTF-8.

        A body that is too large is refused as soon as that is known. The rest of it is dropped as it comes in, on a connection
        that stays open: were it closed, a caller that is still sending would not get to read why.

        Raises:
            UnsupportedContentType: it is declared as something else, or not at all.
            BodyTooLarge: it is, or says that it will be, larger than the limit.
            TooManyPending: together with others that are on their way it would be too much.
            Disconnected: it did not arrive in full.
        """
        content_type, declared = b"", b"0"
        for name, value in scope["headers"]:
            if name == b"content-type":
                content_type = value
            elif name == b"content-length":
                declared = value
            elif name == b"content-encoding" and value.lower() != b"identity":
                raise UnsupportedContentEncoding(value.decode("latin-1"))
        if content_type != _PLAIN_JSON and not _is_json(content_type.decode("latin-1")):
            raise UnsupportedContentType(content_type.decode("latin-1"))
        if int(declared) > self._limit_bytes:
            raise BodyTooLarge(self._limit_bytes)
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            body: bytes = message.get("body", b"")
            if len(body) > self._limit_bytes:
                raise BodyTooLarge(self._limit_bytes)
            return body
        return await self._collected(message, receive)

    async def _collected(self, message: Message, receive: Receive) -> bytes:
        collected = bytearray()
        try:
            while True:
                if message["type"] != "http.request":
                    raise Disconnected
                part = message.get("body", b"")
                self._pending += len(part)
                collected += part
                if len(collected) > self._limit_bytes:
                    raise BodyTooLarge(self._limit_bytes)
                if self._pending > self._pending_bytes:
                    raise TooManyPending(self._pending_bytes)
                if not message.get("more_body", False):
                    return bytes(collected)
                message = await receive()
        finally:
            self._pending -= len(collected)


def _is_json(content_type: str) -> bool:
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charsets = [each.removeprefix("charset=").strip('"') for each in parameters if each.startswith("charset=")]
    return kind == "application/json" and all(each in {"utf-8", "utf8"} for each in charsets)
