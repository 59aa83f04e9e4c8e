"""Sweeps over both doors: the same parts, in every form, and what happens where they are broken off."""

import asyncio
import csv
import io
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import json_format

from service.api import rest_stream, streaming
from service.api.examples import REQUESTS
from service.api.grpc_server import stream_handler
from service.api.http_answers import Bodies
from service.api.messages import NotFinite
from service.api.servicers import Admission
from service.telemetry import Telemetry
from tests.api.asking import BY_NAME, Doors, json_of, message_of, refusal_in, refusal_of
from tests.service_process import running_service
from tonnage.v1 import sweep_service_pb2 as pb

URL = BY_NAME["RunSweep"].http.template
QUESTION = REQUESTS["RunSweep"]
PARTLY = QUESTION | {"shapes": [{"tensor": 3}, {"tensor": 8}], "precisions": [{}, {"weights": "nvfp4"}]}
SERVING = {
    "kind": "SERVING",
    "models": [{"name": "llama-3.1-70b"}, {"dense": {"num_parameters": 7e9}}],
    "accelerators": [{"name": "h100-sxm"}, {"name": "tpu-v5e"}],
    "shapes": [{"tensor": 1}, {"tensor": 8}],
    "engines": [{"name": "vllm", "version": "0.19"}],
    "concurrencies": [1, 64, 4000],
    "lengths": [{"input_tokens": 1024, "output_tokens": 256}, {"input_tokens": 100000, "output_tokens": 1}],
}
LARGE = {
    "kind": "DECODE",
    "models": [{"name": "llama-3.1-8b"}],
    "accelerators": [{"name": "h100-sxm"}],
    "batch_sizes": list(range(1, 1001)),
    "context_tokens": list(range(1, 10_001)),
}


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert 200 == response.status_code, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def without_clock(parts: list[Any]) -> list[Any]:
    parts[-1]["end"].pop("elapsed_seconds")
    return parts


def call(doors: Doors, question: Any, **options: Any) -> Any:
    send = doors.channel.unary_stream(
        BY_NAME["RunSweep"].path, pb.RunSweepRequest.SerializeToString, pb.RunSweepResponse.FromString
    )
    return send(message_of("RunSweep", question), **options)


@pytest.mark.parametrize("question", [QUESTION, PARTLY, SERVING])
def test_both_doors_send_the_same_parts(doors: Doors, question: dict[str, Any]) -> None:
    response = doors.post("RunSweep", question)

    assert "application/x-ndjson" == response.headers["content-type"]
    over_grpc = [json_of(part) for part in call(doors, question)]
    assert without_clock(over_grpc) == without_clock(lines(response))
    assert ["start", "chunk", "end"] == [next(iter(part)) for part in over_grpc]


def test_each_line_is_the_message_in_json(doors: Doors) -> None:
    for line in doors.post("RunSweep", SERVING).text.splitlines():
        assert json_of(json_format.Parse(line, pb.RunSweepResponse())) == json.loads(line)


@pytest.mark.parametrize(
    ("url", "headers"),
    [(f"{URL}?format=csv", {}), (URL, {"accept": "text/csv"}), (URL, {"accept": "text/html, text/csv;q=0.9"})],
)
def test_csv_has_a_row_for_each_point_and_each_skipped_plan(doors: Doors, url: str, headers: dict[str, str]) -> None:
    response = doors.http.post(url, json=PARTLY, headers=headers)
    parts = lines(doors.post("RunSweep", PARTLY))

    assert response.headers["content-type"].startswith("text/csv; charset=utf-8")
    assert response.content.startswith(b"\xef\xbb\xbfmodel,accelerator,shape,precision,batch_size,context_tokens,num_devices,")
    rows = list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))
    skipped, points = [row for row in rows if row["note"]], [row for row in rows if not row["note"]]
    assert len(parts[1]["chunk"]["skipped"]) == len(skipped)
    assert {"skipped 6 points"} == {row["note"].partition(",")[0] for row in skipped}
    assert all(row["step_seconds"] == "" for row in skipped)
    columns = parts[1]["chunk"]["decode"]
    assert columns["step_seconds"] == [float(row["step_seconds"]) for row in points]
    assert columns["binding_limit"] == [row["binding_limit"] for row in points]
    assert columns["fits"] == [row["fits"] == "true" for row in points]
    assert [PARTLY["batch_sizes"][place] for place in columns["batch_size_index"]] == [int(row["batch_size"]) for row in points]


def test_csv_of_estimates(doors: Doors) -> None:
    rows = list(csv.DictReader(io.StringIO(doors.http.post(f"{URL}?format=csv", json=SERVING).content.decode("utf-8-sig"))))
    points = [row for row in rows if not row["note"]]
    assert points
    assert {"1024", "100000"} == {row["input_tokens"] for row in points}
    assert {"vllm 0.19"} == {row["engine"] for row in points}
    assert any("NOT_CALIBRATED" in row["note"] for row in rows)


