"""Figures that others printed, recomputed by our formulas."""

import pytest

from service.formulas.attention import attention_flops_per_token, latent_attention_flops_per_token
from service.formulas.collectives import (
    all_reduce_bytes_at_least,
    expected_num_remote_expert_groups,
    ring_all_reduce_bytes,
)
from service.formulas.kv_cache import kv_cache_bytes_per_token, latent_cache_bytes_per_token, num_kv_heads_per_device
from service.formulas.memory import max_sequences_per_device
from service.formulas.roofline import ridge_point_flops_per_byte, step_seconds, tokens_per_second
from service.formulas.transformer import expected_num_experts_read
from service.formulas.utilization import (
    full_recomputation_flops_per_second,
    training_attention_flops_per_token,
    training_flops_per_second,
    utilization_ratio,
)


def test_palm_540b_mfu_is_46_2_percent() -> None:
    attention = training_attention_flops_per_token(num_layers=118, num_query_heads=48, head_dim=256, sequence_tokens=2048)
    achieved = training_flops_per_second(
        num_parameters=540.35e9, attention_flops_per_token=attention, tokens_per_second=238_300
    )
    mfu = utilization_ratio(achieved_per_second=achieved, num_devices=6144, peak_per_second_per_device=275e12)
    assert mfu == pytest.approx(0.462, abs=0.0005)


def test_palm_540b_full_recomputation_would_be_61_6_percent() -> None:
    attention = training_attention_flops_per_token(num_layers=118, num_query_heads=48, head_dim=256, sequence_tokens=2048)
    achieved = full_recomputation_flops_per_second(
        num_parameters=540.35e9, attention_flops_per_token=attention, tokens_per_second=238_300
    )
    hfu = utilization_ratio(achieved_per_second=achieved, num_devices=6144, peak_per_second_per_device=275e12)
    assert hfu == pytest.approx(0.616, abs=0.0005)


def test_training_attention_is_three_forward_passes() -> None:
    forward = attention_flops_per_token(
        num_layers=118, num_query_heads=48, query_key_head_dim=256, value_head_dim=256, attended_tokens=2048
    )
    training = training_attention_flops_per_token(num_layers=118, num_query_heads=48, head_dim=256, sequence_tokens=2048)
    assert training == 3 * forward


def test_deepseek_v3_latent_cache_is_70272_bytes_per_token() -> None:
    assert latent_cache_bytes_per_token(num_layers=61, kv_lora_rank=512, rope_head_dim=64, kv_bytes_per_element=2) == 70_272


def test_absorbed_latent_attention_costs_3_4_times_the_expanded_one() -> None:
    absorbed = latent_attention_flops_per_token(
        num_layers=61, num_query_heads=128, kv_lora_rank=512, rope_head_dim=64, attended_tokens=1
    )
    expanded = attention_flops_per_token(
        num_layers=61, num_query_heads=128, query_key_head_dim=192, value_head_dim=128, attended_tokens=1
    )
    assert absorbed / expanded == pytest.approx(3.4)


def test_qwen_2_5_7b_caches_57344_bytes_per_token() -> None:
    assert kv_cache_bytes_per_token(num_layers=28, num_kv_heads=4, head_dim=128, kv_bytes_per_element=2) == 57_344


@pytest.mark.parametrize(("ranks", "heads"), [(1, 8), (4, 2), (8, 1), (16, 1), (64, 1)])
def test_kv_heads_are_copied_beyond_as_many_ranks(ranks: int, heads: float) -> None:
    assert num_kv_heads_per_device(num_kv_heads=8, tensor_parallel_size=ranks) == heads


@pytest.mark.parametrize(("tokens", "experts"), [(1, 2.0), (2, 3.5), (1000, 8.0)])
def test_experts_read_go_from_k_to_all(tokens: int, experts: float) -> None:
    assert expected_num_experts_read(num_experts=8, num_experts_per_token=2, num_tokens=tokens) == pytest.approx(experts)


def test_two_ranks_send_in_a_ring_what_the_bound_says() -> None:
    ring = ring_all_reduce_bytes(num_all_reduces=160, num_ranks=2, message_bytes=1e6)
    assert ring == all_reduce_bytes_at_least(num_all_reduces=160, message_bytes=1e6)


def test_a_token_of_one_expert_leaves_its_group_as_often_as_chance_says() -> None:
    assert expected_num_remote_expert_groups(num_expert_groups=8, num_experts_per_token=1) == pytest.approx(7 / 8)


def test_a_step_takes_as_long_as_its_slowest_part() -> None:
    assert step_seconds(memory_seconds=1.0, compute_seconds=3.0, interconnect_seconds=2.0) == 3.0
    assert tokens_per_second(batch_size=6, step_seconds=3.0) == 2.0


def test_the_ridge_of_an_h100_sxm_is_295_flops_per_byte() -> None:
    ridge = ridge_point_flops_per_byte(peak_dense_flops_per_second=989.4e12, memory_bandwidth_bytes_per_second=3352e9)
    assert ridge == pytest.approx(295.17, rel=1e-4)


def test_what_does_not_fit_holds_a_negative_number_of_sequences() -> None:
    held = max_sequences_per_device(
        available_bytes_per_device=10.0, weight_bytes_per_device=14.0, cache_bytes_per_sequence_per_device=4.0
    )
    assert held == -1.0
