"""What all tools share: whom they ask, how they read names, and the arguments that several of them take."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeAlias

from msgspec import Struct
from pydantic import Field

from service.api.mcp.answers import Answer, Writer
from service.api.mcp.asking import Asking
from service.api.mcp.names import Names

#: A tool: keyword arguments in, an answer out; its docstring is what a model reads about it.
Tool: TypeAlias = Callable[..., Awaitable[Answer]]


class Desk(Struct, frozen=True):
    """Where tools ask, read names, and have their answers written."""

    ask: Asking
    names: Names
    answer: Writer


Model = Annotated[str, Field(description="'Llama 70B', a Hugging Face id, a size ('7B'), or a config.json")]
Hardware = Annotated[str, Field(description="'H100', '8x H100', 'DGX H100', 'p5.48xlarge'")]
Explain = Annotated[bool, Field(description="show each formula with its inputs and source")]


def given(**fields: Any) -> dict[str, Any] | None:
    """The fields that are not None; None where that is none of them."""
    return {name: value for name, value in fields.items() if value is not None} or None
