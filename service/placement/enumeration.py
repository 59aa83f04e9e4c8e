"""Names in a sentence: the first of them, and how many more there are."""

from collections.abc import Sequence
from typing import Final

_NAMED: Final = 3


def first_of(names: Sequence[str], noun: str = "") -> str:
    """Three of them at most.

    >>> first_of(["a", "b", "c"]), first_of(["a", "b", "c", "d"], "nodes")
    ('a, b, c', 'a, b, c and 1 more nodes')
    """
    left = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {left} more {noun}".rstrip() if left > 0 else "")
