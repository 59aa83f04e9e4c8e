"""What the doors cost: EstimateDecode against servers of the same flavour that do nothing, paired within one run.

    python -m tests.benchmarks.doors [--rounds N] [--seconds S]

Every figure is a ratio of medians over interleaved rounds, since machines are noisy. "requests/s" is what one core of a server
sustains: requests over the CPU time that the server process used for them; the throughput seen by the client, which shares the
machine, stands beside it.
"""

import argparse
import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import orjson
import uvloop

from tests.benchmarks.servers import Server, echo, service
from tonnage.v1 import capacity_service_pb2 as pb

METHOD = "/tonnage.v1.CapacityService/EstimateDecode"
CONCURRENCY = 32
QUESTION = {
    "model": {"name": "llama-3.1-70b"},
    "accelerator": {"name": "h100-sxm"},
    "parallelism": {"tensor": 8},
    "batch_size": 64,
    "context_tokens": 4096,
}


@dataclass(frozen=True)
class Rate:
    """What one round gave."""

    requests_per_second: float
    cpu_seconds_per_request: float


def questions(distinct: bool) -> Iterator[dict[str, Any]]:
    """Questions without end: all alike, or no two alike so that no tier can answer."""
    for number in itertools.count(1) if distinct else itertools.repeat(4096):
        yield QUESTION | {"context_tokens": 1 + number % 1_000_000, "batch_size": 1 + number // 1_000_000}


def protobuf_bodies(distinct: bool) -> Iterator[bytes]:
    """Questions as the gRPC door takes them."""
    for question in questions(distinct):
        yield pb.EstimateDecodeRequest(**question).SerializeToString()


def json_bodies(distinct: bool) -> Iterator[bytes]:
    """Questions as the REST door takes them."""
    return map(orjson.dumps, questions(distinct))


async def load_grpc(port: int, bodies: Iterator[bytes], seconds: float) -> int:
    """Calls with ``CONCURRENCY`` in flight for so many seconds; returns how many were answered."""
    answered = 0
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(METHOD, None, None)
        end = time.perf_counter() + seconds

        async def caller() -> None:
            nonlocal answered
            while time.perf_counter() < end:
                await call(next(bodies))
                answered += 1

        await asyncio.gather(*(caller() for _ in range(CONCURRENCY)))
    return answered


def http_post(body: bytes) -> bytes:
    """One POST of EstimateDecode over a kept connection."""
    head = "POST /v1/decode:estimate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def http_answer(reader: asyncio.StreamReader) -> bytes:
    """The body of the next answer; RuntimeError where it is not a 200."""
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"answered {head[:80]!r}")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.partition(b":")[2]))


async def load_rest(port: int, bodies: Iterator[bytes], seconds: float) -> int:
    """Posts over ``CONCURRENCY`` kept connections for so many seconds; returns how many were answered with 200."""
    answered = 0
    end = time.perf_counter() + seconds

    async def caller() -> None:
        nonlocal answered
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            writer.write(http_post(next(bodies)))
            await http_answer(reader)
            answered += 1
        writer.close()

    await asyncio.gather(*(caller() for _ in range(CONCURRENCY)))
    return answered


Load = Callable[[int, Iterator[bytes], float], Awaitable[int]]


async def one_round(server: Server, load: Load, bodies: Iterator[bytes], seconds: float) -> Rate:
    """One timed round against one server."""
    port = server.grpc_port if load is load_grpc else server.http_port
    cpu, start = server.cpu_seconds(), time.perf_counter()
    answered = await load(port, bodies, seconds)
    elapsed = time.perf_counter() - start
    return Rate(answered / elapsed, (server.cpu_seconds() - cpu) / answered)


def report(name: str, mine: list[Rate], nothing: list[Rate], aim: str) -> None:
    """Prints one comparison."""
    cpu = [statistics.median(rate.cpu_seconds_per_request for rate in rates) for rates in (mine, nothing)]
    seen = [statistics.median(rate.requests_per_second for rate in rates) for rates in (mine, nothing)]
    print(
        f"{name:34} per core {cpu[1] / cpu[0]:5.2f} of the echo's requests/s (CPU {cpu[0] / cpu[1]:.2f} ×: "
        f"{cpu[0] * 1e6:.0f} against {cpu[1] * 1e6:.0f} µs), seen by the client {seen[0] / seen[1]:5.2f} "
        f"({seen[0]:,.0f} against {seen[1]:,.0f}/s); aim {aim}"
    )


async def size_of_answers(server: Server) -> tuple[int, int]:
    """Bytes of an answer on either door."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        protobuf = await channel.unary_unary(METHOD, None, None)(next(protobuf_bodies(False)))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
    writer.write(http_post(next(json_bodies(False))))
    json = len(await http_answer(reader))
    writer.close()
    return len(protobuf), json


async def compare(rounds: int, seconds: float) -> None:
    """Starts all servers, loads them in turn and prints the comparisons."""
    with service() as ours:
        print(f"ready after {ours.ready_seconds:.2f} s; idle {ours.resident_bytes() / 2**20:.0f} MiB resident")
        protobuf_size, json_size = await size_of_answers(ours)
        with echo("grpc", protobuf_size) as grpc_echo, echo("rest", json_size) as rest_echo:
            cases = (
                ("gRPC EstimateDecode", ours, grpc_echo, load_grpc, protobuf_bodies(True), "≥ 0.85"),
                ("gRPC in-process hit", ours, grpc_echo, load_grpc, protobuf_bodies(False), "≥ 0.95"),
                ("REST EstimateDecode", ours, rest_echo, load_rest, json_bodies(True), "CPU ≤ 1.8 ×"),
                ("REST in-process hit", ours, rest_echo, load_rest, json_bodies(False), "none set"),
            )
            for name, mine, nothing, load, bodies, aim in cases:
                rates: tuple[list[Rate], list[Rate]] = ([], [])
                for _ in range(rounds):
                    for server, kept in zip((mine, nothing), rates, strict=True):
                        kept.append(await one_round(server, load, bodies, seconds))
                report(name, rates[0][1:] or rates[0], rates[1][1:] or rates[1], aim)
        print(f"after load {ours.resident_bytes() / 2**20:.0f} MiB resident")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=6, help="rounds of each comparison; the first warms up")
    arguments.add_argument("--seconds", type=float, default=3.0, help="length of a round")
    given = arguments.parse_args()
    uvloop.run(compare(given.rounds, given.seconds))
