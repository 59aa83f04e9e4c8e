"""How long work on the planning thread gives way to small requests.

The thread and the event loop share the interpreter's lock, and mostly the cores too. While small requests come in, the thread
therefore pauses between its steps, for a few times as long as it has worked; when none has come for a while, it goes on as
fast as it can. It is never held up for good: of each pause the end is set before it begins.
"""

from collections.abc import Callable
from time import monotonic, thread_time
from typing import Final

from service.planning.streams import Stop

#: Small requests count as coming in until so long after the last one.
_BESIDE_SECONDS: Final = 0.25
#: How long the thread works at a time between two looks.
_STEP_SECONDS: Final = 0.0005
#: How long it pauses, for each second that it has worked: in the middle of an answer in parts, which comes bit by bit, and of
#: one that somebody waits for as a whole, perhaps with a deadline.
STREAM_PAUSE_RATIO: Final = 4.0
SEARCH_PAUSE_RATIO: Final = 1.0
#: The longest pause.
_PAUSE_SECONDS: Final = 0.02


class Pace:
    """The pace of the planning thread; see ``GiveWay``.

    Args:
        num_small: how many small requests there were so far.
        pause_ratio: how long it pauses, for each second that it has worked.
        clock: tells the time, in seconds.
        worked: tells how long the thread that asks has worked, in seconds.
    """

    def __init__(
        self,
        num_small: Callable[[], int],
        pause_ratio: float,
        clock: Callable[[], float] = monotonic,
        worked: Callable[[], float] = thread_time,
    ) -> None:
        self._num_small, self._pause_ratio, self._clock, self._worked = num_small, pause_ratio, clock, worked
        self._seen = num_small()
        self._looked = clock()
        self._last_small = self._looked - _BESIDE_SECONDS  # when the last one was noticed
        self._rested = 0.0  # what had been worked at the last look
        self._is_beside = False

    def __call__(self, stop: Stop) -> bool:
        """Pauses where small requests come in and the thread has worked a while; returns whether they do."""
        now = self._clock()
        unseen_seconds = now - self._looked
        if unseen_seconds < _STEP_SECONDS:
            return self._is_beside
        seen = self._num_small()
        if seen != self._seen and unseen_seconds < _BESIDE_SECONDS:  # what came before may be long past
            self._last_small = now
        self._seen = seen
        self._is_beside = now - self._last_small < _BESIDE_SECONDS
        if self._is_beside:
            worked = max(0.0, self._worked() - self._rested)
            stop.wait(min(_PAUSE_SECONDS, self._pause_ratio * worked))
        self._looked, self._rested = self._clock(), self._worked()
        return self._is_beside
