"""Operations that differ between floats and arrays, so that one body of arithmetic serves a point and a sweep.

A point stays on Python's own floats, which are five times faster than NumPy's scalars.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from msgspec import Struct


class Pick(Struct, frozen=True):
    """The larger and the smaller of two, one of two by a condition, whether anything is not zero, and the logarithm."""

    larger: Callable[[float, float], float]
    smaller: Callable[[float, float], float]
    where: Callable[[Any, Any, Any], Any]
    any: Callable[[Any], bool]
    log: Callable[[float], float]


def _where(condition: bool, if_true: Any, otherwise: Any) -> Any:
    return if_true if condition else otherwise


def _any(values: Any) -> bool:
    return bool(np.any(values))


FLOATS: Final = Pick(max, min, _where, bool, math.log)
ARRAYS: Final = Pick(np.maximum, np.minimum, np.where, _any, np.log)
