"""Symbols for numbers that are not known yet: arithmetic on them is written into a function instead of being done.

What is known stands in the function as a number. Operations and their order stay those of the arithmetic that was run, so the
function gives the same figures to the last bit. As with arrays, a condition is no branch but one of two values: see ``pick``.
"""

import math
from collections.abc import Callable
from typing import Any, Final, NoReturn

from service.function_source import FunctionSource
from service.planning.pick import Pick


class Symbol:
    """A variable of the function that is being written.

    Raises:
        TypeError: a branch depends on it, or it meets what cannot be written down.
    """

    __slots__ = ("name", "source")

    def __init__(self, source: FunctionSource, name: str) -> None:
        self.source = source
        self.name = name

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self.name} is not known yet: what depends on it goes through a Pick")

    def __neg__(self) -> "Symbol":
        return self.noted(f"-{self.name}")

    def noted(self, expression: str) -> "Symbol":
        """A new variable that holds the expression's value."""
        return Symbol(self.source, self.source.variable(expression))


def written(value: object) -> str:
    """How a value stands in the function: a symbol by its name, a number as it is."""
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, int | float) and math.isfinite(value):
        return repr(value) if value >= 0 else f"({value!r})"
    raise TypeError(f"{value!r} is neither a symbol nor a finite number")


def _operator(sign: str) -> Callable[[Symbol, object], Symbol]:
    return lambda left, right: left.noted(f"{left.name} {sign} {written(right)}")


def _reflected(sign: str) -> Callable[[Symbol, object], Symbol]:
    return lambda right, left: right.noted(f"{written(left)} {sign} {right.name}")


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "pow": "**", "and": "&"}.items():
    setattr(Symbol, f"__{_name}__", _operator(_sign))
    setattr(Symbol, f"__r{_name}__", _reflected(_sign))
for _name, _sign in {"le": "<=", "lt": "<", "ge": ">=", "gt": ">"}.items():
    setattr(Symbol, f"__{_name}__", _operator(_sign))


def _larger(one: Any, other: Any) -> Any:
    return _where(one >= other, one, other)


def _smaller(one: Any, other: Any) -> Any:
    return _where(one <= other, one, other)


def _where(condition: Any, if_true: Any, otherwise: Any) -> Any:
    if not isinstance(condition, Symbol):
        return if_true if condition else otherwise
    return condition.noted(f"{written(if_true)} if {condition.name} else {written(otherwise)}")


def _any(value: Any) -> bool:
    return isinstance(value, Symbol) or bool(value)


#: What is not known may be anything, so terms that are left out where they are zero are put in.
SYMBOLS: Final = Pick(_larger, _smaller, _where, _any, math.log)
