"""Accelerators side by side: peaks and bounds, estimates where there are any, and how generations differ."""

import pytest
from msgspec.structs import replace

from service.formulas import REGISTRY
from service.planning.errors import InvalidRequest, NotFound
from service.planning.fleet.requests import CompareAcceleratorsRequest
from service.planning.planner import Planner
from service.planning.requests import ModelSpec, Precision


def compared(*names: str, model: str = "llama-3.1-8b", **rest: object) -> CompareAcceleratorsRequest:
    precision = Precision(compute="fp16")
    return CompareAcceleratorsRequest(ModelSpec(model), names, 1024, 256, 16, precision=precision, **rest)  # type: ignore[arg-type]


def test_from_v100_to_gb300_the_peak_grows_120_fold_and_the_bandwidth_9_fold(planner: Planner) -> None:
    (step,) = planner.compare_accelerators(compared("v100-sxm2-32", "gb300")).generations
    assert ("fp16", "fp4") == (step.from_precision, step.to_precision)
    assert 120.0 == pytest.approx(step.peak_ratio)
    assert 8.9 == pytest.approx(step.bandwidth_ratio, abs=0.05)
    assert 20.0 == pytest.approx(step.same_precision_peak_ratio)
    assert 6.0 == pytest.approx(step.precision_peak_ratio)
    assert 4.0 == step.weight_bytes_ratio
    assert step.decode_speedup_at_most == pytest.approx(4.0 * (step.bandwidth_ratio or 0.0))
    assert step.ridge_point_ratio == pytest.approx(120.0 / (8000 / 900))


def test_the_decode_bound_follows_bandwidth_and_the_estimate_lies_above_it(planner: Planner) -> None:
    first, other = planner.compare_accelerators(compared("a100-sxm-80", "h100-sxm")).accelerators
    assert first.decode_step_seconds is not None
    assert other.decode_step_seconds is not None
    ratio = (other.memory_bandwidth_bytes_per_second or 0.0) / (first.memory_bandwidth_bytes_per_second or 1.0)
    assert first.decode_step_seconds / other.decode_step_seconds == pytest.approx(ratio, rel=0.02)
    for each in (first, other):
        assert each.tpot_seconds is not None
        assert each.ttft_seconds is not None
        assert each.tpot_seconds.p10 > (each.decode_step_seconds or 0.0)
        assert each.ttft_seconds.p10 > (each.prefill_seconds or 0.0)
        assert each.output_tokens_per_second_per_device is not None
        assert each.price is not None
        assert each.cost_per_device_hour is not None
        assert each.estimated_cost_per_million_output_tokens is not None
        hourly = each.output_tokens_per_second_per_device.p50 * 3600 / 1e6 * each.estimated_cost_per_million_output_tokens.p50
        assert each.cost_per_device_hour == pytest.approx(hourly)


def test_the_prefill_bound_is_arithmetic_at_the_dense_peak(planner: Planner) -> None:
    """Llama 3.1 8B: the weights of its layers, 1,024 tokens, attention of 32 layers, one row of the output projection."""
    first, _ = planner.compare_accelerators(compared("a100-sxm-80", "h100-sxm")).accelerators
    layers = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    flops = 2 * layers * 1024 + 2 * 128256 * 4096 + 32 * 4 * 4096 * 1024 * 1024 / 2
    assert flops / 312e12 == pytest.approx(first.prefill_seconds, rel=1e-3)


def test_where_nothing_is_calibrated_there_are_costs_at_the_bound_alone(planner: Planner) -> None:
    first, _ = planner.compare_accelerators(compared("v100-sxm2-32", "h100-sxm")).accelerators
    assert first.tpot_seconds is None
    assert first.estimated_cost_per_million_output_tokens is None
    assert first.estimated_joules_per_million_output_tokens is None
    assert first.cost_per_device_hour is not None
    rate, cost = first.decode_tokens_per_second_per_device, first.bound_cost_per_million_output_tokens
    assert rate is not None
    assert cost is not None
    assert first.cost_per_device_hour == pytest.approx(rate * 3600 / 1e6 * cost)
    assert 300.0 == first.max_watts
    assert first.bound_joules_per_million_output_tokens == pytest.approx(3e8 / rate)
    assert any("no estimate" in note for note in first.notes)


@pytest.mark.parametrize("names", [("a100-sxm-80", "h100-sxm"), ("h200-sxm", "b200"), ("mi300x", "gb300")])
def test_no_estimate_of_a_token_is_below_what_it_costs_at_the_bound(planner: Planner, names: tuple[str, ...]) -> None:
    for each in planner.compare_accelerators(compared(*names)).accelerators:
        for kind in ("cost", "joules"):
            bound = getattr(each, f"bound_{kind}_per_million_output_tokens")
            estimated = getattr(each, f"estimated_{kind}_per_million_output_tokens")
            if estimated is not None:
                assert 0 < bound < estimated.p10 <= estimated.p50 <= estimated.p90


