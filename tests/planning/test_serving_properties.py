"""What must hold of every estimate, by random questions over the whole catalogue."""

import math
from pathlib import Path
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from service.catalogue.loader import load
from service.planning.errors import InvalidRequest, Unanswerable
from service.planning.planner import Planner
from service.planning.requests import Parallelism
from service.planning.serving.requests import Disaggregation, EstimateServingRequest, SpeculativeDecoding
from service.planning.serving.results import EstimateServingResponse, Interval, ServingEstimate
from tests.planning.serving_questions import serving

CATALOGUE = load(Path(__file__).parents[2] / "specs")
PLANNER = Planner(CATALOGUE)
MODELS = st.sampled_from(sorted(CATALOGUE.models))
ENGINES = st.sampled_from(["vllm", "sglang", "tensorrt-llm"])
#: One of each generation that is calibrated.
ACCELERATORS = st.sampled_from(["h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm-80", "l40s", "mi300x", "mi355x"])
SHAPES = st.sampled_from(
    [
        Parallelism(),
        Parallelism(tensor=2),
        Parallelism(tensor=4),
        Parallelism(tensor=8),
        Parallelism(tensor=4, pipeline=2),
        Parallelism(attention_data=8, expert=8),
    ]
)
TOKENS = st.sampled_from([1, 16, 100, 128, 512, 1024, 4096, 8192, 32_768])
CONCURRENCIES = st.floats(1, 3000)
RATIOS = st.floats(0.0, 0.999)
#: What a step of the fixed point between batch and times leaves open.
LOOSE = 1 + 2e-3


def answer(request: EstimateServingRequest) -> EstimateServingResponse:
    try:
        return PLANNER.estimate_serving(request)
    except (InvalidRequest, Unanswerable):
        assume(False)
        raise


def estimate(request: EstimateServingRequest) -> ServingEstimate:
    found = answer(request).estimate
    assume(found is not None)
    assert found is not None
    return found


def middle(interval: Interval | None) -> float:
    assert interval is not None
    return interval.p50


def between(found: ServingEstimate) -> float:
    """Seconds between tokens; 0 where answers have but one."""
    return found.tpot_seconds.p50 if found.tpot_seconds else 0.0


def per_user(found: ServingEstimate) -> float:
    return found.output_tokens_per_second_per_user.p50 if found.output_tokens_per_second_per_user else 0.0


LOADS = st.one_of(st.fixed_dictionaries({"concurrency": CONCURRENCIES}), st.fixed_dictionaries({"rate": st.floats(1e-3, 1e3)}))


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, LOADS)
def test_no_part_of_an_estimate_beats_the_bound(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, load: dict[str, float]
) -> None:
    found = answer(serving(model, on, engine=engine, shape=shape, tokens=(into, out), **load))  # type: ignore[arg-type]
    assume(found.estimate is not None)
    assert found.estimate is not None
    estimated, bound, gaps = found.estimate, found.bound, out - 1
    # The bound is that of the next whole batch, of which the estimate may have a part less.
    whole = math.ceil(estimated.effective_batch_size) / estimated.effective_batch_size
    assert estimated.terms.decode_step_seconds * whole >= bound.step_seconds
    if estimated.tpot_seconds is not None:
        assert estimated.tpot_seconds.p10 >= bound.step_seconds
        assert estimated.tpot_over_requests is not None
        assert estimated.tpot_over_requests.p50.p10 >= bound.step_seconds
    if estimated.output_tokens_per_second_per_user is not None:
        assert estimated.output_tokens_per_second_per_user.p90 <= bound.tokens_per_second_per_user * (1 + 1e-12)
    rate = estimated.requests_per_second
    assert math.isclose(estimated.output_tokens_per_second.p90, rate.p90 * out)
    if estimated.end_to_end_seconds is not None:
        assert estimated.ttft_seconds is not None
        least = prompt_at_the_peak(model, on, engine, shape, into)
        assert estimated.ttft_seconds.p10 >= least
        assert estimated.end_to_end_seconds.p10 >= (least + gaps * bound.step_seconds) * (1 - 1e-12)
    if "concurrency" in load:
        # Of a request's tokens all but the first take a step each.
        assert rate.p90 * gaps <= bound.tokens_per_second * (1 + 1e-9)
        assert rate.p90 * prompt_at_the_peak(model, on, engine, shape, into, alone=False) <= shape.attention_data * (1 + 1e-9)
        assert rate.p50 <= estimated.max_requests_per_second.p50 * (1 + 1e-9)


