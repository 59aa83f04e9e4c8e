"""How formulas are applied: plainly, or with a record of what went in and came out.

Planning passes an ``Apply`` along. The recorder notes each formula under its registered name, so an explanation is what was
computed, not a retelling; a test recomputes every step from its shown inputs.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from service.formulas import REGISTRY
from service.formulas.kv_cache import kv_cache_bytes_per_token, latent_cache_bytes_per_token
from service.planning.footprint import FootprintBuilder
from service.planning.results import Explanation, Step, UsedFigure


class Apply(Protocol):
    """Applies a formula to its inputs, by keyword: quantities, and the operations that a sweep puts in place of Python's."""

    def __call__(self, body: Callable[..., float], /, **inputs: Any) -> float:
        """The formula's value."""
        ...


#: Applies a formula and notes nothing. The library's own call costs half of what a function of ours would.
plainly: Apply = operator.call


class Recorder:
    """Applies formulas and notes each."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def __call__(self, body: Callable[..., float], /, **inputs: Any) -> float:
        """Applies a registered formula and notes its inputs and value."""
        value = body(**inputs)
        formula = REGISTRY[body.__name__]
        shown = {name: float(inputs[name]) for name in formula.parameters}
        self._steps.append(Step(formula.name, formula.expression, shown, float(value), formula.source, formula.meaning))
        return value

    def adopt(self, explanation: Explanation) -> None:
        """Takes over the steps of another explanation, of an answer that this one rests on."""
        self._steps += explanation.steps

    def explanation(self, figures: Iterable[UsedFigure]) -> Explanation:
        """What was noted, with the figures that it rests on."""
        return Explanation(tuple(self._steps), tuple(figures))


def show_cache_formulas(builder: FootprintBuilder, apply: Apply) -> None:
    """Applies the cache's formula to each kind of layer that attends: an explanation then shows where the bytes come from."""
    architecture, element = builder.architecture, builder.formats.kv_bytes_per_element
    for kind, count in zip(architecture.layer_kinds, architecture.layer_counts, strict=True):
        shape = kind.attention
        if shape is None or not kind.cache:
            continue
        if shape.kv_lora_rank is not None:
            apply(
                latent_cache_bytes_per_token,
                num_layers=count,
                kv_lora_rank=shape.kv_lora_rank,
                rope_head_dim=shape.rope_head_dim or 0,
                kv_bytes_per_element=element,
            )
        elif shape.query_key_head_dim == shape.value_head_dim:
            apply(
                kv_cache_bytes_per_token,
                num_layers=count,
                num_kv_heads=shape.num_kv_heads,
                head_dim=shape.value_head_dim,
                kv_bytes_per_element=element,
            )