def test_a_name_that_looks_like_a_formula_is_text_in_csv(doors: Doors) -> None:
    inline = {
        "inline": {"title": "=1+1", "memory_bandwidth_bytes_per_second": 1e12, "peak_dense_flops_per_second": {"bf16": 1e15}}
    }
    text = doors.http.post(f"{URL}?format=csv", json=QUESTION | {"accelerators": [inline], "shapes": []}).text
    assert "\r\nllama-3.1-70b,'=1+1,TP1," in text


@pytest.mark.parametrize("form", ["xml", "svg", ""])
def test_another_form_is_refused(doors: Doors, form: str) -> None:
    refusal = refusal_in(doors.http.post(f"{URL}?format={form}", json=QUESTION))
    assert (400, {"format"}) == (refusal.http_status, set(refusal.violations))


REFUSED = [
    ({"kind": "DECODE"}, 400, "INVALID_REQUEST", "models"),
    ({}, 400, "INVALID_REQUEST", "kind"),
    (QUESTION | {"batch_sizes": [0]}, 400, "INVALID_REQUEST", "batch_sizes[0]"),
    (QUESTION | {"concurrencies": [1]}, 400, "INVALID_REQUEST", "concurrencies"),
    (QUESTION | {"models": [{"name": "lama"}]}, 404, "NAME_NOT_FOUND", "models[0].name"),
    (SERVING | {"engines": [{"name": "vlm"}]}, 404, "NAME_NOT_FOUND", "engines[0].name"),
    (QUESTION | {"precisions": [{"weights": "bf17"}]}, 400, "INVALID_REQUEST", "precisions[0].weights"),
    (LARGE | {"accelerators": [{"name": "h100-sxm"}] * 2}, 429, "TOO_LARGE", "context_tokens"),
]


@pytest.mark.parametrize(("question", "status", "reason", "field"), REFUSED)
def test_bad_axes_are_refused_alike_over_both_doors(
    doors: Doors, question: dict[str, Any], status: int, reason: str, field: str
) -> None:
    over_rest = doors.rest_refusal("RunSweep", question)
    with pytest.raises(grpc.RpcError) as failed:
        list(call(doors, question))

    assert (status, reason) == (over_rest.http_status, over_rest.reason)
    assert field in over_rest.violations
    assert over_rest.without_status() == refusal_of(failed.value).without_status()


def test_the_limits_are_settings() -> None:
    with running_service(TONNAGE_SWEEP_MAX_POINTS="23", TONNAGE_SWEEP_MAX_PLANS="3") as running:
        refusal = refusal_in(httpx.post(f"{running.http}{URL}", json=QUESTION))
        assert ("TOO_LARGE", "3") == (refusal.reason, refusal.metadata["limit"])
        refusal = refusal_in(
            httpx.post(f"{running.http}{URL}", json=QUESTION | {"shapes": [], "batch_sizes": list(range(1, 13))})
        )
        assert ("TOO_LARGE", "23") == (refusal.reason, refusal.metadata["limit"])


def test_the_calls_deadline_ends_a_sweep_with_what_is_done(doors: Doors) -> None:
    *_, last = call(doors, LARGE, timeout=0.8)
    assert not last.end.is_complete
    assert pb.SweepEnd.TIME_LIMIT == last.end.reason
    assert 0 < last.end.num_answered < last.end.num_points


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_a_time_limit_ends_a_sweep_over_rest_too(doors: Doors, form: str) -> None:
    text = doors.http.post(f"{URL}?format={form}", json=LARGE | {"time_limit_seconds": 0.2}).text
    last = text.splitlines()[-1]
    assert '"is_complete":false' in last if form == "ndjson" else "incomplete: " in last


def in_flight(doors: Doors, door: str) -> float:
    line = next(
        line
        for line in doors.http.get("/metrics").text.splitlines()
        if line.startswith(f'tonnage_in_flight_requests{{door="{door}"}}')
    )
    return float(line.rpartition(" ")[2])


def wait_until_idle(doors: Doors, door: str) -> None:
    deadline = time.monotonic() + 10
    while in_flight(doors, door) > (1 if door == "rest" else 0):  # the request for the metrics is one itself
        assert time.monotonic() < deadline
        time.sleep(0.02)


def planning_seconds(doors: Doors) -> float:
    names = (line for line in doors.http.get("/metrics").text.splitlines() if line.startswith("process_cpu_seconds_total"))
    return float(next(names).rpartition(" ")[2])


