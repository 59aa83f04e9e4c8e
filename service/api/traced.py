"""The cache with its look-ups recorded as parts of requests. It stands in for the plain one only where traces are wanted."""

from typing import Any

from service.cache.cache import Cache
from service.tracing import Tracing


class TracedCache(Cache):
    """A cache whose look-ups in this process are recorded.

    Args:
        tracing: records.
        about: what the cache is made of.
    """

    __slots__ = ("_tracing",)

    def __init__(self, tracing: Tracing, **about: Any) -> None:
        super().__init__(**about)
        self._tracing = tracing

    def peek(self, rpc: str, flavour: str, request: bytes) -> bytes | None:
        """The answer that this process kept for exactly these request bytes, or None."""
        with self._tracing.part("cache.local") as span:
            answer = super().peek(rpc, flavour, request)
            note(span, answer)
        return answer


def note(span: Any, answer: bytes | None) -> None:
    """Says in the span, where there is one, whether an answer was found."""
    if span is not None:
        span.set_attribute("cache.hit", answer is not None)
