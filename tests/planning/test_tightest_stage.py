"""Figures per device are of one pipeline stage, the same in every answer and in every budget."""

import pytest
from msgspec.structs import replace

from service.planning.planner import Planner
from service.planning.requests import (
    AcceleratorSpec,
    EngineSpec,
    EstimateKvMemoryRequest,
    FitNodeRequest,
    InlineAccelerator,
    ModelSpec,
    Parallelism,
)
from service.planning.results import BudgetItem, EngineBudgetItem, EstimateKvMemoryResponse

VLLM = EngineSpec(name="vllm", version="0.19")
#: One token in one layer of DeepSeek-V3: (512 + 64) × 2 bytes.
LATENT = 1152


def asked(
    model: str, shape: Parallelism, *, context: int = 1, batch: int = 1, engine: EngineSpec | None = None
) -> EstimateKvMemoryRequest:
    return EstimateKvMemoryRequest(
        model=ModelSpec(name=model),
        accelerator=AcceleratorSpec(name="b200"),
        parallelism=shape,
        batch_size=batch,
        context_tokens=context,
        engine=engine,
    )


def weights_line(answer: EstimateKvMemoryResponse) -> float:
    return next(line.bytes_per_device for line in answer.budget if line.item is BudgetItem.WEIGHTS)


def test_the_stage_that_needs_most_is_shown_not_the_largest_of_each_figure(planner: Planner) -> None:
    # 61 layers over two stages: 31 with the three dense ones first, then 30 of experts, which weigh more.
    shape = Parallelism(tensor=8, pipeline=2)
    short = planner.estimate_kv_memory(asked("deepseek-v3", shape))
    assert (1, 30 * LATENT) == (short.tightest_stage, short.cache_bytes_per_sequence_per_device)
    # The first stage has one layer of cache more: once it outweighs the experts that it lacks, it is the tightest.
    long = planner.estimate_kv_memory(asked("deepseek-v3", shape, context=131_072, batch=100))
    assert (0, 31 * LATENT * 131_072) == (long.tightest_stage, long.cache_bytes_per_sequence_per_device)
    assert short.weight_bytes_per_device > long.weight_bytes_per_device
    for answer in (short, long):
        assert weights_line(answer) == answer.weight_bytes_per_device


@pytest.mark.parametrize("engine", [None, VLLM])
@pytest.mark.parametrize("pipeline", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("model", ["llama-3.1-70b", "deepseek-v3", "gemma-3-27b"])
def test_both_answers_and_all_budgets_agree(planner: Planner, model: str, pipeline: int, engine: EngineSpec | None) -> None:
    shape = Parallelism(tensor=8, pipeline=pipeline)
    answer = planner.estimate_kv_memory(asked(model, shape, context=4096, batch=4, engine=engine))
    fit = planner.fit_node(
        FitNodeRequest(
            model=ModelSpec(name=model),
            accelerator=AcceleratorSpec(name="b200"),
            devices_per_node=8,
            context_tokens=4096,
            concurrency=4,
            max_num_nodes=pipeline,
            engine=engine,
        )
    )
    (candidate,) = (each for each in fit.candidates if each.parallelism == shape)
    for name in ("tightest_stage", "weight_bytes_per_device", "cache_bytes_per_sequence_per_device"):
        assert getattr(answer, name) == getattr(candidate, name)
    assert weights_line(answer) == answer.weight_bytes_per_device
    assert 0 <= answer.tightest_stage < pipeline
    cache = next(line.bytes_per_device for line in answer.budget if line.item is BudgetItem.KV_CACHE)
    assert 4 * answer.cache_bytes_per_sequence_per_device == pytest.approx(cache, rel=1e-12)
    if engine is not None:
        memory = answer.engine_memory
        assert memory is not None
        assert answer.tightest_stage == memory.tightest_stage
        assert memory.budget == memory.stage_budgets[memory.tightest_stage].lines
        of_engine = next(line.bytes_per_device for line in memory.budget if line.item is EngineBudgetItem.WEIGHTS)
        assert answer.weight_bytes_per_device == of_engine


def test_without_a_memory_the_same_stage_is_shown(planner: Planner) -> None:
    request = asked("deepseek-v3", Parallelism(tensor=8, pipeline=2))
    unknown = replace(request, accelerator=AcceleratorSpec(inline=InlineAccelerator()))
    known, bare = planner.estimate_kv_memory(request), planner.estimate_kv_memory(unknown)
    assert (known.tightest_stage, known.weight_bytes_per_device) == (bare.tightest_stage, bare.weight_bytes_per_device)
    assert () == bare.budget