def prompt_at_the_peak(model: str, on: str, engine: str, shape: Parallelism, tokens: int, *, alone: bool = True) -> float:
    """Seconds of a prompt's arithmetic at the peak, and at least of reading the weights where it is alone."""
    request = serving(model, on, engine=engine, shape=shape)
    deployed = PLANNER.serving.deployment(
        request.model, request.accelerator, request.engine, request.precision, request.parallelism
    )
    flops = deployed.plan.footprint
    arithmetic = sum(
        (flops.flops_per_device.get(stored, 0.0) + flops.expert_flops_per_device.get(stored, 0.0)) / peak
        for stored, peak in deployed.plan.peaks.items()
    )
    head = deployed.prompts.head_seconds_per_token
    seconds = arithmetic * tokens - head * (tokens - 1)
    return max(seconds, deployed.plan.weight_bytes_read_per_device / deployed.plan.bandwidth) if alone else seconds


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, CONCURRENCIES)
def test_answers_of_one_token_have_no_time_between_tokens(
    model: str, on: str, engine: str, shape: Parallelism, into: int, concurrency: float
) -> None:
    found = estimate(serving(model, on, engine=engine, shape=shape, tokens=(into, 1), concurrency=concurrency))
    absent = (found.tpot_seconds, found.tpot_over_requests, found.output_tokens_per_second_per_user)
    assert (None, None, None) == absent
    assert found.terms.interference_seconds == 0
    assert found.ttft_seconds is not None
    assert found.end_to_end_seconds is not None
    for name in ("p10", "p50", "p90"):
        assert math.isclose(getattr(found.ttft_seconds, name), getattr(found.end_to_end_seconds, name))


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, st.floats(1, 64), st.floats(1, 3000))
def test_the_most_is_the_most_whatever_is_in_flight(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, few: float, many: float
) -> None:
    asked = serving(model, on, engine=engine, shape=shape, tokens=(into, out), concurrency=few)
    one = estimate(asked)
    other = estimate(replace(asked, workload=replace(asked.workload, concurrency=many)))
    assert math.isclose(middle(one.max_requests_per_second), middle(other.max_requests_per_second), rel_tol=2e-3)
    assert middle(one.requests_per_second) <= middle(other.max_requests_per_second) * LOOSE


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, CONCURRENCIES, st.floats(1.0, 8.0))
def test_more_at_once_never_serves_less_in_all_nor_a_user_faster(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, concurrency: float, factor: float
) -> None:
    question = serving(model, on, engine=engine, shape=shape, tokens=(into, out), concurrency=concurrency)
    few = estimate(question)
    many = estimate(replace(question, workload=replace(question.workload, concurrency=concurrency * factor)))
    assert middle(many.requests_per_second) * LOOSE >= middle(few.requests_per_second)
    assert per_user(many) <= per_user(few) * LOOSE
    assert middle(many.ttft_seconds) * LOOSE >= middle(few.ttft_seconds)
    assert many.effective_batch_size * LOOSE >= few.effective_batch_size


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, CONCURRENCIES, st.floats(1.0, 8.0))
def test_a_longer_prompt_never_brings_the_first_token_sooner(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, concurrency: float, factor: float
) -> None:
    question = serving(model, on, engine=engine, shape=shape, tokens=(into, out), concurrency=concurrency)
    short = estimate(question)
    long = estimate(replace(question, workload=replace(question.workload, input_tokens=math.ceil(into * factor))))
    assert middle(long.ttft_seconds) * LOOSE >= middle(short.ttft_seconds)
    assert long.terms.prefill_seconds >= short.terms.prefill_seconds * (1 - 1e-9)
    assert long.max_running_requests <= short.max_running_requests


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, CONCURRENCIES, RATIOS, RATIOS)
def test_a_fuller_prefix_cache_never_makes_anything_slower(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, concurrency: float, one: float, other: float
) -> None:
    question = serving(model, on, engine=engine, shape=shape, tokens=(into, out), concurrency=concurrency)
    less, more = (
        estimate(replace(question, workload=replace(question.workload, prefix_cache_hit_ratio=ratio)))
        for ratio in sorted((one, other))
    )
    assert middle(more.ttft_seconds) <= middle(less.ttft_seconds) * LOOSE
    assert middle(more.end_to_end_seconds) <= middle(less.end_to_end_seconds) * LOOSE
    # Where prompts were what limited an engine, more decode at a time once they are shorter, in passes as full as before.
    assert between(more) <= between(less) * LOOSE or more.effective_batch_size > less.effective_batch_size * 1.01
    assert middle(more.requests_per_second) * LOOSE >= middle(less.requests_per_second)


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, st.floats(0.01, 0.97))
def test_littles_law_holds_of_arrivals(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, share: float
) -> None:
    closed = estimate(serving(model, on, engine=engine, shape=shape, tokens=(into, out), concurrency=1))
    rate = middle(closed.max_requests_per_second) * share
    assume(rate <= 1e6)
    found = answer(serving(model, on, engine=engine, shape=shape, tokens=(into, out), rate=rate))
    assert found.estimate is not None
    if found.estimate.end_to_end_seconds is None:
        return
    in_flight = found.estimate.running_requests + found.estimate.queued_requests
    assert math.isclose(rate * middle(found.estimate.end_to_end_seconds), in_flight, rel_tol=5e-3)
    assert middle(found.estimate.requests_per_second) == rate
    assert found.estimate.utilization_ratio <= 1
    assert found.estimate.effective_batch_size <= found.estimate.running_requests * LOOSE


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, CONCURRENCIES)
def test_littles_law_holds_of_a_closed_loop(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, concurrency: float
) -> None:
    found = estimate(serving(model, on, engine=engine, shape=shape, tokens=(into, out), concurrency=concurrency))
    in_flight = found.running_requests + found.queued_requests
    assert math.isclose(in_flight, concurrency, rel_tol=1e-9)
    assert math.isclose(middle(found.requests_per_second) * middle(found.end_to_end_seconds), concurrency, rel_tol=5e-3)


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, st.floats(1.0, 5.0))
def test_arrivals_beyond_what_is_finished_have_no_steady_state_and_no_latencies(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, factor: float
) -> None:
    closed = estimate(serving(model, on, engine=engine, shape=shape, tokens=(into, out), concurrency=1))
    rate = middle(closed.max_requests_per_second) * factor
    assume(rate <= 1e6)
    found = answer(serving(model, on, engine=engine, shape=shape, tokens=(into, out), rate=rate))
    assert found.estimate is not None
    assert found.saturated
    assert found.saturation.startswith("overloaded: no steady state")
    latencies = ("tpot_seconds", "ttft_seconds", "tpot_over_requests", "ttft_over_requests", "end_to_end_seconds")
    assert all(getattr(found.estimate, name) is None for name in latencies)
    assert middle(found.estimate.requests_per_second) <= rate


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS)
def test_few_arrivals_see_the_engine_alone(model: str, on: str, engine: str, shape: Parallelism, into: int, out: int) -> None:
    alone = estimate(serving(model, on, engine=engine, shape=shape, tokens=(into, out), concurrency=1))
    rare = estimate(serving(model, on, engine=engine, shape=shape, tokens=(into, out), rate=1e-6))
    assert math.isclose(between(rare), between(alone), rel_tol=1e-2)
    assert math.isclose(middle(rare.end_to_end_seconds), middle(alone.end_to_end_seconds), rel_tol=2e-2, abs_tol=0.05)
    assert rare.queued_requests < 1e-3


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, CONCURRENCIES, st.integers(1, 8), st.floats(0.0, 1.0))
def test_drafts_gain_at_most_what_is_accepted(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, concurrency: float, drafted: int, share: float
) -> None:
    question = serving(model, on, engine=engine, shape=shape, tokens=(into, out), concurrency=concurrency)
    plain = estimate(question)
    accepted = 1 + drafted * share
    drafts = SpeculativeDecoding(accepted, drafted)
    found = answer(replace(question, workload=replace(question.workload, speculative_decoding=drafts)))
    assert found.estimate is not None
    # A step verifies more than one token a request: never shorter for it, at the batch that there is.
    step, batch = found.estimate.terms.decode_step_seconds, found.estimate.effective_batch_size
    assert step * LOOSE >= plain.terms.decode_step_seconds or batch < plain.effective_batch_size
    if out > 1:
        assert between(found.estimate) * accepted * (math.ceil(batch) / batch) >= found.bound.step_seconds * (1 - 1e-12)
    slower = replace(drafts, drafter_step_ratio=0.5)
    drafting = estimate(replace(question, workload=replace(question.workload, speculative_decoding=slower)))
    assert between(drafting) * LOOSE >= between(found.estimate)


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, CONCURRENCIES, st.integers(1, 8), st.integers(1, 8))
def test_prompts_elsewhere_disturb_nobody(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, concurrency: float, prefill: int, decode: int
) -> None:
    question = serving(
        model,
        on,
        engine=engine,
        shape=shape,
        tokens=(into, out),
        concurrency=concurrency,
        disaggregation=Disaggregation(prefill, decode),
    )
    response = answer(question)
    assume(response.estimate is not None)
    assert response.estimate is not None
    assert response.estimate.terms.interference_seconds == 0
    assert response.num_devices % (prefill + decode) == 0
    ceiling = middle(response.estimate.max_requests_per_second)
    assert middle(response.estimate.requests_per_second) <= ceiling * LOOSE
    assert ceiling <= prefill / response.estimate.terms.prefill_seconds * LOOSE
    doubled = replace(question.workload, disaggregation=Disaggregation(prefill * 2, decode * 2), concurrency=concurrency * 2)
    twice = estimate(replace(question, workload=doubled))
    assume(concurrency >= decode)  # below, a replica holds a part of a request
    # Twice the replicas for twice the requests serve twice as many, and some more where they share one queue.
    assert middle(twice.requests_per_second) >= 2 * middle(response.estimate.requests_per_second) / LOOSE
    in_flight = response.estimate.running_requests + response.estimate.queued_requests
    assert math.isclose(in_flight, concurrency, rel_tol=1e-6)
    whole = middle(response.estimate.requests_per_second) * middle(response.estimate.end_to_end_seconds)
    assert math.isclose(whole, concurrency, rel_tol=5e-3)


