"""What a serving engine would do with a device's memory: the budget, the pool, what it holds, and whether it starts.

The plain arithmetic of ``kv_memory`` says what weights and cache take; this says what a named release of vLLM, SGLang or
TensorRT-LLM would allot, by the constants of ``specs/engines``. Lines are exact where arithmetic decides and carry a range
where a constant was fitted; where nothing is known of a release, there is no answer.
"""

from msgspec.structs import replace

from service.catalogue.entries import Catalogue
from service.formulas.engine_memory import max_concurrency, num_blocks
from service.planning.device import Device
from service.planning.engine_layout import CacheLayout, cache_layout
from service.planning.engine_remedies import engine_remedies
from service.planning.engine_settings import EngineRun, cached_as_asked, resolve_run
from service.planning.engine_stages import ObservedMemory, StageMemory, stage_memories
from service.planning.errors import PlanningError, Unanswerable
from service.planning.explain import Apply, plainly
from service.planning.footprint import FootprintBuilder
from service.planning.requests import EngineSpec, Parallelism
from service.planning.results import EngineBudgetItem, EngineMemory, EngineOutcome, Holding, StageBudget
from service.planning.shape import check_shape

_GIB = 2.0**30


def engine_memory(
    catalogue: Catalogue,
    builder: FootprintBuilder,
    shape: Parallelism,
    device: Device,
    settings: EngineSpec,
    *,
    observed: ObservedMemory | None = None,
    with_remedies: bool = True,
    apply: Apply = plainly,
) -> EngineMemory:
    """What the engine allots and whether it starts. ``observed`` figures of a log replace the estimates of them.

    InvalidRequest or NotFound where the settings are no engine's; Unanswerable where the device's memory or the release is
    not known, or the way in which it lays out the model's cache.
    """
    observed = observed or ObservedMemory()
    if device.usable_memory_bytes is None and observed.physical_memory_bytes is None:
        raise Unanswerable("accelerator", f"the memory of {device.title} is not given", "give usable_memory_bytes")
    builder, cache_note = cached_as_asked(builder, settings)
    if not builder.architecture.layer_kinds:
        raise Unanswerable("model", "an engine's cache needs the model's layers", "give the model by name or config.json")
    check_shape(builder.architecture, shape, builder.quantized_cuts)
    run = resolve_run(catalogue, settings, builder.architecture, device, shape)
    layout = cache_layout(run, builder)
    stages = stage_memories(run, builder, observed, apply)
    answer = _answer(run, layout, stages, apply)
    notes = (*run.notes, cache_note, *_layout_notes(layout), *run.engine.notes)
    # What a log says of the pool and its parts holds for the settings of that log alone.
    seen = ObservedMemory(physical_memory_bytes=observed.physical_memory_bytes)

    def starts(changed: EngineSpec, other: Parallelism) -> bool:
        try:
            tried = engine_memory(catalogue, builder, other, device, changed, observed=seen, with_remedies=False)
        except PlanningError:
            return False
        return tried.outcome is EngineOutcome.STARTS

    needed = with_remedies and answer.outcome is not EngineOutcome.STARTS
    remedies = engine_remedies(run, answer, starts) if needed else ()
    return replace(answer, remedies=remedies, assumptions=notes)


def _answer(run: EngineRun, layout: CacheLayout, stages: tuple[StageMemory, ...], apply: Apply) -> EngineMemory:
    likely = _holding(run, layout, stages, [stage.pool.value for stage in stages], apply)
    low = _holding(run, layout, stages, [stage.pool.low for stage in stages], plainly)
    high = _holding(run, layout, stages, [stage.pool.high for stage in stages], plainly)
    number, tightest = min(
        enumerate(stages), key=lambda each: each[1].pool.value / max(1.0, layout.block_bytes(each[1].layers))
    )
    block_bytes = layout.block_bytes(tightest.layers)
    needed = layout.blocks_per_sequence(run.max_model_len) * block_bytes
    return EngineMemory(
        engine=run.engine.name,
        version=run.version_text,
        outcome=likely.outcome,
        outcome_is_certain=low.outcome is likely.outcome is high.outcome,
        likely=likely,
        low=low,
        high=high,
        statement=_statement(run, likely, stages, tightest, needed),
        budget=tightest.lines,
        stage_budgets=tuple(StageBudget(stage.lines) for stage in stages),
        tightest_stage=number,
        kv_pool_bytes_per_device=tightest.pool.value,
        kv_pool_low_bytes_per_device=tightest.pool.low,
        kv_pool_high_bytes_per_device=tightest.pool.high,
        kv_bytes_per_token_per_device=block_bytes * len(layout.groups) / layout.block_tokens,
        needed_bytes_per_device=needed,
        replica_max_concurrency=likely.max_concurrency * run.shape.attention_data,
        block_tokens=layout.block_tokens,
        num_padding_layers=layout.num_padding_layers,
        max_model_len=run.max_model_len,
        max_num_seqs=run.num_requests,
        max_num_batched_tokens=run.max_num_batched_tokens,
        memory_fraction=run.memory_fraction,
        remedies=(),
        assumptions=(),
    )


