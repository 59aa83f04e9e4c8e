"""Questions that name an engine: its word on memory goes, and the plain arithmetic stands beside it."""

import pytest
from msgspec.structs import replace

from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.planner import Planner
from service.planning.requests import EngineSpec, NodeSpec, Parallelism
from service.planning.results import EngineOutcome
from tests.planning.questions import fit, kv_memory

VLLM = EngineSpec("vllm", "0.19", gpu_memory_utilization=0.95, max_num_seqs=1024, max_num_batched_tokens=8192)
GIB = 2**30


def test_a_logged_start_of_llama_8b(planner: Planner) -> None:
    # vLLM 0.19.0 on one H100 logged 58.11 GiB, 476,000 tokens and 58.11 sequences of 8,192 tokens.
    answer = planner.estimate_kv_memory(replace(kv_memory("llama-3.1-8b", context=8192), engine=VLLM))
    memory = answer.engine_memory
    assert memory is not None
    assert memory.outcome is EngineOutcome.STARTS
    assert memory.kv_pool_bytes_per_device / GIB == pytest.approx(58.11, rel=0.02)
    assert memory.kv_pool_low_bytes_per_device / GIB <= 58.11 <= memory.kv_pool_high_bytes_per_device / GIB
    assert answer.max_tokens == pytest.approx(476_000, rel=0.02)
    assert answer.max_sequences == pytest.approx(58, abs=1)
    assert answer.fits is True
    assert answer.shortfall is None


def test_the_plain_figures_do_not_change_with_an_engine(planner: Planner) -> None:
    request = kv_memory("llama-3.1-8b", context=8192)
    plain, engine = (planner.estimate_kv_memory(replace(request, engine=each)) for each in (None, VLLM))
    assert plain.engine_memory is None
    for name in ("kv_bytes_per_token", "weight_bytes", "cache_bytes_per_sequence", "weight_bytes_per_device"):
        assert getattr(plain, name) == getattr(engine, name)


def test_a_refusal_says_what_is_needed_what_is_there_and_what_fits(planner: Planner) -> None:
    # Qwen3-32B on one H100: logged as refused at 32,000 tokens, with 4.45 GiB for the cache.
    engine = replace(VLLM, version="0.11", gpu_memory_utilization=0.9)
    answer = planner.estimate_kv_memory(replace(kv_memory("qwen3-32b", context=32_000), engine=engine))
    assert answer.fits is False
    assert answer.max_sequences == 0
    short = answer.shortfall
    assert short is not None
    assert short.resource == "ENGINE_KV_POOL"
    assert short.required_bytes_per_device == 32_000 * 262_144
    assert short.available_bytes_per_device / GIB == pytest.approx(4.45, rel=0.1)
    cures = {cure.field: cure.value for cure in short.cures}
    shorter = replace(kv_memory("qwen3-32b", context=int(cures["context_tokens"])), engine=engine)
    assert planner.estimate_kv_memory(shorter).fits is True


def test_more_sequences_than_the_pool_holds(planner: Planner) -> None:
    asked = replace(kv_memory("llama-3.1-8b", context=8192, batch=100), engine=VLLM)
    answer = planner.estimate_kv_memory(asked)
    assert answer.engine_memory is not None
    assert answer.engine_memory.outcome is EngineOutcome.STARTS
    assert answer.fits is False
    assert answer.shortfall is not None
    assert answer.shortfall.cures[0].field == "batch_size"
    assert answer.shortfall.short_bytes_per_device > 0


def test_max_model_len_decides_the_start_and_the_context_what_is_held(planner: Planner) -> None:
    engine = replace(VLLM, max_model_len=32_768)
    answer = planner.estimate_kv_memory(replace(kv_memory("llama-3.1-8b", context=8192), engine=engine))
    assert answer.engine_memory is not None
    assert answer.engine_memory.max_model_len == 32_768
    assert answer.max_sequences is not None
    assert answer.max_sequences > 3.5 * answer.engine_memory.likely.max_concurrency


