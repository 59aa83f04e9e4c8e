"""Answers in parts, made one at a time while they are asked for, and how long work is told to end or to give way."""

from collections.abc import Callable, Iterator
from threading import Event
from typing import Final, Generic, TypeAlias, TypeVar

PartT = TypeVar("PartT")


class Stop:
    """Whether whoever asked still wants more, or only what rounds the answer off. Long work looks at it between its steps.

    Args:
        give_way: called at each look, by the thread that works: it may wait a while, so that others go first, and says
            whether there are others. Default: there are none.
    """

    __slots__ = ("_asked", "_give_way", "is_beside_others")

    def __init__(self, give_way: "GiveWay | None" = None) -> None:
        self._asked = Event()
        self._give_way = give_way
        self.is_beside_others = False  # as the last look found: steps are then better small

    @property
    def is_asked(self) -> bool:
        """Whether no more is wanted."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Asks for no more. May be called from any thread; ends a wait at once."""
        self._asked.set()

    def wait(self, seconds: float) -> None:
        """Waits so long, or until no more is wanted."""
        self._asked.wait(seconds)

    def look(self) -> bool:
        """Lets others go first where there are any; returns whether no more is wanted."""
        if self._give_way is not None and not self.is_asked:
            self.is_beside_others = self._give_way(self)
        return self.is_asked


#: Waits by ``Stop.wait`` where others are to go first; returns whether there are others.
GiveWay: TypeAlias = Callable[[Stop], bool]

#: Of whoever waits until the end.
NEVER: Final = Stop()


class Stream(Generic[PartT]):
    """The parts of an answer. May be iterated once; each part is made by the thread that asks for it.

    Args:
        make: yields the parts, and looks at the stop that it is given often enough.
        stop: what it is given. Default: one of its own.
    """

    def __init__(self, make: Callable[[Stop], Iterator[PartT]], stop: Stop | None = None) -> None:
        self._stop = Stop() if stop is None else stop
        self._parts = make(self._stop)

    def __iter__(self) -> Iterator[PartT]:
        return self._parts

    def __next__(self) -> PartT:
        return next(self._parts)

    def stop(self) -> None:
        """Asks for no more than what rounds the answer off. May be called from another thread, and while a part is made."""
        self._stop.ask()
