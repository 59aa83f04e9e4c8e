"""What the doors use: look in this process, then, where it pays, in Redis, then compute, once for all who ask."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.cache.policy import uses_redis
from service.cache.port import Observer, Unobserved
from service.cache.single_flight import SingleFlight

if TYPE_CHECKING:  # who has no Redis needs no client of it: specs/decisions/0013
    from service.cache.redis_tier import RedisTier


class _Tags(dict[tuple[str, str], bytes]):
    """Tags of the in-process tier by RPC and flavour; both are names in our code, so there are only a few."""

    def __init__(self, keys: KeySpace) -> None:
        super().__init__()
        self._keys = keys

    def __missing__(self, names: tuple[str, str]) -> bytes:
        tag = self[names] = self._keys.local_tag(*names)
        return tag


class Cache:
    """Serialized responses by request. For one event loop; ``peek`` and ``store`` may also be called from threads.

    The way of a request through a door::

        answer = cache.peek(rpc, flavour, raw_request)
        if answer is None:
            message = await cache.get_or_compute(rpc, deterministic_request, compute)  # after validation
            answer = render(message)
            cache.store(rpc, flavour, raw_request, answer)

    Only what was validated and answered may be stored: a hit skips validation. Errors are never kept.

    Args:
        keys: catalogue revision and code version, which are part of every key.
        local: the in-process tier.
        redis: the shared tier, or None for the in-process tier alone.
        observer: counts hits and misses of the in-process tier; give the same to ``redis``.
        redis_for_every_rpc: let Redis hold the answers of every RPC instead of the expensive ones only.
    """

    __slots__ = (
        "_flights",
        "_get",
        "_hit",
        "_keys",
        "_local",
        "_max_request_bytes",
        "_miss",
        "_redis",
        "_redis_for_every_rpc",
        "_tags",
    )

    def __init__(
        self,
        *,
        keys: KeySpace,
        local: LocalTier,
        redis: "RedisTier | None" = None,
        observer: Observer | None = None,
        redis_for_every_rpc: bool = False,
    ) -> None:
        observer = observer or Unobserved()
        self._hit, self._miss = observer.hit, observer.miss
        self._keys = keys
        self._local = local
        self._get, self._max_request_bytes = local.get, local.max_entry_bytes
        self._redis = redis
        self._redis_for_every_rpc = redis_for_every_rpc
        self._tags = _Tags(keys)
        self._flights = SingleFlight()

    @property
    def local(self) -> LocalTier:
        """The in-process tier, for gauges of its size."""
        return self._local

    def peek(self, rpc: str, flavour: str, request: bytes) -> bytes | None:
        """The answer that this process kept for exactly these request bytes, or None.

        Args:
            rpc: RPC name, such as ``FitNode``.
            flavour: which rendering is wanted; each door has its own names, such as ``protobuf`` and ``json``.
            request: the request as it arrived, unparsed.
        """
        # A request larger than any entry cannot be here, and copying and hashing megabytes would hold up the loop.
        fits = len(request) <= self._max_request_bytes
        answer = self._get(self._tags[rpc, flavour] + request) if fits else None
        if answer is None:
            self._miss("local", rpc)
        else:
            self._hit("local", rpc)
        return answer

    def store(self, rpc: str, flavour: str, request: bytes, answer: bytes) -> None:
        """Keep the answer in this process for exactly these request bytes, which must have passed validation.

        Does nothing if both together are larger than the tier's largest entry.
        """
        if len(request) + len(answer) <= self._max_request_bytes:
            self._local.put(self._tags[rpc, flavour] + request, answer)

    async def get_or_compute(
        self,
        rpc: str,
        request: bytes,
        compute: Callable[[], Awaitable[bytes]],
        *,
        validate: Callable[[bytes], bool] | None = None,
    ) -> bytes:
        """The serialized response: from Redis where the policy says so, else computed, and then written there.

        Concurrent callers with the same request share one look-up and one computation; see ``SingleFlight`` for what
        an exception or a cancellation does to them. Trouble with Redis costs at most its timeouts, never the answer.

        Args:
            rpc: RPC name.
            request: the request's deterministic serialization.
            compute: computes the serialized response. It may be run for several callers at once, so it must raise what
                is true for all of them: an error about the request, not the abortion of one call.
            validate: says whether bytes from Redis parse as this RPC's response; what it refuses, or raises over, is
                computed anew and overwritten.

        Raises:
            Exception: whatever ``compute`` raised.
        """
        redis = self._redis
        if redis is None or not uses_redis(rpc, every_rpc=self._redis_for_every_rpc):
            return await self._flights.run((rpc, request), compute)

        async def fetch_or_compute() -> bytes:
            key = self._keys.redis_key(rpc, request)
            message = await redis.get(rpc, key, validate)
            if message is None:
                message = await compute()
                redis.put_soon(rpc, key, message)
            return message

        return await self._flights.run((rpc, request), fetch_or_compute)

    async def close(self) -> None:
        """Finish or drop pending writes and close the connections to Redis. Idempotent."""
        if self._redis is not None:
            await self._redis.close()
