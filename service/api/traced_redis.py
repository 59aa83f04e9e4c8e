"""The Redis tier with its look-ups recorded as parts of requests; apart, since it imports Redis' client."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from service.api.traced import note
from service.cache.port import ErrorKind, Observer, Tier, Unobserved
from service.cache.redis_tier import RedisTier
from service.tracing import Tracing

#: The span of the look-up under way.
_LOOK_UP: Final[ContextVar[Any]] = ContextVar("look_up", default=None)


class TracedRedis(RedisTier):
    """A Redis tier whose look-ups are recorded. Writes are not: they come after the answer, which no longer waits for them.

    Args:
        tracing: records.
        about: what the tier is made of, first its settings.
        observer: counts what the tier does.
    """

    def __init__(self, tracing: Tracing, *about: Any, observer: Observer | None = None, **more: Any) -> None:
        super().__init__(*about, observer=_Telling(observer or Unobserved()), **more)
        self._tracing = tracing

    async def get(self, rpc: str, key: bytes, validate: Callable[[bytes], bool] | None = None) -> bytes | None:
        """The answer that Redis holds, or None."""
        with self._tracing.part("cache.redis") as span:
            before = _LOOK_UP.set(span)
            try:
                answer = await super().get(rpc, key, validate)
            finally:
                _LOOK_UP.reset(before)
            note(span, answer)
        return answer


class _Telling:
    """Tells the observer everything, and the span of a look-up what went wrong with it."""

    def __init__(self, observer: Observer) -> None:
        self._error = observer.error
        self.hit, self.miss, self.breaker_changed = observer.hit, observer.miss, observer.breaker_changed

    def error(self, tier: Tier, rpc: str, kind: ErrorKind) -> None:
        """Redis could not be used, or held something unusable. The error's own words may hold a key: they are not recorded."""
        self._error(tier, rpc, kind)
        span = _LOOK_UP.get()
        if span is not None:
            from opentelemetry.trace import StatusCode

            span.set_attribute("error.type", kind)
            span.set_status(StatusCode.ERROR)
