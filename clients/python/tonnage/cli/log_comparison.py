"""A start-up log beside what the service predicts: figure by figure, and in sentences."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tonnage.cli.engine_memory import item_name
from tonnage.cli.quantities import byte_count, count, counted, significant
from tonnage.logs import Outcome, StartupLog
from tonnage.v1.engine_pb2 import EngineBudgetLine, EngineMemory
from tonnage.v1.explanation_pb2 import Shortfall

_Range: TypeAlias = tuple[float, float, float]
"""Low, most likely, high."""
_Item: TypeAlias = EngineBudgetLine.Item.ValueType
_SLACK = 0.01
"""Share of a figure by which it may pass its range unmentioned: logs print three digits."""


@dataclass(frozen=True, slots=True)
class Line:
    """One figure, predicted and logged; None where it is only one of both. Names that end in _bytes are bytes on a device."""

    name: str
    title: str
    predicted: float | None
    low: float | None
    high: float | None
    logged: float | None

    @property
    def difference(self) -> float | None:
        """Predicted less logged."""
        return None if self.predicted is None or self.logged is None else self.predicted - self.logged

    @property
    def is_outside(self) -> bool:
        """Whether the log contradicts the range of the prediction."""
        if self.logged is None or self.low is None or self.high is None:
            return False
        slack = _SLACK * abs(self.logged)
        return not self.low - slack <= self.logged <= self.high + slack

    def shown(self, value: float | None) -> str:
        """A value of this line as one reads it."""
        if value is None:
            return ""
        if self.name.endswith("_bytes"):
            return byte_count(value)
        return significant(value) if self.name == "max_concurrency" else count(value)


def _items(*items: _Item) -> Callable[[EngineMemory], _Range | None]:
    def summed(memory: EngineMemory) -> _Range | None:
        lines = [line for line in memory.budget if line.item in items]
        if not lines:
            return None
        return (
            sum(line.low_bytes_per_device for line in lines),
            sum(line.bytes_per_device for line in lines),
            sum(line.high_bytes_per_device for line in lines),
        )

    return summed


def _free_beside(*items: _Item) -> Callable[[EngineMemory], _Range | None]:
    """What the items leave free. Not known where the engine's budget does not begin with what others have taken."""

    def left(memory: EngineMemory) -> _Range | None:
        physical, before = _items(EngineBudgetLine.PHYSICAL_MEMORY)(memory), _items(EngineBudgetLine.BEFORE_LOAD)(memory)
        taken = _items(*items)(memory)
        if physical is None or before is None or taken is None:
            return None
        return physical[0] - taken[2], physical[1] - taken[1], physical[2] - taken[0]

    return left


def _held(field: str) -> Callable[[EngineMemory], _Range | None]:
    def held(memory: EngineMemory) -> _Range | None:
        return getattr(memory.low, field), getattr(memory.likely, field), getattr(memory.high, field)

    return held


def _needed(memory: EngineMemory) -> _Range:
    return (memory.needed_bytes_per_device,) * 3


_WEIGHTS = (EngineBudgetLine.WEIGHTS, EngineBudgetLine.WEIGHTS_BESIDE_CHECKPOINT)
_COMPARED: tuple[tuple[str, str, Callable[[EngineMemory], _Range | None]], ...] = (
    ("physical_memory_bytes", "physical memory", _items(EngineBudgetLine.PHYSICAL_MEMORY)),
    ("free_before_load_bytes", "free before loading", _free_beside(EngineBudgetLine.BEFORE_LOAD)),
    ("weights_bytes", "weights", _items(*_WEIGHTS)),
    ("free_after_load_bytes", "free after loading", _free_beside(EngineBudgetLine.BEFORE_LOAD, *_WEIGHTS)),
    ("activation_peak_bytes", "activation peak", _items(EngineBudgetLine.ACTIVATION_PEAK)),
    ("non_torch_bytes", item_name(EngineBudgetLine.NON_TORCH), _items(EngineBudgetLine.NON_TORCH)),
    ("cuda_graphs_bytes", item_name(EngineBudgetLine.CUDA_GRAPHS), _items(EngineBudgetLine.CUDA_GRAPHS)),
    ("state_pool_bytes", "state pool", _items(EngineBudgetLine.STATE_POOL)),
    ("kv_pool_bytes", "KV pool", _items(EngineBudgetLine.KV_POOL)),
    ("needed_bytes", "one longest sequence needs", _needed),
    ("num_blocks", "blocks", _held("num_blocks")),
    ("kv_cache_tokens", "tokens, as the log prints them", _held("kv_cache_tokens")),
    ("max_concurrency", "longest sequences at once", _held("max_concurrency")),
    ("longest_context_tokens", "longest single sequence", _held("longest_context_tokens")),
)


