"""Accelerators side by side: peaks and bounds, estimates where there are any, and how generations differ."""

import pytest

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
        hourly = each.output_tokens_per_second_per_device.p50 * 3600 / 1e6 * (each.cost_per_million_output_tokens or 0.0)
        assert each.cost_per_device_hour == pytest.approx(hourly)


def test_the_prefill_bound_is_arithmetic_at_the_dense_peak(planner: Planner) -> None:
    """Llama 3.1 8B: the weights of its layers, 1,024 tokens, attention of 32 layers, one row of the output projection."""
    first, _ = planner.compare_accelerators(compared("a100-sxm-80", "h100-sxm")).accelerators
    layers = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    flops = 2 * layers * 1024 + 2 * 128256 * 4096 + 32 * 4 * 4096 * 1024 * 1024 / 2
    assert flops / 312e12 == pytest.approx(first.prefill_seconds, rel=1e-3)


def test_where_nothing_is_calibrated_costs_rest_on_the_bound_and_say_so(planner: Planner) -> None:
    first, _ = planner.compare_accelerators(compared("v100-sxm2-32", "h100-sxm")).accelerators
    assert first.tpot_seconds is None
    assert first.costs_rest_on_bound
    assert first.cost_per_million_output_tokens is not None
    assert any("no estimate" in note for note in first.notes)


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
