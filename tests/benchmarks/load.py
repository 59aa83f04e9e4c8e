"""Callers for what is measured under load: questions of many kinds over both doors, at a rate, every answer looked at."""

import asyncio
import contextlib
import itertools
import random
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import quote, urlencode

import grpc
import orjson
from google.protobuf.json_format import ParseDict

from service.api.examples import REQUESTS
from service.api.schema import RPCS, Rpc
from tests.api.random_requests import plain
from tests.benchmarks.servers import Server

OK: Final = "OK"
_BY_NAME: Final = {rpc.name: rpc for rpc in RPCS}
_IDLE_SECONDS: Final = 30
_RETRY_AFTER: Final = b"retry-after:"


@dataclass(frozen=True)
class Kind:
    """Questions that differ in one field: the number at ``path`` runs from ``first`` over ``count`` values."""

    rpc: str
    weight: float
    path: tuple[str | int, ...] = ()
    first: int = 1
    count: int = 1
    expected: tuple[str, ...] = (OK,)

    @property
    def is_few(self) -> bool:
        """Whether the same question comes again often enough to hold its answers against each other."""
        return self.count <= 1000 and not _BY_NAME[self.rpc].is_streaming  # whose summary tells how long it took


#: What a fleet's tools ask in the course of a day: mostly points, half of them seen before, some searches, some in error.
MIX: Final = (
    Kind("EstimateDecode", 30, ("context_tokens",), 1, 100_000),
    Kind("EstimateDecode", 30),
    Kind("EstimateKvMemory", 8, ("context_tokens",), 1, 100_000),
    Kind("EstimateServing", 4, ("workload", "input_tokens"), 512, 4_000),
    Kind("ComputeUtilization", 5, ("tokens_per_second",), 1_000, 100_000),
    Kind("GetAccelerator", 5),
    Kind("ListModels", 2),
    Kind("FitNode", 6, ("context_tokens",), 1_024, 800),
    Kind("CompareAccelerators", 2, ("concurrency",), 1, 200),
    Kind("PlanFleet", 0.5, ("workloads", 0, "input_tokens"), 1_000, 100),
    Kind("AuditClaim", 1),
    Kind("DrawRoofline", 1, ("decode", "context_tokens"), 1, 400),
    Kind("SimulatePlacement", 0.5, ("cluster", "nodes", 0, "count"), 1, 8),
    Kind("RunSweep", 2, ("batch_sizes", 0), 1, 200),
    Kind("EstimateDecode", 3, ("batch_size",), -1_000, 900, ("400", "INVALID_ARGUMENT")),
)


@dataclass(frozen=True, slots=True)
class Question:
    """One question, ready to be sent over one door."""

    kind: Kind
    rpc: Rpc
    is_rest: bool
    request: bytes  # the message, or the whole of the HTTP request


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a question: OK, a gRPC code, an HTTP status, or the name of what broke."""

    code: str
    body: bytes = b""
    retry_after: bool = False


class Questions:
    """Questions of several kinds by their weights, over both doors in turn; the same ones for the same seed."""

    def __init__(self, kinds: Sequence[Kind] = MIX, seed: int = 1) -> None:
        self._kinds = kinds
        self._random = random.Random(seed)
        self._weights = list(itertools.accumulate(kind.weight for kind in kinds))
        self._json: dict[Kind, Any] = {kind: plain(REQUESTS.get(kind.rpc, {})) for kind in kinds}
        self._messages = {kind: ParseDict(self._json[kind], _BY_NAME[kind.rpc].request()) for kind in kinds}

    def __iter__(self) -> Iterator[Question]:
        for number in itertools.count():
            (kind,) = self._random.choices(self._kinds, cum_weights=self._weights)
            yield self.made(kind, self._random.randrange(kind.count), is_rest=number % 2 == 1)

    def made(self, kind: Kind, number: int, *, is_rest: bool) -> Question:
        """The question of this kind and number; what streams goes over gRPC."""
        rpc = _BY_NAME[kind.rpc]
        is_rest = is_rest and not rpc.is_streaming
        asked: Any = self._json[kind] if is_rest else self._messages[kind]
        if kind.path:
            _put(asked, kind.path, kind.first + number)
        return Question(kind, rpc, is_rest, _http(rpc, asked) if is_rest else asked.SerializeToString())


def _put(asked: Any, path: tuple[str | int, ...], value: int) -> None:
    *outer, last = path
    for step in outer:
        asked = asked[step] if isinstance(step, int) or isinstance(asked, dict) else getattr(asked, step)
    if isinstance(last, int) or isinstance(asked, dict):
        asked[last] = value
    else:
        setattr(asked, last, value)


def _http(rpc: Rpc, asked: dict[str, Any]) -> bytes:
    if rpc.http.has_body:
        body = orjson.dumps(asked)
        head = f"POST {rpc.http.template} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    path, left = rpc.http.template, dict(asked)
    for name in list(left):
        for form in (f"{{{name}}}", f"{{{name}=**}}"):
            if form in path:
                path = path.replace(form, quote(str(left.pop(name))))
    query = f"?{urlencode(left)}" if left else ""
    return f"GET {path}{query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


class Caller:
    """Asks over one gRPC channel and as many HTTP connections as there are questions at once."""

    def __init__(self, grpc_port: int, http_port: int, timeout_seconds: float = 30.0) -> None:
        self._http_port = http_port
        self._timeout_seconds = timeout_seconds
        self._channel = grpc.aio.insecure_channel(
            f"127.0.0.1:{grpc_port}", [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
        )
        self._unary = {rpc.name: self._channel.unary_unary(rpc.path, None, None) for rpc in RPCS if not rpc.is_streaming}
        self._streams = {rpc.name: self._channel.unary_stream(rpc.path, None, None) for rpc in RPCS if rpc.is_streaming}
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter, float]] = []

    async def close(self) -> None:
        """Closes every connection."""
        for _, writer, _ in self._idle:
            writer.close()
        await self._channel.close(None)

    async def ask(self, question: Question) -> Answer:
        """The answer; never raises for what a server does."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await (self._post(question) if question.is_rest else self._call(question))
        except Exception as error:
            return Answer(type(error).__name__)

    async def _call(self, question: Question) -> Answer:
        name = question.rpc.name
        try:
            if question.rpc.is_streaming:
                parts: list[bytes] = [part async for part in self._streams[name](question.request)]
                return Answer(OK, b"".join(parts))
            return Answer(OK, await self._unary[name](question.request))
        except grpc.aio.AioRpcError as error:
            metadata: Any = error.trailing_metadata() or ()
            says_when = any(isinstance(value, bytes) and b"RetryInfo" in value for _, value in metadata)
            return Answer(error.code().name, (error.details() or "").encode(), says_when)

    async def _post(self, question: Question) -> Answer:
        reader, writer = await self._connection()
        try:
            writer.write(question.request)
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next(line for line in lines if line.startswith(b"content-length:"))
            body = await reader.readexactly(int(length.partition(b":")[2]))
        except BaseException:
            writer.close()
            raise
        if b"connection: close" in lines:
            writer.close()
        else:
            self._idle.append((reader, writer, time.perf_counter()))
        status = head[9:12].decode()
        return Answer(OK if status == "200" else status, body, any(line.startswith(_RETRY_AFTER) for line in lines))

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One that was used just now, or a new one: like any pool, it does not reuse what a server may be about to close."""
        while self._idle:
            reader, writer, since = self._idle.pop()
            if time.perf_counter() - since < _IDLE_SECONDS:
                return reader, writer
            writer.close()
        return await asyncio.open_connection("127.0.0.1", self._http_port, limit=1 << 24)


@contextlib.asynccontextmanager
async def caller(server: Server, timeout_seconds: float = 30.0) -> AsyncIterator[Caller]:
    """A caller of the server."""
    made = Caller(server.grpc_port, server.http_port, timeout_seconds)
    try:
        yield made
    finally:
        await made.close()


@dataclass
class Seen:
    """What was seen: how long answers took and what they were. Latencies count from when a question was due."""

    seconds: "array[float]" = field(default_factory=lambda: array("d"))
    codes: Counter[str] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    num_compared: int = 0
    num_delayed: int = 0  # asked later than was due, for want of callers

    def percentile(self, ratio: float) -> float:
        """The latency that this share of the answers stayed within, in seconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(ratio * len(ordered)))] if ordered else float("nan")