def test_attention_groups_are_engines_of_their_own(planner: Planner) -> None:
    shape = Parallelism(expert=8, attention_data=8)
    answer = planner.estimate_kv_memory(
        replace(kv_memory("deepseek-v3", "h200-sxm", context=4096, shape=shape), engine=EngineSpec("vllm", "0.19"))
    )
    assert answer.engine_memory is not None
    assert answer.max_sequences == (answer.engine_memory.likely.max_concurrency // 1) * 8


def test_a_node_by_what_the_engine_starts(planner: Planner) -> None:
    plain, engine = (
        planner.fit_node(replace(fit("llama-3.1-70b"), engine=each)) for each in (None, EngineSpec("vllm", "0.19"))
    )
    assert plain.smallest is not None
    assert engine.smallest is not None
    assert engine.smallest.engine_memory is not None
    # The engine's own memory leaves less than the plain arithmetic.
    assert engine.smallest.max_sequences < plain.smallest.max_sequences
    assert {candidate.parallelism for candidate in plain.candidates} == {c.parallelism for c in engine.candidates}


def test_weights_beyond_the_device_are_short_of_all_that_they_lack(planner: Planner) -> None:
    # DeepSeek-V3 has 671e9 weights of 8 bits: on 8 devices 78 GiB each, of which 79.65 GiB are usable.
    asked = replace(fit("deepseek-v3", context=4096), engine=EngineSpec("vllm", "0.19"), max_num_nodes=1)
    found = [each for each in planner.fit_node(asked).candidates if each.shortfall is not None]
    assert found
    for each in found:
        assert each.engine_memory is not None
        assert each.shortfall is not None
        pool, needed = each.engine_memory.kv_pool_bytes_per_device, each.engine_memory.needed_bytes_per_device
        if pool < 0:
            assert each.shortfall.available_bytes_per_device == 0
            assert each.shortfall.short_bytes_per_device == pytest.approx(needed - pool)
    assert any("it has" in each.shortfall.description for each in found if each.shortfall)


def test_what_lacks_for_weights_is_not_shared_with_the_reserve(planner: Planner) -> None:
    # 131.5 GiB of weights in 77.7 GiB: TensorRT-LLM lacks all of the difference, not nine tenths of it.
    asked = replace(kv_memory("llama-3.1-70b", context=4096), engine=EngineSpec("tensorrt-llm"))
    answer = planner.estimate_kv_memory(asked)
    assert answer.shortfall is not None
    assert answer.shortfall.short_bytes_per_device > 53.7 * GIB


def test_a_pool_of_states_that_is_too_small_is_what_is_short(planner: Planner) -> None:
    asked = replace(kv_memory("nemotron-h-56b", "h200-sxm", context=4096, batch=50), engine=EngineSpec("sglang"))
    short = planner.estimate_kv_memory(asked).shortfall
    assert short is not None
    assert "ENGINE_STATE_POOL" == short.resource
    assert 0 < short.short_bytes_per_device == pytest.approx(short.required_bytes_per_device - short.available_bytes_per_device)


def test_a_node_that_is_too_small_gets_cures_that_hold(planner: Planner) -> None:
    asked = replace(fit("deepseek-v3", context=4096), engine=EngineSpec("vllm", "0.19"), max_num_nodes=1)
    answer = planner.fit_node(asked)
    assert not answer.fits
    short = {each.parallelism: each.shortfall for each in answer.candidates if each.shortfall is not None}
    nearest = min(short, key=lambda shape: short[shape].short_bytes_per_device)
    cures = {cure.field: cure.value for cure in short[nearest].cures}
    assert {"precision.weights", "node.name"} <= set(cures)
    lighter = replace(asked, precision=replace(asked.precision, weights=cures["precision.weights"]))
    larger = replace(asked, node=NodeSpec(cures["node.name"]))
    for cured in (lighter, larger):
        held = {each.parallelism: each.fits for each in planner.fit_node(cured).candidates}
        assert held[nearest]


@pytest.mark.parametrize(
    ("engine", "ratio", "field"),
    [
        (VLLM, 0.8, "memory_utilization_ratio"),
        (replace(VLLM, max_model_len=4096), None, "context_tokens"),
        (replace(VLLM, mem_fraction_static=0.8), None, "engine.mem_fraction_static"),
        (replace(VLLM, kv_cache_dtype="fp3"), None, "engine.kv_cache_dtype"),
        (replace(VLLM, version="soon"), None, "engine.version"),
    ],
)
def test_contradictions_are_refused(planner: Planner, engine: EngineSpec, ratio: float | None, field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        planner.estimate_kv_memory(replace(kv_memory("llama-3.1-8b", context=8192, ratio=ratio), engine=engine))
    assert field in {violation.field for violation in refusal.value.violations}


def test_an_unknown_engine_gets_the_nearest(planner: Planner) -> None:
    with pytest.raises(NotFound) as refusal:
        planner.estimate_kv_memory(replace(kv_memory("llama-3.1-8b", context=8), engine=EngineSpec("vlm")))
    assert "vllm" in refusal.value.nearest


def test_a_release_of_which_nothing_is_known_is_not_guessed(planner: Planner) -> None:
    with pytest.raises(Unanswerable, match="not known"):
        planner.estimate_kv_memory(replace(kv_memory("llama-3.1-8b", context=8), engine=EngineSpec("vllm", "0.1")))
