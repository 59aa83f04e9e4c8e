"""The shared tier: Redis, which may be slow, full, poisoned or gone without a caller noticing more than a miss."""

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from redis import exceptions
from redis.asyncio.connection import ConnectionPool, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from service.cache.breaker import BreakerSettings, CircuitBreaker
from service.cache.envelope import HEADER_BYTES, Envelope
from service.cache.port import BreakerState, ErrorKind, Observer, Unobserved

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSettings:
    """Where Redis is and how much of it is used. Secrets stay out of the representation.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``; may hold a user name and a password.
        secret: if given, answers carry a message authentication code keyed with it; the same for all processes.
        time_to_live_seconds: how long an answer is kept. Answers do not go stale (what they depend on is in the key),
            so this only bounds what builds and catalogues that are no longer asked for leave behind.
        time_to_live_jitter_ratio: each lifetime is drawn from within this share around the above, so that what was
            written together does not expire together.
        connect_timeout_seconds: for a connection to be ready to use; spent only when none is open.
        answer_timeout_seconds: from sending a command to having its whole answer.
        max_connections: bound of the pool; when all are busy, a look-up is a miss rather than a wait.
        max_message_bytes: larger answers are not written, and larger values not believed.
        max_pending_writes: answers that wait to be written; further ones are dropped.
        max_pending_write_bytes: the same in bytes.
        num_writers: how many connections writing may take from the pool.
        close_timeout_seconds: how long ``close`` lets pending writes finish.
        breaker: when to stop asking, and for how long.
    """

    url: str = field(repr=False)
    secret: bytes | None = field(default=None, repr=False)
    time_to_live_seconds: float = 86_400.0
    time_to_live_jitter_ratio: float = 0.1
    connect_timeout_seconds: float = 0.1
    answer_timeout_seconds: float = 0.1
    max_connections: int = 32
    max_message_bytes: int = 1 << 20
    max_pending_writes: int = 256
    max_pending_write_bytes: int = 16 << 20
    num_writers: int = 2
    close_timeout_seconds: float = 1.0
    breaker: BreakerSettings = field(default_factory=BreakerSettings)


