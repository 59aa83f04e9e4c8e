"""The REST door: a FastAPI app whose routes come from ``google.api.http`` in the descriptors.

No route and no model is written by hand. The endpoints are plain ASGI below the framework's request objects: a body at
hand is answered without parsing it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from fastapi import FastAPI
from google.protobuf.message import Message
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.descriptors import descriptor_of
from service.api.errors import FieldViolation, UnknownPath, WrongMethod, failure_of
from service.api.failure_bodies import as_json
from service.api.http_answers import Bodies, Disconnected, send_body, send_failure, send_json
from service.api.json_decoding import filler, loads
from service.api.json_encoding import message_encoder
from service.api.negotiation import asked_for, without_format
from service.api.operations import Page
from service.api.query_decoding import query_decoder
from service.api.renderings import JSON, VARIES, Rendering, all_pages, is_paged, offered_by
from service.api.rest_stream import StreamEndpoint
from service.api.servicers import Admission, Servicer
from service.telemetry import UNKNOWN, RouteMetrics, Telemetry

#: Name of the usual form in the in-process tier.
FLAVOUR: Final = JSON.name
#: What is counted where the caller went away first; no status is sent then.
_GONE: Final = 499
#: ``{name}`` and ``{name=**}`` in a template of ``google.api.http``; the second may hold slashes.
_VARIABLE: Final = re.compile(r"\{(\w+)(=\*\*)?\}")


def starlette_path(template: str) -> str:
    """A path of ``google.api.http`` as Starlette writes it.

    >>> starlette_path("/v1/models/{name=**}"), starlette_path("/v1/decode:estimate")
    ('/v1/models/{name:path}', '/v1/decode:estimate')

    Raises:
        ValueError: it has a pattern that is not translated.
    """
    path = _VARIABLE.sub(lambda match: f"{{{match[1]}:path}}" if match[2] else match[0], template)
    if re.sub(r"\{\w+(:path)?\}", "", path).strip("/").find("{") >= 0:
        raise ValueError(f"{template}: only {{name}} and {{name=**}} can be mounted")
    return path


#: Gives the body of a page and its content type.
Document: TypeAlias = Callable[[], tuple[bytes, str]]


class RpcEndpoint:
    """An RPC over HTTP, as a bare ASGI application."""

    def __init__(self, servicer: Servicer, metrics: RouteMetrics, admission: Admission, bodies: Bodies) -> None:
        self._servicer = servicer
        self._metrics = metrics
        self._admission = admission
        self._name = servicer.rpc.name
        self._asked = f"{servicer.rpc.http.method} {servicer.rpc.http.template}"
        self._answers_at_once = servicer.answers_at_once
        self._encode = message_encoder(servicer.rpc.response)
        self._offered = offered_by(descriptor_of(servicer.rpc.response))
        self._json_headers = [VARIES] if len(self._offered) > 1 else None
        if servicer.rpc.http.has_body:
            self._input: _BodyInput | _UrlInput = _BodyInput(servicer, bodies)
        else:
            self._input = _UrlInput(servicer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        metrics = self._metrics
        begun = metrics.begin()
        try:
            rendering = asked_for(scope, self._offered)
            request = await self._input.bytes_of(scope, receive)
            answer = self._servicer.cache.peek(self._name, rendering.name, request)
            if answer is None and self._answers_at_once and rendering is JSON:
                answer = self._at_once(request, scope)
            elif answer is None:
                answer = await self._compute(request, scope, rendering)
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
            metrics.end(begun, 200)
            if rendering is JSON:
                await send_json(send, answer, headers=self._json_headers)
            else:
                await send_body(send, answer, rendering.media_type, headers=rendering.headers)

    def _at_once(self, request: bytes, scope: Scope) -> bytes:
        servicer = self._servicer
        answer = servicer.codec.write_json(servicer.plan(self._input.question_of(request, scope)))
        self._keep(request, JSON, answer)
        return answer

    async def _compute(self, request: bytes, scope: Scope, rendering: Rendering) -> bytes:
        servicer = self._servicer
        with self._admission.place("rest") as place:
            message = None
            if servicer.is_shared or rendering is not JSON:
                place.take()
                message, found = self._input.message_of(request, scope)
                question = servicer.question(message, found)
            else:
                question = self._input.question_of(request, scope)
            is_live = servicer.is_live(question)
            if is_live:
                place.take()
                question = await servicer.observed(question)
            if message is not None and not is_live:
                answer = await self._of_message(message, question, rendering)
            else:
                answer = servicer.codec.write_json(servicer.plan(question))
        if not is_live:
            self._keep(request, rendering, answer)
        return answer

    def _keep(self, request: bytes, rendering: Rendering, answer: bytes) -> None:
        # A copy: orjson leaves several times the length of what it wrote allocated behind it.
        self._servicer.cache.store(self._name, rendering.name, request, bytes(memoryview(answer)))

    async def _of_message(self, request: Message, question: Any, rendering: Rendering) -> bytes:
        """The answer by way of its message: what Redis holds, and what other forms than JSON are made of."""
        servicer = self._servicer
        if not servicer.is_shared or (rendering is not JSON and is_paged(request)):
            response = await servicer.in_turn(lambda: all_pages(request, servicer.answered))
        else:
            response = servicer.rpc.response.FromString(await servicer.shared(request, question))
        if rendering is JSON:
            return self._encode(response)
        return await servicer.in_turn(lambda: rendering.body(request, response))


class _BodyInput:
    """Requests whose message is the JSON body."""

    def __init__(self, servicer: Servicer, bodies: Bodies) -> None:
        self._question = servicer.question
        self.bytes_of = bodies.read  # what tells one request from another
        self._fill = filler(servicer.rpc.request)
        self._read_quickly = servicer.codec.read_json_quickly

    def message_of(self, request: bytes, _: Scope) -> tuple[Message, list[FieldViolation]]:
        """The message, and what is wrong with it."""
        return self._fill(loads(request))

    def question_of(self, request: bytes, _: Scope) -> Any:
        """What is asked."""
        value = loads(request)
        question = self._read_quickly(value)
        return self._question(*self._fill(value)) if question is None else question


class _UrlInput:
    """Requests whose message is in the path and the query."""

    def __init__(self, servicer: Servicer) -> None:
        template = servicer.rpc.http.template
        self._question = servicer.question
        self._decode = query_decoder(servicer.rpc.request, [match[1] for match in _VARIABLE.finditer(template)])

    async def bytes_of(self, scope: Scope, _: Receive) -> bytes:
        """What tells one request from another."""
        path: str = scope["path"]
        query: bytes = scope["query_string"]
        return b"%s?%s" % (path.encode(), query)

    def message_of(self, _: bytes, scope: Scope) -> tuple[Message, list[FieldViolation]]:
        """The message, and what is wrong with it."""
        return self._decode(without_format(scope["query_string"]), scope["path_params"])

    def question_of(self, request: bytes, scope: Scope) -> Any:
        """What is asked."""
        return self._question(*self.message_of(request, scope))


def _routes(pages: Mapping[str, ASGIApp], documents: Mapping[str, Document]) -> list[Route]:
    def page(document: Document) -> Page:
        return Page(lambda _: (*document(), 200))

    served: dict[str, ASGIApp] = {**pages, **{path: page(document) for path, document in documents.items()}}
    return [Route(path, page, methods=["GET"]) for path, page in served.items()]


def rest_app(
    servicers: Iterable[Servicer],
    telemetry: Telemetry,
    admission: Admission,
    *,
    pages: Mapping[str, ASGIApp],
    bodies: Bodies,
    documents: Mapping[str, Document],
    mounted: Mapping[str, ASGIApp] = MappingProxyType({}),
) -> ASGIApp:
    """The application. What has a body goes straight to its endpoint: the framework's layers cost 17 µs a request.

    Args:
        servicers: one per RPC.
        telemetry: counts requests.
        admission: bounds what is worked on at once.
        pages: what is read at a path: computed at each reading, or with headers of its own.
        bodies: reads the bodies of requests.
        documents: further fixed pages by path: what gives the body and its content type.
        mounted: what else answers at a path, whatever the method.
    """
    app = FastAPI(title="Tonnage", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    routes = app.router.routes
    direct: dict[tuple[str, str], RpcEndpoint | StreamEndpoint] = {}
    for each in servicers:
        rule = each.rpc.http
        make = StreamEndpoint if each.rpc.is_streaming else RpcEndpoint
        endpoint = make(each, telemetry.route(rule.method, rule.template, each.rpc.path[1:]), admission, bodies)
        routes.append(Route(starlette_path(rule.template), endpoint, methods=[rule.method], name=each.rpc.name))
        if rule.has_body:
            direct[rule.method, rule.template] = endpoint
    routes.extend(_routes(pages, documents))
    _replace_framework_answers(app, telemetry.route(UNKNOWN, UNKNOWN))

    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        endpoint: ASGIApp | None = None
        if scope["type"] == "http":
            endpoint = direct.get((scope["method"], scope["path"])) or mounted.get(scope["path"])
        await (app if endpoint is None else endpoint)(scope, receive, send)

    return front


def _replace_framework_answers(app: FastAPI, metrics: RouteMetrics) -> None:
    """Our body where no route takes the request; OPTIONS says what a path takes."""

    async def unmatched(request: Request, _: Exception) -> Response:
        begun = metrics.begin()
        path = request.url.path
        allowed = _allowed(app, request.scope)
        if allowed and request.method == "OPTIONS":
            metrics.end(begun, 204)
            return Response(status_code=204, headers={"allow": ", ".join(sorted(allowed))})
        error = WrongMethod(request.method, path, allowed) if allowed else UnknownPath(path)
        failure = failure_of(error, path)
        metrics.end(begun, failure.http_status)
        return Response(as_json(failure), failure.http_status, dict(failure.headers), "application/json")

    async def unexpected(_: Request, error: Exception) -> Response:
        failure = failure_of(error, UNKNOWN)
        return Response(as_json(failure), failure.http_status, dict(failure.headers), "application/json")

    app.add_exception_handler(404, unmatched)
    app.add_exception_handler(405, unmatched)
    app.add_exception_handler(HTTPException, unexpected)
    app.add_exception_handler(500, unexpected)


def _allowed(app: FastAPI, scope: Scope) -> set[str]:
    """The methods that some route takes at the path; empty where none does."""
    allowed: set[str] = set()
    for route in app.router.routes:
        if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE:
            allowed |= route.methods or set()
    return allowed | {"OPTIONS"} if allowed else allowed
