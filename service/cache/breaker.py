"""A circuit breaker: after enough failures nothing is tried any more, until a single probe succeeds."""

import random
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from service.cache.port import BreakerState


class BreakerSettings(Struct, frozen=True, kw_only=True):
    """When the breaker opens, and for how long.

    Args:
        max_consecutive_failures: it opens at this many in a row.
        max_failure_ratio: it opens at this share of failures, once the window is full: for a server that answers now
            and then, which never fails often enough in a row.
        num_window_outcomes: how many latest outcomes the ratio is taken over.
        min_backoff_seconds: how long the first opening lasts; each failed probe doubles it.
        max_backoff_seconds: what the doubling stops at.
    """

    max_consecutive_failures: int = 5
    max_failure_ratio: float = 0.5
    num_window_outcomes: int = 50
    min_backoff_seconds: float = 0.5
    max_backoff_seconds: float = 30.0


class CircuitBreaker:
    """Hands out permits and learns from what became of them. For one event loop; it performs no I/O and never waits.

    A permit names the state it was given in. What comes back under an older one is ignored: of fifty requests in
    flight when the server died, the late failures must not lengthen the backoff, nor a late success end it.

    Args:
        settings: thresholds and backoff.
        on_change: called with the new state after every change; must not raise.
        clock: monotonic time in seconds.
        uniform: draws between two bounds; jitter keeps a fleet from probing in step.
    """

    def __init__(
        self,
        settings: BreakerSettings,
        *,
        on_change: Callable[[BreakerState], None],
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._settings = settings
        self._on_change = on_change
        self._clock = clock
        self._uniform = uniform
        self._state = BreakerState.CLOSED
        self._generation = 0
        self._num_consecutive_failures = 0
        self._window_failed: deque[bool] = deque(maxlen=settings.num_window_outcomes)
        self._num_openings = 0
        self._reopens_at_seconds = 0.0
        self._probing = False

    @property
    def state(self) -> BreakerState:
        """The state now. An open breaker turns half-open when next asked for a permit, not by itself."""
        return self._state

    def permit(self) -> int | None:
        """Leave to try once, to be given back by exactly one of the three methods below; None while nothing may be."""
        if self._state is BreakerState.CLOSED:
            return self._generation
        if self._state is BreakerState.OPEN:
            if self._clock() < self._reopens_at_seconds:
                return None
            self._move_to(BreakerState.HALF_OPEN)
        if self._probing:
            return None
        self._probing = True
        return self._generation

    def succeeded(self, permit: int) -> None:
        """The server answered."""
        if permit != self._generation:
            return
        if self._state is BreakerState.HALF_OPEN:
            self._num_openings = 0
            self._move_to(BreakerState.CLOSED)
            return
        self._num_consecutive_failures = 0
        self._window_failed.append(False)

    def failed(self, permit: int) -> None:
        """The server did not answer, or not in time."""
        if permit != self._generation:
            return
        self._num_consecutive_failures += 1
        self._window_failed.append(True)
        if self._state is BreakerState.HALF_OPEN or self._is_failing():
            self._open()

    def abandoned(self, permit: int) -> None:
        """Nothing was learnt: the attempt was cancelled, or never left this process."""
        if permit == self._generation:
            self._probing = False

    def _is_failing(self) -> bool:
        settings = self._settings
        if self._num_consecutive_failures >= settings.max_consecutive_failures:
            return True
        window = self._window_failed
        return len(window) == window.maxlen and sum(window) >= settings.max_failure_ratio * len(window)

    def _open(self) -> None:
        # The exponent is capped as well: 2.0 ** 1100 raises OverflowError, after some hours without Redis.
        backoff_seconds = self._settings.min_backoff_seconds * 2.0 ** min(self._num_openings, 64)
        backoff_seconds = min(backoff_seconds, self._settings.max_backoff_seconds)
        self._num_openings += 1
        self._reopens_at_seconds = self._clock() + self._uniform(backoff_seconds / 2, backoff_seconds)
        self._move_to(BreakerState.OPEN)

    def _move_to(self, state: BreakerState) -> None:
        self._state = state
        self._generation += 1
        self._probing = False
        self._num_consecutive_failures = 0
        self._window_failed.clear()
        self._on_change(state)
