"""What each pipeline stage's device holds under an engine: the budget line by line, and the pool that it leaves."""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from service.formulas.engine_memory import (
    pool_bytes_by_free_fraction,
    pool_bytes_by_static_fraction,
    pool_bytes_by_utilization,
    request_table_bytes,
)
from service.planning.engine_estimates import (
    Estimate,
    activation_peak,
    beside_checkpoint,
    by_link,
    graphs,
    physical_memory,
    remainder,
)
from service.planning.engine_settings import EngineRun
from service.planning.explain import Apply
from service.planning.footprint import FootprintBuilder
from service.planning.results import EngineBudgetBasis, EngineBudgetItem, EngineBudgetLine
from service.planning.shape import stage_layers


class ObservedMemory(Struct, frozen=True):
    """What a start-up log says, bytes per device. What is given replaces the estimate of it."""

    physical_memory_bytes: float | None = None
    free_before_load_bytes: float | None = None
    free_after_load_bytes: float | None = None
    loaded_weight_bytes: float | None = None
    activation_peak_bytes: float | None = None
    non_torch_bytes: float | None = None
    graph_bytes: float | None = None
    pool_bytes: float | None = None


class StageMemory(Struct, frozen=True):
    """One stage's device: its layers, its lines, its pool for cache and states, and what the weights could take at most."""

    layers: range
    lines: tuple[EngineBudgetLine, ...]
    pool: Estimate
    loaded_weights: Estimate
    loadable_bytes: float


class _Stage(Struct, frozen=True):
    """What every engine's budget of a stage starts from."""

    run: EngineRun
    builder: FootprintBuilder
    observed: ObservedMemory
    apply: Apply
    layers: range
    weight_bytes: float
    is_last: bool

    def estimate(self, name: str, of: Callable[[], Estimate]) -> Estimate:
        """What was observed, or else the estimate."""
        seen: float | None = getattr(self.observed, name)
        return of() if seen is None else Estimate.exact(seen)

    def physical(self) -> Estimate:
        return self.estimate("physical_memory_bytes", lambda: physical_memory(self.run))

    def beside(self) -> Estimate:
        """Weights beside the checkpoint's; with the loaded weights observed, the difference."""
        seen = self.observed.loaded_weight_bytes
        if seen is not None:
            return Estimate.exact(seen - self.weight_bytes)
        return beside_checkpoint(self.run, self.builder, self.layers)

    def line(
        self, item: EngineBudgetItem, value: Estimate, seen: float | None = None, within: bool = False
    ) -> EngineBudgetLine:
        basis = EngineBudgetBasis.ESTIMATED
        if seen is not None:
            basis = EngineBudgetBasis.OBSERVED
        elif item is EngineBudgetItem.RESERVE:
            basis = EngineBudgetBasis.SETTING
        elif value.is_exact:
            basis = EngineBudgetBasis.EXACT
        return EngineBudgetLine(item, value.value, value.low, value.high, basis, within)

    def finished(self, lines: list[EngineBudgetLine], pool: Estimate, beside: Estimate, loadable: float) -> StageMemory:
        seen = self.observed.pool_bytes
        pool = pool if seen is None else Estimate.exact(seen)
        lines.append(self.line(EngineBudgetItem.KV_POOL, pool, seen))
        if seen is not None or self.observed.free_after_load_bytes is not None:
            loadable = float("inf")  # the weights were loaded, whatever they are
        loaded = Estimate(*(self.weight_bytes + each for each in (beside.value, beside.low, beside.high)))
        return StageMemory(self.layers, tuple(lines), pool, loaded, loadable)


