"""The bound on a decode step, by hand-worked figures."""

import math

import pytest
from msgspec.structs import replace

from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.planner import Planner
from service.planning.requests import DenseModel, InlineAccelerator, Parallelism, Precision
from service.planning.results import EstimateDecodeResponse, Limit, LimitOnset
from tests.planning.questions import SEVEN_B, decode

WEIGHTS_ONLY = DenseModel(num_parameters=7e9)
GIB = 2**30


def onset(answer: EstimateDecodeResponse, limit: Limit) -> LimitOnset:
    return next(each for each in answer.limits if each.limit is limit)


def test_weights_only_at_batch_one(planner: Planner) -> None:
    answer = planner.estimate_decode(decode(WEIGHTS_ONLY))
    bound = answer.bound
    assert bound.ridge_point_flops_per_byte == pytest.approx(295.17, rel=1e-4)
    assert bound.weight_bytes == 1.4e10
    assert bound.flops == 1.4e10
    assert bound.arithmetic_intensity_flops_per_byte == 1
    assert bound.memory_seconds == pytest.approx(4.1766e-3, rel=1e-4)
    assert bound.compute_seconds == pytest.approx(0.01415e-3, rel=1e-4)
    assert bound.tokens_per_second == pytest.approx(239.4, rel=1e-3)
    assert bound.binding_limit is Limit.MEMORY_BANDWIDTH
    assert bound.attention_intensity_flops_per_byte is None
    assert any("KV cache left out" in note for note in answer.assumptions)


@pytest.mark.parametrize("batch", [1, 2, 64, 294])
def test_weights_only_throughput_grows_with_the_batch_below_the_ridge(planner: Planner, batch: int) -> None:
    bound = planner.estimate_decode(decode(WEIGHTS_ONLY, batch=batch)).bound
    assert bound.arithmetic_intensity_flops_per_byte == pytest.approx(batch)
    assert bound.tokens_per_second == pytest.approx(batch * 239.43, rel=1e-4)


def test_weights_only_throughput_is_flat_above_the_ridge(planner: Planner) -> None:
    answers = [planner.estimate_decode(decode(WEIGHTS_ONLY, batch=batch)) for batch in (296, 592, 5920)]
    assert {answer.bound.binding_limit for answer in answers} == {Limit.COMPUTE}
    rates = [answer.bound.tokens_per_second for answer in answers]
    assert rates == pytest.approx([989.4e12 / 1.4e10] * 3)
    assert onset(answers[0], Limit.COMPUTE).binds_from_batch_size == 296


def test_cache_of_64_sequences_of_4096_tokens(planner: Planner) -> None:
    answer = planner.estimate_decode(decode(SEVEN_B, batch=64, context=4096))
    bound = answer.bound
    assert bound.kv_cache_bytes == 64 * 4096 * 131_072
    assert bound.weight_bytes + bound.kv_cache_bytes == pytest.approx(4.836e10, rel=1e-4)
    assert bound.step_seconds == pytest.approx(14.427e-3, rel=1e-4)
    assert bound.tokens_per_second == pytest.approx(4436, rel=1e-4)
    assert bound.attention_intensity_flops_per_byte == 4.0
    assert answer.fits is True
    assert answer.shortfall is None


def test_128_sequences_do_not_fit_and_the_answer_says_what_would(planner: Planner) -> None:
    answer = planner.estimate_decode(decode(SEVEN_B, batch=128, context=4096))
    short = answer.shortfall
    assert answer.fits is False
    assert short is not None
    assert short.required_bytes_per_device / GIB == pytest.approx(77.04, rel=1e-4)
    assert short.available_bytes_per_device / GIB == pytest.approx(0.9 * 79.65, rel=1e-3)
    assert short.short_bytes_per_device / GIB == pytest.approx(5.36, rel=1e-3)
    cures = {cure.field: cure for cure in short.cures}
    ratio = float(cures["memory_utilization_ratio"].value)
    assert planner.estimate_decode(decode(SEVEN_B, batch=128, context=4096, ratio=ratio)).fits is True
    assert planner.estimate_decode(decode(SEVEN_B, batch=128, context=4096, ratio=1.0)).fits is True
    batch, context = int(cures["batch_size"].value), int(cures["context_tokens"].value)
    for more, fits in ((0, True), (1, False)):
        assert planner.estimate_decode(decode(SEVEN_B, batch=batch + more, context=4096)).fits is fits
        assert planner.estimate_decode(decode(SEVEN_B, batch=128, context=context + more)).fits is fits


def test_which_limit_binds_from_which_batch(planner: Planner) -> None:
    answer = planner.estimate_decode(decode(SEVEN_B, batch=64, context=4096))
    assert [each.limit for each in answer.limits[:3]] == [
        Limit.MEMORY_BANDWIDTH,
        Limit.KV_BANDWIDTH,
        Limit.KV_CAPACITY,
    ]
    assert onset(answer, Limit.KV_BANDWIDTH).binds_from_batch_size == 27
    assert onset(answer, Limit.KV_CAPACITY).binds_from_batch_size == 118
    compute = onset(answer, Limit.COMPUTE)
    assert compute.binds_from_batch_size is None
    assert compute.binds_only_below_context_tokens == pytest.approx(366.8, abs=1)


