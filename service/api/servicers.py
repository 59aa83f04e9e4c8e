"""One servicer per RPC, which both doors call: check, plan, and put the result into the response message.

What an RPC asks of the planner is its name in snake case, and the planner's annotations say which structs go in and
come out; nothing is registered by hand. A method that takes a string takes the request's only field.
"""

import asyncio
import re
import typing
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message
from msgspec import Struct, defstruct
from msgspec.structs import replace

from service.api.errors import FieldViolation, MalformedRequest, TooManyInFlight, Unreadable
from service.api.json_encoding import result_encoder
from service.api.messages import reader, writer
from service.api.pacing import SEARCH_PAUSE_RATIO, STREAM_PAUSE_RATIO, Pace
from service.api.prometheus import PrometheusReader
from service.api.quick_reading import quick_json_reader, quick_message_reader
from service.api.schema import RPCS, Rpc
from service.api.validation import violations
from service.api.wire import wire_writer
from service.cache.cache import Cache
from service.cache.policy import COST_CLASSES, CostClass, uses_redis
from service.counting import Times
from service.planning.errors import InvalidRequest, OutOfTime, Violation
from service.planning.planner import Planner
from service.planning.serving.requests import EstimateServingRequest
from service.planning.streams import NEVER, Stop
from service.telemetry import Door, Telemetry
from service.tracing import Tracing

T = TypeVar("T")

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


class Admission:
    """How many requests may be worked on at once in this process, over all doors.

    What is answered without waiting takes no place, and is therefore never refused for want of one: it cannot pile up, and
    searches without end must not keep an autoscaler from its estimates. What waits for the planning thread, for Redis or
    for another server does take one.
    """

    __slots__ = ("_in_flight", "_limit", "_shed")

    def __init__(self, limit: int, shed: Callable[[Door], None]) -> None:
        self._limit = limit
        self._in_flight = 0
        self._shed = shed

    def place(self, door: Door) -> "Place":
        """A place to be taken where a request has to wait; used as a context, it is given back in the end."""
        return Place(self, door)

    def enter(self, door: Door) -> None:
        """Counts a request in; TooManyInFlight where there is no room. Who entered must leave."""
        if self._in_flight >= self._limit:
            self._shed(door)
            raise TooManyInFlight(self._limit)
        self._in_flight += 1

    def leave(self) -> None:
        """Counts a request out."""
        self._in_flight -= 1


class Place:
    """One request's place among those that wait."""

    __slots__ = ("_admission", "_door", "_is_taken")

    def __init__(self, admission: Admission, door: Door) -> None:
        self._admission, self._door, self._is_taken = admission, door, False

    def take(self) -> None:
        """Takes the place, once; TooManyInFlight where there is no room."""
        if not self._is_taken:
            self._admission.enter(self._door)
            self._is_taken = True

    def give_back(self) -> None:
        """Gives the place back where it is taken."""
        if self._is_taken:
            self._is_taken = False
            self._admission.leave()

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


class Codec(Struct, frozen=True):
    """Between the messages of an RPC and the planner's structs, in both directions."""

    read: Callable[[Message], Any]
    read_quickly: Callable[[Message], Any]
    read_json_quickly: Callable[[object], Any]
    write: Callable[[Any], Message]
    write_json: Callable[[Any], bytes]
    write_bytes: Callable[[Any], bytes]  # as the message's bytes, columns without going through the message


