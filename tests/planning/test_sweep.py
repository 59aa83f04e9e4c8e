"""Sweeps: every point is what the point RPC answers, nothing is dropped silently, and the grid never exists as a whole."""

import itertools
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from service.planning.errors import InvalidRequest, NotFound, PlanningError, TooLarge
from service.planning.planner import Planner
from service.planning.requests import (
    AcceleratorSpec,
    EngineSpec,
    EstimateDecodeRequest,
    InlineAccelerator,
    ModelSpec,
    Parallelism,
    Precision,
)
from service.planning.results import Limit
from service.planning.serving.requests import EstimateServingRequest, Workload
from service.planning.serving.results import Interval
from service.planning.sweep.grid import SweepLimits
from service.planning.sweep.requests import Kind, RequestLength, RunSweepRequest
from service.planning.sweep.results import EndReason, RunSweepResponse, SkippedPoints, SkipReason, SweepEnd, SweepStart
from service.planning.sweep.run import CHUNK_POINTS

MODELS = ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-v3", "gemma-3-27b", "gpt-oss-120b", "qwen3-30b-a3b")
ACCELERATORS = ("h100-sxm", "a100-sxm-80", "h200-sxm", "b200", "l4", "mi300x", "tpu-v5e", "v100-sxm2-16")
SHAPES = tuple(
    Parallelism(*shape) for shape in ((1,), (2,), (3,), (8,), (4, 2), (8, 1, 8), (8, 1, 8, 2), (1, 1, 8, 8), (16,), (1, 7))
)
PRECISIONS = tuple(Precision(*each) for each in ((), ("fp8",), ("fp8", "fp8"), ("nvfp4",), (None, "fp8"), ("int4",)))
ENGINES = (EngineSpec("vllm"), EngineSpec("vllm", "0.19"), EngineSpec("sglang"), EngineSpec("trt-llm", max_num_seqs=64))


def named_models(*names: str) -> tuple[ModelSpec, ...]:
    return tuple(ModelSpec(name=name) for name in names)


def named(*names: str) -> tuple[AcceleratorSpec, ...]:
    return tuple(AcceleratorSpec(name=name) for name in names)


class Swept:
    """All of a sweep, with its points one by one."""

    def __init__(self, parts: Iterator[RunSweepResponse]) -> None:
        first, *self.middle, last = list(parts)
        assert first.start is not None
        assert last.end is not None
        self.start: SweepStart = first.start
        self.end: SweepEnd = last.end
        self.chunks = [part.chunk for part in self.middle if part.chunk is not None]
        self.skipped: list[SkippedPoints] = [each for chunk in self.chunks for each in chunk.skipped]

    def points(self) -> Iterator[dict[str, Any]]:
        for chunk in self.chunks:
            columns = chunk.decode or chunk.serving
            if columns is None:
                continue
            lists = {}
            for field in structs.fields(columns):
                column = getattr(columns, field.name)
                limits = list(Limit)
                is_limit = field.name == "binding_limit"
                lists[field.name] = [limits[each] for each in column.places] if is_limit else column.tolist()
            for row in zip(*lists.values(), strict=True):
                yield dict(zip(lists, row, strict=True))


def some(values: tuple[Any, ...], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True).map(tuple)


PLANS = {
    "models": some(MODELS, 2).map(lambda names: named_models(*names)),
    "accelerators": some(ACCELERATORS, 2).map(lambda names: named(*names)),
    "shapes": some(SHAPES, 3),
    "precisions": some(PRECISIONS, 2),
    "memory_utilization_ratio": st.none() | st.floats(0.3, 1),
}
NUMBERS = st.lists(st.integers(1, 300_000), min_size=1, max_size=4).map(tuple)
DECODE = st.builds(RunSweepRequest, st.just(Kind.DECODE), batch_sizes=NUMBERS, context_tokens=NUMBERS, **PLANS)
LENGTH = st.builds(RequestLength, st.integers(1, 100_000), st.just(1) | st.integers(1, 20_000))
SERVING = st.builds(
    RunSweepRequest,
    st.just(Kind.SERVING),
    engines=some(ENGINES, 2),
    concurrencies=st.lists(st.floats(1, 5000), min_size=1, max_size=3).map(tuple),
    lengths=st.lists(LENGTH, min_size=1, max_size=3).map(tuple),
    **PLANS,
)