def _holding(run: EngineRun, layout: CacheLayout, stages: tuple[StageMemory, ...], pools: list[float], apply: Apply) -> Holding:
    blocks = min(_blocks(layout, stage, pool, apply) for stage, pool in zip(stages, pools, strict=True))
    concurrency = apply(max_concurrency, num_blocks=blocks, blocks_per_sequence=layout.blocks_per_sequence(run.max_model_len))
    concurrency = min([concurrency, *(_state_slots(layout, stage) for stage in stages)])
    longest = float(_longest(run, layout, blocks))
    return Holding(
        num_blocks=blocks,
        kv_cache_tokens=_printed_tokens(run, layout, blocks, concurrency),
        max_concurrency=concurrency,
        longest_context_tokens=longest,
        outcome=_outcome(run, stages, blocks, longest),
    )


def _blocks(layout: CacheLayout, stage: StageMemory, pool: float, apply: Apply) -> float:
    block_bytes = layout.block_bytes(stage.layers)
    return max(0.0, apply(num_blocks, pool_bytes=pool, block_bytes=block_bytes)) if block_bytes else float("inf")


def _state_slots(layout: CacheLayout, stage: StageMemory) -> float:
    """Sequences whose recurrent states fit their own pool, where states have one."""
    each = layout.state_bytes_on(stage.layers)
    pool = next((line.bytes_per_device for line in stage.lines if line.item is EngineBudgetItem.STATE_POOL), None)
    return float("inf") if pool is None or not each else max(0.0, pool // each)


def _printed_tokens(run: EngineRun, layout: CacheLayout, blocks: float, concurrency: float) -> float:
    word = run.word("printed_tokens")
    if word == "concurrency_times_length":
        return float(concurrency * run.max_model_len // 1)
    return float(blocks // len(layout.groups) * layout.block_tokens)


def _longest(run: EngineRun, layout: CacheLayout, blocks: float) -> int:
    """The longest sequence that the pool holds alone, up to the larger of the asked length and the model's limit."""
    low, high = 0, max(run.max_model_len, run.context_limit_tokens) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if layout.blocks_per_sequence(middle) <= blocks else (low, middle)
    return low


def _outcome(run: EngineRun, stages: tuple[StageMemory, ...], blocks: float, longest: float) -> EngineOutcome:
    if any(stage.loaded_weights.value > stage.loadable_bytes for stage in stages):
        return EngineOutcome.OUT_OF_MEMORY_LOADING_WEIGHTS
    if blocks < 1:
        return EngineOutcome.REFUSED_NO_KV
    if longest < run.max_model_len and run.word("longer_than_pool") == "refused":
        return EngineOutcome.REFUSED_MAX_LEN
    return EngineOutcome.STARTS


def _statement(run: EngineRun, likely: Holding, stages: tuple[StageMemory, ...], tightest: StageMemory, needed: float) -> str:
    title, pool = f"{run.engine.title} {run.version_text}", f"{tightest.pool.value / _GIB:.2f} GiB"
    longest = int(likely.longest_context_tokens)
    if likely.outcome is EngineOutcome.OUT_OF_MEMORY_LOADING_WEIGHTS:
        stage = max(stages, key=lambda each: each.loaded_weights.value - each.loadable_bytes)
        sizes = (stage.loaded_weights.value, max(0.0, stage.loadable_bytes))
        weights, room = (f"{size / _GIB:.2f} GiB" for size in sizes)
        return f"{title} runs out of memory while loading: the weights of a device take {weights} and it has {room} for them"
    if likely.outcome is EngineOutcome.REFUSED_NO_KV and tightest.pool.value < 0:
        lack = f"{-tightest.pool.value / _GIB:.2f} GiB"
        return f"{title} does not start: weights and its own memory need {lack} more than it may take, without any KV cache"
    if likely.outcome is EngineOutcome.REFUSED_NO_KV:
        return f"{title} does not start: {pool} is left for the KV cache"
    need = f"one sequence of {run.max_model_len} tokens needs {needed / _GIB:.2f} GiB, the pool has {pool}"
    if likely.outcome is EngineOutcome.REFUSED_MAX_LEN:
        return f"{title} does not start: {need}, the longest that fits is {longest}"
    if longest < run.max_model_len:
        return f"{title} starts, but {need}: the longest that fits is {longest}"
    held = f"{likely.max_concurrency:.2f} sequences of {run.max_model_len} tokens"
    return f"{title} starts: {pool} for the KV cache of a device hold {held}"


def _layout_notes(layout: CacheLayout) -> tuple[str, ...]:
    if layout.ignores_windows:
        return ("windowed layers are charged for the whole context",)
    if len(layout.groups) == 1:
        return ()
    padding = f", {layout.num_padding_layers} padding layers" if layout.num_padding_layers else ""
    return (f"layers share the pool in {len(layout.groups)} groups with blocks of {layout.block_tokens} tokens{padding}",)
