"""One servicer per RPC, which both doors call: check, plan, and put the result into the response message.

What an RPC asks of the planner is its name in snake case, and the planner's annotations say which dataclasses go in and
come out; nothing is registered by hand. A method that takes a name takes the request's only field.
"""

import asyncio
import re
import typing
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from operator import attrgetter
from time import perf_counter
from typing import Any

from google.protobuf.message import DecodeError, Message
from prometheus_client import Histogram

from service.api.errors import FieldViolation, MalformedRequest, TooManyInFlight, Unreadable
from service.api.messages import reader, writer
from service.api.schema import RPCS, Rpc
from service.api.validation import violations
from service.cache.cache import Cache
from service.cache.policy import COST_CLASSES, CostClass, uses_redis
from service.planning.planner import Planner
from service.telemetry import Door, Telemetry

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


class Admission:
    """How many requests may be worked on at once in this process, over both doors.

    What is answered without waiting for anything is never counted twice: only what waits for Redis or for a thread piles up.
    """

    __slots__ = ("_in_flight", "_limit", "_shed")

    def __init__(self, limit: int, shed: Callable[[Door], None]) -> None:
        self._limit = limit
        self._in_flight = 0
        self._shed = shed

    def enter(self, door: Door) -> None:
        """Counts a request in; TooManyInFlight where there is no room. Who entered must leave."""
        if self._in_flight >= self._limit:
            self._shed(door)
            raise TooManyInFlight(self._limit)
        self._in_flight += 1

    def leave(self) -> None:
        """Counts a request out."""
        self._in_flight -= 1


@dataclass(frozen=True, slots=True)
class Servicer:
    """Answers one RPC. Errors are those of ``service.planning.errors`` and ``service.api.errors``."""

    rpc: Rpc
    cache: Cache
    is_heavy: bool  # computed on a thread: it would hold up every other request
    is_shared: bool  # concurrent equal requests share one computation, and processes one Redis
    _read: Callable[[Message], Any]
    _ask: Callable[[Any], Any]
    _write: Callable[[Any], Message]
    _planning_seconds: Histogram
    _executor: Executor

    def parse(self, request: bytes) -> Message:
        """The request message; Unreadable where the bytes are none."""
        try:
            return self.rpc.request.FromString(request)
        except DecodeError as error:
            raise Unreadable(f"the bytes are no {self.rpc.request.DESCRIPTOR.full_name}: {error}") from None

    async def answer(self, request: Message, already: Iterable[FieldViolation] = ()) -> Message:
        """The response.

        Args:
            request: the request, as far as it could be parsed.
            already: what was found wrong while parsing.
        """
        wrong = violations(request, already)
        if wrong:
            raise MalformedRequest(wrong)
        if not self.is_shared:
            return self._plan(request)

        async def compute() -> bytes:
            return (await self._planned(request)).SerializeToString()

        key = request.SerializeToString(deterministic=True)
        response = await self.cache.get_or_compute(self.rpc.name, key, compute, validate=self._is_response)
        return self.rpc.response.FromString(response)

    def _plan(self, request: Message) -> Message:
        begun = perf_counter()
        response = self._write(self._ask(self._read(request)))
        self._planning_seconds.observe(perf_counter() - begun)
        return response

    async def _planned(self, request: Message) -> Message:
        if not self.is_heavy:
            return self._plan(request)
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._plan, request)

    def _is_response(self, stored: bytes) -> bool:
        self.rpc.response.FromString(stored)  # raises where it is none
        return True


def servicers(
    planner: Planner, cache: Cache, telemetry: Telemetry, executor: Executor, *, redis_for_every_rpc: bool
) -> tuple[Servicer, ...]:
    """A servicer for every RPC of the schema.

    Raises:
        TypeError, AttributeError: the planner and the schema do not match.
    """
    return tuple(
        _servicer(rpc, planner, cache, telemetry, executor, uses_redis(rpc.name, every_rpc=redis_for_every_rpc))
        for rpc in RPCS
    )


def _servicer(
    rpc: Rpc, planner: Planner, cache: Cache, telemetry: Telemetry, executor: Executor, is_shared: bool
) -> Servicer:
    ask = getattr(planner, _WORD_START.sub("_", rpc.name).lower())
    hints = typing.get_type_hints(ask)
    answer = hints.pop("return")
    ((name, asked),) = hints.items()
    return Servicer(
        rpc=rpc,
        cache=cache,
        is_heavy=COST_CLASSES[rpc.name] is CostClass.SEARCH,
        is_shared=is_shared,
        _read=attrgetter(name) if asked is str else reader(rpc.request, asked),
        _ask=ask,
        _write=writer(rpc.response, answer),
        _planning_seconds=telemetry.rpc(rpc.path).planning_seconds,
        _executor=executor,
    )