def _by_utilization(stage: _Stage) -> StageMemory:
    """vLLM: a fraction of the physical memory, less all that profiling finds."""
    run, seen, fraction = stage.run, stage.observed, stage.run.memory_fraction
    physical, beside = stage.physical(), stage.beside()
    activations = stage.estimate(
        "activation_peak_bytes", lambda: activation_peak(run, stage.builder, samples=stage.is_last, apply=stage.apply)
    )
    non_torch = stage.estimate("non_torch_bytes", lambda: by_link(run, "non_torch"))
    captured = stage.estimate("graph_bytes", lambda: graphs(run, stage.apply))
    deducted = captured if run.word("graphs") == "deducted" else Estimate.exact(0.0)
    claimed = Estimate(physical.value * fraction, physical.low * fraction, physical.high * fraction)
    value = stage.apply(
        pool_bytes_by_utilization,
        physical_memory_bytes=physical.value,
        gpu_memory_utilization=fraction,
        loaded_weight_bytes=stage.weight_bytes + beside.value,
        activation_peak_bytes=activations.value,
        non_torch_bytes=non_torch.value,
        deducted_graph_bytes=deducted.value,
    )
    shortage = Estimate(0.0, claimed.value - claimed.high, claimed.value - claimed.low)
    low, high = remainder(value, (shortage, *(_around_zero(each) for each in (beside, activations, non_torch, deducted))))
    reserve = Estimate.exact(physical.value * (1 - fraction))
    item = EngineBudgetItem
    lines = [
        stage.line(item.PHYSICAL_MEMORY, physical, seen.physical_memory_bytes),
        stage.line(item.RESERVE, reserve),
        stage.line(item.WEIGHTS, Estimate.exact(stage.weight_bytes)),
        stage.line(item.WEIGHTS_BESIDE_CHECKPOINT, beside, seen.loaded_weight_bytes),
        stage.line(item.ACTIVATION_PEAK, activations, seen.activation_peak_bytes),
        stage.line(item.NON_TORCH, non_torch, seen.non_torch_bytes),
        stage.line(item.CUDA_GRAPHS, captured, seen.graph_bytes, within=run.word("graphs") == "beside"),
    ]
    return stage.finished(lines, Estimate(value, low, high), beside, physical.value - non_torch.value)


def _around_zero(estimate: Estimate) -> Estimate:
    return Estimate(0.0, estimate.low - estimate.value, estimate.high - estimate.value)


def _free_before_load(stage: _Stage) -> tuple[Estimate, Estimate]:
    """What is free before the weights are loaded, and what was taken by then."""
    physical, seen = stage.physical(), stage.observed.free_before_load_bytes
    if seen is not None:
        return Estimate.exact(seen), Estimate.exact(physical.value - seen)
    taken = by_link(stage.run, "before_load")
    low, high = remainder(physical.value, (_around_zero(physical), taken))
    return Estimate(physical.value - taken.value, low, high), taken


def _by_static_fraction(stage: _Stage) -> StageMemory:
    """SGLang: weights and cache share a fraction of what was free before loading."""
    run, seen, fraction = stage.run, stage.observed, stage.run.memory_fraction
    physical, beside = stage.physical(), stage.beside()
    free, taken = _free_before_load(stage)
    if seen.free_after_load_bytes is not None:
        beside = Estimate.exact(free.value - seen.free_after_load_bytes - stage.weight_bytes)
    value = stage.apply(
        pool_bytes_by_static_fraction,
        free_before_load_bytes=free.value,
        loaded_weight_bytes=stage.weight_bytes + beside.value,
        mem_fraction_static=fraction,
    )
    shift = Estimate(0.0, (free.value - free.high) * fraction, (free.value - free.low) * fraction)
    low, high = remainder(value, (shift, _around_zero(beside)))
    table = stage.apply(
        request_table_bytes,
        num_requests=run.num_requests + 1,
        sequence_tokens=run.max_model_len,
        request_table_bytes_per_token=run.constant("request_table_bytes_per_token").value,
    )
    item = EngineBudgetItem
    lines = [
        stage.line(item.PHYSICAL_MEMORY, physical, seen.physical_memory_bytes),
        stage.line(item.BEFORE_LOAD, taken, seen.free_before_load_bytes),
        stage.line(item.WEIGHTS, Estimate.exact(stage.weight_bytes)),
        stage.line(item.WEIGHTS_BESIDE_CHECKPOINT, beside, seen.free_after_load_bytes or seen.loaded_weight_bytes),
        stage.line(item.RESERVE, Estimate.exact(free.value * (1 - fraction))),
        stage.line(item.REQUEST_TABLE, Estimate.exact(table), within=True),
        stage.line(item.CUDA_GRAPHS, graphs(run, stage.apply), within=True),
    ]
    return _states_apart(stage, stage.finished(lines, Estimate(value, low, high), beside, free.value))


