"""How fast sweeps are, what their encoding costs, what memory they take, and what they do to small requests beside them.

    python -m tests.benchmarks.sweep [--rounds N]

Rates are points over CPU time of one core, best of several. Latencies are those of single requests one after the other: alone,
beside a process that only computes, and beside sweeps of a million points, one after the other, that another process asks for
and throws away unread. They are taken in turns within one run. Service and callers share the machine: where cores are few, the
second shows what that alone costs. How fast such a sweep is while small requests give it no rest is measured too.
"""

import argparse
import contextlib
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
from google.protobuf import json_format

from service.api.wire import wire_writer
from service.catalogue.loader import load
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.sweep.requests import Kind, RequestLength, RunSweepRequest
from service.planning.sweep.results import RunSweepResponse
from service.settings import specs_dir
from tests.benchmarks.servers import Server, service
from tonnage.v1 import accelerator_pb2, engine_pb2, model_pb2
from tonnage.v1 import capacity_service_pb2 as capacity
from tonnage.v1 import sweep_service_pb2 as sweep

SWEEP = "/tonnage.v1.SweepService/RunSweep"
DECODE = "/tonnage.v1.CapacityService/EstimateDecode"
MODELS = tuple(ModelSpec(name=name) for name in ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-v3"))
ACCELERATORS = tuple(AcceleratorSpec(name=name) for name in ("h100-sxm", "a100-sxm-80", "b200"))
SHAPES = (Parallelism(tensor=4), Parallelism(tensor=8), Parallelism(tensor=8, pipeline=2))
PRECISIONS = (Precision(), Precision(weights="fp8"))
REQUESTS = 2000


def decode_request(batches: int, contexts: int) -> RunSweepRequest:
    """Bounds for a few dozen plans."""
    sizes, tokens = tuple(range(1, batches + 1)), tuple(range(512, 512 * (contexts + 1), 512))
    return RunSweepRequest(Kind.DECODE, MODELS, ACCELERATORS, SHAPES, PRECISIONS, sizes, tokens)


def serving_request(concurrencies: int, lengths: int) -> RunSweepRequest:
    """Estimates for a few dozen plans."""
    return RunSweepRequest(
        Kind.SERVING,
        MODELS,
        ACCELERATORS,
        SHAPES,
        PRECISIONS,
        engines=(EngineSpec("vllm", "0.19"), EngineSpec("sglang")),
        concurrencies=tuple(map(float, range(1, concurrencies + 1))),
        lengths=tuple(RequestLength(64 * number, 256) for number in range(1, lengths + 1)),
    )


def points_per_second(planner: Planner, request: RunSweepRequest) -> tuple[float, float]:
    """Points answered over CPU seconds, and how many they were."""
    begun = time.process_time()
    answered = 0.0
    for part in planner.run_sweep(request):
        if part.end is not None:
            answered = part.end.num_answered
    return answered / (time.process_time() - begun), answered


def rates(planner: Planner, rounds: int) -> None:
    """What one core computes, planning and packing included."""
    for title, request, aim in (
        ("decode bounds, large plans", decode_request(128, 128), "1,000,000"),
        ("decode bounds, 64 points a plan", decode_request(8, 8), "1,000,000"),
        ("serving estimates, large plans", serving_request(64, 64), "200,000"),
        ("serving estimates, 64 points a plan", serving_request(8, 8), "200,000"),
    ):
        first, answered = points_per_second(planner, request)
        best = max(points_per_second(planner, request)[0] for _ in range(rounds))
        print(f"{title}: {best:,.0f}/s per core over {answered:,.0f} points, {first:,.0f}/s the first time (aim {aim})")


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def encoding(planner: Planner) -> None:
    """What the bytes of a full chunk cost, beside a copy of them."""
    write = wire_writer(sweep.RunSweepResponse, RunSweepResponse)
    for request in (decode_request(128, 128), serving_request(128, 128)):
        parts = planner.run_sweep(request)
        part = next(each for each in parts if each.chunk is not None and (each.chunk.decode or each.chunk.serving))
        encoded = np.frombuffer(write(part), np.uint8)
        taken = sorted((_timed(lambda part=part: write(part)), _timed(encoded.tobytes)) for _ in range(2000))  # type: ignore[misc]
        cost, copy = (statistics.median(column) for column in zip(*taken, strict=True))
        best = taken[0][0] / min(each for _, each in taken)
        print(
            f"encoding a {request.kind} chunk of {len(encoded):,} bytes: {cost * 1e6:.0f} µs, {cost / copy:.1f} × a copy of "
            f"{copy * 1e6:.0f} µs by turns, the best of each {best:.1f} × (aim 3)"
        )


def sweep_message(batches: int, contexts: int) -> bytes:
    """A sweep of one plan as the gRPC door takes it."""
    return sweep.RunSweepRequest(
        kind=sweep.RunSweepRequest.DECODE,
        models=[model_pb2.ModelSpec(name="llama-3.1-70b")],
        accelerators=[accelerator_pb2.AcceleratorSpec(name="h100-sxm")],
        shapes=[model_pb2.Parallelism(tensor=8)],
        batch_sizes=range(1, batches + 1),
        context_tokens=range(1, contexts + 1),
    ).SerializeToString()


def serving_message(concurrencies: int, lengths: int) -> bytes:
    """A sweep of estimates of one plan as the gRPC door takes it."""
    return sweep.RunSweepRequest(
        kind=sweep.RunSweepRequest.SERVING,
        models=[model_pb2.ModelSpec(name="llama-3.1-70b")],
        accelerators=[accelerator_pb2.AcceleratorSpec(name="h100-sxm")],
        shapes=[model_pb2.Parallelism(tensor=8)],
        engines=[engine_pb2.EngineSpec(name="vllm", version="0.19")],
        concurrencies=range(1, concurrencies + 1),
        lengths=[sweep.RequestLength(input_tokens=64 * each, output_tokens=256) for each in range(1, lengths + 1)],
    ).SerializeToString()


def drain(port: int, batches: int, contexts: int, times: int, message: Callable[[int, int], bytes] = sweep_message) -> float:
    """Takes sweeps without reading them; returns the bytes received."""
    received = 0.0
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_receive_message_length", -1)]) as channel:
        call: Any = channel.unary_stream(SWEEP, None, None)
        for _ in range(times):
            received += sum(len(part) for part in call(message(batches, contexts)))
    return received


def peak_bytes(server: Server) -> float:
    """The most memory that the process has held."""
    status = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    (line,) = (each for each in status if each.startswith("VmHWM"))
    return float(line.split()[1]) * 1024


def large_sweep(server: Server) -> None:
    """Ten million points over gRPC."""
    before, begun = server.resident_bytes(), time.perf_counter()
    received = drain(server.grpc_port, 1000, 10_000, 1)
    seconds = time.perf_counter() - begun
    print(
        f"1e7 points over gRPC: {received / 1e9:.2f} GB in {seconds:.1f} s; the service held {before / 2**20:.0f} MiB before "
        f"and {peak_bytes(server) / 2**20:.0f} MiB at the most (aim 1024)"
    )


def grpc_asker(port: int) -> Iterator[Callable[[int], object]]:
    """Asks single questions over gRPC."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary(DECODE, None, None)
        message = capacity.EstimateDecodeRequest(
            model=model_pb2.ModelSpec(name="llama-3.1-70b"), accelerator=accelerator_pb2.AcceleratorSpec(name="h100-sxm")
        )

        def ask(number: int) -> object:
            message.context_tokens = number
            return call(message.SerializeToString())

        yield ask


def rest_asker(port: int) -> Iterator[Callable[[int], object]]:
    """Asks single questions over REST."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        question: dict[str, Any] = {"model": {"name": "llama-3.1-70b"}, "accelerator": {"name": "h100-sxm"}}
        yield lambda number: client.post("/v1/decode:estimate", json=question | {"context_tokens": number})


def latencies(ask: Callable[[int], object], numbers: Iterator[int]) -> tuple[float, float]:
    """Median and 99th percentile, in seconds."""
    taken = sorted(_timed(lambda: ask(next(numbers))) for _ in range(REQUESTS))
    return taken[REQUESTS // 2], taken[REQUESTS * 99 // 100]


def drain_http(port: int, form: str, batches: int, contexts: int, times: int) -> float:
    """Takes sweeps over REST without reading them; returns the bytes received."""
    received = 0.0
    question = json_format.MessageToDict(
        sweep.RunSweepRequest.FromString(sweep_message(batches, contexts)), preserving_proto_field_name=True
    )
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=None) as client:
        for _ in range(times):
            with client.stream("POST", f"/v1/sweeps:run?format={form}", json=question) as answer:
                answer.raise_for_status()
                received += sum(len(part) for part in answer.iter_raw())
    return received


_TITLES = (
    "alone",
    "beside a busy process",
    "beside gRPC sweeps",
    "beside estimates, gRPC",
    "beside NDJSON sweeps",
    "beside CSV sweeps",
)
#: What a process says that has begun.
_BEGUN = "begun"


def _beside(server: Server) -> tuple[str, ...]:
    """What runs beside the small requests, for each of the titles but the first: a program for Python."""
    ask, say = "from tests.benchmarks.sweep import *; ", f"print({_BEGUN!r}, flush=True)"
    of_http = f"drain_http({server.http_port}, "
    calls = (
        (f"drain({server.grpc_port}, ", ")"),
        (f"drain({server.grpc_port}, ", ", message=serving_message)"),
        *((f"{of_http}{form!r}, ", ")") for form in ("ndjson", "csv")),
    )
    sweeps = (f"{ask}{call}1, 1, 1{end}; {say}; {call}1000, 1000, 100000{end}" for call, end in calls)
    return (f"{say}\nwhile True: pass", *sweeps)


def _asking(door: str, port: int) -> str:
    """A program that asks small questions one after the other."""
    return (
        f"import itertools\nfrom tests.benchmarks.sweep import *\nfor ask in {door}_asker({port}):\n"
        f"    for number in itertools.count(1):\n        ask(number)\n        number == 100 and print({_BEGUN!r}, flush=True)"
    )


def sweeps_beside(server: Server) -> None:
    """How long a million points take while small requests come one after the other."""
    for door, port in (("grpc", server.grpc_port), ("rest", server.http_port)):
        for title, message in (("bounds", sweep_message), ("estimates", serving_message)):
            whole = partial(drain, server.grpc_port, 1000, 1000, 1, message)
            alone = _timed(whole)
            with _other(_asking(door, port)):
                beside = _timed(whole)
            print(f"1e6 {title} over gRPC: {alone:.1f} s alone, {beside:.1f} s beside small requests over {door}")


def beside_sweeps(server: Server, rounds: int) -> None:
    """Small requests alone, beside a busy process, and beside sweeps of each form, in turns."""
    numbers = itertools.count(1)
    for title, asker, port in (("gRPC", grpc_asker, server.grpc_port), ("REST", rest_asker, server.http_port)):
        for ask in asker(port):
            latencies(ask, numbers)
            measured: list[list[tuple[float, float]]] = [[] for _ in _TITLES]
            for _ in range(rounds):
                measured[0].append(latencies(ask, numbers))
                for at, program in enumerate(_beside(server), 1):
                    measured[at].append(_with_process(program, ask, numbers))
            show(title, measured)


def _with_process(program: str, ask: Callable[[int], object], numbers: Iterator[int]) -> tuple[float, float]:
    with _other(program):
        return latencies(ask, numbers)


@contextlib.contextmanager
def _other(program: str) -> Iterator[None]:
    """A program that runs beside, from when it says that it has begun."""
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        if not other.stdout.readline():
            raise RuntimeError(f"it did not begin: {program}")
        time.sleep(0.3)
        yield
    finally:
        other.kill()
        other.wait()
        time.sleep(0.2)


def show(title: str, measured: list[list[tuple[float, float]]]) -> None:
    """Medians over the rounds, and of each round's own ratio: what else the machine does differs from round to round."""
    print(f"small requests over {title}, p50 and p99 in ms (aim: p99 within 2 × alone, median of {len(measured[0])} rounds):")
    for beside, each in zip(_TITLES, measured, strict=True):
        middle, last = (statistics.median(column) for column in zip(*each, strict=True))
        print(f"  {beside:22} {middle * 1e3:6.2f} {last * 1e3:7.2f}   {_ratios(each, measured[0])} × alone", end="")
        print(f", {_ratios(each, measured[1])} × beside a busy process")


def _ratios(measured: list[tuple[float, float]], beside: list[tuple[float, float]]) -> str:
    """Of the 99th percentiles, round by round: the median, and from where to where they go."""
    each = sorted(one[1] / other[1] for one, other in zip(measured, beside, strict=True))
    return f"{statistics.median(each):.1f} ({each[0]:.1f} to {each[-1]:.1f})"


def http_rates(server: Server) -> None:
    """What one sweep brings at a time, of all three forms."""
    for form in ("grpc", "ndjson", "csv"):
        begun = time.perf_counter()
        cpu = server.cpu_seconds()
        received = (
            drain(server.grpc_port, 1000, 1000, 1) if form == "grpc" else drain_http(server.http_port, form, 1000, 1000, 1)
        )
        seconds = time.perf_counter() - begun
        cpu = server.cpu_seconds() - cpu
        print(
            f"1e6 points as {form}: {received / 1e6:.0f} MB, {1 / seconds:.2f} million points/s, "
            f"{cpu:.2f} s of the service's CPU"
        )


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    planner = Planner(load(specs_dir()))
    rates(planner, rounds)
    encoding(planner)
    with service() as server:
        http_rates(server)
        beside_sweeps(server, rounds)
        sweeps_beside(server)
        large_sweep(server)


if __name__ == "__main__":
    main()
