"""Columns of an answer of many rows: arrays in place of tuples. The doors take them by these types."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]

MemberT = TypeVar("MemberT", bound=StrEnum)


@dataclass(frozen=True, slots=True, eq=False)
class Choices(Generic[MemberT]):
    """A column of members of an enumeration, each by its place in the enumeration's order of definition."""

    places: npt.NDArray[np.uint8]
