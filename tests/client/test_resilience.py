"""Deadlines, retries and health, against a real gRPC server that is down, slow, draining or restarted."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import status_pb2
from grpc_health.v1 import health_pb2

from tests.client.conftest import ScriptedServer, answers, fails
from tonnage import AsyncClient, Client, DeadlineExceeded, Overloaded, Unavailable
from tonnage.v1.capacity_service_pb2 import EstimateDecodeResponse

ANSWER = EstimateDecodeResponse(num_devices=8)


@contextmanager
def after(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(seconds, act)
    timer.start()
    yield
    timer.join()


def failing(times: int, code: grpc.StatusCode) -> Callable[[Message, grpc.ServicerContext], Message]:
    left = iter(range(times))

    def answer(request: Message, context: grpc.ServicerContext) -> Message:
        if next(left, None) is None:
            return ANSWER
        return fails(status_pb2.Status(code=code.value[0], message="not now"))(request, context)

    return answer


def test_a_service_that_comes_up_meanwhile_answers(down: ScriptedServer) -> None:
    with Client(down.target) as client, after(0.4, down.start):
        assert 8 == client.estimate_decode(model="m").num_devices


async def test_so_it_does_for_the_asyncio_client(down: ScriptedServer) -> None:
    async with AsyncClient(down.target) as client:
        with after(0.4, down.start):
            answer = await client.estimate_decode(model="m")

    assert 8 == answer.num_devices


def test_a_service_that_stays_down_is_reported_in_a_few_seconds(down: ScriptedServer) -> None:
    began = time.monotonic()
    with Client(down.target) as client, pytest.raises(Unavailable):
        client.estimate_decode(model="m")

    assert time.monotonic() - began < 5


def test_a_client_survives_a_restart(down: ScriptedServer) -> None:
    down.start()
    with Client(down.target) as client:
        client.estimate_decode(model="m")
        down.stop()
        with after(0.3, down.start):
            assert 8 == client.estimate_decode(model="m").num_devices


def test_unavailable_is_tried_again(scripted: ScriptedServer) -> None:
    scripted.script["EstimateDecode"] = failing(3, grpc.StatusCode.UNAVAILABLE)
    with Client(scripted.target) as client:
        assert ANSWER == client.estimate_decode(model="m")

    assert 4 == len(scripted.requests)


def test_nothing_else_is_tried_again(scripted: ScriptedServer) -> None:
    scripted.script["EstimateDecode"] = failing(1, grpc.StatusCode.RESOURCE_EXHAUSTED)
    with Client(scripted.target) as client, pytest.raises(Overloaded):
        client.estimate_decode(model="m")

    assert 1 == len(scripted.requests)


def test_a_call_ends_at_its_deadline(scripted: ScriptedServer) -> None:
    let_go = threading.Event()

    def slow(request: Message, context: grpc.ServicerContext) -> Message:
        let_go.wait(10)
        return ANSWER

    scripted.script["EstimateDecode"] = slow
    began = time.monotonic()
    with Client(scripted.target, timeout=0.3) as client, pytest.raises(DeadlineExceeded):
        client.estimate_decode(model="m")
    let_go.set()

    assert 0.2 < time.monotonic() - began < 5


def test_one_call_may_have_its_own_deadline(scripted: ScriptedServer) -> None:
    def slow(request: Message, context: grpc.ServicerContext) -> Message:
        time.sleep(0.5)
        return EstimateDecodeResponse(num_devices=int(context.time_remaining()))

    scripted.script["EstimateDecode"] = slow
    with Client(scripted.target, timeout=0.1) as client:
        patient = client.with_options(timeout=60)
        assert 59 == patient.estimate_decode(model="m").num_devices
        with pytest.raises(DeadlineExceeded):
            client.estimate_decode(model="m")


def test_the_default_deadline_is_ten_seconds(scripted: ScriptedServer) -> None:
    remaining: list[float] = []

    def note(request: Message, context: grpc.ServicerContext) -> Message:
        remaining.append(context.time_remaining())
        return ANSWER

    scripted.script["EstimateDecode"] = note
    with Client(scripted.target) as client:
        client.estimate_decode(model="m")

    assert 9 < remaining[0] <= 10


def test_a_draining_service_is_not_asked(scripted: ScriptedServer) -> None:
    scripted.health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
    with Client(scripted.target) as client, pytest.raises(Unavailable):
        client.estimate_decode(model="m")

    assert [] == scripted.requests


def test_metadata_goes_with_every_call(scripted: ScriptedServer) -> None:
    with Client(scripted.target, metadata=[("authorization", "Bearer one")]) as client:
        client.get_model("m")
        client.with_options(metadata=[("authorization", "Bearer two")]).get_model("m")

    assert ["Bearer one", "Bearer two"] == [each["authorization"] for each in scripted.metadata]


def test_credentials_make_the_channel_secure(down: ScriptedServer) -> None:
    down.start(grpc.local_server_credentials())
    with Client(down.target, credentials=grpc.local_channel_credentials()) as client:
        assert 8 == client.estimate_decode(model="m").num_devices


async def test_credentials_make_the_asyncio_channel_secure(down: ScriptedServer) -> None:
    down.start(grpc.local_server_credentials())
    async with AsyncClient(down.target, credentials=grpc.local_channel_credentials()) as client:
        assert 8 == (await client.estimate_decode(model="m")).num_devices


def test_a_large_answer_arrives(scripted: ScriptedServer) -> None:
    large = EstimateDecodeResponse(assumptions=["x" * 1_000_000] * 8)
    scripted.script["EstimateDecode"] = answers(large)
    with Client(scripted.target) as client:
        assert large == client.estimate_decode(model="m")


def test_a_client_is_shared_between_threads(scripted: ScriptedServer) -> None:
    scripted.script["EstimateDecode"] = answers(ANSWER)
    found: list[EstimateDecodeResponse] = []
    with Client(scripted.target) as client:
        threads = [threading.Thread(target=lambda: found.append(client.estimate_decode(model="m"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [ANSWER] * 8 == found