@given(MODELS, ACCELERATORS, ENGINES, SHAPES, TOKENS, TOKENS, st.one_of(st.none(), CONCURRENCIES), st.floats(1e-6, 1e4))
def test_every_figure_is_finite_and_every_range_in_order(
    model: str, on: str, engine: str, shape: Parallelism, into: int, out: int, concurrency: float | None, rate: float
) -> None:
    load: dict[str, Any] = {"concurrency": concurrency} if concurrency is not None else {"rate": rate}
    found = estimate(serving(model, on, engine=engine, shape=shape, tokens=(into, out), **load))
    for value in _leaves(found):
        if isinstance(value, float):
            assert math.isfinite(value)
            assert value >= 0
        elif isinstance(value, Interval):
            assert value.p10 <= value.p50 <= value.p90
    for times in (found.tpot_over_requests, found.ttft_over_requests):
        assert times is None or times.p50.p50 <= times.p90.p50 <= times.p99.p50
    terms = found.terms
    parts = ("weights", "experts", "attention", "collectives", "layers", "host")
    assert math.isclose(sum(getattr(terms, f"{name}_seconds") for name in parts), terms.decode_step_seconds, rel_tol=1e-9)


def _leaves(value: object) -> list[object]:
    if isinstance(value, Struct):
        inner = [leaf for name in value.__struct_fields__ for leaf in _leaves(getattr(value, name))]
        return [value, *inner] if isinstance(value, Interval) else inner
    return [value]


@given(MODELS, ACCELERATORS, ENGINES, TOKENS, TOKENS, st.floats(0.01, 2.0), st.integers(1, 8), st.integers(1, 8))
def test_littles_law_holds_of_arrivals_at_replicas_apart(
    model: str, on: str, engine: str, into: int, out: int, share: float, prefill: int, decode: int
) -> None:
    apart = Disaggregation(prefill, decode, transfer_bytes_per_second=5e10)
    question = serving(model, on, engine=engine, tokens=(into, out), rate=1e6, disaggregation=apart)
    rate = middle(estimate(question).max_requests_per_second) * share
    assume(1e-9 < rate <= 1e6)
    response = answer(replace(question, workload=replace(question.workload, requests_per_second=rate)))
    found = response.estimate
    assert found is not None
    if found.end_to_end_seconds is None:
        assert response.saturated
        assert share > 0.98
        assert math.isclose(found.utilization_ratio, share, rel_tol=0.05)
        return
    assert share < 1
    in_flight = found.running_requests + found.queued_requests
    assert math.isclose(rate * middle(found.end_to_end_seconds), in_flight, rel_tol=5e-3)
    assert found.terms.interference_seconds == 0
