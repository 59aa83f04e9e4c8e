"""Starting, shedding, draining, stopping: the real process, told by signals and settings."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from service.api import examples
from service.api.schema import SERVICES
from service.assembly import addresses_of, serving
from service.settings import Settings
from tests.api.asking import BY_NAME, Doors, message_of, refusal_in, refusal_of
from tests.service_process import RunningService, running_service
from tonnage.v1 import capacity_service_pb2 as pb

FIT = BY_NAME["FitNode"]
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


def fit(number: int) -> dict[str, Any]:
    """A question that takes some milliseconds, different for every number."""
    return {"model": {"name": "deepseek-v3"}, "node": {"name": "dgx-h100"}, "context_tokens": 1000 + number}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``tonnage-service`` until it ends by itself."""
    command = [sys.executable, "-m", "service", *arguments]
    given = {name: value for name, value in os.environ.items() if not name.startswith("TONNAGE_")}
    return subprocess.run(command, env=given | environment, capture_output=True, text=True, timeout=60, check=False)


# -- starting ---------------------------------------------------------------------------------------------------------


def test_help_lists_every_setting_and_exit_code() -> None:
    completed = run("--help")
    assert 0 == completed.returncode
    assert Settings.describe() in completed.stdout
    assert "3  a port cannot be listened on" in completed.stdout


def test_a_wrong_setting_ends_the_start() -> None:
    completed = run(TONNAGE_HTTP_PORT="eighty", TONNAGE_GRPC_POTR="1")
    assert 2 == completed.returncode
    assert "TONNAGE_HTTP_PORT: 'eighty' is not a whole number" in completed.stderr
    assert "Did you mean TONNAGE_GRPC_PORT?" in completed.stderr


@pytest.mark.parametrize("variable", ["TONNAGE_HTTP_PORT", "TONNAGE_GRPC_PORT"])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_port_in_use_is_one_clear_line(variable: str, processes: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ports = {"TONNAGE_HTTP_PORT": "0", "TONNAGE_GRPC_PORT": "0", variable: port}
        completed = run(TONNAGE_LOG_LEVEL="warning", TONNAGE_PROCESSES=processes, **ports)
    assert 3 == completed.returncode
    expected = (
        f"cannot listen on 127.0.0.1 port {port}: address already in use. {variable} chooses another port, 0 any free one"
    )
    assert f"tonnage-service: {expected}\n" == completed.stderr


def test_a_broken_catalogue_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "accelerators" / "mine.yaml").write_text("name: mine\n")
    completed = run(TONNAGE_HTTP_PORT="0", TONNAGE_GRPC_PORT="0", TONNAGE_CATALOGUE_DIR=str(tmp_path))
    assert 2 == completed.returncode
    assert "mine.yaml" in completed.stderr


def test_a_start_prints_addresses_and_a_curl_that_works() -> None:
    with running_service() as running:
        text = running.log.read_text()
        assert f"REST  {running.http} " in text
        assert f"gRPC  {running.grpc} " in text
        url, body = re.findall(r"curl -s (\S+) -H 'content-type: application/json' \\\n +-d '(.*)'", text)[0]
        response = httpx.post(url, content=body, headers={"content-type": "application/json"})
        assert 200 == response.status_code
        (page,) = re.findall(r"page  (\S+) ", text)
        assert "<title>" in httpx.get(page).text
        (chatbots,) = re.findall(r"MCP   (\S+) ", text)
        accepted = {"accept": "application/json, text/event-stream"}
        listed = httpx.post(chatbots, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=accepted)
        assert "will_it_fit" in listed.text


def test_what_is_switched_off_is_not_promised() -> None:
    ports = {"http": 8080, "grpc": 50051}
    assert "http://127.0.0.1:8080/mcp" == addresses_of(Settings(), ports).mcp
    assert addresses_of(Settings(mcp="false"), ports).mcp is None


