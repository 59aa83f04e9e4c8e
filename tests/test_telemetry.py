import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from service import telemetry
from service.cache.port import BreakerState, ErrorKind, Observer, Tier
from service.counting import Counts, CountsHere, RequestCounts
from service.counting_together import CountsTogether
from service.log_format import configure_logging
from service.request_context import CURRENT, RequestContext
from service.telemetry import RpcName, Telemetry

DECODE = RpcName("tonnage.v1.CapacityService", "EstimateDecode")
LABELS_OF_M = {"grpc_type": "unary", "grpc_service": "s", "grpc_method": "M"}.items()
LABELS = {"grpc_type": "unary", "grpc_service": DECODE.service, "grpc_method": DECODE.method}


@pytest.fixture
def metrics() -> Telemetry:
    return Telemetry([DECODE], version="1.2.3")


def value(metrics: Telemetry, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_an_rpc_is_counted_from_start_to_status(metrics: Telemetry) -> None:
    rpc = metrics.rpc("/tonnage.v1.CapacityService/EstimateDecode")
    begun = rpc.begin()
    assert value(metrics, "tonnage_in_flight_requests", door="grpc") == 1
    assert value(metrics, "grpc_server_started_total", **LABELS) == 1
    rpc.end(begun, "NOT_FOUND")
    rpc.end(rpc.begin(), "OK")
    assert value(metrics, "tonnage_in_flight_requests", door="grpc") == 0
    assert value(metrics, "grpc_server_handled_total", **LABELS, grpc_code="NOT_FOUND") == 1
    assert value(metrics, "grpc_server_handled_total", **LABELS, grpc_code="OK") == 1
    assert value(metrics, "grpc_server_handling_seconds_count", **LABELS) == 2
    seconds = value(metrics, "grpc_server_handling_seconds_sum", **LABELS)
    assert seconds is not None
    assert 0 < seconds < 1


def test_expected_codes_show_as_zero_before_they_happen_and_others_appear_when_they_do(metrics: Telemetry) -> None:
    assert value(metrics, "grpc_server_handled_total", **LABELS, grpc_code="INTERNAL") == 0
    assert value(metrics, "grpc_server_handled_total", **LABELS, grpc_code="DATA_LOSS") is None
    rpc = metrics.rpc(DECODE.path)
    rpc.end(rpc.begin(), "DATA_LOSS")
    assert value(metrics, "grpc_server_handled_total", **LABELS, grpc_code="DATA_LOSS") == 1


def test_paths_that_nobody_serves_share_one_series(metrics: Telemetry) -> None:
    assert metrics.rpc("/a.B/C") is metrics.rpc("/d.E/F")


def test_a_rest_request_is_counted_under_its_route(metrics: Telemetry) -> None:
    route = metrics.route("POST", "/v1/decode:estimate")
    assert route is metrics.route("POST", "/v1/decode:estimate")
    route.end(route.begin(), 404)
    assert value(metrics, "http_server_requests_total", method="POST", route="/v1/decode:estimate", code="404") == 1
    assert value(metrics, "http_server_requests_total", method="POST", route="/v1/decode:estimate", code="200") == 0
    assert value(metrics, "http_server_request_duration_seconds_count", method="POST", route="/v1/decode:estimate") == 1
    assert value(metrics, "tonnage_in_flight_requests", door="rest") == 0


def test_planning_shedding_and_the_catalogue_are_exposed(metrics: Telemetry) -> None:
    metrics.planning_seconds(DECODE.path).observe(25e-6)
    metrics.shed("rest")
    metrics.catalogue_loaded(revision="abc", version="2026.1")
    assert value(metrics, "tonnage_planning_seconds_sum", rpc="EstimateDecode") == 25e-6
    assert value(metrics, "tonnage_shed_requests_total", door="rest") == 1
    assert value(metrics, "tonnage_catalogue_info", revision="abc", version="2026.1") == 1
    assert value(metrics, "tonnage_build_info", version="1.2.3") == 1


def test_the_cache_can_report_everything_its_port_names(metrics: Telemetry) -> None:
    observer: Observer = metrics.cache
    for tier in get_args(Tier):
        observer.hit(tier, "EstimateDecode")
        observer.miss(tier, "EstimateDecode")
        observer.miss(tier, "AnRpcNotBoundAtStart")
        for kind in get_args(ErrorKind):
            observer.error(tier, "EstimateDecode", kind)
            assert value(metrics, "tonnage_cache_errors_total", tier=tier, rpc="EstimateDecode", kind=kind) == 1
        for outcome in ("hit", "miss"):
            labels = {"tier": tier, "rpc": "EstimateDecode", "outcome": outcome}
            assert value(metrics, "tonnage_cache_requests_total", **labels) == 1
    for state, number in ((BreakerState.HALF_OPEN, 1), (BreakerState.OPEN, 2), (BreakerState.CLOSED, 0)):
        observer.breaker_changed(state)
        assert number == value(metrics, "tonnage_cache_breaker_state")


@pytest.mark.parametrize("accept", ["", "text/plain", "application/openmetrics-text; version=1.0.0"])
def test_the_exposition_is_well_formed_and_leaves_out_creation_times(metrics: Telemetry, accept: str) -> None:
    body, content_type = metrics.exposition(accept)
    assert content_type.startswith(accept.split(";")[0] or "text/plain")
    assert b"_created" not in body
    families = {each.name for each in text_string_to_metric_families(body.decode())}
    assert families >= {"grpc_server_handling_seconds", "tonnage_in_flight_requests", "process_cpu_seconds"} or accept


def test_both_ways_of_counting_show_the_same() -> None:
    shown = []
    for kind in (CountsHere, CountsTogether):
        registry = CollectorRegistry()
        counts: Counts = kind(telemetry._COUNTED, registry)
        rpc: RequestCounts[str] = counts.requests("grpc", ("unary", "s", "M"), ("OK", "INTERNAL"))
        route: RequestCounts[int] = counts.requests("rest", ("POST", "/v1/x"), (200,))
        rpc.begin()
        rpc.end(rpc.begin() - 0.003, "NOT_FOUND")
        route.end(route.begin() - 2, 404)
        counts.planning("M").observe(0.002)
        look_ups = counts.look_ups([("local", "M"), ("redis", "M")])
        look_ups.hit("local", "M")
        look_ups.miss("redis", "N")
        samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): (family.type, sample.value)
            for family in registry.collect()
            for sample in family.samples
            if not sample.name.endswith("_created")
        }
        shown.append({key: kept for key, kept in samples.items() if not key[0].endswith("_sum")})
    here, together = shown
    assert here == together
    assert ("counter", 1) == here["grpc_server_handled_total", (("grpc_code", "NOT_FOUND"), *sorted(LABELS_OF_M))]


