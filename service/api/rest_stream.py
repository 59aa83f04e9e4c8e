"""The REST door of RPCs that answer in parts: a line of JSON for each, or another form where there is one.

What is wrong before the first part gets its own status. After it the status is sent, so that a failure can only end the body:
as ``{"error": …}`` with the same ``google.rpc.Status``, or as the form says it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final, Protocol

from starlette.types import Receive, Scope, Send

from service.api.errors import Failure, failure_of
from service.api.failure_bodies import as_json
from service.api.http_answers import Bodies, Disconnected, send_failure
from service.api.json_decoding import filler, loads
from service.api.negotiation import asked_for
from service.api.servicers import Admission, Servicer
from service.api.stream_forms import NDJSON, Form, offered_by
from service.api.streaming import encoded_parts
from service.telemetry import RouteMetrics

#: What is counted where the caller went away first.
_GONE: Final = 499


class Encoder(Protocol):
    """Makes the body of one answer, part by part."""

    def part(self, part: Any) -> bytes:
        """The bytes of a part."""
        ...

    def failure(self, failure: Failure) -> bytes:
        """The bytes that say that the answer broke off."""
        ...


class _Lines:
    """A line of JSON for each part."""

    def __init__(self, write_json: Callable[[Any], bytes]) -> None:
        self._write = write_json

    def part(self, part: Any) -> bytes:
        """The part as a line."""
        return self._write(part) + b"\n"

    def failure(self, failure: Failure) -> bytes:
        """The status as a line."""
        return b'{"error":' + as_json(failure) + b"}\n"


class StreamEndpoint:
    """An RPC that streams over HTTP, as a bare ASGI application. Its request is the JSON body."""

    def __init__(self, servicer: Servicer, metrics: RouteMetrics, admission: Admission, bodies: Bodies) -> None:
        self._servicer = servicer
        self._metrics = metrics
        self._admission = admission
        self._bodies = bodies
        self._asked = f"{servicer.rpc.http.method} {servicer.rpc.http.template}"
        self._fill = filler(servicer.rpc.request)
        self._offered = offered_by(servicer.rpc.name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        metrics = self._metrics
        begun = metrics.begin()
        try:
            form = asked_for(scope, self._offered)
            body = await self._bodies.read(scope, receive)
            self._admission.enter("rest")
            try:
                status = await self._answer(form, body, receive, send)
            finally:
                self._admission.leave()
        except Disconnected:
            metrics.end(begun, _GONE)
        except Exception as error:
            failure = failure_of(error, self._asked)
            metrics.end(begun, failure.http_status)
            await send_failure(send, failure)
        except BaseException:
            metrics.end(begun, _GONE)
            raise
        else:
            metrics.end(begun, status)

    async def _answer(self, form: Form, body: bytes, receive: Receive, send: Send) -> int:
        """Sends the answer and returns the status to count; raises what went wrong before anything was sent."""
        servicer = self._servicer
        message, found = self._fill(loads(body))
        question = servicer.question(message, found)
        encoder: Encoder = _Lines(servicer.codec.write_json) if form is NDJSON else form.encoder(message)
        gone = asyncio.ensure_future(_gone(receive))
        try:
            async with aclosing(encoded_parts(servicer, question, encoder.part)) as parts:
                first = await anext(parts)
                while not first:  # a workbook comes whole, at the end: until then nothing is said that could turn out wrong
                    if gone.done():
                        raise Disconnected
                    first = await anext(parts)
                headers = [(b"content-type", form.media_type.encode()), (b"cache-control", b"no-store"), *form.headers]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": first, "more_body": True})
                return await self._rest(parts, encoder, gone, send)
        finally:
            gone.cancel()

    async def _rest(self, parts: AsyncIterator[bytes], encoder: Encoder, gone: "asyncio.Future[None]", send: Send) -> int:
        """Sends all but the first part; what goes wrong now ends the body."""
        status = 200
        try:
            async for part in parts:
                if gone.done():
                    raise Disconnected
                await send({"type": "http.response.body", "body": part, "more_body": True})
        except Disconnected:
            raise
        except Exception as error:
            failure = failure_of(error, self._asked)
            status = failure.http_status
            await send({"type": "http.response.body", "body": encoder.failure(failure), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return status


async def _gone(receive: Receive) -> None:
    """Waits until the caller has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