def expected_places(asked: RunSweepRequest) -> set[tuple[int, ...]]:
    engines = len(asked.engines) or 1
    axes = (asked.models, asked.accelerators, asked.shapes, asked.precisions, range(engines))
    return set(itertools.product(*(range(len(axis)) for axis in axes)))


def place_of(point: dict[str, Any]) -> tuple[int, ...]:
    names = ("model_index", "accelerator_index", "shape_index", "precision_index")
    return (*(point[name] for name in names), point.get("engine_index", 0))


def skipped_place(each: SkippedPoints) -> tuple[int, ...]:
    return each.model_index, each.accelerator_index, each.shape_index, each.precision_index, each.engine_index


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(asked=DECODE)
def test_a_decode_point_is_what_estimate_decode_answers(planner: Planner, asked: RunSweepRequest) -> None:
    swept = Swept(iter(planner.run_sweep(asked)))
    points = list(swept.points())
    for point in points:
        model, accelerator, shape, precision, _ = place_of(point)
        answer = planner.estimate_decode(
            EstimateDecodeRequest(
                asked.models[model],
                asked.accelerators[accelerator],
                asked.shapes[shape],
                asked.precisions[precision],
                asked.batch_sizes[point["batch_size_index"]],
                asked.context_tokens[point["context_tokens_index"]],
                asked.memory_utilization_ratio,
            )
        )
        assert answer.num_devices == point["num_devices"]
        assert bool(answer.fits) is point["fits"]
        assert answer.bound.binding_limit is point["binding_limit"]
        for name in structs.asdict(answer.bound).keys() & point.keys() - {"binding_limit"}:
            assert point[name] == pytest.approx(getattr(answer.bound, name), rel=1e-12), name
    assert {place_of(point) for point in points} | set(map(skipped_place, swept.skipped)) == expected_places(asked)
    assert swept.end.num_points == len(points) + sum(each.num_points for each in swept.skipped)
    assert swept.end.is_complete


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(asked=SERVING)
def test_a_serving_point_is_what_estimate_serving_answers(planner: Planner, asked: RunSweepRequest) -> None:
    swept = Swept(iter(planner.run_sweep(asked)))
    points = list(swept.points())
    for point in points:
        model, accelerator, shape, precision, engine = place_of(point)
        length = asked.lengths[point["length_index"]]
        concurrency = asked.concurrencies[point["concurrency_index"]]
        answer = planner.estimate_serving(
            EstimateServingRequest(
                asked.models[model],
                asked.accelerators[accelerator],
                asked.engines[engine],
                Workload(length.input_tokens, length.output_tokens, concurrency),
                asked.shapes[shape],
                asked.precisions[precision],
                memory_utilization_ratio=asked.memory_utilization_ratio,
            )
        )
        estimate = answer.estimate
        assert estimate is not None
        assert estimate.ttft_seconds is not None
        assert estimate.end_to_end_seconds is not None
        none = Interval(0.0, 0.0, 0.0)  # a column has no way to leave out what answers of one token lack
        tpot, per_user = estimate.tpot_seconds or none, estimate.output_tokens_per_second_per_user or none
        assert (estimate.tpot_seconds is None) == (length.output_tokens == 1)
        expected = {
            "num_devices": answer.num_devices,
            "tpot_seconds": tpot.p50,
            "tpot_p10_seconds": tpot.p10,
            "tpot_p90_seconds": tpot.p90,
            "ttft_seconds": estimate.ttft_seconds.p50,
            "ttft_p10_seconds": estimate.ttft_seconds.p10,
            "ttft_p90_seconds": estimate.ttft_seconds.p90,
            "end_to_end_seconds": estimate.end_to_end_seconds.p50,
            "output_tokens_per_second": estimate.output_tokens_per_second.p50,
            "output_tokens_per_second_p10": estimate.output_tokens_per_second.p10,
            "output_tokens_per_second_p90": estimate.output_tokens_per_second.p90,
            "output_tokens_per_second_per_user": per_user.p50,
            "output_tokens_per_second_per_device": estimate.output_tokens_per_second_per_device.p50,
            "requests_per_second": estimate.requests_per_second.p50,
            "effective_batch_size": estimate.effective_batch_size,
            "running_requests": estimate.running_requests,
            "queue_seconds": estimate.queue_seconds,
            "max_running_requests": estimate.max_running_requests,
        }
        for name, value in expected.items():
            assert point[name] == pytest.approx(value, rel=1e-9), name
        assert answer.saturated is point["saturated"]
    assert {place_of(point) for point in points} | set(map(skipped_place, swept.skipped)) == expected_places(asked)
    assert swept.end.num_points == len(points) + sum(each.num_points for each in swept.skipped)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(asked=st.one_of(DECODE, SERVING))
