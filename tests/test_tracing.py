"""Traces: what is recorded, in a trace that logs name too; sent by OTLP over real HTTP, and never at a request's cost."""

import asyncio
import builtins
import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from service import tracing
from service.api.examples import REQUESTS
from service.request_context import CURRENT, RequestContext
from service.telemetry import RpcName, Telemetry
from service.tracing import Tracing, otlp_tracing
from tests.service_process import RunningService, running_service
from tonnage.v1 import capacity_service_pb2 as pb

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
DECODE = RpcName("tonnage.v1.CapacityService", "EstimateDecode")
QUESTION: dict[str, Any] = {"model": {"name": "llama-3.1-8b"}, "accelerator": {"name": "h100-sxm"}, "context_tokens": 1000}
WAIT_SECONDS = 20.0


class Recorded:
    """Tracing whose spans stay in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracing = Tracing(SimpleSpanProcessor(self.exporter), "1.2.3")

    def request(self, code: str | int = "OK", context: RequestContext | None = None) -> ReadableSpan:
        """The span of a request that ended so."""
        token = CURRENT.set(context or RequestContext("mine"))
        try:
            self.tracing.begin("tonnage.v1.A/B", {"rpc.system": "grpc"})
            self.tracing.end(code)
        finally:
            CURRENT.reset(token)
        return self.exporter.get_finished_spans()[-1]


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def test_a_request_is_a_span_in_the_trace_that_its_logs_name(recorded: Recorded) -> None:
    context = RequestContext("mine")
    span = recorded.request(context=context)
    assert ("tonnage.v1.A/B", "SERVER") == (span.name, span.kind.name)
    assert {"rpc.system": "grpc", "tonnage.request_id": "mine", "rpc.response.status_code": "OK"} == span.attributes
    assert (int(context.trace_id, 16), int(context.span_id, 16)) == (span.context.trace_id, span.context.span_id)
    assert span.parent is None
    assert context.is_sampled
    assert {"service.name": "tonnage", "service.version": "1.2.3"}.items() <= span.resource.attributes.items()


def test_a_callers_trace_goes_on_and_its_choice_holds(recorded: Recorded) -> None:
    span = recorded.request(context=RequestContext("mine", PARENT))
    assert span.parent is not None
    assert (TRACE, SPAN) == (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}")
    unsampled = RequestContext("mine", f"{PARENT[:-2]}00")
    recorded.request(context=unsampled)
    assert 1 == len(recorded.exporter.get_finished_spans())
    assert not unsampled.is_sampled


@pytest.mark.parametrize(
    ("code", "has_failed"),
    [("OK", False), ("NOT_FOUND", False), ("INTERNAL", True), ("UNAVAILABLE", True), (200, False), (404, False), (503, True)],
)
def test_only_what_counts_against_the_service_is_an_error(recorded: Recorded, code: str | int, has_failed: bool) -> None:
    assert has_failed is (recorded.request(code).status.status_code.name == "ERROR")


def test_parts_lie_under_their_request_also_when_they_raise(recorded: Recorded) -> None:
    token = CURRENT.set(RequestContext())
    recorded.tracing.begin("whole", {})
    with recorded.tracing.part("cache.local") as span:
        span.set_attribute("cache.hit", False)

    def refuse(what: str) -> None:
        raise ValueError(what)

    with pytest.raises(ValueError, match="wrong"):
        recorded.tracing.recorded("planning", refuse)("wrong")
    recorded.tracing.end("INVALID_ARGUMENT")
    CURRENT.reset(token)
    look_up, planning, whole = recorded.exporter.get_finished_spans()
    assert ["cache.local", "planning", "whole"] == [look_up.name, planning.name, whole.name]
    for part in (look_up, planning):
        assert part.parent is not None
        assert whole.context.span_id == part.parent.span_id
    assert {"cache.hit": False} == look_up.attributes
    assert not planning.events  # what callers sent stands in errors; it must not go to a third party as well


def test_between_requests_nothing_is_recorded(recorded: Recorded) -> None:
    recorded.tracing.begin("none", {})
    with recorded.tracing.part("none") as span:
        assert span is None
    recorded.tracing.end("OK")
    assert () == recorded.exporter.get_finished_spans()


def test_all_that_is_counted_is_recorded_under_the_name_of_its_rpc(recorded: Recorded) -> None:
    telemetry = Telemetry([DECODE], version="1", spans=recorded.tracing)
    token = CURRENT.set(RequestContext())
    rpc, route = telemetry.rpc(DECODE.path), telemetry.route("POST", "/v1/decode:estimate", DECODE.path[1:])
    rpc.end(rpc.begin(), "OK")
    route.end(route.begin(), 200)
    page = telemetry.route("GET", "/v1/x")
    page.end(page.begin(), 200)
    CURRENT.reset(token)
    name = "tonnage.v1.CapacityService/EstimateDecode"
    assert [name, name, "GET /v1/x"] == [span.name for span in recorded.exporter.get_finished_spans()]


def test_traces_without_the_library_are_a_clear_error_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_PACKAGES", ("opentelemetry", "opentelemetry.nowhere.at.all"))
    with pytest.raises(ValueError, match=r"TONNAGE_TRACES is true .* not installed: pip install 'tonnage-service\[otel\]'"):
        otlp_tracing("1")


def test_a_protocol_that_is_not_spoken_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ValueError, match="OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc': traces are sent by http/protobuf only"):
        otlp_tracing("1")


def test_the_library_is_not_imported_unless_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refusing(name: str, *args: Any, **kwargs: Any) -> Any:
        assert not name.startswith("opentelemetry")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)
    telemetry = Telemetry([DECODE], version="1")
    rpc = telemetry.rpc(DECODE.path)
    rpc.end(rpc.begin(), "OK")


def test_a_collector_that_never_answers_holds_up_the_end_only_so_long(recorded: Recorded) -> None:
    class Stuck(SimpleSpanProcessor):
        def shutdown(self) -> None:
            threading.Event().wait(3)

    begun = time.perf_counter()
    asyncio.run(Tracing(Stuck(recorded.exporter), "1").close(seconds=0.1))
    assert time.perf_counter() - begun < 2


class Collector(ThreadingHTTPServer):
    """Takes spans as an OpenTelemetry collector does, by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []
        self.paths: set[str] = set()

    def with_trace(self, trace_id: str, number: int) -> dict[str, Any]:
        """The spans of a trace by name, once there are so many."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            found = {span.name: span for span in self.spans if span.trace_id.hex() == trace_id}
            if len(found) >= number:
                return found
            time.sleep(0.02)
        raise AssertionError([span.name for span in self.spans])


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        assert isinstance(self.server, Collector)
        self.server.paths.add(self.path)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.server.spans.extend(span for scope in resource.scope_spans for span in scope.spans)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server


@pytest.fixture(scope="module")
def traced(collector: Collector) -> Iterator[RunningService]:
    with running_service(
        TONNAGE_TRACES="true",
        TONNAGE_LOG_LEVEL="debug",
        TONNAGE_LOG_FORMAT="json",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.server_port}",
        OTEL_BSP_SCHEDULE_DELAY="50",
    ) as service:
        yield service


def test_both_doors_send_their_spans_to_the_collector(traced: RunningService, collector: Collector) -> None:
    answer = httpx.post(f"{traced.http}/v1/decode:estimate", json=QUESTION, headers={"traceparent": PARENT}, timeout=30)
    assert 200 == answer.status_code
    spans = collector.with_trace(TRACE, 3)
    rpc = spans["tonnage.v1.CapacityService/EstimateDecode"]
    assert SPAN == rpc.parent_span_id.hex()
    assert {rpc.span_id} == {spans["cache.local"].parent_span_id, spans["planning"].parent_span_id}
    assert {"/v1/traces"} == collector.paths

    trace_id = "a" * 32
    question = pb.EstimateDecodeRequest(**QUESTION | {"model": {"name": "?"}}).SerializeToString()
    with grpc.insecure_channel(traced.grpc) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary(DECODE.path, None, None)(question, metadata=(("traceparent", f"00-{trace_id}-{SPAN}-01"),))
    spans = collector.with_trace(trace_id, 3)
    rpc = spans["tonnage.v1.CapacityService/EstimateDecode"]
    assert "NOT_FOUND" == {each.key: each.value.string_value for each in rpc.attributes}["rpc.response.status_code"]


def test_what_runs_on_the_planning_thread_belongs_to_its_request(traced: RunningService, collector: Collector) -> None:
    trace_id = "b" * 32
    asked = httpx.post(
        f"{traced.http}/v1/placements:simulate",
        json=REQUESTS["SimulatePlacement"],
        headers={"traceparent": f"00-{trace_id}-{SPAN}-01"},
        timeout=30,
    )
    assert 200 == asked.status_code
    spans = collector.with_trace(trace_id, 3)
    assert spans["tonnage.v1.PlacementService/SimulatePlacement"].span_id == spans["planning"].parent_span_id


def test_every_request_leaves_a_line_with_its_ids_at_debug(traced: RunningService) -> None:
    headers = {"traceparent": f"00-{'c' * 32}-{SPAN}-00", "x-request-id": "the-one-i-look-for"}
    httpx.post(f"{traced.http}/v1/decode:estimate", json=QUESTION, headers=headers, timeout=30)
    lines = [json.loads(line) for line in traced.log.read_text().splitlines() if line.startswith("{")]
    (line,) = [each for each in lines if each.get("request_id") == "the-one-i-look-for"]
    assert ("tonnage.request", "debug", 200, "c" * 32) == (line["logger"], line["level"], line["code"], line["trace_id"])
    assert 16 == len(line["span_id"])
    assert 0 < line["seconds"] < 30


def test_kept_traces_become_examples_of_their_buckets(traced: RunningService) -> None:
    trace_id = "d" * 32
    httpx.post(
        f"{traced.http}/v1/decode:estimate", json=QUESTION, headers={"traceparent": f"00-{trace_id}-{SPAN}-01"}, timeout=30
    )
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    lines = httpx.get(f"{traced.http}/metrics", headers=accept, timeout=30).text.splitlines()
    examples = [line for line in lines if f'# {{trace_id="{trace_id}"}}' in line]
    assert any(line.startswith("http_server_request_duration_seconds_bucket") for line in examples)
    assert "# EOF" == lines[-1]
    assert trace_id not in httpx.get(f"{traced.http}/metrics", timeout=30).text  # the older form has no room for examples


def test_what_is_queued_is_sent_at_the_end(collector: Collector) -> None:
    exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{collector.server_port}/v1/traces")
    queued = Tracing(BatchSpanProcessor(exporter, schedule_delay_millis=600_000), "1")
    token = CURRENT.set(RequestContext(None, f"00-{'e' * 32}-{SPAN}-01"))
    queued.begin("late", {})
    queued.end("OK")
    CURRENT.reset(token)
    assert not [span for span in collector.spans if span.name == "late"]
    asyncio.run(queued.close())
    assert "late" in collector.with_trace("e" * 32, 1)


def test_a_collector_that_is_gone_hurts_no_request_and_no_end(traced: RunningService, collector: Collector) -> None:
    collector.shutdown()
    collector.server_close()
    for tokens in range(1, 40):
        asked = httpx.post(f"{traced.http}/v1/decode:estimate", json=QUESTION | {"context_tokens": tokens}, timeout=30)
        assert 200 == asked.status_code
    traced.process.terminate()
    assert 0 == traced.process.wait(30)
