"""Formulas of the engines' memory, against what logs printed and by hand."""

import numpy as np
import pytest

from service.formulas.engine_memory import (
    expert_workspace_bytes,
    forward_peak_bytes,
    graph_bytes,
    hybrid_block_tokens,
    max_concurrency,
    num_blocks,
    padded_num_layers,
    pool_bytes_by_free_fraction,
    pool_bytes_by_static_fraction,
    pool_bytes_by_utilization,
    request_table_bytes,
    rotary_table_bytes,
    sampler_peak_bytes,
    sequence_blocks,
    windowed_sequence_blocks,
)

GIB = 2.0**30

#: physical, fraction, weights, activation peak, outside torch → pool, as vLLM printed them (GiB).
VLLM_LOGS = [
    (79.19, 0.95, 14.99, 1.89, 0.25, 58.11),
    (79.19, 0.95, 27.52, 5.64, 0.13, 41.94),
    (79.19, 0.95, 27.52, 2.23, 0.13, 45.34),
    (79.19, 0.95, 51.45, 3.99, 0.26, 19.53),
    (79.19, 0.90, 7.01, 2.87, 2.07, 59.32),
    (79.18, 0.90, 13.47, 7.38, 0.13, 50.28),
    (79.18, 0.90, 33.88, 4.84, 0.55, 32.00),
    (79.18, 0.90, 67.72, 4.84, 0.14, -1.44),
    (79.18, 0.90, 14.99, 4.76, 0.13, 51.38),
    (79.18, 0.90, 1.12, 5.56, 0.13, 64.45),
    (79.18, 0.90, 61.03, 5.64, 0.14, 4.45),
    (23.58, 0.90, 14.9888, 2.07, 0.35, 3.81),
    (79.22, 0.90, 14.96, 1.26, 1.79, 53.29),
]


@pytest.mark.parametrize(("physical", "fraction", "weights", "activations", "non_torch", "pool"), VLLM_LOGS)
def test_vllm_pools_close(
    physical: float, fraction: float, weights: float, activations: float, non_torch: float, pool: float
) -> None:
    found = pool_bytes_by_utilization(
        physical_memory_bytes=physical * GIB,
        gpu_memory_utilization=fraction,
        loaded_weight_bytes=weights * GIB,
        activation_peak_bytes=activations * GIB,
        non_torch_bytes=non_torch * GIB,
        deducted_graph_bytes=0.0,
    )
    assert found / GIB == pytest.approx(pool, abs=0.016)  # every figure is rounded to 0.01


def test_graphs_are_taken_from_the_pool_where_the_release_deducts_them() -> None:
    # One log at 24 GB: 0.9764 with 0.52 GiB of graphs deducted equals 0.9543 without.
    physical = 0.52 / (0.9764 - 0.9543)

    def pool(fraction: float, graphs: float) -> float:
        return pool_bytes_by_utilization(
            physical_memory_bytes=physical,
            gpu_memory_utilization=fraction,
            loaded_weight_bytes=0.0,
            activation_peak_bytes=0.0,
            non_torch_bytes=0.0,
            deducted_graph_bytes=graphs,
        )

    assert pool(0.9764, 0.52) == pytest.approx(pool(0.9543, 0.0))
    assert 23 < physical < 24


def test_sglang_pools_are_exact() -> None:
    # QwQ-32B on four 24 GB cards: 21.67 GiB free before, 6.09 after loading.
    found = pool_bytes_by_static_fraction(
        free_before_load_bytes=21.67 * GIB, loaded_weight_bytes=(21.67 - 6.09) * GIB, mem_fraction_static=0.85
    )
    assert found / GIB == pytest.approx(2.84, abs=0.005)


def test_sglang_needs_a_higher_fraction_where_the_weights_fill_the_device() -> None:
    # DeepSeek-V4-Pro on eight H200: 125.65 GiB of weights, 12.25 free after loading: nothing below 0.9112.
    def pool(fraction: float) -> float:
        return pool_bytes_by_static_fraction(
            free_before_load_bytes=137.9, loaded_weight_bytes=125.65, mem_fraction_static=fraction
        )

    assert pool(0.88) < 0
    assert pool(125.65 / 137.9) == pytest.approx(0.0, abs=1e-9)
    assert round(125.65 / 137.9, 4) == 0.9112
    assert pool(0.93) > 0


@pytest.mark.parametrize(("free", "fraction", "pool"), [(70.48, 0.9, 63.44), (1.42, 0.9, 1.28), (85.57, 0.9, 77.02)])
def test_tensorrt_llm_pools_are_exact(free: float, fraction: float, pool: float) -> None:
    found = pool_bytes_by_free_fraction(free_after_load_bytes=free, free_gpu_memory_fraction=fraction)
    assert found == pytest.approx(pool, abs=0.011)