def test_what_is_skipped_has_no_answer_as_a_point_either(planner: Planner, asked: RunSweepRequest) -> None:
    for each in Swept(iter(planner.run_sweep(asked))).skipped:
        assert each.description
        model, accelerator = asked.models[each.model_index], asked.accelerators[each.accelerator_index]
        shape, precision = asked.shapes[each.shape_index], asked.precisions[each.precision_index]
        if asked.kind is Kind.DECODE:
            request = EstimateDecodeRequest(model, accelerator, shape, precision, 1, 1)
            with pytest.raises(PlanningError):
                planner.estimate_decode(request)
            continue
        answers = []
        for length in asked.lengths:
            workload = Workload(length.input_tokens, length.output_tokens, 1.0)
            engine = asked.engines[each.engine_index]
            ratio = asked.memory_utilization_ratio
            question = EstimateServingRequest(
                model, accelerator, engine, workload, shape, precision, memory_utilization_ratio=ratio
            )
            try:
                answers.append(planner.estimate_serving(question).estimate)
            except PlanningError:
                answers.append(None)
        assert answers.count(None) * len(asked.concurrencies) == each.num_points


def grid_of(**changes: Any) -> RunSweepRequest:
    asked = RunSweepRequest(
        Kind.DECODE,
        named_models("llama-3.1-8b"),
        named("h100-sxm", "a100-sxm-80"),
        (Parallelism(), Parallelism(3)),
        (Precision(), Precision("nvfp4")),
        (1, 2, 3),
        (1024, 4096),
    )
    return structs.replace(asked, **changes)


def test_what_cannot_be_is_counted_with_its_reason(planner: Planner) -> None:
    swept = Swept(iter(planner.run_sweep(grid_of())))

    reasons = {skipped_place(each): (each.reason, each.num_points) for each in swept.skipped}
    assert reasons[0, 0, 1, 0, 0] == (SkipReason.ILLEGAL, 6)
    assert (SkipReason.FIGURE_MISSING, 6) == reasons[0, 1, 0, 1, 0]
    illegal = next(each for each in swept.skipped if each.reason is SkipReason.ILLEGAL)
    assert "3 ranks do not divide 32 query heads" in illegal.description
    assert (48, 48 - swept.end.num_skipped, len(reasons)) == (
        swept.end.num_points,
        swept.end.num_answered,
        swept.end.num_skipped_plans,
    )


def test_the_start_says_the_axes_in_words(planner: Planner) -> None:
    inline = AcceleratorSpec(inline=InlineAccelerator(title="mine", memory_bandwidth_bytes_per_second=1e12))
    start = Swept(iter(planner.run_sweep(grid_of(accelerators=(*named("h100-sxm5"), inline))))).start

    assert (("h100-sxm", "mine"), ("TP1", "TP3"), ("checkpoint", "weights nvfp4")) == (
        start.accelerators,
        start.shapes,
        start.precisions,
    )
    assert (8, 48) == (start.num_plans, start.num_points)
    assert any("memory_utilization_ratio 0.9 (default)" in each for each in start.assumptions)


def test_chunks_follow_each_other_and_are_of_one_size(planner: Planner) -> None:
    asked = grid_of(
        accelerators=named("h100-sxm"),
        shapes=(),
        precisions=(),
        batch_sizes=tuple(range(1, 401)),
        context_tokens=tuple(range(1, 101)),
    )
    swept = Swept(iter(planner.run_sweep(asked)))

    sizes = [len(chunk.decode.fits) for chunk in swept.chunks if chunk.decode is not None]
    full, rest = divmod(40_000, CHUNK_POINTS)
    assert [CHUNK_POINTS] * full + [rest] == sizes
    assert [CHUNK_POINTS * number for number in range(full + 1)] == [chunk.offset for chunk in swept.chunks]
    assert 1 == swept.chunks[-1].progress_ratio
    points = [(point["batch_size_index"], point["context_tokens_index"]) for point in swept.points()]
    assert list(itertools.product(range(400), range(100))) == points