def test_compute_binds_below_the_context_that_the_answer_names(planner: Planner) -> None:
    for context, binds in ((360, True), (370, False)):
        answer = planner.estimate_decode(decode(SEVEN_B, batch=1_000_000, context=context))
        assert (onset(answer, Limit.COMPUTE).binds_from_batch_size is not None) is binds
        assert (answer.bound.binding_limit is Limit.COMPUTE) is binds


def test_the_limit_binds_at_the_batch_named_and_not_one_below(planner: Planner) -> None:
    answer = planner.estimate_decode(decode(SEVEN_B, batch=1, context=200))
    first = onset(answer, Limit.COMPUTE).binds_from_batch_size
    assert first is not None
    for batch, limit in ((int(first), Limit.COMPUTE), (int(first) - 1, Limit.MEMORY_BANDWIDTH)):
        assert planner.estimate_decode(decode(SEVEN_B, batch=batch, context=200)).bound.binding_limit is limit


def test_tensor_parallelism_divides_bytes_and_adds_collectives(planner: Planner) -> None:
    bound = planner.estimate_decode(decode("llama-3.1-70b", shape=Parallelism(tensor=8), batch=64, context=4096)).bound
    # 70,553,706,496 parameters less the embedding table of 128,256 × 8,192, 16 bits; norms whole on every device.
    norms = (2 * 80 + 1) * 8192
    read = (70_553_706_496 - 128_256 * 8192 - norms) * 2 / 8 + norms * 2
    assert bound.bytes_per_device == pytest.approx(read + 64 * 4096 * 327_680 / 8, rel=1e-12)
    # Two all-reduces per layer, each of 64 hidden vectors at 16 bits, once each way.
    assert bound.interconnect_bytes_per_device == 2 * 80 * 64 * 8192 * 2
    assert bound.interconnect_seconds == bound.interconnect_bytes_per_device / 450e9


def test_expected_step_adds_up_and_never_beats_the_bound(planner: Planner) -> None:
    answer = planner.estimate_decode(decode("llama-3.1-70b", shape=Parallelism(tensor=8), batch=64, context=4096))
    expected = answer.expected
    total = expected.expected_memory_seconds + expected.expected_compute_seconds + expected.expected_interconnect_seconds
    assert expected.expected_step_seconds == total > answer.bound.step_seconds
    ring = answer.bound.interconnect_seconds * 2 * 7 / 8
    assert expected.expected_interconnect_seconds == pytest.approx(ring)


def test_experts_of_one_token_in_the_bound_and_by_chance_in_the_expected_step(planner: Planner) -> None:
    one = planner.estimate_decode(decode("mixtral-8x7b", shape=Parallelism(tensor=2), batch=1, context=1024))
    many = planner.estimate_decode(decode("mixtral-8x7b", shape=Parallelism(tensor=2), batch=64, context=1024))
    assert one.bound.weight_bytes == many.bound.weight_bytes
    assert one.expected.expected_weight_bytes == pytest.approx(one.bound.weight_bytes)
    experts = 32 * 8 * 3 * 4096 * 14336 * 2
    untouched = (1 - 2 / 8) ** 64
    assert many.expected.expected_weight_bytes - many.bound.weight_bytes == pytest.approx(
        experts * (1 - untouched - 2 / 8), rel=1e-9
    )


def test_latent_cache_is_read_whole_by_every_tensor_rank(planner: Planner) -> None:
    one, eight = (
        planner.estimate_decode(decode("deepseek-v3", "h200-sxm", shape=Parallelism(tensor=n), batch=8, context=4096))
        for n in (1, 8)
    )
    assert one.bound.kv_cache_bytes == 8 * 4096 * 70_272
    assert eight.bound.kv_cache_bytes == 8 * one.bound.kv_cache_bytes


def test_attention_groups_hold_their_own_sequences(planner: Planner) -> None:
    shape = Parallelism(tensor=1, expert=8, attention_data=8)
    answer = planner.estimate_decode(decode("deepseek-v3", "h200-sxm", shape=shape, batch=8, context=4096))
    assert answer.bound.kv_cache_bytes == 8 * 4096 * 70_272
    assert answer.num_devices == 8


def test_kv_heads_are_copied_beyond_as_many_ranks(planner: Planner) -> None:
    dense = replace(SEVEN_B, num_kv_heads=4)
    four, eight = (
        planner.estimate_decode(decode(dense, shape=Parallelism(tensor=n), batch=16, context=4096)).bound for n in (4, 8)
    )
    assert eight.kv_cache_bytes == 2 * four.kv_cache_bytes


def test_pipeline_stages_share_the_weights_and_fill_with_microbatches(planner: Planner) -> None:
    flat, piped = (
        planner.estimate_decode(decode("llama-3.1-70b", "h200-sxm", shape=shape, batch=64, context=4096)).bound
        for shape in (Parallelism(), Parallelism(pipeline=4))
    )
    # A microbatch of 16 passes all stages: all weights, a quarter of the cache; the stages work on four at once.
    assert piped.memory_seconds == pytest.approx((139024531456 + 16 * 4096 * 327_680) / 4.8e12, rel=1e-3)
    assert piped.tokens_per_second > flat.tokens_per_second