def compared(log: StartupLog, memory: EngineMemory) -> tuple[Line, ...]:
    """Every figure that was predicted or logged."""
    lines = []
    for name, title, predict in _COMPARED:
        predicted, logged = predict(memory), log.figures.get(name)
        if predicted is None and logged is None:
            continue
        low, likely, high = predicted or (None, None, None)
        lines.append(Line(name, title, likely, low, high, logged))
    return tuple(lines)


def findings(log: StartupLog, memory: EngineMemory, lines: tuple[Line, ...]) -> Iterator[str]:
    """Where the memory went, what the engine refused, and where the prediction is contradicted: a sentence each."""
    by_name = {line.name: line for line in lines}
    yield _whereabouts(memory, by_name)
    if refused := _refused(log, memory, by_name):
        yield refused
    if shortened := _shortened(log, memory):
        yield shortened
    if log.outcome in dict(EngineMemory.Outcome.items()):
        same = log.outcome == EngineMemory.Outcome.Name(memory.outcome)
        ended = "start" if log.outcome is Outcome.STARTS else "failure"
        yield f"The {ended} is as predicted." if same else f"Predicted was another end: {memory.statement}."
    outside = [line for line in lines if line.is_outside and line.name.endswith("_bytes") and line.difference]
    if outside:
        far = max(outside, key=lambda line: abs(line.difference or 0.0))
        yield (
            f"Farthest from its prediction is {far.title}: {far.shown(far.logged)} logged, "
            f"{far.shown(far.low)} to {far.shown(far.high)} predicted."
        )


def _figure(line: Line | None) -> str:
    """What the log says, else what is predicted, and said to be."""
    if line is None:
        return "an unknown amount"
    return line.shown(line.logged) if line.logged is not None else f"about {line.shown(line.predicted)}"


def _whereabouts(memory: EngineMemory, lines: dict[str, Line]) -> str:
    inside = {line.item for line in memory.budget if not line.within_reserve}
    parts = []
    if before := _bytes(memory, EngineBudgetLine.BEFORE_LOAD):
        parts.append(f"about {byte_count(before)} are taken before loading")
    parts.append(f"weights take {_figure(lines.get('weights_bytes'))}")
    for item, name in (
        (EngineBudgetLine.ACTIVATION_PEAK, "activation_peak_bytes"),
        (EngineBudgetLine.NON_TORCH, "non_torch_bytes"),
        (EngineBudgetLine.CUDA_GRAPHS, "cuda_graphs_bytes"),
        (EngineBudgetLine.STATE_POOL, "state_pool_bytes"),
    ):
        if item in inside and name in lines and (lines[name].logged or lines[name].predicted):
            parts.append(f"{lines[name].title} {_figure(lines[name])}")
    physical = lines.get("physical_memory_bytes")
    if reserve := _bytes(memory, EngineBudgetLine.RESERVE):
        scale = physical.logged / physical.predicted if physical and physical.logged and physical.predicted else 1.0
        parts.append(f"{byte_count(reserve * scale)} stay in reserve (memory fraction {memory.memory_fraction:g})")
    return f"Of {_figure(physical)} on a device, {', '.join(parts)}; {_room(memory, lines)}."


def _bytes(memory: EngineMemory, item: _Item) -> float:
    return sum(line.bytes_per_device for line in memory.budget if line.item == item)