def test_small_plans_share_a_chunk(planner: Planner) -> None:
    asked = grid_of(accelerators=named(*ACCELERATORS[:4]), shapes=(Parallelism(), Parallelism(2)), precisions=())
    (chunk,) = Swept(iter(planner.run_sweep(asked))).chunks
    assert chunk.decode is not None
    assert 48 == len(chunk.decode.fits)


def test_a_stopped_sweep_says_what_is_done(planner: Planner) -> None:
    asked = grid_of(precisions=(), shapes=(), batch_sizes=tuple(range(1, 1001)), context_tokens=tuple(range(1, 1001)))
    stream = planner.run_sweep(asked)
    parts = [next(stream) for _ in range(4)]
    stream.stop()
    parts += list(stream)

    swept = Swept(iter(parts))
    assert (False, EndReason.TIME_LIMIT) == (swept.end.is_complete, swept.end.reason)
    assert 3 * CHUNK_POINTS <= swept.end.num_answered <= 4 * CHUNK_POINTS
    assert swept.end.num_answered == sum(1 for _ in swept.points())


def test_a_time_limit_ends_a_sweep(planner: Planner) -> None:
    asked = grid_of(batch_sizes=tuple(range(1, 1001)), context_tokens=tuple(range(1, 1001)), time_limit_seconds=1e-9)
    swept = Swept(iter(planner.run_sweep(asked)))
    assert (False, EndReason.TIME_LIMIT) == (swept.end.is_complete, swept.end.reason)
    assert swept.end.num_answered < swept.end.num_points


def test_a_sweep_holds_no_more_than_a_few_chunks(planner: Planner) -> None:
    asked = grid_of(
        accelerators=named("h100-sxm"),
        shapes=(),
        precisions=(),
        batch_sizes=tuple(range(1, 1001)),
        context_tokens=tuple(range(1, 1001)),
    )
    stream = planner.run_sweep(asked)
    next(stream)
    tracemalloc.start()
    try:
        for _ in stream:
            pass
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 40e6  # a million points are 118 MB


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"models": ()}, "models"),
        ({"context_tokens": ()}, "context_tokens"),
        ({"engines": (EngineSpec("vllm"),)}, "engines"),
        ({"batch_sizes": (1, 0)}, "batch_sizes[1]"),
        ({"context_tokens": (1, 2, 10_000_001)}, "context_tokens[2]"),
        ({"kind": Kind.SERVING}, "engines"),
        ({"models": (ModelSpec(hf_config={}),)}, "models[0].hf_config"),
    ],
)
def test_bad_axes_are_refused_before_anything_is_computed(planner: Planner, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        planner.run_sweep(grid_of(**changes))
    assert any(violation.field.startswith(field) for violation in refused.value.violations)


def test_a_concurrency_that_is_no_number_is_refused(planner: Planner) -> None:
    asked = RunSweepRequest(
        Kind.SERVING,
        named_models("llama-3.1-8b"),
        named("h100-sxm"),
        engines=ENGINES,
        concurrencies=(1.0, float("nan")),
        lengths=(RequestLength(1, 1),),
    )
    with pytest.raises(InvalidRequest, match=r"concurrencies\[1\]: nan is out of range"):
        planner.run_sweep(asked)


def test_all_unknown_names_are_told_with_their_places(planner: Planner) -> None:
    with pytest.raises(NotFound) as refused:
        planner.run_sweep(grid_of(models=named_models("llama-3.1-8b", "lama-3"), accelerators=named("h1000")))
    assert "models[1].name" == refused.value.field
    assert ["accelerators[0].name"] == [each.field for each in refused.value.others]
    assert refused.value.nearest


@pytest.mark.parametrize(("limits", "what"), [(SweepLimits(max_points=47), "48 points"), (SweepLimits(max_plans=7), "8 plans")])
def test_a_grid_beyond_a_limit_is_refused_by_name(planner: Planner, limits: SweepLimits, what: str) -> None:
    limited = Planner(planner.catalogue, limits)
    with pytest.raises(TooLarge, match=what) as refused:
        limited.run_sweep(grid_of())
    assert refused.value.limit in {47, 7}
    assert "TONNAGE_SWEEP_MAX_" in refused.value.remedy