def test_weights_keep_16_bits_outside_the_projections_when_fp8_is_asked_for(planner: Planner) -> None:
    stored, asked = (
        planner.estimate_decode(
            decode("llama-3.1-8b", precision=Precision(weights=weights), batch=1, context=1)
        ).bound.weight_bytes
        for weights in (None, "fp8")
    )
    projections = 32 * (4096 * (4096 + 1024 + 1024 + 4096) + 3 * 4096 * 14336)
    assert stored - asked == projections


@pytest.mark.parametrize(
    ("weights", "field"), [("fp8", "precision.weights"), ("nvfp4", "precision.weights"), ("fp4", "precision.weights")]
)
def test_a_peak_that_does_not_exist_is_not_made_up(planner: Planner, weights: str, field: str) -> None:
    with pytest.raises(Unanswerable) as refusal:
        planner.estimate_decode(decode("llama-3.1-8b", "a100-sxm-80", precision=Precision(weights=weights), batch=1, context=1))
    assert refusal.value.field == field
    assert "precision.compute" in refusal.value.remedy
    weight_only = Precision(weights=weights, compute="bf16")
    answer = planner.estimate_decode(decode("llama-3.1-8b", "a100-sxm-80", precision=weight_only, batch=1, context=1))
    assert answer.bound.ridge_point_flops_per_byte == pytest.approx(312e12 / 2039e9)


def test_mxfp4_is_multiplied_in_16_bits_where_there_are_no_fp4_units(planner: Planner) -> None:
    answer = planner.estimate_decode(decode("gpt-oss-120b", batch=1, context=4096))
    assert answer.bound.ridge_point_flops_per_byte == pytest.approx(295.17, rel=1e-4)
    assert "mxfp4 weights are multiplied in bf16" in answer.assumptions


def test_unknown_names_get_the_nearest(planner: Planner) -> None:
    with pytest.raises(NotFound) as refusal:
        planner.estimate_decode(decode("llama-3.1-70b", "h100", context=1))
    assert set(refusal.value.nearest) >= {"h100-sxm", "h100-pcie", "h100-nvl"}


def test_a_cache_needs_a_context(planner: Planner) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.estimate_decode(decode("llama-3.1-8b"))
    assert [violation.field for violation in refusal.value.violations] == ["context_tokens"]


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        (Parallelism(tensor=9), "parallelism.tensor"),
        (Parallelism(tensor=128), "parallelism.tensor"),
        (Parallelism(pipeline=81), "parallelism.pipeline"),
        (Parallelism(expert=2), "parallelism.expert"),
        (Parallelism(attention_data=2), "parallelism.attention_data"),
    ],
)
def test_shapes_that_an_engine_refuses(planner: Planner, shape: Parallelism, field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.estimate_decode(decode("llama-3.1-70b", shape=shape, context=1))
    assert field in {violation.field for violation in refusal.value.violations}


def test_block_quantised_experts_cannot_be_cut_inside_a_block(planner: Planner) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.estimate_decode(decode("qwen3-235b-a22b-fp8", shape=Parallelism(tensor=8), context=1))
    assert "quantisation block of 128" in refusal.value.violations[0].reason
    whole_experts = Parallelism(tensor=8, expert=8)
    assert planner.estimate_decode(decode("qwen3-235b-a22b-fp8", shape=whole_experts, context=1)).num_devices == 8


def test_half_a_cache_shape_is_refused_with_what_is_missing(planner: Planner) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.estimate_decode(decode(DenseModel(7e9, num_layers=32, head_dim=128), context=1))
    fields = [violation.field for violation in refusal.value.violations]
    assert fields == ["model.dense.num_query_heads", "model.dense.num_kv_heads"]


def test_an_accelerator_by_its_figures(planner: Planner) -> None:
    inline = InlineAccelerator(
        title="mine",
        peak_dense_flops_per_second={"bf16": 989.4e12},
        memory_bandwidth_bytes_per_second=3352e9,
    )
    answer = planner.estimate_decode(decode(SEVEN_B, inline, batch=64, context=4096))
    assert answer.bound.step_seconds == pytest.approx(14.427e-3, rel=1e-4)
    assert answer.fits is None
    assert any("memory of mine is not given" in note for note in answer.assumptions)


def test_an_inline_accelerator_without_bandwidth_cannot_be_bounded(planner: Planner) -> None:
    with pytest.raises(Unanswerable, match="bandwidth"):
        planner.estimate_decode(decode(WEIGHTS_ONLY, InlineAccelerator(peak_dense_flops_per_second={"bf16": 1e12})))


def test_every_figure_is_finite(planner: Planner) -> None:
    answer = planner.estimate_decode(decode("kimi-k2.5", "gb300", shape=Parallelism(tensor=8), batch=7, context=131072))
    bound = answer.bound
    assert all(math.isfinite(getattr(bound, name)) for name in bound.__struct_fields__ if name != "binding_limit")