def test_energy_is_that_of_the_maximum_power(planner: Planner) -> None:
    first, _ = planner.compare_accelerators(compared("h100-sxm", "b200")).accelerators
    assert 700.0 == first.max_watts
    assert first.decode_tokens_per_second_per_device is not None
    assert first.output_tokens_per_second_per_device is not None
    assert first.estimated_joules_per_million_output_tokens is not None
    assert first.bound_joules_per_million_output_tokens == pytest.approx(7e8 / first.decode_tokens_per_second_per_device)
    slow, fast = first.output_tokens_per_second_per_device.p10, first.output_tokens_per_second_per_device.p90
    assert first.estimated_joules_per_million_output_tokens.p10 == pytest.approx(7e8 / fast)
    assert first.estimated_joules_per_million_output_tokens.p90 == pytest.approx(7e8 / slow)


def test_what_does_not_fit_has_no_cost(planner: Planner) -> None:
    first, other = planner.compare_accelerators(compared("h100-sxm", "b200", model="llama-3.1-70b")).accelerators
    assert (False, True) == (first.fits, other.fits)
    assert first.decode_step_seconds is not None
    assert first.bound_cost_per_million_output_tokens is None
    assert first.bound_joules_per_million_output_tokens is None
    assert other.bound_cost_per_million_output_tokens is not None


def test_an_explanation_leads_from_the_figures_to_the_costs(planner: Planner) -> None:
    plain = planner.compare_accelerators(compared("v100-sxm2-32", "h100-sxm"))
    answer = planner.compare_accelerators(compared("v100-sxm2-32", "h100-sxm", explain=True))
    assert all(each.explanation is None for each in plain.accelerators)
    for bare, each in zip(plain.accelerators, answer.accelerators, strict=True):
        assert bare == replace(each, explanation=None)
        assert each.explanation is not None
        values = [(step.name, step.value) for step in each.explanation.steps]
        assert ("step_seconds", each.decode_step_seconds) in values
        assert ("prefill_bound_seconds", each.prefill_seconds) in values
        assert ("cost_per_million_tokens", each.bound_cost_per_million_output_tokens) in values
        assert ("energy_joules_per_token", (each.bound_joules_per_million_output_tokens or 0.0) / 1e6) in values
        figures = {figure.name: figure for figure in each.explanation.figures}
        assert {"memory_bandwidth", "usable_memory", "max_watts_per_device", "price_per_hour"} <= set(figures)
        assert all(figure.basis and figure.sources for figure in figures.values())
        assert each.price is not None
        assert each.price.date in figures["price_per_hour"].note
    (_, other) = answer.accelerators
    assert other.explanation is not None
    assert other.estimated_cost_per_million_output_tokens is not None
    names = {step.name for step in other.explanation.steps}
    assert {"inter_token_seconds", "first_token_seconds", "requests_per_second"} <= names
    costs = [step.value for step in other.explanation.steps if step.name == "cost_per_million_tokens"]
    assert other.estimated_cost_per_million_output_tokens.p50 in costs


def test_every_step_of_a_comparison_replays(planner: Planner) -> None:
    answer = planner.compare_accelerators(compared("a100-sxm-80", "b200", model="gpt-oss-120b", explain=True))
    steps = [step for each in answer.accelerators if each.explanation for step in each.explanation.steps]
    assert len(steps) > 20
    for step in steps:
        assert step.value == REGISTRY[step.name].body(**step.inputs)


def test_a_missing_peak_leaves_out_the_bounds_and_says_why(planner: Planner) -> None:
    asked = CompareAcceleratorsRequest(ModelSpec("llama-3.1-8b"), ("v100-sxm2-32", "h100-sxm"), 1024, 256, 16)
    first, other = planner.compare_accelerators(asked).accelerators
    assert first.decode_step_seconds is None
    assert any("bf16" in note for note in first.notes)
    assert other.decode_step_seconds is not None


@pytest.mark.parametrize("names", [("h100-sxm",), ("h100-sxm", "h100"), ("h100-sxm", "h100-sxm")])
def test_one_accelerator_is_no_comparison(planner: Planner, names: tuple[str, ...]) -> None:
    with pytest.raises((InvalidRequest, NotFound)):
        planner.compare_accelerators(compared(*names))


def test_an_unknown_accelerator_is_told_with_the_nearest(planner: Planner) -> None:
    with pytest.raises(NotFound) as refusal:
        planner.compare_accelerators(compared("h100-sxm", "b2000"))
    assert "accelerators[1]" == refusal.value.field
    assert "b200" in refusal.value.nearest
