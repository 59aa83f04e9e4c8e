"""Columns of an answer of many rows: arrays in place of tuples. The doors take them by these types."""

from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]

MemberT = TypeVar("MemberT", bound=StrEnum)


class Choices(Struct, Generic[MemberT], frozen=True, eq=False):
    """A column of members of an enumeration, each by its place in the enumeration's order of definition."""

    places: npt.NDArray[np.uint8]
