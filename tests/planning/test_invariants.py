"""What must hold for every model on every accelerator, by random questions over the whole catalogue."""

import math
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.catalogue.loader import load
from service.planning.errors import InvalidRequest, Unanswerable
from service.planning.planner import Planner
from service.planning.requests import (
    EstimateDecodeRequest,
    InlineAccelerator,
    ModelSpec,
    Parallelism,
)
from service.planning.results import EstimateDecodeResponse
from tests.planning.questions import accelerator, decode, fit, kv_memory

CATALOGUE = load(Path(__file__).parents[2] / "specs")
PLANNER = Planner(CATALOGUE)
MODELS = st.sampled_from(sorted(CATALOGUE.models))
ACCELERATORS = st.sampled_from(sorted(CATALOGUE.accelerators))
SHAPES = st.builds(
    Parallelism,
    tensor=st.sampled_from([1, 2, 4, 8, 16]),
    pipeline=st.integers(1, 5),
    expert=st.sampled_from([1, 2, 8, 16]),
    attention_data=st.sampled_from([1, 1, 2, 8]),
)
BATCHES = st.integers(1, 5000)
CONTEXTS = st.integers(1, 200_000)
INLINE = InlineAccelerator(
    peak_dense_flops_per_second={"bf16": 1e15, "fp8": 2e15, "fp4": 4e15},
    memory_bandwidth_bytes_per_second=3e12,
    usable_memory_bytes=1.5e11,
    link_bandwidth_one_way_bytes_per_second=4e11,
    num_devices_in_link_domain=8,
)


def answer(request: EstimateDecodeRequest) -> EstimateDecodeResponse:
    try:
        return PLANNER.estimate_decode(request)
    except (InvalidRequest, Unanswerable):
        assume(False)
        raise


@given(MODELS, ACCELERATORS, SHAPES, BATCHES, CONTEXTS)
def test_no_expected_step_beats_its_bound(model: str, on: str, shape: Parallelism, batch: int, context: int) -> None:
    found = answer(decode(model, on, shape=shape, batch=batch, context=context))
    assert found.expected.expected_step_seconds >= found.bound.step_seconds
    assert found.expected.expected_weight_bytes >= found.bound.weight_bytes * (1 - 1e-12)
    values = [getattr(found.bound, name) for name in found.bound.__struct_fields__]
    assert all(math.isfinite(value) and value >= 0 for value in values if isinstance(value, float))


@given(MODELS, SHAPES, BATCHES, CONTEXTS, st.floats(1.0, 8.0))
def test_better_hardware_is_never_slower_nor_holds_less(
    model: str, shape: Parallelism, batch: int, context: int, factor: float
) -> None:
    before = answer(decode(model, INLINE, shape=shape, batch=batch, context=context))
    better = replace(
        INLINE,
        memory_bandwidth_bytes_per_second=3e12 * factor,
        usable_memory_bytes=1.5e11 * factor,
        link_bandwidth_one_way_bytes_per_second=4e11 * factor,
    )
    after = answer(decode(model, better, shape=shape, batch=batch, context=context))
    assert after.bound.step_seconds <= before.bound.step_seconds
    assert not (before.fits and not after.fits)


@given(MODELS, SHAPES, BATCHES, CONTEXTS, st.integers(1, 100_000))
def test_a_longer_context_never_gives_more(model: str, shape: Parallelism, batch: int, context: int, longer: int) -> None:
    short = answer(decode(model, INLINE, shape=shape, batch=batch, context=context))
    long = answer(decode(model, INLINE, shape=shape, batch=batch, context=context + longer))
    assert long.bound.step_seconds >= short.bound.step_seconds
    held = [
        PLANNER.estimate_kv_memory(kv_memory(model, INLINE, context=tokens, shape=shape)).max_sequences
        for tokens in (context, context + longer)
    ]
    assert held[0] is not None
    assert held[1] is not None
    assert held[1] <= held[0]


@given(MODELS, ACCELERATORS, SHAPES, CONTEXTS)
def test_what_is_said_to_fit_fits_and_one_more_does_not(model: str, on: str, shape: Parallelism, context: int) -> None:
    try:
        memory = PLANNER.estimate_kv_memory(kv_memory(model, on, context=context, shape=shape))
    except InvalidRequest:
        assume(False)
        raise
    held = memory.max_sequences
    assert held is not None
    assert memory.max_tokens is not None
    assert held * context <= memory.max_tokens + context * shape.attention_data
    if 0 < held < 1e6:
        full, over = (
            PLANNER.estimate_kv_memory(kv_memory(model, on, context=context, shape=shape, batch=int(held) + more))
            for more in (0, 1)
        )
        assert full.fits is True
        assert over.fits is False


@given(MODELS, ACCELERATORS, SHAPES, BATCHES, CONTEXTS)
def test_a_limit_binds_where_the_answer_says(model: str, on: str, shape: Parallelism, batch: int, context: int) -> None:
    found = answer(decode(model, on, shape=shape, batch=batch, context=context))
    onsets = {each.limit: each.binds_from_batch_size for each in found.limits}
    start = onsets.get(found.bound.binding_limit)
    spread = shape.pipeline * shape.attention_data
    # A batch that does not fill every group and stage is spread unevenly; beyond that the onset is exact.
    if batch >= spread and start is not None:
        assert start <= batch + 1


@given(MODELS, ACCELERATORS, st.permutations(range(6)))
def test_the_order_of_questions_does_not_matter(model: str, on: str, order: list[int]) -> None:
    requests = [decode(model, on, batch=1 + 7 * index, context=1 + 99 * index) for index in range(6)]
    fresh = Planner(CATALOGUE)

    def ask(planner: Planner, index: int) -> object:
        try:
            return planner.estimate_decode(requests[index])
        except Unanswerable as refusal:
            return str(refusal)

    assert {index: ask(fresh, index) for index in order} == {index: ask(PLANNER, index) for index in range(6)}


@given(MODELS, st.sampled_from(["dgx-h100", "dgx-h200", "dgx-b200", "oci-bm.gpu.l40s.4"]), st.integers(1, 3))
def test_more_nodes_never_give_a_worse_best_shape(model: str, node: str, nodes: int) -> None:
    few, many = (PLANNER.fit_node(fit(model, node, max_num_nodes=n)) for n in (nodes, nodes + 1))
    most = [max((c.max_sequences for c in found.candidates), default=0.0) for found in (few, many)]
    assert most[1] >= most[0]
    assert not (few.fits and not many.fits)


def test_every_model_of_the_catalogue_answers_on_an_accelerator_that_has_its_formats() -> None:
    for name in CATALOGUE.models:
        request = EstimateDecodeRequest(model=ModelSpec(name=name), accelerator=accelerator("b200"), context_tokens=4096)
        assert PLANNER.estimate_decode(request).bound.tokens_per_second > 0
