"""Answers that leave together: none is lost, none is mixed up, none waits where it need not."""

import asyncio
import json
from typing import Any

import pytest

from service.api import examples
from service.api.departures import Departures, GatheringTransport
from service.assembly import serving
from service.settings import Settings
from tests.api.asking import BY_NAME

HEAD, BODY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", b"ok"
MANY, FEW = range(20), range(2)


class Wire(asyncio.Transport):
    """A connection that notes what it is given, in which pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self._is_closing = False

    def write(self, data: Any) -> None:
        assert not self._is_closing
        self.sent.append(data)

    def close(self) -> None:
        self._is_closing = True

    def is_closing(self) -> bool:
        return self._is_closing


class Server:
    """Connections of one server, with so many requests at hand."""

    def __init__(self, requests: range) -> None:
        self.departures = Departures()
        self._requests = requests

    def connect(self) -> tuple[GatheringTransport, Wire]:
        wire = Wire()
        return GatheringTransport(wire, self.departures, self._requests), wire


async def test_an_answer_under_load_leaves_at_the_end_of_the_turn_in_one_piece() -> None:
    server = Server(MANY)
    (first, first_wire), (second, second_wire) = server.connect(), server.connect()
    for transport in (first, second):
        transport.write(HEAD)
        transport.write(BODY)
    assert [] == first_wire.sent == second_wire.sent
    await asyncio.sleep(0)
    assert [HEAD + BODY] == first_wire.sent == second_wire.sent


async def test_with_few_requests_an_answer_leaves_at_once_in_one_piece() -> None:
    transport, wire = Server(FEW).connect()
    transport.write(HEAD)
    assert [] == wire.sent
    transport.write(BODY)
    assert [HEAD + BODY] == wire.sent


async def test_a_head_whose_body_is_still_to_come_does_not_wait_for_it() -> None:
    transport, wire = Server(FEW).connect()
    transport.write(HEAD)
    await asyncio.sleep(0)
    assert [HEAD] == wire.sent
    transport.write(BODY)
    assert [HEAD, BODY] == wire.sent


async def test_what_is_large_leaves_at_once_and_not_before_what_came_first() -> None:
    transport, wire = Server(MANY).connect()
    transport.write(HEAD)
    transport.write(b"x" * 20_000)
    assert [HEAD + b"x" * 20_000] == wire.sent


async def test_a_long_turn_does_not_hold_the_first_answers() -> None:
    server = Server(MANY)
    wires = []
    for _ in range(20):
        transport, wire = server.connect()
        transport.write(HEAD)
        transport.write(BODY)
        wires.append(wire)
    assert [HEAD + BODY] == wires[0].sent == wires[15].sent
    assert [] == wires[16].sent
    await asyncio.sleep(0)
    assert all([HEAD + BODY] == wire.sent for wire in wires)


async def test_closing_sends_what_is_held() -> None:
    transport, wire = Server(MANY).connect()
    transport.write(HEAD)
    transport.write(BODY)
    transport.close()
    assert [HEAD + BODY] == wire.sent
    assert transport.is_closing()


async def test_a_caller_who_has_gone_does_not_keep_the_others_from_their_answers() -> None:
    server = Server(MANY)
    (gone, gone_wire), (there, wire) = server.connect(), server.connect()
    gone.write(HEAD)
    there.write(HEAD)
    gone_wire.close()
    await asyncio.sleep(0)
    assert ([], [HEAD]) == (gone_wire.sent, wire.sent)


async def test_what_the_caller_wrote_over_meanwhile_is_sent_as_it_was() -> None:
    transport, wire = Server(MANY).connect()
    buffer = bytearray(BODY)
    transport.write(buffer)
    buffer[:] = b"no"
    await asyncio.sleep(0)
    assert [BODY] == wire.sent


def posts(batch_sizes: range) -> bytes:
    """Requests one right after the other, without waiting for answers."""
    path, question = BY_NAME["EstimateDecode"].http.template, examples.REQUESTS["EstimateDecode"]
    bodies = [json.dumps(question | {"batch_size": batch_size}).encode() for batch_size in batch_sizes]
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n".encode()
    return b"".join(head % len(body) + body for body in bodies)


async def step_seconds(reader: asyncio.StreamReader) -> float:
    """What the next answer says."""
    lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    assert lines[0].startswith(b"http/1.1 200")
    (length,) = (int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
    bound = json.loads(await reader.readexactly(length))["bound"]
    seconds: float = bound["step_seconds"]
    return seconds


async def asked(port: int, batch_sizes: range) -> list[float]:
    """The answers over one connection, in the order in which they come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(posts(batch_sizes))
    seconds = [await step_seconds(reader) for _ in batch_sizes]
    writer.close()
    return seconds


@pytest.mark.parametrize("num_connections", [1, 40])
async def test_every_caller_gets_its_own_answers_in_its_own_order(num_connections: int) -> None:
    async with serving(Settings(http_port=0, grpc_port=0, drain_seconds=0.1)) as addresses:
        port = int(addresses.http.rpartition(":")[2])
        expected = [(await asked(port, range(size, size + 1)))[0] for size in range(1, 25)]
        assert len(expected) == len(set(expected))
        answers = await asyncio.gather(
            *(asked(port, range(1 + number % 20, 5 + number % 20)) for number in range(num_connections))
        )
        for number, seconds in enumerate(answers):
            assert expected[number % 20 : number % 20 + 4] == seconds
