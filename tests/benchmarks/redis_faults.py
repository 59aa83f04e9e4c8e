"""What a Redis in trouble costs: each fault for some seconds under load, every answer held against one computed without Redis.

    python -m tests.benchmarks.redis_faults [--seconds 8] [--rate 60]

The in-process cache is off, so every search asks Redis, through a proxy of ours that can be slow or talk nonsense. A service
without Redis gives the right answers first, and is then asked beside the other in every phase, at the same rate: what else the
machine does slows both. Fails on any error, any answer that differs, and a 99th percentile beyond twice that of the service
without Redis at the same time and both timeouts.
"""

import argparse
import asyncio
import contextlib
import re
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import redis as redis_library
import uvloop

from tests.benchmarks.load import Caller, Comparison, Kind, Question, Questions, Seen, caller, offer
from tests.benchmarks.servers import Server, service
from tests.redis_process import RedisServer

KINDS: Final = (
    Kind("FitNode", 3, ("context_tokens",), 1_024, 150),
    Kind("CompareAccelerators", 1, ("input_tokens",), 512, 50),
)
_MOST_IN_FLIGHT: Final = 200
#: The defaults of TONNAGE_REDIS_CONNECT_TIMEOUT_SECONDS and TONNAGE_REDIS_TIMEOUT_SECONDS together.
_TIMEOUTS_SECONDS: Final = 0.2
_NONSENSE: Final = b"$-7\r\n*3\r\n\xff\x00 this is no reply\r\n"
_FURTHER_SOURCE: Final = """
house:
  title: Our own measurements
  publisher: House
  url: https://example.com/measurements
  date: "2026-11"
  read_as: transcription
"""


class Proxy:
    """Between the service and Redis: passes on, or waits before each answer, or answers nonsense."""

    def __init__(self, redis_port: int) -> None:
        self._redis_port = redis_port
        self.delay_seconds = 0.0
        self.talks_nonsense = False
        self._busy: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Opens a port; returns the URL that the service is given."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Closes the port and what is open."""
        assert self._server is not None
        self._server.close()
        for each in self._busy:
            each.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            behind, ahead = await asyncio.open_connection("127.0.0.1", self._redis_port)
            await asyncio.gather(self._pass(reader, ahead, asks=True), self._pass(behind, writer, asks=False))
        except (OSError, asyncio.CancelledError):
            pass  # Redis is away: so are we, to whoever asked. Or all is over
        finally:
            self._busy.discard(task)
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, asks: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if not asks and self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                writer.write(_NONSENSE if self.talks_nonsense and not asks else data)
                await writer.drain()
        writer.close()


@dataclass
class Bench:
    """What every phase runs against."""

    server: Server
    made: Caller
    redis: RedisServer
    proxy: Proxy
    questions: Iterator[Question]
    right: Comparison
    control: Caller  # of the service without Redis

    async def phase(self, per_second: float, seconds: float) -> tuple[Seen, Seen]:
        """Asks both services for so long: what was seen of this one, and of the one without Redis."""
        beside = iter(Questions(KINDS, seed=7))
        return await asyncio.gather(
            phase(self.made, self.questions, self.right, per_second, seconds),
            phase(self.control, beside, self.right, per_second, seconds),
        )