def _states_apart(stage: _Stage, memory: StageMemory) -> StageMemory:
    """The pool divided between cache and recurrent states, where the model has any."""
    ratio = stage.run.known("state_to_cache_ratio")
    kinds, order = stage.builder.architecture.layer_kinds, stage.builder.architecture.layer_order
    fixed = any(entry.fixed_entries for index in memory.layers for entry in kinds[order[index]].cache)
    if ratio is None or not fixed or stage.observed.pool_bytes is not None or memory.pool.value <= 0:
        return memory
    share = 1 / (1 + ratio.value)
    pool = Estimate(*(each * share for each in (memory.pool.value, memory.pool.low, memory.pool.high)))
    states = Estimate(*(each * (1 - share) for each in (memory.pool.value, memory.pool.low, memory.pool.high)))
    lines = [
        *memory.lines[:-1],
        stage.line(EngineBudgetItem.STATE_POOL, states),
        stage.line(EngineBudgetItem.KV_POOL, pool),
    ]
    return replace(memory, lines=tuple(lines), pool=pool)


def _by_free_fraction(stage: _Stage) -> StageMemory:
    """TensorRT-LLM: a fraction of what the engine leaves free."""
    seen, fraction = stage.observed, stage.run.memory_fraction
    physical, beside = stage.physical(), stage.beside()
    free, taken = _free_before_load(stage)
    after = Estimate(
        free.value - stage.weight_bytes - beside.value,
        *remainder(free.value - stage.weight_bytes, (_around_zero(free), beside)),
    )
    if seen.free_after_load_bytes is not None:
        after = Estimate.exact(seen.free_after_load_bytes)
    if after.value < 0:
        fraction = 1.0  # of what lacks, all lacks
    value = stage.apply(pool_bytes_by_free_fraction, free_after_load_bytes=after.value, free_gpu_memory_fraction=fraction)
    item = EngineBudgetItem
    lines = [
        stage.line(item.PHYSICAL_MEMORY, physical, seen.physical_memory_bytes),
        stage.line(item.BEFORE_LOAD, taken, seen.free_before_load_bytes),
        stage.line(item.WEIGHTS, Estimate.exact(stage.weight_bytes)),
        stage.line(item.WEIGHTS_BESIDE_CHECKPOINT, beside, seen.loaded_weight_bytes),
        stage.line(item.RESERVE, Estimate.exact(after.value * (1 - fraction))),
    ]
    return stage.finished(lines, Estimate(value, after.low * fraction, after.high * fraction), beside, free.value)


_BUDGETS: Mapping[str, Callable[[_Stage], StageMemory]] = {
    "physical_memory": _by_utilization,
    "free_before_load": _by_static_fraction,
    "free_after_load": _by_free_fraction,
}


def stage_memories(
    run: EngineRun, builder: FootprintBuilder, observed: ObservedMemory, apply: Apply
) -> tuple[StageMemory, ...]:
    """Every pipeline stage's budget, first to last."""
    budget = _BUDGETS[run.word("memory_fraction_of")]
    footprints = builder.each_stage(run.shape)
    sizes = stage_layers(builder.architecture.num_layers, run.shape.pipeline)
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return tuple(
        budget(
            _Stage(
                run,
                builder,
                observed,
                apply,
                range(start, start + size),
                footprint.weight_bytes,
                is_last=number == len(sizes) - 1,
            )
        )
        for number, (start, size, footprint) in enumerate(zip(starts, sizes, footprints, strict=True))
    )
