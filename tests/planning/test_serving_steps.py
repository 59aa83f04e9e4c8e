"""The terms of a step and of a prompt by hand: a made-up device and calibration whose figures one can check with a pencil."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import fields, replace

from service.catalogue.calibrations import Parameters
from service.planning.pick import ARRAYS
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.serving.steady import Traffic, steady
from service.planning.serving.step import decode_step, growth_at, prefill
from service.planning.serving.work import ByWidth, Growth, ServingWork, serving_work

NONE = 1e-30
#: Nothing costs anything, and everything reaches its peak: a test puts in what it is about.
FREE = Parameters(**{each.name: NONE if each.name.endswith("_seconds") else 1.0 for each in fields(Parameters)})
FREE = replace(
    FREE,
    seconds_per_expert=NONE,
    collective_seconds_per_root_byte=NONE,
    prompts_ahead_per_request=NONE,
    widening_bytes_per_second=1e30,
    prefill_state_moves=NONE,
)
NO_WINDOW = ((1.0, 0.0),) * 3
#: 1 TB/s; 10 GB of weights in 16 bits, 2 GB in 8 and 1 GB in 4; 16 + 8 GB of experts, 2 of 16 a token, in 4 layers; 10 layers.
WORK = ServingWork(
    bandwidth_bytes_per_second=1e12,
    link_bandwidth_bytes_per_second=1e11,
    num_ranks=1.0,
    log2_num_ranks=0.0,
    num_stages=1.0,
    num_attention_groups=1.0,
    weight_bytes=ByWidth(10e9, 2e9, 1e9),
    head_bytes=1e9,
    expert_bytes=ByWidth(16e9, 8e9, 0.0),
    expert_slices_per_device=16.0,
    num_expert_layers=4.0,
    num_experts=16.0,
    num_experts_per_token=2.0,
    is_emulated=0.0,
    peak_seconds_per_token=ByWidth(4e-6, 2e-6, 1e-6),
    expert_peak_seconds_per_token=ByWidth(1e-6, 1e-6, 0.0),
    num_layers=10.0,
    num_quantized_layers=6.0,
    num_latent_layers=0.0,
    num_linear_layers=0.0,
    cache_bytes=Growth(0.0, 1e5, ((1000.0, 2e5), (1.0, 0.0), (1.0, 0.0))),
    attention_peak_seconds=Growth(0.0, 0.0, NO_WINDOW),
    prefill_seconds_per_pair=0.0,
    prefill_seconds_per_windowed_pair=NO_WINDOW,
    num_collectives=0.0,
    state_bytes_per_token=8192.0,
    least_read_ratio=0.0,
    cache_bytes_stored=Growth(0.0, 1e5, NO_WINDOW),
)


def test_weights_are_read_at_what_each_width_reaches() -> None:
    by = replace(FREE, dense_bandwidth_ratio=0.8, eight_bit_bandwidth_ratio=0.5, four_bit_bandwidth_ratio=0.25)
    # 10 + 2 / 0.5 + 1 / 0.25 + 1 (the projection to the vocabulary) = 19 GB at 0.8 TB/s
    assert decode_step(WORK, by, batch=1, context_tokens=1).weights_seconds == pytest.approx(19e9 / 0.8e12)


def test_experts_are_read_as_far_as_the_batch_touches_them() -> None:
    by = replace(FREE, expert_bandwidth_ratio=0.5, eight_bit_bandwidth_ratio=0.8, seconds_per_expert=1e-6)
    # One token: an eighth of (16 + 8 / 0.8) GB at 0.5 TB/s, and of 16 experts in 4 layers at 1 µs.
    one = decode_step(WORK, by, batch=1, context_tokens=1)
    assert one.experts_read_ratio == pytest.approx(1 / 8)
    assert one.experts_seconds == pytest.approx((26e9 / 0.5e12 + 64e-6) / 8)
    # Two tokens, or one with a draft: 1 − (7/8)² = 15/64
    two = decode_step(WORK, by, batch=2, context_tokens=1)
    drafted = decode_step(WORK, by, batch=1, context_tokens=1, tokens_per_request=2)
    assert two.experts_seconds == pytest.approx((26e9 / 0.5e12 + 64e-6) * 15 / 64)
    assert drafted.experts_seconds == pytest.approx(two.experts_seconds)


def test_experts_that_are_widened_first_take_a_time_of_their_own() -> None:
    work = replace(WORK, expert_bytes=ByWidth(0.0, 0.0, 8e9), is_emulated=1.0)
    by = replace(FREE, four_bit_expert_bandwidth_ratio=0.5, widening_bytes_per_second=4e12, widening_layer_seconds=1e-6)
    found = decode_step(work, by, batch=1, context_tokens=1)
    assert found.experts_seconds == pytest.approx((16e9 / 1e12 + 8e9 / 4e12) / 8)
    assert found.layers_seconds == pytest.approx(4e-6)


def test_the_cache_is_read_for_each_sequence_as_far_as_its_window() -> None:
    by = replace(FREE, cache_bandwidth_ratio=0.5)
    # 3 sequences of 4000 tokens: 4000 · 100 kB and 1000 · 200 kB each, at 0.5 TB/s
    found = decode_step(WORK, by, batch=3, context_tokens=4000)
    assert found.attention_seconds == pytest.approx(3 * (4e8 + 2e8) / 0.5e12)
    short = decode_step(WORK, by, batch=3, context_tokens=500)
    assert short.attention_seconds == pytest.approx(3 * 500 * 3e5 / 0.5e12)


def test_arithmetic_and_cache_of_attention_overlap() -> None:
    work = replace(WORK, attention_peak_seconds=Growth(0.0, 1e-7, NO_WINDOW), cache_bytes=Growth(0.0, 3e5, NO_WINDOW))
    # 1000 tokens: 0.3 ms of reading; 0.1 ms of arithmetic at a quarter of the peak are 0.4 ms: ∛(27 + 64) · 0.1 ms
    found = decode_step(work, replace(FREE, decode_attention_compute_ratio=0.25), batch=1, context_tokens=1000)
    assert found.attention_seconds == pytest.approx(91 ** (1 / 3) * 1e-4)


def test_layers_host_and_collectives() -> None:
    work = replace(WORK, num_ranks=2.0, log2_num_ranks=1.0, num_collectives=20.0, num_latent_layers=3.0, num_linear_layers=2.0)
    by = replace(
        FREE,
        layer_seconds=1e-6,
        quantized_layer_seconds=2e-6,
        latent_layer_seconds=3e-6,
        linear_layer_seconds=4e-6,
        expert_layer_seconds=5e-6,
        step_seconds=1e-3,
        request_seconds=1e-5,
        collective_base_seconds=5e-6,
        collective_doubling_seconds=1e-6,
        collective_ratio=0.5,
    )
    found = decode_step(work, by, batch=10, context_tokens=1)
    assert found.layers_seconds == pytest.approx((10 * 1 + 6 * 2 + 3 * 3 + 2 * 4 + 4 * 5) * 1e-6)
    assert found.host_seconds == pytest.approx(1e-3 + 10 * 1e-5)
    # 5 + 1 µs and 81,920 bytes once each way at 100 GB/s, 20 of them, half hidden
    assert found.collectives_seconds == pytest.approx(20 * (6e-6 + 81920 / 1e11) / 2)
    parts = (getattr(found, f"{name}_seconds") for name in ("weights", "experts", "attention", "collectives", "layers", "host"))
    assert found.seconds == pytest.approx(sum(parts))


def test_groups_and_stages_share_the_sequences() -> None:
    cut = replace(WORK, num_stages=2.0, num_attention_groups=4.0)
    # 64 sequences over 4 groups, in 2 microbatches: 8 on a device; routed are the 32 of a microbatch
    found = decode_step(cut, FREE, batch=64, context_tokens=1000)
    whole = decode_step(WORK, FREE, batch=8, context_tokens=1000)
    assert found.attention_seconds == pytest.approx(whole.attention_seconds)
    assert found.experts_read_ratio == pytest.approx(decode_step(WORK, FREE, batch=32, context_tokens=1).experts_read_ratio)


def test_a_prompt_by_hand() -> None:
    by = replace(
        FREE,
        prefill_sixteen_bit_ratio=0.5,
        prefill_eight_bit_ratio=0.4,
        prefill_four_bit_ratio=0.25,
        expert_prefill_ratio=0.5,
        prefill_attention_ratio=0.1,
        layer_seconds=2e-5,
        prefill_launch_ratio=5.0,
    )
    work = replace(WORK, prefill_seconds_per_pair=1e-11)
    found = prefill(work, by, new_tokens=1000, cached_tokens=500, tokens_per_pass=2000)
    matrices = 4e-6 / 0.5 + 2e-6 / 0.4 + 1e-6 / 0.25 + (1e-6 / 0.5 + 1e-6 / 0.4) / 0.5  # of a token
    pairs = 1000 * 500 + 1000 * 1000 / 2
    assert found.compute_seconds == pytest.approx(1000 * matrices + pairs * 1e-11 / 0.1)
    launches, weights, experts = 10 * 2e-5 * 5, 14e9 / 1e12, 24e9 / 1e12
    assert found.pass_seconds == pytest.approx(launches + weights + experts)
    assert found.pass_beside_decode_seconds(0.25) == pytest.approx(launches + experts * 0.75)
    assert found.num_passes == pytest.approx(1.5)
    fixed = 1.5 * found.pass_seconds
    assert found.seconds == pytest.approx((found.compute_seconds**1.5 + fixed**1.5) ** (2 / 3))


def test_states_are_moved_between_the_matrices_of_a_prompt_by_every_rank() -> None:
    # 1000 tokens of 8192 bytes: in 10 layers, and 2 experts' copies in 4 of them, 12 times, at 0.5 TB/s; ranks do not share it.
    by = replace(FREE, prefill_state_moves=12.0, dense_bandwidth_ratio=0.5)
    matrices = 1000 * 9e-6
    for ranks in (1.0, 8.0):
        work = replace(WORK, num_ranks=ranks, log2_num_ranks=3.0)
        found = prefill(work, by, new_tokens=1000, cached_tokens=0, tokens_per_pass=8192)
        assert found.compute_seconds == pytest.approx(matrices + 12 * 1000 * 8192 * (10 + 2 * 4) / 0.5e12)


def test_a_prompts_messages_take_what_messages_of_a_pass_take() -> None:
    work = replace(WORK, num_ranks=2.0, log2_num_ranks=1.0, num_collectives=20.0)
    by = replace(FREE, collective_base_seconds=5e-6, collective_seconds_per_root_byte=1e-8, collective_ratio=0.5)
    # Passes of 1000 tokens are messages of 8,192,000 bytes: a start, their ramp, both ways at 100 GB/s; 3000 tokens are three.
    each = 5e-6 + 1e-8 * 8_192_000**0.5 + 8_192_000 / 1e11
    for tokens, passes in ((1000, 1), (3000, 3)):
        found = prefill(work, by, new_tokens=tokens, cached_tokens=0, tokens_per_pass=1000)
        assert found.compute_seconds == pytest.approx(tokens * 9e-6 + passes * 20 * each / 2)


def test_windowed_attention_of_a_prompt_counts_what_each_token_sees() -> None:
    work = replace(
        WORK,
        peak_seconds_per_token=ByWidth(),
        expert_peak_seconds_per_token=ByWidth(),
        prefill_seconds_per_windowed_pair=((100.0, 1e-9), (1.0, 0.0), (1.0, 0.0)),
    )

    def compute(new: float, cached: float) -> float:
        found = prefill(work, FREE, new_tokens=new, cached_tokens=cached, tokens_per_pass=1e9)
        return found.compute_seconds

    assert compute(80, 0) == pytest.approx(80 * 80 / 2 * 1e-9)
    assert compute(1000, 0) == pytest.approx((100 * 100 / 2 + 900 * 100) * 1e-9)
    assert compute(1000, 5000) == pytest.approx(1000 * 100 * 1e-9)  # all of them see a whole window


def test_windows_bound_a_growth() -> None:
    growth = Growth(7.0, 2.0, ((10.0, 3.0), (100.0, 1.0), (1.0, 0.0)))
    assert growth_at(growth, 50, ARRAYS) == pytest.approx(7 + 2 * 50 + 3 * 10 + 50)


def test_littles_law_and_the_share_that_decodes() -> None:
    by = replace(FREE, first_token_host_seconds=0.5)
    state = steady(WORK, by, Traffic(input_tokens=100.0, output_tokens=101.0), running=16.0)
    assert state.requests_per_second * (state.decode_seconds + state.first_token_seconds) == pytest.approx(state.running)
    assert state.batch == pytest.approx(state.requests_per_second * state.decode_seconds, rel=2e-3)
    assert state.decode_seconds == pytest.approx(100 * state.inter_token_seconds)


def test_prompts_of_others_come_in_once_in_an_output() -> None:
    by = replace(FREE, interference_ratio=0.7)
    work = replace(WORK, expert_bytes=ByWidth(), expert_peak_seconds_per_token=ByWidth())
    state = steady(work, by, Traffic(input_tokens=1000.0, output_tokens=500.0), running=11.0, decoding=11.0)
    # Ten others bring a prompt of 7 ms each in 500 steps; passes beside a decode step cost nothing here.
    assert state.interference_seconds == pytest.approx(0.7 * 10 / 500 * 1000 * 7e-6)
    apart = steady(work, by, Traffic(1000.0, 500.0, is_disaggregated=1.0), running=11.0, decoding=11.0)
    assert apart.interference_seconds == 0.0


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3", "gpt-oss-120b", "gemma-3-27b", "qwen3-next-80b-a3b"])
def test_a_sweep_gives_what_its_points_give(planner: Planner, model: str) -> None:
    shape = Parallelism(tensor=8)
    resolved = planner.serving.deployment(
        ModelSpec(name=model), AcceleratorSpec(name="b200-sxm"), EngineSpec(name="sglang"), Precision(), shape
    )
    assert resolved.generation is not None
    by = planner.serving.parameters(resolved.generation, resolved.calibration, "0.5.8")
    running: Any
    tokens: Any
    running, tokens = np.array([1.0, 2.0, 7.5, 64.0, 1000.0]), np.array([1.0, 100.0, 4096.0, 32.0, 20_000.0])
    swept = steady(resolved.work, by, Traffic(tokens, tokens, cached_ratio=0.3), running=running, pick=ARRAYS)
    for index in range(len(running)):
        traffic = Traffic(float(tokens[index]), float(tokens[index]), cached_ratio=0.3)
        point = steady(resolved.work, by, traffic, running=float(running[index]))
        for name in ("inter_token_seconds", "first_token_seconds", "batch", "requests_per_second"):
            assert np.broadcast_to(getattr(swept, name), running.shape)[index] == pytest.approx(getattr(point, name), rel=1e-12)


def test_the_work_of_a_dense_model_is_its_bytes_and_operations(planner: Planner) -> None:
    found = planner.serving.deployment(
        ModelSpec(name="llama-3.1-8b"), AcceleratorSpec(name="h100-sxm"), EngineSpec(name="vllm"), Precision(), Parallelism()
    )
    work = serving_work(found.split, found.plan)
    # 8.03 billion parameters in bf16, of which the embedding's 128,256 · 4,096 are looked up and the projection's stand apart.
    table = 128256 * 4096
    assert work.head_bytes == 2 * table
    assert work.weight_bytes.sixteen == pytest.approx(2 * (8.030e9 - 2 * table), rel=1e-3)
    assert (work.weight_bytes.eight, work.weight_bytes.four, work.expert_bytes) == (0, 0, ByWidth())
    assert work.cache_bytes.per_token == 2 * 32 * 8 * 128 * 2
    assert work.num_collectives == 0
    assert work.peak_seconds_per_token.sixteen == pytest.approx(2 * (8.030e9 - table) / 989.4e12, rel=2e-2)


#: Nothing is read, so that a prompt of 1000 tokens takes the 7 ms of its arithmetic and a step next to nothing.
WEIGHTLESS = replace(
    WORK, expert_bytes=ByWidth(), expert_peak_seconds_per_token=ByWidth(), weight_bytes=ByWidth(), head_bytes=0.0
)


def test_prompts_are_computed_one_after_the_other_however_many_are_in_flight() -> None:
    # One token of an answer, so that prompts are all there is: 143 a second.
    for running in (2.0, 16.0, 256.0):
        state = steady(WEIGHTLESS, FREE, Traffic(input_tokens=1000.0, output_tokens=1.0), running=running)
        assert state.requests_per_second == pytest.approx(1 / 7e-3, rel=2e-2)
        assert state.first_token_seconds == pytest.approx(running * 7e-3, rel=2e-2)


def test_two_requests_with_long_prompts_and_short_answers_get_in_each_others_way() -> None:
    # Prompts of four passes, 229 ms each, and four tokens: one prompt is computed at a time, so nearly 4.4 a second.
    for running in (2.0, 3.0, 8.0):
        state = steady(WEIGHTLESS, FREE, Traffic(input_tokens=32_768.0, output_tokens=4.0), running=running)
        assert 0.96 < state.requests_per_second * 32_768 * 7e-6 < 1
        assert state.interference_seconds > 0


def test_prompts_that_come_while_a_request_is_with_the_host_pass_it_by() -> None:
    # The host takes ten times as long as a prompt, so that two requests hardly meet.
    by = replace(FREE, first_token_host_seconds=70e-3)
    alone = steady(WEIGHTLESS, by, Traffic(input_tokens=1000.0, output_tokens=2.0), running=1.0)
    assert alone.requests_per_second == pytest.approx(1 / 77e-3, rel=1e-2)
    two = steady(WEIGHTLESS, by, Traffic(input_tokens=1000.0, output_tokens=2.0), running=2.0)
    # C = 77 + 7 · (1 − 70 / C) ms
    cycle = (84e-3 + (84e-3**2 - 4 * 7e-3 * 70e-3) ** 0.5) / 2
    assert two.requests_per_second == pytest.approx(2 / cycle, rel=2e-2)


def test_the_first_token_waits_for_half_a_step_and_takes_part_in_a_whole_one_where_others_are() -> None:
    by = replace(FREE, step_seconds=10e-3)
    work, traffic = WEIGHTLESS, Traffic(input_tokens=1000.0, output_tokens=1e6)
    assert steady(work, by, traffic, running=1.0).first_token_seconds == pytest.approx(7e-3, rel=1e-3)
    state = steady(work, by, traffic, running=100.0)
    assert state.first_token_seconds == pytest.approx(7e-3 + 1.5 * 0.99 * state.inter_token_seconds, rel=1e-3)


def test_a_batch_is_as_a_request_in_it_sees_it() -> None:
    by = replace(FREE, request_seconds=1e-3)
    state = steady(WEIGHTLESS, by, Traffic(1.0, 1e6), running=5.0, decoding=2.5)
    # Itself, and of the four others half.
    assert state.step.host_seconds == pytest.approx(3e-3)


def test_a_large_batch_takes_at_least_its_arithmetic() -> None:
    # 14 GB of dense weights and at most 24 of experts are read in 38 ms; 10,000 tokens at 9 µs take 90.
    found = decode_step(WORK, FREE, batch=10_000, context_tokens=1)
    assert found.weights_seconds + found.experts_seconds == pytest.approx(90e-3)
    assert decode_step(WORK, FREE, batch=1000, context_tokens=1).weights_seconds == pytest.approx(14e-3)
