"""How much one caller may ask: a rate, a number at once, and no more than its share when there is no room for all."""

import math
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

from msgspec import Struct

from service.api.access.callers import Caller
from service.api.errors import CallerLimited

#: Callers that are remembered; addresses of whoever comes by must not fill the memory.
_MAX_CALLERS: Final = 10_000
#: From this much of all places on, each caller gets its share of them.
_CROWDED_RATIO: Final = 0.5


class _Use(Struct):
    """What one caller uses. A bucket holds what may come at once after a pause: a second's worth, and at least one."""

    in_flight: int = 0
    tokens: float = math.inf
    filled_at: float = 0.0


class Limits:
    """Counts callers in and out.

    Args:
        max_concurrent_requests: of all callers together, as the admission has it.
        requests_per_second: of one caller that has no limit of its own; None for none.
        max_concurrent_per_caller: likewise.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        *,
        max_concurrent_requests: int,
        requests_per_second: float | None = None,
        max_concurrent_per_caller: int | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._total_limit = max_concurrent_requests
        self._rate = requests_per_second
        self._concurrent = max_concurrent_per_caller
        self._clock = clock
        self._uses: OrderedDict[str, _Use] = OrderedDict()
        self._in_flight = 0
        self._num_active = 0

    def enter(self, caller: Caller) -> None:
        """Counts a request in. CallerLimited where it is too many; who entered must ``leave``."""
        use = self._use(caller.name)
        self._check_concurrency(caller, use)
        self._take_token(caller, use)
        self._num_active += use.in_flight == 0
        use.in_flight += 1
        self._in_flight += 1

    def leave(self, caller: Caller) -> None:
        """Counts a request out."""
        use = self._uses[caller.name]
        use.in_flight -= 1
        self._in_flight -= 1
        self._num_active -= use.in_flight == 0

    def _use(self, name: str) -> _Use:
        use = self._uses.get(name)
        if use is None:
            if len(self._uses) >= _MAX_CALLERS:
                self._forget_one()
            use = self._uses[name] = _Use()
        else:
            self._uses.move_to_end(name)
        return use

    def _forget_one(self) -> None:
        """Forgets who has not asked for longest, of those with nothing in flight."""
        for name, use in self._uses.items():
            if use.in_flight == 0:
                del self._uses[name]
                return
        raise CallerLimited("too many callers at once", 1)

    def _check_concurrency(self, caller: Caller, use: _Use) -> None:
        own = caller.max_concurrent_requests or self._concurrent
        if own is not None and use.in_flight >= own:
            raise CallerLimited(f"{caller.name} has {own} requests in flight, which is its limit", 1)
        if self._in_flight < _CROWDED_RATIO * self._total_limit:
            return
        share = max(1, self._total_limit // max(1, self._num_active + (use.in_flight == 0)))
        if use.in_flight >= share:
            raise CallerLimited(f"{caller.name} has its share of {share} requests in flight, others wait too", 1)

    def _take_token(self, caller: Caller, use: _Use) -> None:
        rate = caller.requests_per_second or self._rate
        if rate is None:
            return
        now = self._clock()
        use.tokens = min(max(1.0, rate), use.tokens + (now - use.filled_at) * rate)
        use.filled_at = now
        if use.tokens < 1.0:
            wait = math.ceil((1.0 - use.tokens) / rate)
            raise CallerLimited(f"{caller.name} asks more than {rate:g} requests per second, which is its limit", wait)
        use.tokens -= 1.0