async def test_a_service_inside_a_program_takes_free_ports_and_gives_them_back() -> None:
    async with serving(Settings(http_port=0, grpc_port=0, drain_seconds=0.1)) as addresses:
        async with httpx.AsyncClient(base_url=addresses.http) as client:
            response = await client.post("/v1/decode:estimate", json=examples.REQUESTS["EstimateDecode"])
        async with grpc.aio.insecure_channel(addresses.grpc) as channel:
            request = message_of("EstimateDecode", examples.REQUESTS["EstimateDecode"]).SerializeToString()
            answer = await channel.unary_unary(BY_NAME["EstimateDecode"].path, None, None)(request)
    assert 200 == response.status_code
    assert pb.EstimateDecodeResponse.FromString(answer).fits
    for address in (addresses.http.removeprefix("http://"), addresses.grpc):
        host, _, port = address.partition(":")
        with socket.socket() as probe:
            assert 0 != probe.connect_ex((host, int(port)))


# -- health and reflection --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", *SERVICES])
def test_health(doors: Doors, name: str) -> None:
    check = health_pb2_grpc.HealthStub(doors.channel).Check
    assert SERVING == check(health_pb2.HealthCheckRequest(service=name)).status


def test_reflection_lists_the_services_and_their_methods(doors: Doors) -> None:
    database = ProtoReflectionDescriptorDatabase(doors.channel)
    assert {*SERVICES, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"} == set(database.get_services())
    file = database.FindFileContainingSymbol("tonnage.v1.CapacityService")
    assert "EstimateDecode" in [method.name for service in file.service for method in service.method]


# -- counting ---------------------------------------------------------------------------------------------------------


def metric(running: RunningService, line: str) -> float:
    """The value of a metric with its labels; 0 where it was never counted."""
    found = re.findall(rf"^{re.escape(line)} (\S+)$", httpx.get(f"{running.http}/metrics").text, re.MULTILINE)
    return float(found[0]) if found else 0.0


def test_what_happened_is_counted_under_its_code(service: RunningService, doors: Doors) -> None:
    rest = 'http_server_requests_total{code="400",method="POST",route="/v1/decode:estimate"}'
    handled = 'grpc_server_handled_total{grpc_code="INVALID_ARGUMENT",grpc_method="EstimateDecode"'
    handled += ',grpc_service="tonnage.v1.CapacityService",grpc_type="unary"}'
    unknown = 'http_server_requests_total{code="404",method="unknown",route="unknown"}'
    before = [metric(service, line) for line in (rest, handled, unknown)]
    doors.rest_refusal("EstimateDecode", {})
    doors.grpc_refusal("EstimateDecode", {})
    doors.http.get("/nowhere")
    assert [value + 1 for value in before] == [metric(service, line) for line in (rest, handled, unknown)]


# -- shedding ---------------------------------------------------------------------------------------------------------


def test_too_many_at_once_are_told_when_to_come_back() -> None:
    with running_service(TONNAGE_MAX_CONCURRENT_REQUESTS="1") as running, ThreadPoolExecutor(16) as pool:
        posted = list(pool.map(lambda number: httpx.post(running.http + FIT.http.template, json=fit(number)), range(16)))
        with grpc.insecure_channel(running.grpc) as channel:
            doors = Doors(httpx.Client(), channel)

            def call(number: int) -> str:
                try:
                    doors.call("FitNode", message_of("FitNode", fit(100 + number)))
                except grpc.RpcError as error:
                    refusal = refusal_of(error)
                    assert ("RESOURCE_EXHAUSTED", 1) == (refusal.code, refusal.retry_seconds)
                    return refusal.reason
                return "OK"

            called = list(pool.map(call, range(16)))
    refused = [response for response in posted if response.status_code != 200]
    assert 0 < len(refused) < len(posted)
    for response in refused:
        refusal = refusal_in(response)
        assert (429, "RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS") == (refusal.http_status, refusal.code, refusal.reason)
        assert "1" == response.headers["retry-after"]
    assert {"OK", "TOO_MANY_REQUESTS"} == set(called)


# -- draining ---------------------------------------------------------------------------------------------------------


class Caller(threading.Thread):
    """Posts over one kept connection until it is turned away; ``lost`` is what broke after it was sent."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.answered = 0
        self.lost: list[Exception] = []

    def run(self) -> None:
        with httpx.Client() as client:
            for number in range(1, 1_000_000):
                question = examples.REQUESTS["EstimateDecode"] | {"context_tokens": number}
                try:
                    assert 200 == client.post(self.url, json=question).status_code
                except httpx.ConnectError:
                    return  # never sent: nobody listens any more
                except Exception as error:
                    self.lost.append(error)
                    return
                self.answered += 1


def test_no_request_over_a_kept_connection_is_lost_when_told_to_stop() -> None:
    with running_service() as running:
        callers = [Caller(f"{running.http}/v1/decode:estimate") for _ in range(8)]
        for caller in callers:
            caller.start()
        time.sleep(0.5)
        running.process.terminate()
        for caller in callers:
            caller.join()
        assert 0 == running.process.wait(30)
    assert [] == [error for caller in callers for error in caller.lost]
    assert all(caller.answered > 10 for caller in callers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_calls_in_flight_are_answered_and_health_says_so_first(number: signal.Signals) -> None:
    with running_service() as running, grpc.insecure_channel(running.grpc) as channel:
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=SERVICES[0]))
        assert SERVING == next(watched).status
        call = channel.unary_unary(FIT.path, None, FIT.response.FromString)
        futures = [call.future(message_of("FitNode", fit(each)).SerializeToString(), timeout=30) for each in range(40)]
        futures[0].result()
        running.process.send_signal(number)
        assert NOT_SERVING == next(watched).status
        assert all(future.result().candidates for future in futures)
        watched.cancel()
        assert 0 == running.process.wait(30)
        assert "drain" in running.log.read_text()


def test_being_drained_is_not_being_ready() -> None:
    with running_service() as running, httpx.Client(base_url=running.http) as client:
        assert 200 == client.get("/readyz").status_code
        running.process.terminate()
        deadline, response = time.monotonic() + 5, client.get("/readyz")
        while response.headers.get("connection") != "close" and time.monotonic() < deadline:
            response = client.get("/readyz")
        assert (503, {"status": "draining"}) == (response.status_code, response.json())
        assert "close" == response.headers["connection"]


# -- several processes ------------------------------------------------------------------------------------------------


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = (map(int, line.split()) for line in listed.splitlines())
    return [child for child, parent in pairs if parent == pid]


def test_several_processes_share_the_ports_and_their_counts() -> None:
    with running_service(TONNAGE_PROCESSES="2") as running:
        for _ in range(40):
            response = httpx.post(f"{running.http}/v1/decode:estimate", json=examples.REQUESTS["EstimateDecode"])
            assert 200 == response.status_code
        line = 'http_server_requests_total{code="200",method="POST",route="/v1/decode:estimate"}'
        assert 40 == metric(running, line)
        workers = children_of(running.process.pid)
        assert 2 == len(workers)
        running.process.terminate()
        assert 0 == running.process.wait(30)
    for worker in workers:
        await_end_of(worker)


def await_end_of(pid: int) -> None:
    deadline = time.monotonic() + 15
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.02)


def test_the_death_of_a_process_is_the_death_of_all() -> None:
    with running_service(TONNAGE_PROCESSES="2") as running:
        first, second = children_of(running.process.pid)
        os.kill(first, signal.SIGKILL)
        assert 4 == running.process.wait(30)
        assert "a worker process ended by itself" in running.log.read_text()
        await_end_of(second)


def test_processes_do_not_outlive_the_one_that_started_them() -> None:
    with running_service(TONNAGE_PROCESSES="2") as running:
        workers = children_of(running.process.pid)
        running.process.kill()
        for worker in workers:
            await_end_of(worker)
