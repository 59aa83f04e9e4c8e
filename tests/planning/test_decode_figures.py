"""The function written for a plan gives what the formulas give, to the last bit: every model, several devices and shapes."""

import math
from random import Random
from typing import Any

import pytest

from service.function_source import FunctionSource
from service.planning.decode_figures import DecodeFigures, decode_figures, written_figures
from service.planning.decode_step import DecodePlan
from service.planning.errors import PlanningError
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, ModelSpec, Parallelism, Precision
from service.planning.resolve import Resolver
from service.planning.symbols import SYMBOLS, Symbol, written

ACCELERATORS = ("h100-sxm", "mi300x", "b200")
SHAPES = (
    Parallelism(),
    Parallelism(tensor=8),
    Parallelism(tensor=2, pipeline=2),
    Parallelism(tensor=1, expert=8, attention_data=8),
    Parallelism(tensor=2, expert=8, attention_data=4),
    Parallelism(tensor=16, pipeline=4),
)
#: Beside windows, blocks of entries, groups and microbatches, and far beyond.
LOADS = [(batch, context) for batch in (1, 2, 3, 8, 33, 4096, 1_000_000) for context in (1, 3, 127, 128, 129, 4096, 1_000_000)]


def plans(resolver: Resolver, model: str) -> list[DecodePlan]:
    """The model on every accelerator in every shape that it can have."""
    found = []
    for accelerator in ACCELERATORS:
        for shape in SHAPES:
            try:
                found.append(resolver.plan(ModelSpec(name=model), AcceleratorSpec(name=accelerator), Precision(), shape)[1])
            except PlanningError:
                continue
    return found


def test_the_written_function_gives_what_the_formulas_give(planner: Planner) -> None:
    resolver, catalogue = planner.resolver, planner.catalogue
    random, num_plans = Random(7), 0
    for model in catalogue.models:
        for plan in plans(resolver, model):
            figures = written_figures(plan)
            num_plans += 1
            for batch_size, context_tokens in random.sample(LOADS, 12):
                assert decode_figures(plan, batch_size, context_tokens) == figures(batch_size, context_tokens), (model, plan)
    assert num_plans > 5 * len(catalogue.models)


def test_a_plan_that_is_asked_about_often_answers_as_before(planner: Planner) -> None:
    plan = plans(planner.resolver, "mixtral-8x7b")[0]
    figures = DecodeFigures(plan)
    for batch_size in range(1, 200):
        assert decode_figures(plan, batch_size, 4096) == figures(batch_size, 4096)
    assert figures._written is not None


def test_plans_with_experts_windows_and_links_are_among_them(planner: Planner) -> None:
    found = [plan for model in planner.catalogue.models for plan in plans(planner.resolver, model)]
    assert any(plan.footprint.num_experts and plan.footprint.shape.attention_data > 1 for plan in found)
    assert any(plan.footprint.cache_read_bytes_per_device.terms for plan in found)
    assert any(plan.link_bandwidth and not plan.ring_bandwidth for plan in found)
    assert any(plan.footprint.shape.pipeline > 1 for plan in found)


def written_function(parameter: str = "x") -> tuple[FunctionSource, Any]:
    source = FunctionSource(parameter)
    return source, Symbol(source, parameter)


@pytest.mark.parametrize("x", [-2.5, 0.5, 3.0])
def test_operations_keep_their_order(x: float) -> None:
    source, symbol = written_function()
    values = (
        1.0 - symbol, symbol - 1.0, 7 // symbol, symbol // 0.3, 2.0**symbol, -symbol * 3, 1 / symbol, 0.1 + symbol,
        symbol * -2, (-8.0) ** (symbol - symbol + 3),
        SYMBOLS.larger(symbol, 1.0), SYMBOLS.smaller(1.0, symbol), SYMBOLS.where((symbol >= 0) & (symbol < 1), symbol, 9),
        SYMBOLS.larger(2, 3), SYMBOLS.where(False, 1, 2),
    )  # fmt: skip
    source.line(f"return {', '.join(map(written, values))}")
    expected = (
        1.0 - x, x - 1.0, 7 // x, x // 0.3, 2.0**x, -x * 3, 1 / x, 0.1 + x,
        x * -2, -512.0,
        max(x, 1.0), min(1.0, x), x if 0 <= x < 1 else 9, 3, 2,
    )  # fmt: skip
    assert expected == source.compiled()(x)


def test_a_branch_on_what_is_not_known_is_refused() -> None:
    _, symbol = written_function()
    with pytest.raises(TypeError, match="x is not known yet"):
        bool(symbol)


@pytest.mark.parametrize("value", [math.inf, math.nan, None, "import os"])
def test_only_finite_numbers_are_written(value: object) -> None:
    _, symbol = written_function()
    with pytest.raises(TypeError, match="neither a symbol nor a finite number"):
        symbol * value
