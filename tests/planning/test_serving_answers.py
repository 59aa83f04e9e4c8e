"""What is answered about serving, what is refused, and what every flag and every observation moves."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.planner import Planner
from service.planning.requests import EngineSpec, Parallelism, Precision
from service.planning.serving.requests import (
    Disaggregation,
    EstimateServingRequest,
    PrometheusObservation,
    ServingObservation,
    SpeculativeDecoding,
)
from service.planning.serving.results import EstimateBasis, Interval, ServingEstimate
from tests.planning.serving_questions import OWN, serving


def estimated(planner: Planner, request: EstimateServingRequest) -> ServingEstimate:
    found = planner.estimate_serving(request).estimate
    assert found is not None
    return found


def middle(interval: Interval | None) -> float:
    assert interval is not None
    return interval.p50


def refused(planner: Planner, request: EstimateServingRequest) -> tuple[str, str]:
    """Field and reason of the only violation."""
    with pytest.raises(InvalidRequest) as caught:
        planner.estimate_serving(request)
    (violation,) = caught.value.violations
    return violation.field, f"{violation.reason}; {violation.remedy}"


# -- what is answered -------------------------------------------------------------------------------------------------


def test_the_answer_names_its_calibration_and_what_it_rests_on(planner: Planner) -> None:
    seen = planner.serving.resolver.catalogue.calibrations["vllm"].generations[0].seen[0]
    model, _, accelerator = seen.partition(" on ")
    known = estimated(planner, serving(model, accelerator, tensor=8, concurrency=8))
    assert ("vllm-hopper", EstimateBasis.MEASURED, True) == (known.calibration, known.calibration_basis, known.is_familiar)
    prior = estimated(planner, serving("llama-3.1-8b", "l40s", concurrency=8))
    assert ("vllm-ada", EstimateBasis.PRIOR, False) == (prior.calibration, prior.calibration_basis, prior.is_familiar)

    def width(found: ServingEstimate) -> float:
        assert found.tpot_seconds is not None
        return found.tpot_seconds.p90 / found.tpot_seconds.p10

    assert width(known) < width(prior)


def test_an_alias_of_model_and_engine_means_the_same(planner: Planner) -> None:
    named = planner.estimate_serving(serving("llama-3.1-8b", engine="vllm", concurrency=8))
    aliased = planner.estimate_serving(serving("meta-llama/Llama-3.1-8B", engine="vllm-project/vllm", concurrency=8))
    assert named == aliased


def test_a_newer_release_is_never_slower(planner: Planner) -> None:
    speeds = [
        middle(estimated(planner, serving(engine=EngineSpec(name="vllm", version=version), concurrency=8)).tpot_seconds)
        for version in ("0.10", "0.11", "0.12", "0.15", "0.19")
    ]
    assert sorted(speeds, reverse=True) == speeds
    assert speeds[0] > speeds[-1]


def test_an_accelerator_without_calibration_gets_the_bound_and_a_reason(planner: Planner) -> None:
    found = planner.estimate_serving(serving(on="gaudi-3", concurrency=8))
    assert found.estimate is None
    assert "nothing measured or known of vLLM" in found.no_estimate_reason
    assert "hopper" in found.no_estimate_reason
    assert found.bound.step_seconds > 0
    assert not found.saturated
    assert found.fits


def test_an_inline_accelerator_gets_the_bound_and_a_reason(planner: Planner) -> None:
    found = planner.estimate_serving(serving(on=OWN, concurrency=8))
    assert found.estimate is None
    assert "nothing measured or known" in found.no_estimate_reason
    assert found.bound.step_seconds >= 2 * 7e9 / 3e12
    unseen = planner.estimate_serving(serving(on=replace(OWN, usable_memory_bytes=None), concurrency=8))
    assert (None, None) == (unseen.estimate, unseen.fits)


def test_weights_that_leave_no_room_get_the_bound_and_a_reason(planner: Planner) -> None:
    found = planner.estimate_serving(serving("llama-3.1-70b", concurrency=8))
    assert found.estimate is None
    assert "no room for a single request" in found.no_estimate_reason
    assert found.fits is False


def test_ranks_beyond_a_link_get_the_bound_and_a_reason(planner: Planner) -> None:
    found = planner.estimate_serving(serving("llama-3.1-405b", shape=Parallelism(tensor=16), concurrency=8))
    assert found.estimate is None
    assert "collectives over a network are not calibrated" in found.no_estimate_reason


def test_an_observation_without_an_estimate_is_not_passed_over_in_silence(planner: Planner) -> None:
    found = planner.estimate_serving(
        serving(on="gaudi-3", concurrency=8, observation=ServingObservation(100, tpot_seconds=0.01))
    )
    assert "the observation corrects nothing, since there is no estimate" in found.assumptions


def test_the_explanation_holds_the_steps_of_the_estimate(planner: Planner) -> None:
    request = serving(concurrency=8, explain=True)
    found = planner.estimate_serving(request)
    assert found.explanation is not None
    names = {step.name for step in found.explanation.steps}
    assert {"streaming_seconds", "inter_token_seconds", "first_token_seconds", "requests_per_second", "step_seconds"} <= names
    assert found.estimate == planner.estimate_serving(replace(request, explain=False)).estimate


def test_the_devices_of_a_replica_and_of_several_are_counted(planner: Planner) -> None:
    one = serving(shape=Parallelism(tensor=2, pipeline=2), concurrency=8)
    assert 4 == planner.estimate_serving(one).num_devices
    apart = replace(one, workload=replace(one.workload, disaggregation=Disaggregation(1, 3)))
    answer = planner.estimate_serving(apart)
    assert 16 == answer.num_devices
    assert answer.estimate is not None
    whole = middle(answer.estimate.output_tokens_per_second)
    assert middle(answer.estimate.output_tokens_per_second_per_device) == pytest.approx(whole / 16)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_an_unknown_engine_names_the_nearest(planner: Planner) -> None:
    with pytest.raises(NotFound) as caught:
        planner.estimate_serving(serving(engine="vlm", concurrency=8))
    assert ("engine.name", "vlm") == (caught.value.field, caught.value.name)
    assert "vllm" in caught.value.nearest


def test_fp8_weights_on_an_a100_name_what_to_set(planner: Planner) -> None:
    request = serving(on="a100-sxm-80", precision=Precision(weights="fp8"), concurrency=8)
    with pytest.raises(Unanswerable) as caught:
        planner.estimate_serving(request)
    assert "precision.weights" == caught.value.field
    assert "no dense fp8 peak" in caught.value.missing
    assert "precision.compute" in caught.value.remedy
    widened = replace(request, precision=Precision(weights="fp8", compute="bf16"))
    plain = replace(request, precision=Precision(weights="bf16"))
    assert middle(estimated(planner, widened).tpot_seconds) < middle(estimated(planner, plain).tpot_seconds)


@pytest.mark.parametrize("load", [{}, {"concurrency": 8, "rate": 1.0}])
def test_a_load_is_one_of_two(planner: Planner, load: dict[str, Any]) -> None:
    field, told = refused(planner, serving(**load))
    assert "workload" == field
    assert "exactly one of the two" in told


def test_more_than_was_drafted_cannot_be_accepted(planner: Planner) -> None:
    field, told = refused(planner, serving(concurrency=8, speculative_decoding=SpeculativeDecoding(4.5, 3)))
    assert "workload.speculative_decoding.accepted_tokens_per_step" == field
    assert "at most 4" in told
    estimated(planner, serving(concurrency=8, speculative_decoding=SpeculativeDecoding(4.0, 3)))


def test_planning_reads_no_server(planner: Planner) -> None:
    with pytest.raises(Unanswerable) as caught:
        planner.estimate_serving(serving(concurrency=8, observe=PrometheusObservation("http://prometheus:9090")))
    assert "observe" == caught.value.field


# -- flags ------------------------------------------------------------------------------------------------------------


def test_max_num_seqs_bounds_what_runs(planner: Planner) -> None:
    free = estimated(planner, serving(concurrency=200))
    found = planner.estimate_serving(serving(engine=EngineSpec(name="vllm", max_num_seqs=32), concurrency=200))
    bound = found.estimate
    assert bound is not None
    assert (32, 32, 168) == (bound.max_running_requests, bound.running_requests, bound.queued_requests)
    assert found.saturated
    assert found.saturation == "168 requests wait: at most 32 run at a time, by the engine's own limit"
    assert middle(bound.tpot_seconds) < middle(free.tpot_seconds)
    assert middle(bound.ttft_seconds) > middle(free.ttft_seconds)
    assert bound.queue_seconds == pytest.approx(168 / middle(bound.requests_per_second))


@pytest.mark.parametrize(
    ("engine", "flag"),
    [("vllm", "gpu_memory_utilization"), ("sglang", "mem_fraction_static"), ("tensorrt-llm", "free_gpu_memory_fraction")],
)
def test_the_engines_share_of_memory_is_what_requests_find_place_in(planner: Planner, engine: str, flag: str) -> None:
    def found_place(ratio: float) -> float:
        given: dict[str, Any] = {flag: ratio}
        spec = EngineSpec(name=engine, **given)
        return estimated(planner, serving(engine=spec, tokens=(16_384, 1024), concurrency=500)).max_running_requests

    places = [found_place(ratio) for ratio in (0.5, 0.7, 0.9)]
    assert sorted(set(places)) == places


def test_a_narrower_cache_holds_more_and_is_read_sooner(planner: Planner) -> None:
    def answered(dtype: str) -> ServingEstimate:
        return estimated(
            planner, serving(engine=EngineSpec(name="vllm", kv_cache_dtype=dtype), tokens=(8192, 512), concurrency=16)
        )

    wide, narrow = answered("auto"), answered("fp8")
    assert 1.8 < narrow.max_running_requests / wide.max_running_requests < 2.2
    assert narrow.terms.attention_seconds < wide.terms.attention_seconds
    assert narrow.terms.weights_seconds == wide.terms.weights_seconds


def test_smaller_passes_cost_a_prompt_more(planner: Planner) -> None:
    def answered(tokens: int) -> ServingEstimate:
        spec = EngineSpec(name="vllm", max_num_batched_tokens=tokens)
        return estimated(planner, serving(engine=spec, tokens=(16_384, 512), concurrency=8))

    small, large = answered(1024), answered(16_384)
    assert small.terms.prefill_seconds > large.terms.prefill_seconds
    assert small.terms.decode_step_seconds == pytest.approx(large.terms.decode_step_seconds, rel=0.05)


# -- load -------------------------------------------------------------------------------------------------------------


def test_percentiles_widen_with_the_load(planner: Planner) -> None:
    most = middle(estimated(planner, serving(concurrency=1)).max_requests_per_second)
    spreads, waits = [], []
    for share in (0.2, 0.6, 0.9):
        found = estimated(planner, serving(rate=most * share))
        assert found.ttft_over_requests is not None
        spreads.append(found.ttft_over_requests.p99.p50 - found.ttft_over_requests.p50.p50)
        waits.append(middle(found.ttft_seconds))
        assert found.utilization_ratio == pytest.approx(share, rel=1e-6)
    assert sorted(spreads) == spreads
    assert sorted(waits) == waits


def test_overloaded_arrivals_say_so(planner: Planner) -> None:
    found = planner.estimate_serving(serving(rate=1e4))
    assert found.estimate is not None
    assert found.saturated
    assert found.saturation.startswith("overloaded: no steady state. At most ")
    assert found.estimate.tpot_seconds is None
    most = middle(found.estimate.max_requests_per_second)
    assert found.estimate.utilization_ratio == pytest.approx(1e4 / most)
    assert middle(found.estimate.requests_per_second) == pytest.approx(most)
    # What is finished then is as sure as the times are, unlike a rate that was given.
    assert found.estimate.requests_per_second.p10 < most < found.estimate.requests_per_second.p90
    given = estimated(planner, serving(rate=1.0)).requests_per_second
    assert (1.0, 1.0, 1.0) == (given.p10, given.p50, given.p90)


# -- observations -----------------------------------------------------------------------------------------------------


def test_an_observation_draws_the_estimate_towards_it_and_narrows_it(planner: Planner) -> None:
    plain = estimated(planner, serving(on="l40s", concurrency=8))
    assert plain.tpot_seconds is not None
    observed = plain.tpot_seconds.p50 * 1.5
    previous = plain
    for count in (20, 100, 1000):
        found = estimated(planner, serving(on="l40s", concurrency=8, observation=ServingObservation(count, observed)))
        assert found.tpot_seconds is not None
        assert previous.tpot_seconds is not None
        assert previous.tpot_seconds.p50 < found.tpot_seconds.p50 < observed
        assert _width(found.tpot_seconds) < _width(previous.tpot_seconds)
        assert found.correction is not None
        assert found.correction.tpot_ratio == pytest.approx(found.tpot_seconds.p50 / plain.tpot_seconds.p50)
        assert (count, None) == (found.correction.num_requests, found.correction.ttft_ratio)
        assert found.ttft_seconds == plain.ttft_seconds
        assert middle(found.requests_per_second) < middle(previous.requests_per_second)
        previous = found
    assert previous.tpot_seconds is not None
    assert previous.tpot_seconds.p50 == pytest.approx(observed, rel=0.05)


def _width(interval: Interval) -> float:
    return math.log(interval.p90 / interval.p10)


def test_an_observation_of_what_is_estimated_moves_nothing(planner: Planner) -> None:
    plain = estimated(planner, serving(concurrency=8))
    seen = ServingObservation(500, middle(plain.tpot_seconds), middle(plain.ttft_seconds), plain.running_requests)
    response = planner.estimate_serving(serving(concurrency=8, observation=seen))
    assert response.estimate is not None
    assert response.estimate.correction is not None
    assert response.estimate.correction.tpot_ratio == pytest.approx(1)
    assert response.estimate.correction.observation == seen
    assert middle(response.estimate.ttft_seconds) == pytest.approx(middle(plain.ttft_seconds))
    assert not any("another load" in note for note in response.assumptions)
    other = planner.estimate_serving(serving(concurrency=8, observation=replace(seen, running_requests=80.0)))
    assert "observed under another load: 80 requests ran where the question leads to 8" in other.assumptions


@pytest.mark.parametrize(
    ("observation", "field", "told"),
    [
        (ServingObservation(19, 0.01), "observation.num_requests", "too few to correct an estimate by; observe at least 20"),
        (ServingObservation(100), "observation", "neither time was observed"),
        (ServingObservation(100, 9.5), "observation.tpot_seconds", "give seconds"),
        (ServingObservation(100, None, 1e-5), "observation.ttft_seconds", "too far from"),
    ],
)
def test_observations_that_correct_nothing(planner: Planner, observation: ServingObservation, field: str, told: str) -> None:
    where, reason = refused(planner, serving(concurrency=8, observation=observation))
    assert field == where
    assert told in reason


def test_overloaded_arrivals_are_explained_too(planner: Planner) -> None:
    request = serving(rate=1e4, explain=True)
    found = planner.estimate_serving(request)
    assert found.explanation is not None
    assert "inter_token_seconds" in {step.name for step in found.explanation.steps}
    assert found.estimate == planner.estimate_serving(replace(request, explain=False)).estimate


def test_requests_in_flight_on_replicas_apart_wait_for_prompts_once_there_are_too_few_to_compute_them(planner: Planner) -> None:
    def asked(concurrency: float, prefill: int) -> EstimateServingRequest:
        return serving(tokens=(8192, 64), concurrency=concurrency, disaggregation=Disaggregation(prefill, 4))

    alone = estimated(planner, asked(1, 1))
    plenty = estimated(planner, asked(64, 64))
    short = estimated(planner, asked(64, 1))
    # Nobody waits where everybody could have a replica to himself.
    assert middle(plenty.ttft_seconds) == pytest.approx(middle(alone.ttft_seconds), rel=1e-6)
    assert middle(short.requests_per_second) == pytest.approx(1 / short.terms.prefill_seconds, rel=0.02)
    assert middle(short.ttft_seconds) > 10 * middle(alone.ttft_seconds)
    moved = serving(tokens=(8192, 64), concurrency=1, disaggregation=Disaggregation(1, 4, transfer_bytes_per_second=1e9))
    # 8192 tokens of 131,072 bytes at 1 GB/s
    later = middle(estimated(planner, moved).ttft_seconds) - middle(alone.ttft_seconds)
    assert later == pytest.approx(8192 * 131072 / 1e9)


def test_arrivals_at_replicas_apart_are_finished_as_fast_as_the_slower_side_allows(planner: Planner) -> None:
    def asked(prefill: int, decode: int, tokens: tuple[int, int]) -> ServingEstimate:
        apart = Disaggregation(prefill, decode)
        return estimated(planner, serving(tokens=tokens, rate=0.1, disaggregation=apart))

    # Prompts prevail: as many a second as one side computes, one after the other.
    prompts = asked(1, 8, (8192, 64))
    assert middle(prompts.max_requests_per_second) == pytest.approx(1 / prompts.terms.prefill_seconds)
    # Answers prevail: every place decodes, and no prompt, no host and no wait takes up any.
    answers = asked(8, 1, (1024, 1024))
    closed = serving(tokens=(1024, 1024), concurrency=1e5, disaggregation=Disaggregation(8, 1))
    full = estimated(planner, closed)
    decode = 1023 * middle(full.tpot_seconds)
    assert middle(answers.max_requests_per_second) == pytest.approx(answers.max_running_requests / decode, rel=1e-3)
    assert middle(answers.max_requests_per_second) == pytest.approx(middle(full.max_requests_per_second))
    assert middle(asked(8, 2, (1024, 1024)).max_requests_per_second) == pytest.approx(
        2 * middle(answers.max_requests_per_second)
    )


def test_what_is_kept_for_activations_is_said_once(planner: Planner) -> None:
    notes = planner.estimate_serving(serving(concurrency=8)).assumptions
    (told,) = (note for note in notes if "activations" in note)
    assert told.startswith("4.9 GiB of a device's share are kept for activations")


def test_an_observed_time_between_tokens_of_answers_of_one_token_is_refused(planner: Planner) -> None:
    seen = ServingObservation(100, tpot_seconds=0.01)
    field, told = refused(planner, serving(tokens=(1024, 1), concurrency=8, observation=seen))
    assert field == "observation.tpot_seconds"
    assert "answers of one token have no time between tokens" in told