def spoilt(client: "redis_library.Redis") -> None:
    """Every value in Redis becomes something else: junk, a piece of itself, another's, or of another type."""
    keys = sorted(client.keys("*"))
    for number, key in enumerate(keys):
        with contextlib.suppress(redis_library.RedisError):
            value = client.get(key) or b""
            if number % 4 == 3:
                client.delete(key)
                client.rpush(key, b"a list")
            else:
                other = client.get(keys[number - 1]) if number % 4 == 2 else None
                client.set(key, (b"\xff\x00junk" * 40, value[: len(value) // 2], other or b"")[number % 4])


async def keep_spoiling(bench: Bench) -> None:
    """Spoils again and again what the service writes."""

    def once() -> None:
        with bench.redis.client() as client:
            spoilt(client)

    while True:
        await asyncio.to_thread(once)
        await asyncio.sleep(0.05)


def filled(bench: Bench) -> None:
    """Redis is empty and takes nothing more."""
    with bench.redis.client() as client:
        client.flushall()
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1mb")


def roomy(bench: Bench) -> None:
    """Redis has room again."""
    with bench.redis.client() as client:
        client.config_set("maxmemory", "0")


def slow(seconds: float) -> Callable[[Bench], None]:
    """The proxy waits so long before each answer."""
    return lambda bench: setattr(bench.proxy, "delay_seconds", seconds)


def nonsense(talks: bool) -> Callable[[Bench], None]:
    """The proxy talks nonsense, or no longer."""
    return lambda bench: setattr(bench.proxy, "talks_nonsense", talks)


#: Name of the phase, what begins it, what ends it. What spoils values goes on all the while.
PHASES: Final[tuple[tuple[str, Callable[[Bench], None], Callable[[Bench], None]], ...]] = (
    ("healthy", lambda _: None, lambda _: None),
    ("killed", lambda bench: bench.redis.kill(), lambda bench: bench.redis.start()),
    ("restarted, empty", lambda _: None, lambda _: None),
    ("paused (SIGSTOP)", lambda bench: bench.redis.pause(), lambda bench: bench.redis.resume()),
    ("resumed", lambda _: None, lambda _: None),
    ("slow, 50 ms", slow(0.05), slow(0)),
    ("slow, 300 ms", slow(0.3), slow(0)),
    ("answers nonsense", nonsense(True), nonsense(False)),
    ("values spoilt", lambda _: None, lambda _: None),
    ("full", filled, roomy),
    ("healthy again", lambda _: None, lambda _: None),
)


def hits(server: Server) -> float:
    """Answers that came out of Redis so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(r'^tonnage_cache_requests_total\{outcome="hit",rpc="\w+",tier="redis"\} (\S+)$', text, re.MULTILINE)
    return sum(map(float, found))


async def phase(made: Caller, questions: Iterator[Question], right: Comparison, per_second: float, seconds: float) -> Seen:
    """Asks for so long."""
    seen = Seen()
    await offer(
        made,
        questions,
        seen,
        per_second=per_second,
        seconds=seconds,
        most_in_flight=_MOST_IN_FLIGHT,
        comparison=right,
    )
    return seen


def line(name: str, seen: Seen, num_hits: float, without: Seen) -> str:
    """A phase in one line."""
    p50, p99, longest = seen.percentile(0.5), seen.percentile(0.99), max(seen.seconds)
    return (
        f"{name:18} {len(seen.seconds):5} asked, {sum(seen.unexpected.values())} errors, {seen.different.total()} wrong, "
        f"{num_hits:4.0f} hits; p50 {p50 * 1e3:5.1f} ms, p99 {p99 * 1e3:6.1f} ms "
        f"({p99 / without.percentile(0.99):4.1f} × without), longest {longest * 1e3:4.0f} ms"
    )


def problems_of(name: str, seen: Seen, without: Seen) -> list[str]:
    """What does not hold in a phase."""
    wrong = [f"{name}: {count} × {what}" for what, count in seen.unexpected.items()]
    wrong += [f"{name}: {count} answers of {rpc} differ from those without Redis" for rpc, count in seen.different.items()]
    if seen.percentile(0.99) > 2 * without.percentile(0.99) + _TIMEOUTS_SECONDS:
        wrong.append(f"{name}: 99th percentile {seen.percentile(0.99):.2f} s")
    return wrong


async def right_answers(made: Caller) -> Comparison:
    """The answers to every question over both doors."""
    right, questions = Comparison(), Questions(KINDS)
    for kind in KINDS:
        for number in range(2 * kind.count):
            question = questions.made(kind, number // 2, is_rest=number % 2 == 1)
            right.is_same(question, await made.ask(question))
    return right


@asynccontextmanager
async def redis_and_proxy() -> AsyncIterator[tuple[RedisServer, Proxy, str]]:
    """Both up."""
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        redis = RedisServer(Path(folder))
        redis.start()
        proxy = Proxy(redis.port)
        url = await proxy.start()
        try:
            yield redis, proxy, url
        finally:
            await proxy.stop()
            redis.stop()


async def all_phases(bench: Bench, per_second: float, seconds: float) -> list[str]:
    """Runs the phases one after the other."""
    wrong = []
    for name, begin, end in PHASES:
        before = hits(bench.server)
        begin(bench)
        spoiling = asyncio.create_task(keep_spoiling(bench)) if name == "values spoilt" else None
        seen, without = await bench.phase(per_second, seconds)
        if spoiling is not None:
            spoiling.cancel()
        end(bench)
        print(line(name, seen, hits(bench.server) - before, without), flush=True)
        wrong += problems_of(name, seen, without)
    return wrong


async def beside_another(bench: Bench, url: str, per_second: float, seconds: float) -> list[str]:
    """A second service with another catalogue behind the same Redis: each is held against its own answers."""
    settings = {"TONNAGE_CACHE_MAX_BYTES": "0"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sources.yaml").write_text(_FURTHER_SOURCE)
        settings["TONNAGE_CATALOGUE_DIR"] = folder
        with service(**settings) as alone:
            async with caller(alone) as made:
                right = await right_answers(made)
        with service(TONNAGE_REDIS_URL=url, **settings) as other:
            async with caller(other) as made:
                before = hits(bench.server), hits(other)
                another = phase(made, iter(Questions(KINDS, seed=5)), right, per_second, seconds)
                (seen, without), foreign = await asyncio.gather(bench.phase(per_second, seconds), another)
                counts = hits(bench.server) - before[0], hits(other) - before[1]
    print(line("this catalogue", seen, counts[0], without))
    print(line("another catalogue", foreign, counts[1], without))
    return problems_of("this catalogue", seen, without) + problems_of("another catalogue", foreign, without)


async def run(per_second: float, seconds: float) -> list[str]:
    """Runs all of it; returns what does not hold."""
    async with redis_and_proxy() as (redis, proxy, url):
        off = {"TONNAGE_CACHE_MAX_BYTES": "0"}
        with service(**off) as control, service(TONNAGE_REDIS_URL=url, **off) as server:
            async with caller(control) as beside, caller(server) as made:
                right = await right_answers(beside)
                bench = Bench(server, made, redis, proxy, iter(Questions(KINDS)), right, beside)
                await bench.phase(per_second, seconds)  # fills Redis
                return await all_phases(bench, per_second, seconds) + await beside_another(bench, url, per_second, seconds)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=8, help="length of a phase")
    arguments.add_argument("--rate", type=float, default=25, help="requests per second to each service")
    given = arguments.parse_args()
    problems = uvloop.run(run(given.rate, given.seconds))
    for problem in problems:
        print(f"FAILED: {problem}")
    sys.exit(bool(problems))
