"""The Redis tier with its look-ups recorded as parts of requests; apart, since it imports Redis' client."""

from collections.abc import Callable
from typing import Any

from service.api.traced import note
from service.cache.redis_tier import RedisTier
from service.tracing import Tracing


class TracedRedis(RedisTier):
    """A Redis tier whose look-ups are recorded.

    Args:
        tracing: records.
        about: what the tier is made of.
    """

    def __init__(self, tracing: Tracing, *args: Any, **about: Any) -> None:
        super().__init__(*args, **about)
        self._tracing = tracing

    async def get(self, rpc: str, key: bytes, validate: Callable[[bytes], bool] | None = None) -> bytes | None:
        """The answer that Redis holds, or None."""
        with self._tracing.part("cache.redis") as span:
            answer = await super().get(rpc, key, validate)
            note(span, answer)
        return answer