def test_a_cancelled_sweep_stops_working(doors: Doors) -> None:
    under_way = call(doors, LARGE)
    parts: Iterator[Any] = iter(under_way)
    assert ["start", "chunk"] == [part.WhichOneof("part") for part in itertools.islice(parts, 2)]
    under_way.cancel()

    wait_until_idle(doors, "grpc")
    time.sleep(0.2)
    before = planning_seconds(doors)
    time.sleep(1)
    assert planning_seconds(doors) - before < 0.5


def test_a_caller_that_hangs_up_stops_the_work(doors: Doors) -> None:
    with doors.http.stream("POST", URL, json=LARGE) as response:
        next(response.iter_bytes())

    wait_until_idle(doors, "rest")


def test_small_requests_are_answered_while_a_sweep_runs(doors: Doors) -> None:
    under_way = call(doors, LARGE)
    next(iter(under_way))
    assert 200 == doors.post("EstimateDecode", REQUESTS["EstimateDecode"]).status_code
    assert 200 == doors.post("FitNode", REQUESTS["FitNode"] | {"context_tokens": 777}).status_code
    under_way.cancel()


def test_calls_are_counted_as_a_stream(doors: Doors) -> None:
    list(call(doors, QUESTION))
    text = doors.http.get("/metrics").text
    labels = 'grpc_code="OK",grpc_method="RunSweep",grpc_service="tonnage.v1.SweepService",grpc_type="server_stream"'
    assert f"grpc_server_handled_total{{{labels}}}" in text


class Breaking:
    """A servicer whose stream fails after its first part."""

    class rpc:  # noqa: N801 - stands for an attribute
        name = "RunSweep"
        path = "/tonnage.v1.SweepService/RunSweep"
        request = pb.RunSweepRequest

        class http:  # noqa: N801
            method, template = "POST", URL

    class codec:  # noqa: N801
        @staticmethod
        def write_json(part: Any) -> bytes:
            return json.dumps(part).encode()

        write_bytes = write_json

    def parse(self, request: bytes) -> bytes:
        return request

    def question(self, *_: Any) -> Any:
        return None

    def plan(self, _: Any) -> Any:
        return BreakingStream()

    async def in_turn(self, work: Any) -> Any:
        return work()


class BreakingStream:
    def __init__(self) -> None:
        self.parts: Iterator[Any] = iter([{"start": {}}])

    def __next__(self) -> Any:
        for part in self.parts:
            return part
        raise NotFinite("step_seconds is nan in row 7")

    def stop(self) -> None:
        pass


def repr_bytes(part: object) -> bytes:
    return repr(part).encode()


async def test_what_fails_after_the_first_part_is_raised_there() -> None:
    parts = streaming.encoded_parts(Breaking(), None, repr_bytes)  # type: ignore[arg-type]
    assert b"{'start': {}}" == await anext(parts)
    with pytest.raises(NotFinite):
        await anext(parts)


async def test_what_fails_after_the_first_part_ends_the_call_with_its_status() -> None:
    telemetry = Telemetry(version="test")
    name = "tonnage.v1.SweepService"
    handle = stream_handler(Breaking(), telemetry.rpc(f"/{name}/RunSweep"), Admission(1, telemetry.shed), None)  # type: ignore[arg-type]
    server = grpc.aio.server()
    methods = {"RunSweep": grpc.unary_stream_rpc_method_handler(handle)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            received: list[bytes] = []
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await _collect(channel.unary_stream(f"/{name}/RunSweep", None, None)(b""), received)
    finally:
        await server.stop(None)
    assert [b'{"start": {}}'] == received
    assert grpc.StatusCode.INTERNAL == failed.value.code()
    assert "nan" not in (failed.value.details() or "")


async def _collect(call: Any, received: list[bytes]) -> None:
    async for part in call:
        received.append(part)  # noqa: PERF401 - what came before a failure counts


async def test_what_fails_after_the_first_part_ends_the_body_with_its_status() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    class Metrics:
        def begin(self) -> float:
            return 0.0

        def end(self, begun: float, status: int = 200) -> None:
            sent.append(status)

    admission = Admission(1, lambda _: None)
    endpoint = rest_stream.StreamEndpoint(Breaking(), Metrics(), admission, Bodies(1000, 1000))  # type: ignore[arg-type]
    scope = {"query_string": b"", "headers": [(b"content-type", b"application/json")]}
    await endpoint(scope, _then_waiting(receive), send)
    bodies = [message["body"] for message in sent if isinstance(message, dict) and message["type"] == "http.response.body"]
    assert [b'{"start": {}}\n', b""] == [bodies[0], bodies[-1]]
    error = json.loads(bodies[1])["error"]
    assert 13 == error["code"]
    assert "nan" not in json.dumps(error)  # the cause stands in the log only
    assert 500 == sent[-1]


def _then_waiting(receive: Any) -> Any:
    """The body once, and then nothing for as long as one waits."""
    came = iter([receive])

    async def once() -> Any:
        for first in came:
            return await first()
        return await asyncio.Event().wait()

    return once
