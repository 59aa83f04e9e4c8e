"""What weights and cache take on each device, against figures counted by hand or printed by engines."""

import pytest

from service.planning.planner import Planner
from service.planning.requests import InlineAccelerator, Parallelism, Precision
from service.planning.results import BudgetBasis, BudgetItem
from tests.planning.questions import SEVEN_B, kv_memory


def test_grouped_queries_at_16_bits(planner: Planner) -> None:
    answer = planner.estimate_kv_memory(kv_memory(SEVEN_B, context=4096, batch=64))
    assert answer.kv_bytes_per_token == 131_072
    assert answer.cache_bytes_per_sequence == 4096 * 131_072
    assert answer.kv_cache_bytes == 64 * 4096 * 131_072
    assert answer.max_sequences == 117
    assert answer.weight_bytes == 1.4e10


@pytest.mark.parametrize(("tensor", "ratio"), [(1, 1), (8, 1 / 8)])
def test_llama_70b_cache_divides_over_tensor_ranks(planner: Planner, tensor: int, ratio: float) -> None:
    answer = planner.estimate_kv_memory(kv_memory("llama-3.1-70b", context=1, shape=Parallelism(tensor=tensor)))
    assert answer.kv_bytes_per_token == 327_680
    assert answer.kv_bytes_per_token_per_device == 327_680 * ratio
    assert answer.total_parameters == answer.active_parameters == 70_553_706_496


def test_deepseek_v3_latent_cache_is_whole_on_every_rank(planner: Planner) -> None:
    answer = planner.estimate_kv_memory(kv_memory("deepseek-v3", "h200-sxm", context=4096, shape=Parallelism(tensor=8)))
    assert answer.kv_bytes_per_token == answer.kv_bytes_per_token_per_device == 70_272
    assert answer.max_sequences is not None
    assert 160 <= answer.max_sequences <= 180


def test_data_parallel_attention_multiplies_latent_concurrency(planner: Planner) -> None:
    tensor, data = (
        planner.estimate_kv_memory(kv_memory("deepseek-v3", "h200-sxm", context=4096, shape=shape))
        for shape in (Parallelism(tensor=8), Parallelism(expert=8, attention_data=8))
    )
    assert data.max_sequences is not None
    assert tensor.max_sequences is not None
    assert data.max_sequences > 4 * tensor.max_sequences


def test_latent_cache_halves_in_fp8(planner: Planner) -> None:
    answer = planner.estimate_kv_memory(kv_memory("deepseek-v3", "h200-sxm", context=1, precision=Precision(kv_cache="fp8")))
    assert answer.kv_bytes_per_token == 35_136


def test_sliding_windows_stop_growing(planner: Planner) -> None:
    answer = planner.estimate_kv_memory(kv_memory("gpt-oss-120b", context=131_072))
    assert answer.kv_bytes_per_token == 18 * 2 * 8 * 64 * 2
    assert answer.windowed_kv_bytes_per_token == 18 * 2 * 8 * 64 * 2
    assert answer.cache_bytes_per_sequence == pytest.approx(36_900 * 131_072, rel=1e-4)


def test_gemma_3_27b_at_128k_takes_10_4_gib_not_81(planner: Planner) -> None:
    answer = planner.estimate_kv_memory(kv_memory("gemma-3-27b", context=131_072))
    assert answer.cache_bytes_per_sequence / 2**30 == pytest.approx(10.4, abs=0.05)


def test_cache_precision_does_not_follow_the_weights(planner: Planner) -> None:
    answer = planner.estimate_kv_memory(kv_memory("llama-3.1-8b", context=1, precision=Precision(weights="int4")))
    assert answer.kv_bytes_per_token == 131_072
    assert any("KV cache in bf16" in note for note in answer.assumptions)


@pytest.mark.parametrize("batch", [1, 64, 128])
def test_budget_lines_add_up(planner: Planner, batch: int) -> None:
    answer = planner.estimate_kv_memory(kv_memory(SEVEN_B, context=4096, batch=batch))
    lines = {line.item: line.bytes_per_device for line in answer.budget}
    parts = (BudgetItem.RESERVE, BudgetItem.WEIGHTS, BudgetItem.KV_CACHE, BudgetItem.HEADROOM)
    assert sum(lines[part] for part in parts) == pytest.approx(lines[BudgetItem.USABLE_MEMORY])
    assert lines[BudgetItem.USABLE_MEMORY] == 81_559 * 2**20
    assert (lines[BudgetItem.HEADROOM] >= 0) is answer.fits
    assert {line.basis for line in answer.budget} == {BudgetBasis.MEASURED, BudgetBasis.SETTING, BudgetBasis.EXACT}


def test_marketed_memory_is_used_where_the_drivers_is_unknown_and_the_answer_says_so(planner: Planner) -> None:
    answer = planner.estimate_kv_memory(kv_memory("llama-3.1-70b", "mi355x", context=1))
    assert answer.budget[0].basis is BudgetBasis.MARKETED
    assert answer.budget[0].bytes_per_device == 288 * 2**30
    assert any("marketed" in note for note in answer.assumptions)


def test_unknown_memory_leaves_the_fit_out(planner: Planner) -> None:
    answer = planner.estimate_kv_memory(kv_memory(SEVEN_B, InlineAccelerator(), context=4096))
    assert answer.fits is None
    assert answer.max_sequences is None
    assert answer.budget == ()
    assert answer.kv_bytes_per_token == 131_072


def test_tensor_ranks_hold_latent_down_projections_whole(planner: Planner) -> None:
    answer = planner.estimate_kv_memory(kv_memory("deepseek-v3", "h200-sxm", context=1, shape=Parallelism(tensor=8)))
    # q_a (7168 × 1536) and kv_a (7168 × 576) in fp8, routers (58 × 256 × 7168) at 16 bits: seven eighths more than divided.
    copied = 61 * 7168 * (1536 + 576) + 58 * 256 * 7168 * 2
    more = answer.weight_bytes_per_device - answer.weight_bytes / 8
    assert more == pytest.approx(copied * 7 / 8, rel=0.01)


def test_uneven_stages_are_sized_by_the_fullest(planner: Planner) -> None:
    even, uneven = (
        planner.estimate_kv_memory(kv_memory("llama-3.1-70b", "h200-sxm", context=4096, shape=Parallelism(pipeline=n)))
        for n in (2, 3)
    )
    assert even.cache_bytes_per_sequence_per_device == 40 * 4096 * 4096
    assert uneven.cache_bytes_per_sequence_per_device == 27 * 4096 * 4096


def test_prediction_layers_are_loaded_only_when_asked_for(planner: Planner) -> None:
    request = kv_memory("deepseek-v3", "h200-sxm", context=1)
    without = planner.estimate_kv_memory(request)
    asked = type(request)(
        model=type(request.model)(name="deepseek-v3", multi_token_prediction=True),
        accelerator=request.accelerator,
        context_tokens=1,
    )
    loaded = planner.estimate_kv_memory(asked)
    assert "multi-token-prediction layers are not loaded" in without.assumptions
    # 11.6B parameters of their own in fp8; the checkpoint's copies of embedding and lm_head are shared once loaded.
    assert (loaded.weight_bytes - without.weight_bytes) / 1e9 == pytest.approx(11.6, abs=0.1)
