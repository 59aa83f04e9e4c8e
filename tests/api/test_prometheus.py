"""An observation read from a Prometheus server: what is asked, what is taken, and every way in which it is refused."""

import json
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import httpx
import pytest

from service.api.prometheus import METRICS, promql
from tests.api.asking import Doors, Refusal, json_of, message_of
from tests.service_process import free_port, running_service

QUESTION: dict[str, Any] = {
    "model": {"name": "llama-3.1-8b"},
    "accelerator": {"name": "h100-sxm"},
    "engine": {"name": "vllm", "version": "0.19"},
    "workload": {"input_tokens": 512, "output_tokens": 256, "concurrency": 32},
}
#: 400 requests within the window: 0.2 s to the first token, 12 ms between two.
FIGURES = {"ttft_sum": "80", "ttft_count": "400.4", "tpot_sum": "4.8", "tpot_count": "400", "running": "31.5"}


def answer(**figures: str) -> bytes:
    """What Prometheus answers to a query for these figures."""
    result = [{"metric": {"figure": name}, "value": [1.0, value]} for name, value in figures.items()]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


@dataclass
class FakePrometheus:
    """A server that answers as it is told, and remembers what it was asked."""

    url: str
    body: bytes = b""
    status: int = 200
    delay_seconds: float = 0.0
    is_chunked: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def server() -> Iterator[FakePrometheus]:
    fake = FakePrometheus("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            fake.asked.append(self.path)
            time.sleep(fake.delay_seconds)
            self.send_response(fake.status)
            for name, value in fake.headers.items():
                self.send_header(name, value)
            if fake.is_chunked:
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for part in (fake.body[:50], fake.body[50:]):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.send_header("content-length", str(len(fake.body)))
                self.end_headers()
                self.wfile.write(fake.body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Callers go away when they have read enough."""

    with Quiet(("127.0.0.1", 0), Handler) as listening:
        fake.url = f"http://127.0.0.1:{listening.server_address[1]}"
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield fake
        listening.shutdown()


@pytest.fixture(scope="module")
def closed_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def allowing(server: FakePrometheus, closed_port: int) -> Iterator[Doors]:
    """Doors of a service that may read the fake server, and one that is down."""
    hosts = f"{server.url}, http://127.0.0.1:{closed_port}"
    with (
        running_service(TONNAGE_PROMETHEUS_HOSTS=hosts) as service,
        httpx.Client(base_url=service.http, timeout=60) as http,
        grpc.insecure_channel(service.grpc) as channel,
    ):
        yield Doors(http, channel)


@pytest.fixture(autouse=True)
def _as_usual(server: FakePrometheus) -> None:
    server.body, server.status, server.delay_seconds, server.is_chunked = answer(**FIGURES), 200, 0.0, False
    server.headers.clear()
    server.asked.clear()


def question(server: FakePrometheus, engine: str = "vllm", **observe: Any) -> dict[str, Any]:
    return QUESTION | {"engine": {"name": engine}, "observe": {"prometheus_url": server.url, **observe}}


def refused(doors: Doors, asked: dict[str, Any]) -> Refusal:
    """Why both doors refuse, which must be the same."""
    refusal = doors.rest_refusal("EstimateServing", asked)
    assert refusal.without_status() == doors.grpc_refusal("EstimateServing", asked).without_status()
    return refusal


def test_what_is_read_corrects_as_what_is_sent_does(allowing: Doors, server: FakePrometheus) -> None:
    read = allowing.post("EstimateServing", question(server)).json()
    sent_object = {"num_requests": 400, "ttft_seconds": 80 / 400.4, "tpot_seconds": 4.8 / 400, "running_requests": 31.5}
    sent = allowing.post("EstimateServing", QUESTION | {"engine": {"name": "vllm"}, "observation": sent_object}).json()
    assert sent == read
    assert sent_object == read["estimate"]["correction"]["observation"]
    without = allowing.post("EstimateServing", QUESTION | {"engine": {"name": "vllm"}}).json()
    assert without["estimate"]["tpot_seconds"]["p50"] != read["estimate"]["tpot_seconds"]["p50"]


def test_both_doors_read(allowing: Doors, server: FakePrometheus) -> None:
    asked = question(server, labels={"model_name": "m"}, window_seconds=120)
    response = allowing.post("EstimateServing", asked)
    assert 200 == response.status_code, response.text
    assert json_of(allowing.call("EstimateServing", message_of("EstimateServing", asked))) == response.json()


def test_nothing_that_was_read_is_kept(allowing: Doors, server: FakePrometheus) -> None:
    first = allowing.post("EstimateServing", question(server)).json()
    server.body = answer(**FIGURES | {"tpot_sum": "9.6"})
    second = allowing.post("EstimateServing", question(server)).json()
    assert second["estimate"]["tpot_seconds"]["p50"] > first["estimate"]["tpot_seconds"]["p50"]
    allowing.call("EstimateServing", message_of("EstimateServing", question(server)))
    allowing.call("EstimateServing", message_of("EstimateServing", question(server)))
    assert 4 == len(server.asked)


def test_nothing_that_was_read_is_kept_in_redis_either(server: FakePrometheus, closed_port: int) -> None:
    settings = {"TONNAGE_REDIS_ALL_RPCS": "true", "TONNAGE_REDIS_URL": f"redis://127.0.0.1:{closed_port}"}
    with (
        running_service(TONNAGE_PROMETHEUS_HOSTS=server.url, **settings) as service,
        httpx.Client(base_url=service.http, timeout=60) as http,
        grpc.insecure_channel(service.grpc) as channel,
    ):
        doors = Doors(http, channel)
        for _ in range(2):
            assert 200 == doors.post("EstimateServing", question(server)).status_code
            doors.call("EstimateServing", message_of("EstimateServing", question(server)))
        assert 200 == doors.post("EstimateServing", QUESTION).status_code
    assert 4 == len(server.asked)


def test_one_query_asks_for_all_figures_of_the_labelled_series(allowing: Doors, server: FakePrometheus) -> None:
    labels = {"namespace": "a", "model_name": 'quote " and \\ and {}'}
    response = allowing.post("EstimateServing", question(server, labels=labels, window_seconds=300, metric_prefix="kserve_"))
    assert 200 == response.status_code, response.text
    (path,) = server.asked
    target = urllib.parse.urlsplit(path)
    assert "/api/v1/query" == target.path
    query = urllib.parse.parse_qs(target.query)["query"][0]
    selector = 'model_name="quote \\" and \\\\ and {}",namespace="a"'
    assert f"sum(increase(kserve_vllm:time_to_first_token_seconds_sum{{{selector}}}[300s]))" in query
    assert f"sum(increase(kserve_vllm:time_per_output_token_seconds_count{{{selector}}}[300s]))" in query
    assert f"avg_over_time(kserve_vllm:num_requests_running{{{selector}}}[300s])" in query
    # A newer name goes before an older one.
    assert query.index("inter_token_latency_seconds_sum") < query.index("vllm:time_per_output_token_seconds_sum")


@pytest.mark.parametrize("engine", METRICS)
def test_every_engine_has_its_own_metrics(allowing: Doors, server: FakePrometheus, engine: str) -> None:
    response = allowing.post("EstimateServing", question(server, engine))
    assert 200 == response.status_code, response.text
    expected = promql(METRICS[engine], "", "", 600)
    assert expected == urllib.parse.parse_qs(urllib.parse.urlsplit(server.asked[0]).query)["query"][0]


def test_a_path_before_the_api_and_an_answer_in_chunks(allowing: Doors, server: FakePrometheus) -> None:
    server.is_chunked = True
    asked = question(server)
    asked["observe"]["prometheus_url"] += "/select/0/prometheus/"
    assert 200 == allowing.post("EstimateServing", asked).status_code
    assert server.asked[0].startswith("/select/0/prometheus/api/v1/query?query=")


def test_another_load_is_said(allowing: Doors, server: FakePrometheus) -> None:
    server.body = answer(**FIGURES | {"running": "4"})
    notes = allowing.post("EstimateServing", question(server)).json()["assumptions"]
    assert any("observed under another load: 4 requests ran where the question leads to 32" in note for note in notes)
    server.body = answer(**{name: value for name, value in FIGURES.items() if name != "running"})
    notes = allowing.post("EstimateServing", question(server)).json()["assumptions"]
    assert not any("another load" in note for note in notes)


@pytest.mark.parametrize("engine", ["llama.cpp", "gpt-fast"])
def test_an_engine_without_known_metrics(allowing: Doors, server: FakePrometheus, engine: str) -> None:
    refusal = refused(allowing, question(server, engine))
    assert ("FAILED_PRECONDITION", "observe") == (refusal.code, refusal.metadata["field"])
    assert engine in refusal.message
    assert [] == server.asked


def test_no_server_is_read_by_default(doors: Doors, server: FakePrometheus) -> None:
    refusal = refused(doors, question(server))
    assert ("FAILED_PRECONDITION", "observe.prometheus_url") == (refusal.code, refusal.metadata["field"])
    assert "no server may be read" in refusal.message
    assert "TONNAGE_PROMETHEUS_HOSTS" in refusal.metadata["remedy"]
    assert [] == server.asked


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:{port}",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:1",
        "http://127.0.0.1",
        "http://0177.0.0.1:{port}",
    ],
)
def test_another_host_scheme_or_port_is_not_allowed(allowing: Doors, server: FakePrometheus, url: str) -> None:
    asked = question(server)
    asked["observe"]["prometheus_url"] = url.format(port=server.url.rpartition(":")[2])
    assert "is not among the servers that may be read" in refused(allowing, asked).message
    assert [] == server.asked


@pytest.mark.parametrize(
    "url",
    [
        "prometheus:9090",
        "ftp://127.0.0.1:9090",
        "http://",
        "http://user:word@{host}",
        "http://evil.example\\@{host}",
        "http://{host}/?query=up",
        "http://{host}/#up",
        "http://{host}/a b",
        "http://{host}/\r\nHost: other",
        "http://{host}\n",
        "http://127.0.0.1:99999",
        "http://[::1",
    ],
)
def test_what_is_no_address(allowing: Doors, server: FakePrometheus, url: str) -> None:
    asked = question(server)
    asked["observe"]["prometheus_url"] = url.format(host=server.url.removeprefix("http://"))
    refusal = refused(allowing, asked)
    assert "INVALID_ARGUMENT" == refusal.code, refusal
    assert ["observe.prometheus_url"] == list(refusal.violations)
    assert [] == server.asked


@pytest.mark.parametrize(
    ("observe", "field"),
    [
        ({"labels": {"a-b": "c"}}, "observe.labels"),
        ({"labels": {"__name__": "up"}}, "observe.labels"),
        ({"labels": {'a"} or up{b': "c"}}, "observe.labels"),
        ({"metric_prefix": "a b"}, "observe.metric_prefix"),
        ({"metric_prefix": "up or "}, "observe.metric_prefix"),
        ({"window_seconds": 1}, "observe.window_seconds"),
    ],
)
def test_what_would_be_another_query(allowing: Doors, server: FakePrometheus, observe: dict[str, Any], field: str) -> None:
    refusal = refused(allowing, question(server, **observe))
    assert ("INVALID_ARGUMENT", [field]) == (refusal.code, list(refusal.violations))
    assert [] == server.asked


def test_either_an_observation_or_where_to_read_it(allowing: Doors, server: FakePrometheus) -> None:
    refusal = refused(allowing, question(server) | {"observation": {"num_requests": 100, "tpot_seconds": 0.01}})
    assert ("INVALID_ARGUMENT", ["observe"]) == (refusal.code, list(refusal.violations))


def test_an_unknown_engine_is_not_found_and_nothing_is_read(allowing: Doors, server: FakePrometheus) -> None:
    refusal = refused(allowing, question(server, "vlm"))
    assert ("NOT_FOUND", "engine.name") == (refusal.code, refusal.metadata["field"])
    assert [] == server.asked


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({}, "vllm:time_to_first_token_seconds_sum"),
        ({"tpot_sum": "4.8", "tpot_count": "400"}, "vllm:time_to_first_token_seconds_sum and _count did not grow"),
        ({"ttft_sum": "80", "ttft_count": "400"}, "vllm:inter_token_latency_seconds_sum and _count"),
        (FIGURES | {"ttft_sum": "0", "ttft_count": "0"}, "did not grow in the last 600 s"),
        (FIGURES | {"tpot_sum": "0"}, "vllm:time_per_output_token_seconds_sum and _count did not grow"),
        (FIGURES | {"tpot_sum": "NaN"}, "tpot_sum is nan, which nothing can have been"),
        (FIGURES | {"ttft_count": "+Inf"}, "ttft_count is inf"),
        (FIGURES | {"ttft_sum": "-3"}, "ttft_sum is -3.0"),
        (FIGURES | {"ttft_count": "1e300"}, "ttft_count is 1e+300"),
        (FIGURES | {"running": "NaN"}, "running is nan"),
    ],
)
def test_figures_that_are_missing_or_cannot_be(
    allowing: Doors, server: FakePrometheus, figures: dict[str, str], told: str
) -> None:
    server.body = answer(**figures)
    refusal = refused(allowing, question(server))
    assert ("FAILED_PRECONDITION", "observe") == (refusal.code, refusal.metadata["field"])
    assert told in refusal.message


def test_too_few_requests_are_refused_as_in_the_object(allowing: Doors, server: FakePrometheus) -> None:
    server.body = answer(**FIGURES | {"ttft_count": "19.9"})
    read = refused(allowing, question(server))
    sent = refused(allowing, QUESTION | {"observation": {"num_requests": 19, "tpot_seconds": 0.012}})
    assert sent == read
    assert ["observation.num_requests"] == list(read.violations)


def test_milliseconds_are_refused(allowing: Doors, server: FakePrometheus) -> None:
    server.body = answer(**FIGURES | {"tpot_sum": "4800"})
    assert ["observation.tpot_seconds"] == list(refused(allowing, question(server)).violations)


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"", 200, "none of Prometheus's query API"),
        (b"<html>", 200, "none of Prometheus's query API"),
        (b"[1, 2]", 200, "none of Prometheus's query API"),
        (b'{"status": "success", "data": {"resultType": "matrix", "result": []}}', 200, "none of Prometheus's query API"),
        (answer(ttft_sum="many"), 200, "none of Prometheus's query API"),
        (b'{"status": "error", "error": "invalid parameter"}', 400, "HTTP 400: invalid parameter"),
        (b"no", 503, "HTTP 503"),
        (b" " * (2**20 + 1), 200, "more than 1048576 bytes"),
    ],
)
def test_answers_that_are_none(allowing: Doors, server: FakePrometheus, body: bytes, status: int, told: str) -> None:
    server.body, server.status = body, status
    refusal = refused(allowing, question(server))
    assert ("FAILED_PRECONDITION", "observe.prometheus_url") == (refusal.code, refusal.metadata["field"])
    assert told in refusal.message


def test_a_redirect_is_not_followed(allowing: Doors, server: FakePrometheus) -> None:
    server.status, server.headers["location"] = 302, f"{server.url}/elsewhere"
    assert "redirect (HTTP 302), which is not followed" in refused(allowing, question(server)).message
    assert 2 == len(server.asked)  # once by each door


def test_a_slow_server_is_waited_for_two_seconds_and_holds_up_nobody(allowing: Doors, server: FakePrometheus) -> None:
    server.delay_seconds = 3.0
    begun = time.monotonic()
    slow = threading.Thread(target=lambda: allowing.grpc_refusal("EstimateServing", question(server)))
    slow.start()
    assert 200 == allowing.post("EstimateServing", QUESTION | {"explain": True}).status_code
    assert time.monotonic() - begun < 1.5
    assert "did not answer within 2 s" in allowing.rest_refusal("EstimateServing", question(server)).message
    slow.join()
    assert time.monotonic() - begun < 5.0


def test_a_server_that_is_down(allowing: Doors, closed_port: int) -> None:
    asked = QUESTION | {"observe": {"prometheus_url": f"http://127.0.0.1:{closed_port}"}}
    assert "cannot be reached (ConnectionRefusedError)" in refused(allowing, asked).message


def test_a_server_that_speaks_no_http(closed_port: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            self.request.recv(100)
            self.request.sendall(b"\x15\x03\x01\x00\x02\x02\x16")

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{listening.server_address[1]}"
        with (
            running_service(TONNAGE_PROMETHEUS_HOSTS=f"{url},{url.replace('http', 'https')}") as service,
            httpx.Client(base_url=service.http, timeout=60) as http,
            grpc.insecure_channel(service.grpc) as channel,
        ):
            doors = Doors(http, channel)
            assert "no HTTP" in refused(doors, QUESTION | {"observe": {"prometheus_url": url}}).message
            tls = QUESTION | {"observe": {"prometheus_url": url.replace("http", "https")}}
            assert "cannot be reached (SSLError)" in refused(doors, tls).message
        listening.shutdown()
