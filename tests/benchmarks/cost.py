"""What a request, a start and an idle process cost, each beside a yardstick of the same run: the aims of specs/decisions/0013.

    python -m tests.benchmarks.cost [--rounds N] [--seconds S]

Every figure is the median over rounds of a ratio that is taken within a round, the two sides one right after the other: the
machine may be as busy as it likes, as long as it is so for both. Times are CPU times of the process that is measured.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
from google.protobuf import json_format

from service.api.examples import REQUESTS
from service.api.schema import RPCS
from service.api.servicers import Servicer, servicers
from service.cache.cache import Cache
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.cache.redis_tier import RedisSettings, RedisTier
from service.catalogue.loader import load
from service.planning.planner import Planner
from service.planning.sweep.grid import SweepLimits
from service.settings import specs_dir
from service.telemetry import RpcName, Telemetry
from tests.benchmarks.doors import (
    Load,
    json_bodies,
    load_grpc,
    load_rest,
    one_round,
    protobuf_bodies,
    size_of_answers,
)
from tests.benchmarks.servers import Server, echo, service
from tests.redis_process import RedisServer

#: What the service stands on: all that it declares to need at run time, and the stubs of its schema.
LIBRARIES = (
    "fastapi", "google.protobuf", "google.rpc.error_details_pb2", "google.rpc.status_pb2", "grpc", "grpc_health.v1.health",
    "grpc_reflection.v1alpha.reflection", "grpc_status.rpc_status", "httptools", "msgspec", "numpy", "orjson",
    "prometheus_client", "protovalidate", "redis.asyncio", "uvicorn", "uvloop", "yaml",
)  # fmt: skip
STUBS = ("capacity", "catalogue", "claim", "fleet", "kernel", "placement", "serving", "sweep")
#: Calls of one timed stretch of something that takes microseconds.
STRETCH = 2_000
PLAN = "PlanFleet"
HITS = 100


@dataclass(frozen=True)
class Aim:
    """A ratio that is aimed at."""

    name: str
    limit: float
    is_ceiling: bool

    def report(self, ratios: Sequence[float], about: str) -> None:
        """Prints what was attained."""
        ratio = statistics.median(ratios)
        attained = ratio <= self.limit if self.is_ceiling else ratio >= self.limit
        sign = "≤" if self.is_ceiling else "≥"
        spread = f"{min(ratios):.2f}–{max(ratios):.2f}"
        verdict = "attained" if attained else "MISSED"
        print(f"{self.name:44} {ratio:7.2f}  (aim {sign} {self.limit:g}: {verdict}; rounds {spread})  {about}", flush=True)


async def against_echo(
    aim: Aim, mine: Server, nothing: Server, load: Load, bodies: Iterator[bytes], rounds: int, seconds: float
) -> float:
    """One door against a server of its flavour that does nothing; gives that one's CPU seconds per request."""
    ratios, costs = [], []
    for number in range(rounds + 1):
        ours, theirs = [await one_round(each, load, bodies, seconds) for each in (mine, nothing)]
        if number:  # the first warms up
            cpu = (ours.cpu_seconds_per_request, theirs.cpu_seconds_per_request)
            ratios.append(cpu[0] / cpu[1] if aim.is_ceiling else cpu[1] / cpu[0])
            costs.append(cpu)
    ours_us, theirs_us = (float(statistics.median(side)) * 1e6 for side in zip(*costs, strict=True))
    aim.report(ratios, f"{ours_us:.0f} against {theirs_us:.0f} µs of CPU")
    return theirs_us / 1e6


async def doors(rounds: int, seconds: float) -> float:
    """EstimateDecode and a hit of the in-process tier at both doors; gives the CPU seconds of an RPC that does nothing."""
    nothing_seconds = []
    with service() as ours:
        protobuf_size, json_size = await size_of_answers(ours)
        with echo("grpc", protobuf_size) as grpc_echo, echo("rest", json_size) as rest_echo:
            for aim, nothing, load, bodies in (
                (Aim("gRPC: echo ÷ EstimateDecode", 0.85, False), grpc_echo, load_grpc, protobuf_bodies(True)),
                (Aim("gRPC: echo ÷ in-process hit", 0.95, False), grpc_echo, load_grpc, protobuf_bodies(False)),
                (Aim("REST: EstimateDecode ÷ fixed Starlette body", 1.8, True), rest_echo, load_rest, json_bodies(True)),
            ):
                nothing_seconds.append(await against_echo(aim, ours, nothing, load, bodies, rounds, seconds))
        await flavours(rounds, seconds, protobuf_size)
    return nothing_seconds[0]


