"""Half an hour at 70 % load over both doors with Redis: errors, wrong answers, memory. `make soak`.

    python -m tests.benchmarks.soak [--seconds 1800] [--load 0.7]

What one core of the service sustains of the mix is measured first, as requests over CPU time; the soak then offers so much of
it, whatever else the machine does. Memory is flat where the median of the last third is within 5 % of that of the middle third;
the first third fills caches. Fails on any error, any answer that differs from the first to the same question, and memory that
grows. A run of less than five minutes shows no growth and is held to the errors alone.
"""

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from tests.benchmarks.load import Caller, Comparison, Question, Questions, Seen, caller, capacity, offer
from tests.benchmarks.servers import Server, service
from tests.redis_process import RedisServer

_WARM_UP_SECONDS: Final = 5
_CAPACITY_SECONDS: Final = 15
_SAMPLES: Final = 180
_MOST_IN_FLIGHT: Final = 48
_MOST_GROWTH: Final = 1.05
_SHORTEST_SECONDS: Final = 300
#: Like deploy/compose.yaml has it: a cache of limited size.
_REDIS_OPTIONS: Final = ("--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")


@dataclass(frozen=True)
class Sample:
    """The process at one time."""

    at_seconds: float
    resident_bytes: int
    num_files: int
    num_threads: int


def sampled(server: Server, begun: float) -> Sample:
    """What the process holds now."""
    process = Path(f"/proc/{server.pid}")
    return Sample(
        time.perf_counter() - begun,
        server.resident_bytes(),
        len(list((process / "fd").iterdir())),
        len(list((process / "task").iterdir())),
    )


def growth(samples: list[Sample]) -> float:
    """Resident memory of the last third over that of the middle third, by their medians."""
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    return statistics.median(each.resident_bytes for each in last) / statistics.median(each.resident_bytes for each in middle)


def slope_bytes_per_hour(samples: list[Sample]) -> float:
    """Growth of resident memory over the last two thirds, by least squares."""
    kept = samples[len(samples) // 3 :]
    slope, _ = statistics.linear_regression([each.at_seconds for each in kept], [each.resident_bytes for each in kept])
    return slope * 3600


@contextmanager
def redis_of_limited_size() -> Iterator[RedisServer]:
    """A Redis that is up."""
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        server = RedisServer(Path(folder))
        server.start(*_REDIS_OPTIONS)
        try:
            yield server
        finally:
            server.stop()


async def soaked(
    server: Server, made: Caller, questions: Iterator[Question], per_second: float, seconds: float
) -> tuple[Seen, list[Sample]]:
    """Offers the load for so long; returns what was seen and the samples of the process."""
    seen, samples, begun = Seen(), [], time.perf_counter()

    async def watch() -> None:
        for number in itertools.count(1):
            await asyncio.sleep(max(0.0, begun + number * seconds / _SAMPLES - time.perf_counter()))
            samples.append(sampled(server, begun))

    watching = asyncio.create_task(watch())
    await offer(
        made,
        questions,
        seen,
        per_second=per_second,
        seconds=seconds,
        most_in_flight=_MOST_IN_FLIGHT,
        comparison=Comparison(),
    )
    watching.cancel()
    return seen, samples


async def run(seconds: float, load: float) -> list[str]:
    """Runs all of it and prints the figures; returns what does not hold."""
    with redis_of_limited_size() as redis, service(TONNAGE_REDIS_URL=redis.url) as server:
        idle = server.resident_bytes()
        async with caller(server) as made:
            questions = iter(Questions())
            await capacity(server, made, questions, _WARM_UP_SECONDS)
            sustained = await capacity(server, made, questions, _CAPACITY_SECONDS)
            print(f"one core sustains {sustained:,.0f} requests/s of the mix; offered are {load:.0%} of that", flush=True)
            used, begun = server.cpu_seconds(), time.perf_counter()
            seen, samples = await soaked(server, made, questions, load * sustained, seconds)
            took = time.perf_counter() - begun
            busy = (server.cpu_seconds() - used) / took
        return told(seen, samples, idle, took, busy)


def told(seen: Seen, samples: list[Sample], idle: int, took: float, busy: float) -> list[str]:
    """Prints the figures; returns what does not hold."""
    third = len(samples) // 3
    thirds = (samples[:third], samples[third : 2 * third], samples[2 * third :])
    mebibytes = [statistics.median(each.resident_bytes for each in part) / 2**20 for part in thirds]
    ratio = growth(samples)
    print(
        f"{took:,.0f} s, {len(seen.seconds):,} requests ({len(seen.seconds) / took:,.0f}/s), {busy:.0%} of a core; "
        f"{seen.num_delayed / len(seen.seconds):.1%} asked late\n"
        f"latency p50 {seen.percentile(0.5) * 1e3:.1f} ms, p99 {seen.percentile(0.99) * 1e3:.1f} ms, "
        f"longest {max(seen.seconds) * 1e3:.0f} ms\n"
        f"codes {dict(seen.codes)}; unexpected {sum(seen.unexpected.values())}; "
        f"{seen.different.total()} of {seen.num_compared:,} differ from the first answer\n"
        f"resident {idle / 2**20:.0f} MiB idle, then by thirds {', '.join(f'{each:.0f}' for each in mebibytes)} MiB "
        f"(last ÷ middle {ratio:.3f}, {slope_bytes_per_hour(samples) / 2**20:+.0f} MiB/h), most "
        f"{max(each.resident_bytes for each in samples) / 2**20:.0f} MiB\n"
        f"files {samples[0].num_files} → {samples[-1].num_files}, threads {samples[0].num_threads} → {samples[-1].num_threads}"
    )
    wrong = [f"{count} × {what}" for what, count in seen.unexpected.most_common(10)]
    wrong += [f"{count} answers of {rpc} differ from the first to the same question" for rpc, count in seen.different.items()]
    if took >= _SHORTEST_SECONDS and ratio > _MOST_GROWTH:
        wrong.append(f"memory grows: the last third holds {ratio:.3f} of the middle third")
    return wrong


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=1800)
    arguments.add_argument("--load", type=float, default=0.7, help="share of what one core sustains")
    given = arguments.parse_args()
    problems = uvloop.run(run(given.seconds, given.load))
    for problem in problems:
        print(f"FAILED: {problem}")
    sys.exit(bool(problems))