def test_the_sampler_sets_the_peak_whatever_the_model_s_size() -> None:
    # Up to 0.16 and 1,024 sequences: 5.56 GiB for a model of 0.6 billion parameters, 5.64 for one of 32 billion.
    def peak(hidden_size: int) -> float:
        return sampler_peak_bytes(
            vocab_size=151936,
            hidden_size=hidden_size,
            sampled_sequences=1024,
            profiled_tokens=8192,
            activation_bytes_per_element=2,
            sampler_bytes_per_logit=36,
            row_buffer_bytes_per_vocabulary_entry=0,
        )

    base = 34 * 2**20
    assert (peak(1024) + base) / GIB == pytest.approx(5.56, abs=0.01)
    assert (peak(5120) + base) / GIB == pytest.approx(5.64, abs=0.01)


@pytest.mark.parametrize(("tokens", "width", "logged"), [(20000, 14336, 2.07), (40000, 7168, 2.53)])
def test_a_long_prompt_without_chunks_sets_the_peak(tokens: int, width: int, logged: float) -> None:
    # Llama-3.1-8B under V0, at TP1 and at TP2.
    peak = forward_peak_bytes(
        profiled_tokens=tokens,
        mlp_width_per_device=width,
        hidden_size=4096,
        forward_hidden_multiples=3,
        activation_bytes_per_element=2,
    )
    assert (peak + 34 * 2**20) / GIB == pytest.approx(logged, abs=0.03)


def test_expert_workspaces_by_hand() -> None:
    # Ten tokens, two experts each, width 8, hidden 12: 20 rows of 12, and 20 rows of max(16, 12), two bytes each.
    assert 2 * 20 * (12 + 16) == expert_workspace_bytes(
        profiled_tokens=10,
        num_experts_per_token=2,
        expert_width_per_device=8,
        hidden_size=12,
        activation_bytes_per_element=2,
    )


def test_graphs_as_the_log_adds_them_up() -> None:
    # Gemma-3-27B: 172 + 50 × 12 piecewise, 8 + 50 × 6 full.
    found = graph_bytes(graph_base_bytes=172 + 8, graph_bytes_per_capture=12 + 6, num_captures=50)
    assert found / 1024 == pytest.approx(1.05, abs=0.01)


def test_a_rotary_table_is_what_a_model_loads_beside_its_tensors() -> None:
    table = rotary_table_bytes(context_limit_tokens=131072, head_dim=128, activation_bytes_per_element=2)
    assert 14.99 == pytest.approx(14.958 + table / GIB, abs=0.002)


def test_padding_of_gemma_3() -> None:
    assert 70 == padded_num_layers(num_layers=52, group_size=10) + padded_num_layers(num_layers=10, group_size=10)
    assert 573_440 == 70 * 2 * 16 * 128 * 2


def test_windows_are_charged_with_what_a_step_may_add() -> None:
    def blocks(batched: int, length: int) -> float:
        return windowed_sequence_blocks(
            sequence_tokens=length, window_tokens=128, max_num_batched_tokens=batched, block_tokens=16
        )

    assert 513 == blocks(8192, 8192)  # ⌈8192/16⌉ + 1: the window saves nothing
    assert 73 == blocks(1024, 131072)  # ⌈(127 + 1024)/16⌉ + 1
    assert 2 == blocks(1024, 10)  # a short sequence in one block, which may begin in another


def test_concurrency_of_gpt_oss_20b() -> None:
    assert 512 == sequence_blocks(sequence_tokens=8192, block_tokens=16)
    assert round(max_concurrency(num_blocks=323970, blocks_per_sequence=512 + 513), 2) == 316.07


@pytest.mark.parametrize(
    ("state_bytes", "bytes_per_token", "block"),
    [
        (32 * 128 * 128 * 4 + 3 * 8192 * 2, 2 * 2 * 256, 2096),  # 32 value heads of 128 × 128 in fp32; fp8 cache
        ((48 * 128 * 128 * 4 + 3 * 10240 * 2) // 2, 2 * 2 * 256, 1568),  # 48 value heads over two ranks
        (32 * 128 * 128 * 2 + 3 * 8192 * 2, 2 * 2 * 256 * 2, 544),  # states in 16 bits, 16-bit cache
    ],
)
def test_blocks_of_hybrids_are_as_large_as_a_state(state_bytes: int, bytes_per_token: int, block: int) -> None:
    assert block == hybrid_block_tokens(state_bytes=state_bytes, attention_bytes_per_token=bytes_per_token, alignment_tokens=16)


def test_a_table_of_requests_lies_outside_the_pool() -> None:
    table = request_table_bytes(num_requests=2049, sequence_tokens=131072, request_table_bytes_per_token=4)
    assert table / GIB == pytest.approx(1.0, abs=0.001)


def test_a_sweep_gives_what_its_points_give() -> None:
    lengths = np.array([1.0, 16.0, 17.0, 131072.0])
    assert sequence_blocks(sequence_tokens=lengths, block_tokens=16).tolist() == [1, 1, 2, 8192]  # type: ignore[attr-defined, arg-type]
    assert num_blocks(pool_bytes=np.array([10.0, 31.0]), block_bytes=10.0).tolist() == [1, 3]  # type: ignore[attr-defined, arg-type]