async def flavours(rounds: int, seconds: float, num_bytes: int) -> None:
    """The library's server on threads against its asyncio server, both doing nothing."""
    with echo("grpc", num_bytes) as on_loop, echo("grpc_sync", num_bytes) as on_threads:
        pairs = []
        for number in range(rounds + 1):
            threads, loop = [
                await one_round(each, load_grpc, protobuf_bodies(False), seconds) for each in (on_threads, on_loop)
            ]
            if number:
                pairs.append((threads.cpu_seconds_per_request, loop.cpu_seconds_per_request))
    ratio = statistics.median(threads / loop for threads, loop in pairs)
    on_threads_us, on_loop_us = (float(statistics.median(side)) * 1e6 for side in zip(*pairs, strict=True))
    print(f"{'gRPC on threads ÷ asyncio, both echoes':44} {ratio:7.2f}  {on_threads_us:.0f} against {on_loop_us:.0f} µs of CPU")


@contextmanager
def made_servicers(redis: Any = None) -> Iterator[tuple[dict[str, Servicer], Telemetry]]:
    """Servicers as the service has them, in this process."""
    telemetry = Telemetry([RpcName(rpc.service, rpc.name) for rpc in RPCS], version="0")
    catalogue = load(specs_dir())
    planner = Planner(catalogue, SweepLimits(1_000_000, 1_000))
    planner.warm_up()
    cache = Cache(
        keys=KeySpace(catalogue_revision=catalogue.revision, code_version="0", prefix="bench:"),
        local=LocalTier(max_bytes=2**20, max_entries=1),
        redis=redis,
        observer=telemetry.cache,
    )
    with ThreadPoolExecutor(1) as executor:
        made = servicers(planner, cache, telemetry, executor, redis_for_every_rpc=False)
        yield {each.rpc.name: each for each in made}, telemetry


def cpu_seconds(work: Callable[[], object], times: int) -> float:
    """CPU time of one call."""
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times


def watching(rounds: int, nothing_seconds: float) -> None:
    """Metrics and validation, of what a request takes: an RPC that does nothing, and planning, reading and writing besides."""
    ratios, costs = [], []
    with made_servicers() as (by_name, telemetry):
        servicer = by_name["EstimateDecode"]
        message = servicer.parse(next(protobuf_bodies(False)))
        rpc, seconds = telemetry.rpc(servicer.rpc.path), telemetry.planning_seconds(servicer.rpc.path)

        def counted() -> None:
            begun = rpc.begin()
            telemetry.cache.miss("local", "EstimateDecode")
            seconds.observe(2e-5)
            rpc.end(begun, "OK")

        read, read_quickly = servicer.codec.read, servicer.codec.read_quickly
        for _ in range(rounds):
            metrics = cpu_seconds(counted, STRETCH)
            # The checks are written into the reading: what they cost is what it takes longer than a reading without.
            checks = cpu_seconds(lambda: read_quickly(message), STRETCH) - cpu_seconds(lambda: read(message), STRETCH)
            whole = cpu_seconds(lambda: servicer.codec.write(servicer.plan(servicer.question(message))), STRETCH // 10)
            ratios.append((metrics + max(0.0, checks)) / (whole + metrics + nothing_seconds))
            costs.append((metrics, checks))
    metrics, checks = (statistics.median(side) * 1e6 for side in zip(*costs, strict=True))
    about = f"{metrics:.1f} µs of metrics, {checks:.1f} µs of checks"
    Aim("metrics and validation ÷ request", 0.10, True).report(ratios, about)


def child(code: str, compiled: str) -> tuple[float, float]:
    """CPU seconds and resident bytes of a Python that runs this, its modules compiled in a folder as installed ones are."""
    probe = "; import os, resource, json; u = resource.getrusage(resource.RUSAGE_SELF)"
    probe += "; pages = int(open('/proc/self/statm').read().split()[1])"
    probe += "; print(json.dumps([u.ru_utime + u.ru_stime, pages * os.sysconf('SC_PAGE_SIZE')]))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TONNAGE_")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = compiled
    ran = subprocess.run([sys.executable, "-c", code + probe], capture_output=True, text=True, check=True, env=environment)
    used, resident = json.loads(ran.stdout.splitlines()[-1])
    return used, resident