class RedisTier:
    """Sealed answers in Redis. For one event loop, from the first ``get`` to ``close``; connects when first used.

    No method raises for anything that Redis does or fails to do: a look-up becomes a miss, a write is dropped, and the
    observer is told why.

    Args:
        settings: where and how.
        observer: counts hits, misses, errors and breaker changes.
        clock: monotonic time in seconds, for the breaker.
        uniform: draws between two bounds, for the jitter of lifetimes and of the breaker.

    Raises:
        ValueError: the URL cannot be understood. The message does not repeat it.
    """

    def __init__(
        self,
        settings: RedisSettings,
        *,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._settings = settings
        self._observer: Observer = observer or Unobserved()
        self._uniform = uniform
        self._envelope = Envelope(settings.secret)
        self._pool, self._address = _open_pool(settings)
        self._breaker = CircuitBreaker(settings.breaker, on_change=self._breaker_changed, clock=clock, uniform=uniform)
        self._pending: OrderedDict[bytes, tuple[str, bytes]] = OrderedDict()
        self._pending_bytes = 0
        self._writers: set[asyncio.Task[None]] = set()
        self._accepting = True
        self._pool_closed = False

    def __repr__(self) -> str:
        return f"<RedisTier {self._address} {self.breaker_state}>"

    @property
    def breaker_state(self) -> BreakerState:
        """The state of the breaker now."""
        return self._breaker.state

    @property
    def num_pending_writes(self) -> int:
        """Answers that wait to be written, without those being written right now."""
        return len(self._pending)

    async def get(self, rpc: str, key: bytes, validate: Callable[[bytes], bool] | None = None) -> bytes | None:
        """The message stored under the key, or None; takes at most the two timeouts together.

        Args:
            rpc: whose answer it is, for the observer.
            key: the key in Redis.
            validate: says whether the message can be used; a message it refuses, or raises over, is a miss.
        """
        permit = self._breaker.permit() if self._accepting else None
        reply = None if permit is None else await self._ask(rpc, permit, "GET", key)
        message = None if reply is None else self._opened(key, reply, validate)
        if message is not None:
            self._observer.hit("redis", rpc)
            return message
        if reply is not None:
            self._observer.error("redis", rpc, "corrupt")
        self._observer.miss("redis", rpc)
        return None

    def put_soon(self, rpc: str, key: bytes, message: bytes) -> None:
        """Write the message after the current request has been answered, if there is room to remember it until then.

        Must be called on the event loop.
        """
        settings = self._settings
        if len(message) > settings.max_message_bytes:
            self._observer.error("redis", rpc, "too_large")
            return
        if key in self._pending:  # the same question, and so the same answer
            return
        full = len(self._pending) >= settings.max_pending_writes
        if full or self._pending_bytes + len(message) > settings.max_pending_write_bytes or not self._accepting:
            self._observer.error("redis", rpc, "write_dropped")
            return
        self._pending[key] = (rpc, message)
        self._pending_bytes += len(message)
        if len(self._writers) < settings.num_writers:
            writer = asyncio.get_running_loop().create_task(self._write_pending(), name="redis-writer")
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)

    async def close(self) -> None:
        """Finish pending writes within the close timeout, drop the rest, and close all connections. Idempotent.

        Afterwards every look-up is a miss and every write is dropped.
        """
        self._accepting = False
        if self._writers:
            _, unfinished = await asyncio.wait(set(self._writers), timeout=self._settings.close_timeout_seconds)
            for writer in unfinished:
                writer.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        while self._pending:
            rpc, _ = self._pending.popitem()[1]
            self._observer.error("redis", rpc, "write_dropped")
        self._pending_bytes = 0
        self._pool_closed = True
        try:
            await self._pool.aclose()
        except (exceptions.RedisError, OSError) as error:
            _logger.warning("closing the connections to Redis at %s: %s", self._address, type(error).__name__)

    async def _write_pending(self) -> None:
        while self._pending:
            key, (rpc, message) = self._pending.popitem(last=False)
            self._pending_bytes -= len(message)
            permit = self._breaker.permit()
            if permit is None:
                self._observer.error("redis", rpc, "write_dropped")
                continue
            # SET replaces a value of any type: this is also how a corrupt value goes away.
            sealed = self._envelope.seal(key, message)
            await self._ask(rpc, permit, "SET", key, sealed, "PX", self._draw_lifetime_milliseconds())

    def _draw_lifetime_milliseconds(self) -> int:
        jitter = self._settings.time_to_live_jitter_ratio
        lifetime_seconds = self._settings.time_to_live_seconds * self._uniform(1 - jitter, 1 + jitter)
        return max(1, round(lifetime_seconds * 1000))

    def _opened(self, key: bytes, reply: object, validate: Callable[[bytes], bool] | None) -> bytes | None:
        if not isinstance(reply, bytes) or len(reply) > self._settings.max_message_bytes + HEADER_BYTES:
            return None
        message = self._envelope.open(key, reply)
        if message is None or validate is None:
            return message
        try:
            return message if validate(message) else None
        except Exception:  # whatever a parser throws at bytes that it cannot parse
            return None

    async def _ask(self, rpc: str, permit: int, *command: bytes | str | int) -> object | None:
        """Redis's reply, be it an error about the key; None for nil and whenever there is no reply."""
        try:
            reply = await self._converse(command)
        except exceptions.MaxConnectionsError:
            self._breaker.abandoned(permit)
            self._observer.error("redis", rpc, "pool_exhausted")
            return None
        except Exception as error:
            return self._failed(rpc, permit, error)
        except BaseException:  # cancelled
            self._breaker.abandoned(permit)
            raise
        self._breaker.succeeded(permit)
        return reply

    def _failed(self, rpc: str, permit: int, error: Exception) -> object | None:
        if isinstance(error, exceptions.ResponseError):
            if str(error).startswith("WRONGTYPE"):  # something else lives under our key: a value that does not verify
                self._breaker.succeeded(permit)
                return error
            self._observer.error("redis", rpc, "refused")
            # A Redis that is full or read-only still serves reads; one that refuses anything else is of no use.
            if isinstance(error, exceptions.OutOfMemoryError | exceptions.ReadOnlyError):
                self._breaker.succeeded(permit)
                return None
        else:
            kind = _kind(error)
            self._observer.error("redis", rpc, kind)
            if kind == "unexpected":
                _logger.warning("talking to Redis at %s: %s", self._address, type(error).__name__)
        self._breaker.failed(permit)
        return None

    async def _converse(self, command: tuple[bytes | str | int, ...]) -> object:
        # One connection of the pool, rather than the client on top of it: the client gives every step its own timeout
        # (a task each on Python 3.11, a fifth of the cost of a GET), and nothing bounds their sum.
        async with asyncio.timeout(self._settings.connect_timeout_seconds):
            connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(self._settings.answer_timeout_seconds):
                await connection.send_command(*command)
                return await connection.read_response()
        finally:
            if self._pool_closed:  # else a conversation that outlives close() would leave its socket open
                await connection.disconnect(nowait=True)
            await self._pool.release(connection)

    def _breaker_changed(self, state: BreakerState) -> None:
        level = logging.WARNING if state is BreakerState.OPEN else logging.INFO
        _logger.log(level, "the circuit breaker to Redis at %s is %s", self._address, state)
        self._observer.breaker_changed(state)


def _kind(error: Exception) -> ErrorKind:
    if isinstance(error, TimeoutError | exceptions.TimeoutError):  # before OSError, which TimeoutError is
        return "timeout"
    return "connection" if isinstance(error, exceptions.ConnectionError | OSError) else "unexpected"


def _open_pool(settings: RedisSettings) -> tuple[ConnectionPool, str]:
    """The pool, not yet connected, and the server's address without credentials."""
    try:
        options: dict[str, Any] = dict(parse_url(settings.url))
        # Set here, they win over the same options in the URL. The timeouts are _converse's. No retries: computing is
        # the retry. Protocol 2, because with 3 the library no longer notices that an idle connection was closed, and
        # greets the server on every new one.
        options |= {
            "protocol": 2,
            "driver_info": None,
            "decode_responses": False,
            "health_check_interval": 0,
            "max_connections": settings.max_connections,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "socket_connect_timeout": settings.connect_timeout_seconds,
            "socket_timeout": None,
        }
        pool = ConnectionPool(**options)
        pool.make_connection()  # type: ignore[no-untyped-call]  # connects to nothing, but refuses options that it does not know
    except (ValueError, TypeError, exceptions.RedisError):
        # Not chained: the reason may quote a piece of the URL, and with it a piece of the password.
        raise ValueError(
            "the Redis URL is malformed: expected redis://, rediss:// or unix:// and options of redis-py"
            " (not shown, since it may hold a password)"
        ) from None
    address = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
    return pool, f"{address}/{options.get('db', 0)}"
