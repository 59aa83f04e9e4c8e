"""Faults that hostile requests brought to light, each with the figure or refusal that is right."""

import pytest
from msgspec.structs import replace

from service.planning.errors import InvalidRequest, TooLarge
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, FitNodeRequest, ModelSpec, Parallelism, Phase
from service.planning.results import UtilizationBasis
from tests.planning.questions import decode, fit, kv_memory
from tests.planning.test_utilization import on, training_run


def test_a_search_that_would_take_minutes_is_refused(planner: Planner) -> None:
    request = FitNodeRequest(
        model=ModelSpec(name="deepseek-v3"),
        context_tokens=1000,
        accelerator=AcceleratorSpec(name="b300"),
        devices_per_node=1024,
        max_num_nodes=64,
    )
    with pytest.raises(TooLarge) as refusal:
        planner.fit_node(request)
    assert refusal.value.field == "max_num_nodes"


def test_a_shorter_context_that_is_named_fits_on_every_stage(planner: Planner) -> None:
    request = kv_memory("llama-3.1-405b-fp8", "l40s", context=129_884, batch=13, shape=Parallelism(tensor=4, pipeline=4))
    short = planner.estimate_kv_memory(request).shortfall
    assert short is not None
    named = {cure.field: cure.value for cure in short.cures}.get("context_tokens")
    if named is not None:
        assert planner.estimate_kv_memory(replace(request, context_tokens=int(named))).fits is True
        assert planner.estimate_kv_memory(replace(request, context_tokens=int(named) + 1)).fits is False


def test_the_expected_step_is_never_below_the_bound_beyond_the_link_domain(planner: Planner) -> None:
    answer = planner.estimate_decode(decode("mixtral-8x7b", "l40s", shape=Parallelism(tensor=16), batch=2000, context=1))
    assert answer.expected.expected_step_seconds >= answer.bound.step_seconds
    assert answer.expected.expected_interconnect_seconds >= answer.bound.interconnect_seconds > 0


def test_causal_attention_under_a_window(planner: Planner) -> None:
    # Mistral-7B: 32 layers of 32 heads × 128, window 4,096. Over 32,768 tokens a token attends to w·(1 − w/2T) others.
    answer = planner.compute_utilization(
        training_run(model=ModelSpec(name="mistral-7b"), phase=Phase.PREFILL, tokens_per_second=100_000, sequence_tokens=32_768)
    )
    causal, none = (on(answer, b) for b in (UtilizationBasis.MFU_2N_ATTENTION_CAUSAL, UtilizationBasis.MFU_2N))
    attended = 4096 * (1 - 4096 / (2 * 32_768))
    per_token = (causal.achieved_per_second - none.achieved_per_second) / 100_000
    assert per_token == pytest.approx(32 * 4 * 32 * 128 * attended, rel=1e-9)


def test_a_vision_tower_is_no_expert(planner: Planner) -> None:
    answer = planner.compute_utilization(training_run(model=ModelSpec(name="gemma-3-27b")))
    assert "experts" not in answer.statement
    assert UtilizationBasis.MFU_6N_TOTAL_PARAMETERS not in {each.basis for each in answer.utilizations}


def test_mbu_needs_no_peak_of_the_weights_format(planner: Planner) -> None:
    answer = planner.compute_utilization(
        training_run(
            model=ModelSpec(name="deepseek-v3"),
            accelerator=AcceleratorSpec(name="a100-sxm-80"),
            phase=Phase.DECODE,
            batch_size=8,
            tokens_per_second=100,
        )
    )
    assert answer.recommended_basis is UtilizationBasis.MBU


def test_an_impossible_figure_is_not_to_be_quoted(planner: Planner) -> None:
    assert "not to be quoted" in planner.compute_utilization(training_run(tokens_per_second=1e12)).statement


@pytest.mark.parametrize("spec", [ModelSpec(name="llama-3.1-8b", hf_quantization={"quantization": {}})])
def test_a_quantisation_file_beside_a_name_is_not_dropped(planner: Planner, spec: ModelSpec) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.estimate_kv_memory(replace(kv_memory("llama-3.1-8b", context=1), model=spec))
    assert refusal.value.violations[0].field == "model.hf_quantization"


def test_prediction_layers_that_do_not_exist_are_said_not_to(planner: Planner) -> None:
    spec = ModelSpec(name="llama-3.1-8b", multi_token_prediction=True)
    answer = planner.estimate_kv_memory(replace(kv_memory("llama-3.1-8b", context=1), model=spec))
    assert "the model has no multi-token-prediction layers to load" in answer.assumptions


def test_a_context_beyond_the_models_own_is_said_to_be(planner: Planner) -> None:
    answer = planner.fit_node(fit("llama-3.1-8b", context=200_000))
    assert any("beyond the model's own 131072" in note for note in answer.assumptions)


def test_more_devices_than_a_replica_may_have(planner: Planner) -> None:
    shape = Parallelism(tensor=65_536, attention_data=65_536, expert=65_536)
    with pytest.raises(InvalidRequest) as refusal:
        planner.estimate_kv_memory(kv_memory("deepseek-v3", "h200-sxm", context=1, shape=shape))
    assert refusal.value.violations[0].field == "parallelism"