class Comparison:
    """Answers to the same question, held against the first one."""

    def __init__(self) -> None:
        self._first: dict[bytes, bytes] = {}

    def is_same(self, question: Question, answer: Answer) -> bool:
        """Whether this is what was answered the first time."""
        asked = question.rpc.name.encode() + bytes([question.is_rest]) + question.request
        digest = blake2b(answer.body, digest_size=16).digest()
        return self._first.setdefault(blake2b(asked, digest_size=16).digest(), digest) == digest


async def offer(
    made: Caller,
    questions: Iterator[Question],
    seen: Seen,
    *,
    per_second: float,
    seconds: float,
    most_in_flight: int,
    comparison: Comparison | None = None,
    each: Callable[[Question, Answer, float], None] | None = None,
) -> None:
    """Asks at a rate, whether or not answers come; waits only where so many are unanswered already."""
    room = asyncio.Semaphore(most_in_flight)
    tasks: set[asyncio.Task[None]] = set()

    async def ask(question: Question, due: float) -> None:
        answer = await made.ask(question)
        room.release()
        took = time.perf_counter() - due
        _see(seen, question, answer, took, comparison)
        if each is not None:
            each(question, answer, took)

    due = time.perf_counter()
    end = due + seconds
    while due < end and time.perf_counter() < end:
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        if room.locked():
            await room.acquire()
            seen.num_delayed += 1
            due = max(due, time.perf_counter())  # what could not be asked is left out, and not made up for
        else:
            await room.acquire()
        task = asyncio.create_task(ask(next(questions), due))
        tasks.add(task)
        due += 1 / per_second
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


def _see(seen: Seen, question: Question, answer: Answer, took: float, comparison: Comparison | None) -> None:
    seen.codes[answer.code] += 1
    seen.seconds.append(took)
    if answer.code not in question.kind.expected:
        seen.unexpected[f"{question.rpc.name} {answer.code} {answer.body[:120].decode(errors='replace')}"] += 1
    elif comparison is not None and question.kind.is_few and answer.code == OK:  # a refusal names its request
        seen.num_compared += 1
        if not comparison.is_same(question, answer):
            seen.different[question.rpc.name] += 1


async def capacity(server: Server, made: Caller, questions: Iterator[Question], seconds: float, num_callers: int = 16) -> float:
    """Requests per second that one core of the server sustains: requests over the CPU time it used for them.

    Throughput as callers see it would be that of the machine, which callers and others share.
    """
    end = time.perf_counter() + seconds
    num_answers = 0
    used = server.cpu_seconds()

    async def one() -> None:
        nonlocal num_answers
        while time.perf_counter() < end:
            await made.ask(next(questions))
            num_answers += 1

    await asyncio.gather(*(one() for _ in range(num_callers)))
    return num_answers / (server.cpu_seconds() - used)