def _room(memory: EngineMemory, lines: dict[str, Line]) -> str:
    """What is left for the cache, and what it holds: as logged, else by the predicted cost of a sequence."""
    pool, held = lines.get("kv_pool_bytes"), lines["max_concurrency"]
    if pool is None:
        return "what is left for the KV cache is not known"
    left = pool.predicted if pool.logged is None else pool.logged
    if left is None or left <= 0:
        return f"nothing is left for the KV cache ({_figure(pool)})"
    room = f"{_figure(pool)} are left for the KV cache"
    if held.logged is not None:
        return f"{room}, which hold {_figure(held)} sequences of {counted(memory.max_model_len, 'token')}"
    if held.predicted and pool.predicted:
        about = held.predicted * left / pool.predicted
        return f"{room}, which hold about {held.shown(about)} sequences of {counted(memory.max_model_len, 'token')}"
    return room


def _refused(log: StartupLog, memory: EngineMemory, lines: dict[str, Line]) -> str:
    longest = log.figures.get("longest_context_tokens") or _longest(log, memory)
    match log.outcome:
        case Outcome.REFUSED_MAX_LEN:
            room = _figure(lines.get("kv_pool_bytes"))
            fits = f"; the longest that fits is {counted(longest, 'token')}" if longest else ""
            needs = _figure(lines.get("needed_bytes"))
            return f"It refused to start: one sequence of {memory.max_model_len:,} tokens needs {needs}, it has {room}{fits}."
        case Outcome.REFUSED_NO_KV:
            return "It refused to start: weights and what running takes leave nothing for the cache."
        case Outcome.OUT_OF_MEMORY_LOADING_WEIGHTS:
            return "It ran out of memory while loading: the weights do not fit."
        case Outcome.OUT_OF_MEMORY_LATER:
            return "It ran out of memory after loading: the weights fit, what came after them does not."
        case Outcome.MEMORY_TAKEN_BY_OTHERS:
            free = _figure(lines.get("free_before_load_bytes"))
            return f"It refused to start: {free} were free, less than its fraction asks for; something else holds the rest."
    return ""


def _shortened(log: StartupLog, memory: EngineMemory) -> str:
    longest = log.figures.get("longest_context_tokens", 0.0)
    if log.outcome is not Outcome.STARTS or not 0 < longest < memory.max_model_len:
        return ""
    asked = counted(memory.max_model_len, "token")
    return f"It started, but cut its longest sequence from {asked} to {longest:,.0f}: the pool holds no longer one."


def _longest(log: StartupLog, memory: EngineMemory) -> float:
    """The longest sequence that the logged pool holds, in whole blocks; 0 where that is not to be told from a rate."""
    pool, per_token = log.figures.get("kv_pool_bytes"), memory.kv_bytes_per_token_per_device
    if pool is None or pool <= 0 or not per_token or memory.needed_bytes_per_device < 0.99 * per_token * memory.max_model_len:
        return 0.0
    block = max(1, memory.block_tokens)
    return pool // (per_token * block) * block


def cures(log: StartupLog, memory: EngineMemory) -> Iterator[Shortfall.Cure]:
    """What would make the engine start: by the log's own figures first, then by the prediction. None where it started."""
    if log.outcome in (Outcome.STARTS, Outcome.UNKNOWN):
        return
    longest = log.figures.get("longest_context_tokens") or _longest(log, memory)
    if log.outcome is Outcome.REFUSED_MAX_LEN and longest:
        description = "the longest that the logged pool holds"
        yield Shortfall.Cure(field="engine.max_model_len", value=f"{longest:.0f}", description=description)
    if log.outcome is Outcome.MEMORY_TAKEN_BY_OTHERS:
        free, physical = log.figures.get("free_before_load_bytes"), log.figures.get("physical_memory_bytes")
        if free and physical:
            value = f"{int(free / physical * 100) / 100:g}"
            yield Shortfall.Cure(field="engine.gpu_memory_utilization", value=value, description="no more than is free")
    for remedy in memory.remedies:
        if not (longest and remedy.field == "engine.max_model_len"):
            description = f"{remedy.description} (predicted)"
            yield Shortfall.Cure(field=remedy.field, value=remedy.value, description=description)