def test_only_requests_whose_trace_is_kept_become_examples(metrics: Telemetry) -> None:
    rpc, trace = metrics.rpc(DECODE.path), "4bf92f3577b34da6a3ce929d0e0e4736"
    for flags, expected in (("00", []), ("01", [{"trace_id": trace}])):
        token = CURRENT.set(RequestContext(None, f"00-{trace}-00f067aa0ba902b7-{flags}"))
        rpc.end(rpc.begin(), "OK")
        CURRENT.reset(token)
        body, _ = metrics.exposition("application/openmetrics-text; version=1.0.0")
        families = openmetrics_families(body.decode())  # type: ignore[no-untyped-call]
        (seconds,) = [family for family in families if family.name == "grpc_server_handling_seconds"]
        assert expected == [sample.exemplar.labels for sample in seconds.samples if sample.exemplar]


def test_two_services_in_one_process_do_not_share_counts() -> None:
    one, other = Telemetry([DECODE], version="1"), Telemetry([DECODE], version="1")
    one.rpc(DECODE.path).begin()
    assert value(other, "grpc_server_started_total", **LABELS) == 0


COUNTING_PROCESS = """
from service.telemetry import RpcName, Telemetry
metrics = Telemetry([RpcName("s", "M")], version="1")
metrics.rpc("/s/M").begin()
print(metrics.exposition()[0].decode())
"""


def test_several_processes_are_added_up(tmp_path: Path, repository_root: Path) -> None:
    environ = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COUNTING_PROCESS]
    outputs = [
        subprocess.run(command, env=environ, cwd=repository_root, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    started = 'grpc_server_started_total{grpc_method="M",grpc_service="s",grpc_type="unary"}'
    assert f"{started} 1.0" in outputs[0]
    assert f"{started} 2.0" in outputs[1]


@pytest.fixture
def _logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_logging_restored")
def test_what_is_logged_while_a_request_is_worked_on_carries_its_ids(capsys: pytest.CaptureFixture[str]) -> None:
    request = RequestContext("mine", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    for format in ("json", "text"):
        configure_logging("info", format)
        token = CURRENT.set(request)
        logging.getLogger("some.library").warning("slow")
        CURRENT.reset(token)
        logging.getLogger("some.library").warning("idle")
        inside, outside = capsys.readouterr().err.splitlines()
        for text in ("mine", "4bf92f3577b34da6a3ce929d0e0e4736", request.span_id):
            assert text in inside
            assert text not in outside


@pytest.mark.usefixtures("_logging_restored")
def test_json_lines_carry_the_fields_and_no_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "text")
    configure_logging("info", "json")  # the second replaces the first: one line, not two
    log = logging.getLogger(telemetry.SERVER_LOG)
    log.debug("too little")
    log.info("listening on %s", "redis://user:hunt@er2@cache:6379/0", extra={"http_port": 8080})
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert entry.pop("time").endswith("+00:00")
    expected = {"level": "info", "logger": "tonnage.server", "message": "listening on redis://***@cache:6379/0"}
    assert expected | {"http_port": 8080} == entry


@pytest.mark.usefixtures("_logging_restored")
def test_text_lines_keep_a_message_on_one_line_and_end_with_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning", "text")
    try:
        raise ValueError("redis://:hunter2@cache")
    except ValueError:
        logging.getLogger(telemetry.REQUEST_LOG).exception("model\nINFO forged", extra={"rpc": "EstimateDecode"})
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith("ERROR   tonnage.request: model\\nINFO forged rpc='EstimateDecode'")
    assert rest[-1] == "ValueError: redis://***@cache"


@pytest.mark.usefixtures("_logging_restored")
def test_a_json_line_holds_the_trace_and_whatever_is_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("error", "json")
    try:
        raise ValueError("cause")
    except ValueError:
        logging.getLogger(telemetry.REQUEST_LOG).exception("bug", extra={"where": Path("a")})
    entry = json.loads(capsys.readouterr().err)
    assert entry["exception"].endswith("ValueError: cause")
    assert entry["where"] == "a"
