"""Requests as OpenTelemetry traces, sent by OTLP over HTTP: with the extra [otel], and where TONNAGE_TRACES asks for it.

Where to, how often and how many is said by OpenTelemetry's own variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER,
OTEL_BSP_…, OTEL_SERVICE_NAME). Its library is not imported before it is known to be wanted. Spans wait in a queue of bounded
length that a thread of the library empties: when nobody takes them they are dropped, and no request waits for that.
"""

import asyncio
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from service.request_context import CURRENT

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.id_generator import IdGenerator

_INSTALL: Final = "pip install 'tonnage-service[otel]'"
_PACKAGES: Final = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
#: What counts against the service, as OpenTelemetry's conventions for servers have it. The rest is what callers get wrong.
_FAILED: Final = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
_FIRST_FAILED_STATUS: Final = 500
#: How long what is still queued may take to be sent when the service stops.
_FLUSH_SECONDS: Final = 5.0

P = ParamSpec("P")
R = TypeVar("R")


class Tracing:
    """Records requests, and parts of them, as spans. An instance owns its provider; nothing global is set.

    Args:
        processor: takes ended spans.
        version: of the service.
    """

    def __init__(self, processor: "SpanProcessor", version: str) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider

        named = Resource({"service.name": "tonnage", "service.version": version})
        self._provider = TracerProvider(
            resource=Resource.create().merge(named).merge(OTELResourceDetector().detect()),
            id_generator=_ids(),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("tonnage", version)
        self._api = trace

    def begin(self, name: str, attributes: Mapping[str, str]) -> None:
        """The request at hand begins: under its caller's span where it sent one, in the trace that its logs name."""
        request = CURRENT.get()
        if request is None:
            return
        span = self._tracer.start_span(
            name,
            context=self._caller(request.trace_id, request.parent_id, request.is_sampled),
            kind=self._api.SpanKind.SERVER,
            attributes={**attributes, "tonnage.request_id": request.request_id},
        )
        about = span.get_span_context()
        request.recorded_by(span, f"{about.span_id:016x}", is_sampled=about.trace_flags.sampled)

    def _caller(self, trace_id: str, parent_id: str | None, is_sampled: bool) -> "Context":
        from opentelemetry.context import Context

        if parent_id is None:
            return Context()
        flags = self._api.TraceFlags(self._api.TraceFlags.SAMPLED if is_sampled else self._api.TraceFlags.DEFAULT)
        caller = self._api.SpanContext(int(trace_id, 16), int(parent_id, 16), is_remote=True, trace_flags=flags)
        return self._api.set_span_in_context(self._api.NonRecordingSpan(caller), Context())

    def end(self, code: str | int) -> None:
        """It ended with a status code, by its name for gRPC and by its number for HTTP."""
        request = CURRENT.get()
        if request is None or request.span is None:
            return
        span, request.span = request.span, None
        if isinstance(code, int):
            span.set_attribute("http.response.status_code", code)
            has_failed = code >= _FIRST_FAILED_STATUS
        else:
            span.set_attribute("rpc.response.status_code", code)
            has_failed = code in _FAILED
        if has_failed:
            span.set_status(self._api.StatusCode.ERROR)
        span.end()

    @contextmanager
    def part(self, name: str) -> Iterator[Any]:
        """A part of the request at hand; gives its span, or None where none is recorded."""
        request = CURRENT.get()
        if request is None or request.span is None or not request.span.is_recording():
            yield None
            return
        inside = self._api.set_span_in_context(request.span)
        with self._tracer.start_as_current_span(
            name, context=inside, record_exception=False, set_status_on_exception=False
        ) as span:
            yield span

    def recorded(self, name: str, work: Callable[P, R]) -> Callable[P, R]:
        """The work, as a part of the request at hand."""

        def recording(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.part(name):
                return work(*args, **kwargs)

        return recording

    async def close(self, seconds: float = _FLUSH_SECONDS) -> None:
        """Sends what is queued, for so long at most. Idempotent."""
        flushing = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        flushing.start()
        await asyncio.to_thread(flushing.join, seconds)


def _ids() -> "IdGenerator":
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class OfRequests(RandomIdGenerator):
        """A trace begins with the request that its logs name."""

        def generate_trace_id(self) -> int:
            request = CURRENT.get()
            return super().generate_trace_id() if request is None else int(request.trace_id, 16)

    return OfRequests()


def otlp_tracing(version: str) -> Tracing:
    """Traces that go where OpenTelemetry's variables say.

    Raises:
        ValueError: the library is not installed, or is asked for what it does not do here.
    """
    if not _is_installed():
        raise ValueError(f"TONNAGE_TRACES is true and OpenTelemetry is not installed: {_INSTALL}")
    for variable in _PROTOCOLS:
        if os.environ.get(variable, _PROTOCOL) != _PROTOCOL:
            raise ValueError(f"{variable} is {os.environ[variable]!r}: traces are sent by {_PROTOCOL} only")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    return Tracing(BatchSpanProcessor(OTLPSpanExporter()), version)


def _is_installed() -> bool:
    try:
        return all(importlib.util.find_spec(package) is not None for package in _PACKAGES)
    except ModuleNotFoundError:  # a package around one of them
        return False