class Servicer(Struct, frozen=True):
    """Answers one RPC. Errors are those of ``service.planning.errors`` and ``service.api.errors``.

    What costs little is asked and answered in structs: ``question``, then ``plan``. What is heavy, or kept in Redis, goes
    by ``shared``, in messages, which is what Redis holds.
    """

    rpc: Rpc
    cache: Cache
    codec: Codec
    is_shared: bool
    _is_heavy: bool  # computed on a thread: it would hold up every other request
    _ask: Callable[[Any, Stop], Any]
    _planning_seconds: Times
    _executor: Executor
    _pace: Pace
    _observe: Callable[[Any], Awaitable[Any]] | None  # for RPCs that can rest on what another server says

    def parse(self, request: bytes) -> Message:
        """The request message; Unreadable where the bytes are none."""
        try:
            return self.rpc.request.FromString(request)
        except DecodeError as error:
            raise Unreadable(f"the bytes are no {self.rpc.request.DESCRIPTOR.full_name}: {error}") from None

    def question(self, request: Message, already: Sequence[FieldViolation] = ()) -> Any:
        """What is asked, as the planner takes it; MalformedRequest where the schema refuses the message.

        Args:
            request: the request, as far as it could be parsed.
            already: what was found wrong while parsing.
        """
        question = None if already else self.codec.read_quickly(request)
        if question is None:
            wrong = violations(request, already)
            if wrong:
                raise MalformedRequest(wrong)
            question = self.codec.read(request)
        return question

    @property
    def answers_at_once(self) -> bool:
        """Whether nothing is ever waited for, be it a cache, a thread or another server."""
        return not self.is_shared and self._observe is None

    def is_live(self, question: Any) -> bool:
        """Whether the answer rests on what another server says at the moment: it is then kept nowhere."""
        return self._observe is not None and question.observe is not None

    async def observed(self, question: Any) -> Any:
        """The question with what the other server says put in."""
        return question if self._observe is None else await self._observe(question)

    def plan(self, question: Any, stop: Stop = NEVER) -> Any:
        """The planner's answer; of an RPC that streams, its parts. OutOfTime where a search was stopped before its end."""
        begun = perf_counter()
        result = self._ask(question, stop)
        self._planning_seconds.observe(perf_counter() - begun)
        return result

    def answered(self, request: Message) -> Message:
        """The response to a request that the schema allows."""
        return self.codec.write(self.plan(self.question(request)))

    async def in_turn(self, work: Callable[[], T]) -> T:
        """Runs the work on the planning thread, after what waits for it already."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, copy_context().run, work)

    async def shared(self, request: Message, question: Any, seconds: float | None = None) -> bytes:
        """The serialized response: from Redis, from an equal request that is being answered just now, or computed.

        Args:
            request: the request.
            question: what it asks.
            seconds: how long its asker waits. Whoever else asks the same waits for as long as he likes. Default: for ever.

        Raises:
            OutOfTime: the answer takes longer. Nothing is computed any more, unless others wait for it too.
        """

        async def compute() -> bytes:
            if not self._is_heavy:
                return self._planned(question, NEVER)
            stop = Stop(self._pace)
            try:
                # In a copy of the context: what the thread logs and records belongs to this request.
                work = partial(copy_context().run, self._planned, question, stop)
                return await asyncio.get_running_loop().run_in_executor(self._executor, work)
            except asyncio.CancelledError:
                stop.ask()
                raise

        key = request.SerializeToString(deterministic=True)
        try:
            async with asyncio.timeout(seconds):
                return await self.cache.get_or_compute(self.rpc.name, key, compute, validate=self._is_response)
        except TimeoutError:
            raise OutOfTime(
                f"the answer takes longer than the {seconds:.3g} s that its deadline leaves; ask for less, or wait longer"
            ) from None

    def _planned(self, question: Any, stop: Stop) -> bytes:
        return self.codec.write(self.plan(question, stop)).SerializeToString()

    def _is_response(self, stored: bytes) -> bool:
        self.rpc.response.FromString(stored)  # raises where it is none
        return True


def servicers(
    planner: Planner,
    cache: Cache,
    telemetry: Telemetry,
    executor: Executor,
    *,
    redis_for_every_rpc: bool,
    prometheus: PrometheusReader | None = None,
    tracing: Tracing | None = None,
) -> tuple[Servicer, ...]:
    """A servicer for every RPC of the schema.

    Args:
        planner: answers.
        cache: keeps answers.
        telemetry: measures planning.
        executor: runs what is heavy.
        redis_for_every_rpc: whether also what costs little is looked up in Redis.
        prometheus: reads observations. Default: one that may read no server.
        tracing: records planning. Default: nothing does.

    Raises:
        TypeError, AttributeError: the planner and the schema do not match.
    """
    num_small = _num_small(telemetry)
    pace, pace_of_streams = Pace(num_small, SEARCH_PAUSE_RATIO), Pace(num_small, STREAM_PAUSE_RATIO)

    def made(rpc: Rpc) -> Servicer:
        codec, ask = _codec_and_method(rpc, planner, pace_of_streams)
        return Servicer(
            rpc=rpc,
            cache=cache,
            codec=codec,
            is_shared=uses_redis(rpc.name, every_rpc=redis_for_every_rpc),
            _is_heavy=COST_CLASSES[rpc.name] is CostClass.SEARCH,
            _ask=ask if tracing is None else tracing.recorded("planning", ask),
            _planning_seconds=telemetry.planning_seconds(rpc.path),
            _executor=executor,
            _pace=pace,
            _observe=_observer(planner, prometheus or PrometheusReader(())) if rpc.name == "EstimateServing" else None,
        )

    return tuple(map(made, RPCS))


def _num_small(telemetry: Telemetry) -> Callable[[], int]:
    """How many requests came in so far that are answered without the planning thread."""
    small = [rpc for rpc in RPCS if COST_CLASSES[rpc.name] is CostClass.POINT]
    counts = [telemetry.rpc(rpc.path) for rpc in small]
    routes = [telemetry.route(rpc.http.method, rpc.http.template, rpc.path[1:]) for rpc in small]
    return lambda: sum([each.begun for each in counts]) + sum([each.begun for each in routes])


def _observer(
    planner: Planner, prometheus: PrometheusReader
) -> Callable[[EstimateServingRequest], Awaitable[EstimateServingRequest]]:
    async def observe(question: EstimateServingRequest) -> EstimateServingRequest:
        if question.observe is None:
            return question
        if question.observation is not None:
            raise InvalidRequest(Violation("observe", "observation is given too", "give one of the two"))
        engine = planner.serving.engine_name(question.engine.name)
        return replace(question, observe=None, observation=await prometheus.observation(question.observe, engine))

    return observe


def _codec_and_method(rpc: Rpc, planner: Planner, pace: Pace) -> tuple[Codec, Callable[[Any, Stop], Any]]:
    method = getattr(planner, _WORD_START.sub("_", rpc.name).lower())
    hints = typing.get_type_hints(method)
    answer = hints.pop("return")
    if rpc.is_streaming:  # the planner says Stream[part]
        (answer,) = typing.get_args(answer)
    takes_stop = hints.pop("stop", None) is not None
    ((name, asked),) = hints.items()
    takes_name = asked is str
    if takes_name:
        asked = defstruct(rpc.name, [(name, str)], frozen=True)
    codec = Codec(
        read=reader(rpc.request, asked),
        read_quickly=quick_message_reader(rpc.request, asked),
        read_json_quickly=quick_json_reader(rpc.request, asked),
        write=writer(rpc.response, answer),
        write_json=result_encoder(rpc.response, answer),
        write_bytes=wire_writer(rpc.response, answer),
    )
    if rpc.is_streaming:  # each answer has a stop of its own, which outlives this call
        return codec, lambda question, _: method(question, Stop(pace))
    if takes_stop:
        return codec, method
    if takes_name:
        return codec, lambda question, _: method(getattr(question, name))
    return codec, lambda question, _: method(question)