def start(rounds: int) -> None:
    """A start until everything is open, and the memory of an idle process, against importing the libraries and the stubs."""
    modules = (*LIBRARIES, *(f"tonnage.v1.{name}_service_pb2" for name in STUBS))
    bare = "; ".join(f"import {name}" for name in modules)
    serve = (
        "import gc; gc.disable()  # as service/__main__.py does\n"
        "import uvloop, service.main; from service.assembly import serving; from service.settings import Settings\n"
        "async def go():\n"
        "    global context\n"
        "    context = serving(Settings(http_port=0, grpc_port=0, drain_seconds=0))\n"
        "    await context.__aenter__()\n"
        "loop = uvloop.new_event_loop(); loop.run_until_complete(go())\n"
        "gc.freeze(); gc.enable()"
    )
    cpu, memory, pairs = [], [], []
    with tempfile.TemporaryDirectory() as compiled:
        for number in range(rounds + 1):
            nothing, ours = child(bare, compiled), child(serve, compiled)
            if number:  # the first compiles
                cpu.append(ours[0] / nothing[0])
                memory.append(ours[1] / nothing[1])
                pairs.append((*ours, *nothing))
    ours_cpu, ours_bytes, bare_cpu, bare_bytes = (statistics.median(side) for side in zip(*pairs, strict=True))
    Aim("import and start ÷ bare imports", 1.5, True).report(cpu, f"{ours_cpu:.2f} against {bare_cpu:.2f} s of CPU")
    about = f"{ours_bytes / 2**20:.0f} against {bare_bytes / 2**20:.0f} MiB"
    Aim("idle memory ÷ bare imports", 1.3, True).report(memory, about)


@contextmanager
def running_redis() -> Iterator[str]:
    """A redis-server of our own; gives its address."""
    with tempfile.TemporaryDirectory() as folder:
        redis = RedisServer(Path(folder))
        redis.start()
        try:
            yield redis.url
        finally:
            redis.stop()


async def plans(rounds: int) -> None:
    """A plan out of Redis against planning it, both through the servicer, by the CPU time of this process."""
    ratios, costs = [], []
    with running_redis() as url:
        tier = RedisTier(RedisSettings(url=url))
        with made_servicers(tier) as (by_name, _):
            servicer = by_name[PLAN]
            for number in range(rounds):
                question = REQUESTS[PLAN] | {"redundant_nodes": number}
                message = json_format.ParseDict(question, servicer.rpc.request())
                asked = servicer.question(message)
                begun = time.process_time()
                await servicer.shared(message, asked)
                planned = time.process_time() - begun
                await asyncio.sleep(0.2)  # it is written behind the answer
                begun = time.process_time()
                for _ in range(HITS):
                    await servicer.shared(message, asked)
                hit = (time.process_time() - begun) / HITS
                ratios.append(planned / hit)
                costs.append((planned, hit))
        await tier.close()
    planned_ms, hit_ms = (statistics.median(side) * 1e3 for side in zip(*costs, strict=True))
    Aim("planning a fleet ÷ Redis hit", 20, False).report(ratios, f"{planned_ms:.1f} against {hit_ms:.2f} ms of CPU")


async def _run(rounds: int, seconds: float) -> None:
    nothing_seconds = await doors(rounds, seconds)
    watching(rounds, nothing_seconds)
    await plans(rounds)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=9, help="rounds of each comparison")
    arguments.add_argument("--seconds", type=float, default=1.0, help="length of a round against an echo")
    given = arguments.parse_args()
    start(given.rounds)
    uvloop.run(_run(given.rounds, given.seconds))
