"""The register of formulas: what the explanations show and the replay test recomputes.

A formula is a pure function with keyword-only arguments, named for the quantity that it returns; its parameters are named for
those that it reads. One body serves a single point (floats) and a sweep (arrays).
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

#: A formula's body. NumPy arrays pass through it unseen, so the types say float.
Body = Callable[..., float]
F = TypeVar("F", bound=Body)


@dataclass(frozen=True, slots=True)
class Formula:
    """A registered formula."""

    name: str
    expression: str
    source: str
    meaning: str
    parameters: tuple[str, ...]
    body: Body


REGISTRY: dict[str, Formula] = {}


def formula(expression: str, *, source: str) -> Callable[[F], F]:
    """Registers a function under its name and returns it unchanged, so that calling it costs nothing more.

    ``expression`` is the formula as one would write it; ``source`` says who printed it first or why it holds.
    Parameters with a default (the injected ``maximum`` and ``minimum``) are no quantities and are not shown.
    """

    def register(body: F) -> F:
        name = body.__name__
        if name in REGISTRY:
            raise ValueError(f"two formulas are called {name}")
        meaning = (inspect.getdoc(body) or "").partition("\n")[0]
        parameters = inspect.signature(body).parameters.values()
        quantities = tuple(parameter.name for parameter in parameters if parameter.default is parameter.empty)
        REGISTRY[name] = Formula(name, expression, source, meaning, quantities, body)
        return body

    return register
