"""An explanation cannot lie: every step is recomputed from its shown inputs."""

import pytest

from service.formulas import REGISTRY
from service.planning.planner import Planner
from service.planning.requests import Parallelism
from service.planning.results import (
    ComputeUtilizationResponse,
    EstimateDecodeResponse,
    EstimateKvMemoryResponse,
    Explanation,
    FitNodeResponse,
)
from tests.planning.questions import SEVEN_B, decode, fit, kv_memory
from tests.planning.test_utilization import training_run


def explanations(planner: Planner) -> list[Explanation]:
    shape = Parallelism(tensor=2, expert=8, attention_data=4)
    asked: list[EstimateDecodeResponse | EstimateKvMemoryResponse | FitNodeResponse | ComputeUtilizationResponse] = [
        planner.estimate_decode(decode(SEVEN_B, batch=64, context=4096, explain=True)),
        planner.estimate_decode(decode("deepseek-v3", "h200-sxm", shape=shape, batch=64, context=4096, explain=True)),
        planner.estimate_decode(decode("gpt-oss-120b", batch=64, context=4096, explain=True)),
        planner.estimate_kv_memory(kv_memory("gemma-3-27b", context=4096, explain=True)),
        planner.fit_node(fit("llama-3.1-70b", explain=True)),
        planner.compute_utilization(training_run(explain=True)),
    ]
    return [answer.explanation for answer in asked if answer.explanation is not None]


def test_every_step_replays(planner: Planner) -> None:
    found = explanations(planner)
    assert len(found) == 6
    for explanation in found:
        assert explanation.steps
        for step in explanation.steps:
            formula = REGISTRY[step.name]
            assert set(step.inputs) == set(formula.parameters)
            assert formula.body(**step.inputs) == step.value
            assert step.expression == formula.expression
            assert step.source
            assert step.meaning


def test_an_explained_answer_is_the_plain_one(planner: Planner) -> None:
    plain, explained = (
        planner.estimate_decode(decode("deepseek-v3", "h200-sxm", shape=Parallelism(tensor=8), batch=8, context=99, explain=e))
        for e in (False, True)
    )
    assert plain.bound == explained.bound
    assert plain.expected == explained.expected
    assert plain.limits == explained.limits


def test_the_bound_itself_is_among_the_steps(planner: Planner) -> None:
    answer = planner.estimate_decode(decode(SEVEN_B, batch=64, context=4096, explain=True))
    assert answer.explanation is not None
    values = {step.name: step.value for step in answer.explanation.steps}
    assert values["step_seconds"] == answer.bound.step_seconds
    assert values["tokens_per_second"] == answer.bound.tokens_per_second
    assert values["kv_cache_bytes_per_token"] == 131_072
    assert values["ridge_point_flops_per_byte"] == answer.bound.ridge_point_flops_per_byte


def test_figures_carry_basis_and_source(planner: Planner) -> None:
    answer = planner.estimate_decode(decode(SEVEN_B, batch=64, context=4096, explain=True))
    assert answer.explanation is not None
    figures = {figure.name: figure for figure in answer.explanation.figures}
    assert figures["memory_bandwidth"].value == pytest.approx(3352e9)
    assert figures["peak_dense.bf16"].value == pytest.approx(989.4e12)
    assert all(figure.basis and figure.sources for figure in figures.values())


def test_no_explanation_unless_asked_for(planner: Planner) -> None:
    assert planner.estimate_decode(decode(SEVEN_B, batch=64, context=4096)).explanation is None
