"""Callers that stay connected and do nothing: they take no answer, or their machine is gone. None keeps its place for long."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import httpx
import pytest

from service.api import examples, grpc_port, grpc_server
from service.assembly import Addresses, serving
from service.settings import Settings
from tests.api.asking import BY_NAME, message_of

SWEEP = BY_NAME["RunSweep"]
#: Its answer is much longer than what the kernel and the libraries hold on the way.
LONG = examples.REQUESTS["RunSweep"] | {"batch_sizes": list(range(1, 1000)), "context_tokens": list(range(1, 400))}
WITHIN_SECONDS = 15.0


@asynccontextmanager
async def only_one_at_a_time() -> AsyncIterator[Addresses]:
    settings = Settings(http_port=0, grpc_port=0, drain_seconds=0.1, max_concurrent_requests=1, http_arrival_seconds=0.3)
    async with serving(settings) as addresses:
        yield addresses


async def until_there_is_room(addresses: Addresses) -> None:
    """Until the place that the stalled caller had is free again."""
    deadline = time.monotonic() + WITHIN_SECONDS
    async with httpx.AsyncClient(base_url=addresses.http, timeout=30) as http:
        while (response := await http.post("/v1/nodes:fit", json=examples.REQUESTS["FitNode"])).status_code != 200:
            assert 429 == response.status_code
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


async def is_full(addresses: Addresses) -> bool:
    async with httpx.AsyncClient(base_url=addresses.http, timeout=30) as http:
        question = examples.REQUESTS["FitNode"] | {"context_tokens": time.monotonic_ns() % 100_000 + 1}
        return (await http.post("/v1/nodes:fit", json=question)).status_code == 429


async def test_who_does_not_take_an_answer_over_rest_is_cut_off() -> None:
    async with only_one_at_a_time() as addresses:
        host, port = addresses.http.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        async with httpx.AsyncClient() as http:
            body = http.build_request("POST", addresses.http + SWEEP.http.template, json=LONG)
        head = f"POST {SWEEP.http.template} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(body.content)}\r\n\r\n".encode() + body.content)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert await is_full(addresses)
        await until_there_is_room(addresses)
        writer.close()


async def test_who_does_not_take_an_answer_over_grpc_holds_no_place_and_still_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "_TAKING_SECONDS", 0.3)
    async with only_one_at_a_time() as addresses, grpc.aio.insecure_channel(addresses.grpc) as channel:
        call = channel.unary_stream(SWEEP.path, None, None)(message_of("RunSweep", LONG).SerializeToString())
        parts = aiter(call)
        assert await anext(parts)
        assert await is_full(addresses)
        await until_there_is_room(addresses)
        *_, last = [part async for part in parts]
        assert SWEEP.response.FromString(last).WhichOneof("part") == "end"


async def test_estimates_are_answered_while_searches_find_no_place() -> None:
    async with only_one_at_a_time() as addresses, grpc.aio.insecure_channel(addresses.grpc) as channel:
        call = channel.unary_stream(SWEEP.path, None, None)(message_of("RunSweep", LONG).SerializeToString())
        assert await anext(aiter(call))
        assert await is_full(addresses)
        estimate, question = BY_NAME["EstimateDecode"], examples.REQUESTS["EstimateDecode"]
        async with httpx.AsyncClient(base_url=addresses.http, timeout=30) as http:
            assert 200 == (await http.post(estimate.http.template, json=question)).status_code
        request = message_of("EstimateDecode", question).SerializeToString()
        assert await channel.unary_unary(estimate.path, None, None)(request)
        call.cancel()


async def test_a_caller_whose_machine_has_gone_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_port, "_ARE_YOU_THERE_SECONDS", 0.2)
    monkeypatch.setattr(grpc_port, "_NO_ANSWER_SECONDS", 0.2)
    async with only_one_at_a_time() as addresses:
        host, port = addresses.grpc.split(":")
        # HTTP/2 as far as the settings, and then not a word: no answer to a ping either.
        with socket.create_connection((host, int(port)), timeout=WITHIN_SECONDS) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04\x00" + bytes(4))
            loop, begun = asyncio.get_running_loop(), time.monotonic()
            while await loop.run_in_executor(None, connection.recv, 65_536):
                pass
            assert time.monotonic() - begun < WITHIN_SECONDS
