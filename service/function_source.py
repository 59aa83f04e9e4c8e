"""Functions written out at start, one statement a field: what ``structs`` does for ``__init__``.

A loop over the fields of a message, or a call for each of them, takes three times as long as the statements themselves,
and an estimate's answer has sixty fields.
"""

from collections.abc import Callable
from typing import Any


class FunctionSource:
    """A function being written: its lines, and the objects that they name.

    Lines are made of field names, which come from the descriptors, never of anything that a caller sends.
    """

    def __init__(self, *parameters: str) -> None:
        self._lines = [f"def function({', '.join(parameters)}):"]
        self._objects: dict[str, Any] = {}

    def line(self, text: str, indent: int = 1) -> None:
        """Adds a statement."""
        self._lines.append("    " * indent + text)

    def variable(self, expression: str) -> str:
        """Adds a statement that puts the expression into a variable of its own; returns its name."""
        name = f"v{len(self._lines)}"
        self.line(f"{name} = {expression}")
        return name

    def name(self, value: object) -> str:
        """A name for the object within the function."""
        name = f"_{len(self._objects)}"
        self._objects[name] = value
        return name

    def compiled(self) -> Callable[..., Any]:
        """The function."""
        exec("\n".join(self._lines), self._objects)
        function: Callable[..., Any] = self._objects["function"]
        return function
