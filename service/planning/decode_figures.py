"""The figures of a decode step: for a plan that is asked about often, by a function of batch and context written for it.

With all else put in it takes a third of the time: specs/decisions/0016.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec.structs import astuple

from service.function_source import FunctionSource
from service.planning.decode_expectation import decode_expectation
from service.planning.decode_step import DecodePlan, DecodeTerms, Load, decode_terms
from service.planning.explain import Apply, plainly
from service.planning.pick import FLOATS, Pick
from service.planning.results import DecodeExpectation
from service.planning.symbols import SYMBOLS, Symbol, written

_Figures: TypeAlias = Callable[[int, int], tuple[DecodeTerms, DecodeExpectation]]
#: Writing a function takes 0.4 ms, and it saves 3 to 8 µs each time.
_WORTH_WRITING: Final = 64


def decode_figures(
    plan: DecodePlan, batch_size: int, context_tokens: int, apply: Apply = plainly, pick: Pick = FLOATS
) -> tuple[DecodeTerms, DecodeExpectation]:
    """The terms of the bound, and the step to expect."""
    load = Load.of(plan.footprint, batch_size, pick)
    terms = decode_terms(plan, load, context_tokens, apply, pick)
    return terms, decode_expectation(plan, load, terms, apply, pick)


class DecodeFigures:
    """``decode_figures`` of one plan, by a function of its own once it has been asked for often."""

    __slots__ = ("_num_asked", "_plan", "_written")

    def __init__(self, plan: DecodePlan) -> None:
        self._plan = plan
        self._num_asked = 0
        self._written: _Figures | None = None

    def __call__(self, batch_size: int, context_tokens: int) -> tuple[DecodeTerms, DecodeExpectation]:
        """The terms of the bound, and the step to expect."""
        if self._written is not None:
            return self._written(batch_size, context_tokens)
        self._num_asked += 1
        if self._num_asked == _WORTH_WRITING:
            self._written = written_figures(self._plan)
        return decode_figures(self._plan, batch_size, context_tokens)


def written_figures(plan: DecodePlan) -> _Figures:
    """``decode_figures`` of the plan as a function of its own."""
    source = FunctionSource("batch_size", "context_tokens")
    batch_size: Any = Symbol(source, "batch_size")
    context_tokens: Any = Symbol(source, "context_tokens")
    made = decode_figures(plan, batch_size, context_tokens, pick=SYMBOLS)
    source.line(f"return {', '.join(f'{source.name(type(each))}({_arguments(each)})' for each in made)}")
    return source.compiled()


def _arguments(result: DecodeTerms | DecodeExpectation) -> str:
    return ", ".join(map(written, astuple(result)))
