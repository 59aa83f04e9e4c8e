"""Answers in parts, made one at a time while they are asked for."""

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

PartT = TypeVar("PartT")


class Stop:
    """Whether whoever asked still wants more, or only what rounds the answer off."""

    __slots__ = ("is_asked",)

    def __init__(self) -> None:
        self.is_asked = False


#: Of whoever waits until the end.
NEVER: Final = Stop()


class Stream(Generic[PartT]):
    """The parts of an answer. May be iterated once; each part is made by the thread that asks for it.

    Args:
        make: yields the parts, and looks at the stop that it is given often enough.
    """

    def __init__(self, make: Callable[[Stop], Iterator[PartT]]) -> None:
        self._stop = Stop()
        self._parts = make(self._stop)

    def __iter__(self) -> Iterator[PartT]:
        return self._parts

    def __next__(self) -> PartT:
        return next(self._parts)

    def stop(self) -> None:
        """Asks for no more than what rounds the answer off. May be called from another thread, and while a part is made."""
        self._stop.is_asked = True
