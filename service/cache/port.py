"""What the cache tells the outside, and nothing about who listens: metrics are injected by the composition root."""

from enum import StrEnum
from typing import Literal, Protocol

#: ``local`` is the in-process tier, ``redis`` the shared one.
Tier = Literal["local", "redis"]

#: Why a tier could not be used:
#:
#: - ``corrupt``: the stored value is not what this key's answer was sealed as; it will be overwritten
#: - ``timeout``, ``connection``: Redis did not answer in time, or not at all
#: - ``pool_exhausted``: every connection was busy, and a request does not queue for one
#: - ``refused``: Redis answered that it will not (out of memory, a read-only replica, no permission)
#: - ``too_large``: the answer is over the limit of what is written to Redis
#: - ``write_dropped``: too many writes were pending, or the breaker was open
#: - ``unexpected``: anything else; also logged
ErrorKind = Literal["corrupt", "timeout", "connection", "pool_exhausted", "refused", "too_large", "write_dropped", "unexpected"]


class BreakerState(StrEnum):
    """What the circuit breaker in front of Redis lets through."""

    CLOSED = "closed"  #: everything
    OPEN = "open"  #: nothing, until the backoff has passed
    HALF_OPEN = "half_open"  #: one probe at a time


class Observer(Protocol):
    """Counts what the cache does. Called in the way of a request: each method must be quick and must not raise.

    Every look-up ends in exactly one ``hit`` or ``miss``. An ``error`` comes in addition to the miss it caused; an
    error of a write stands alone.
    """

    def hit(self, tier: Tier, rpc: str) -> None:
        """A tier had the answer."""

    def miss(self, tier: Tier, rpc: str) -> None:
        """A tier did not have the answer, or was not asked because the breaker was open."""

    def error(self, tier: Tier, rpc: str, kind: ErrorKind) -> None:
        """A tier could not be used, or held something unusable."""

    def breaker_changed(self, state: BreakerState) -> None:
        """The breaker in front of Redis moved to this state. It starts closed, without a call."""


class Unobserved:
    """The observer that counts nothing."""

    def hit(self, tier: Tier, rpc: str) -> None:
        """Count nothing."""

    def miss(self, tier: Tier, rpc: str) -> None:
        """Count nothing."""

    def error(self, tier: Tier, rpc: str, kind: ErrorKind) -> None:
        """Count nothing."""

    def breaker_changed(self, state: BreakerState) -> None:
        """Count nothing."""
