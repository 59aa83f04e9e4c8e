"""What weights and cache take on each device, line by line, and what fits beside the weights."""

from msgspec.structs import replace

from service.formulas.kv_cache import kv_cache_bytes
from service.planning import defaults
from service.planning.capacity import Capacity, known_capacity, tightest_stage
from service.planning.cures import Question, shortfall
from service.planning.device import Device, MemoryBasis
from service.planning.engine_view import EngineQuestion, check_engine
from service.planning.explain import Apply, Recorder, plainly, show_cache_formulas
from service.planning.footprint import Footprint, StageFootprint
from service.planning.formats import lighter_formats
from service.planning.requests import EstimateKvMemoryRequest
from service.planning.resolve import Resolver, SplitModel
from service.planning.results import BudgetBasis, BudgetItem, BudgetLine, EstimateKvMemoryResponse, UsedFigure

_MEMORY_BASES = {
    MemoryBasis.MEASURED: BudgetBasis.MEASURED,
    MemoryBasis.MARKETED: BudgetBasis.MARKETED,
    MemoryBasis.CALLER: BudgetBasis.CALLER,
}


def budget(found: Capacity, device: Device) -> tuple[BudgetLine, ...]:
    """The memory budget of a device of the tightest stage; reserve, weights, cache and headroom add up to the usable memory."""
    weights = found.tightest.weight_bytes
    return (
        BudgetLine(BudgetItem.USABLE_MEMORY, found.usable_bytes, _MEMORY_BASES[device.memory_basis]),
        BudgetLine(BudgetItem.RESERVE, found.usable_bytes - found.available_bytes, BudgetBasis.SETTING),
        BudgetLine(BudgetItem.WEIGHTS, weights, BudgetBasis.EXACT),
        BudgetLine(BudgetItem.KV_CACHE, found.required_bytes - weights, BudgetBasis.EXACT),
        BudgetLine(BudgetItem.HEADROOM, found.headroom_bytes, BudgetBasis.EXACT),
    )


def estimate_kv_memory(resolver: Resolver, request: EstimateKvMemoryRequest) -> EstimateKvMemoryResponse:
    """The memory budget of a batch. InvalidRequest or NotFound where there is no answer, Unanswerable of an engine."""
    check_engine(request.engine, request.context_tokens, request.memory_utilization_ratio)
    split = resolver.split(request.model, request.precision, request.parallelism)
    device = resolver.device(request.accelerator)
    batch_size, batch_note = defaults.batch(request.batch_size)
    recorder = Recorder() if request.explain else None
    apply: Apply = recorder or plainly
    if recorder:
        show_cache_formulas(split.builder, apply)
    ratio, ratio_note = defaults.memory_ratio(request.memory_utilization_ratio)
    lighter = lighter_formats(split.architecture, split.builder.formats, device)
    larger = resolver.larger_accelerators(device, split.footprint.shape.num_devices)
    asked = Question(batch_size, "batch_size", request.context_tokens, ratio, split.builder, lighter, larger)
    view = None
    if request.engine:
        view = EngineQuestion(resolver, device, request.engine, asked).view(request.parallelism, apply=apply)
        ratio, ratio_note = defaults.memory_ratio(view.memory.memory_fraction)
    found = known_capacity(split.footprint, device, ratio, request.context_tokens, batch_size, apply)
    own = view.memory.assumptions if view else (defaults.memory_note(device), defaults.NOT_COUNTED)
    beyond = defaults.context_note(request.context_tokens, split.architecture.context_limit_tokens)
    notes = (*split.notes, *device.notes, batch_note, ratio_note, beyond, *own)
    short = view.shortfall() if view else None
    if found and not view:
        short = shortfall(found, asked, request.parallelism)
    stages = split.builder.each_stage(request.parallelism)
    stage = view.memory.tightest_stage if view else _tightest(stages, request, batch_size)
    shown = found.on_stage(stages[stage], request.context_tokens) if found and view else found
    plain = _plain_answer(split, stage, found, batch_size, request.context_tokens, apply)
    return replace(
        plain,
        budget=budget(shown, device) if shown else (),
        max_tokens=view.max_tokens if view else plain.max_tokens,
        max_sequences=view.max_sequences if view else plain.max_sequences,
        fits=view.fits if view else plain.fits,
        shortfall=short,
        assumptions=tuple(note for note in notes if note),
        catalogue_revision=resolver.revision,
        explanation=recorder.explanation(_figures(device)) if recorder else None,
        engine_memory=view.memory if view else None,
    )


def _tightest(stages: tuple[StageFootprint, ...], request: EstimateKvMemoryRequest, batch_size: int) -> int:
    """Which pipeline stage decides where no engine says it."""
    per_device = -(-batch_size // request.parallelism.attention_data)
    return stages.index(tightest_stage(stages, request.context_tokens, per_device))


def _plain_answer(
    split: SplitModel, number: int, found: Capacity | None, batch_size: int, context_tokens: int, apply: Apply
) -> EstimateKvMemoryResponse:
    """What follows from shapes and sizes alone. ``number`` of the stage shown; ``found`` None where no memory is known."""
    footprint = split.footprint
    stage = split.builder.each_stage(footprint.shape)[number]
    cache = footprint.cache_bytes
    per_sequence = cache.at(context_tokens)
    return EstimateKvMemoryResponse(
        kv_bytes_per_token=cache.growing_per_token,
        kv_bytes_per_token_per_device=stage.cache_bytes.growing_per_token,
        windowed_kv_bytes_per_token=cache.windowed_per_token,
        state_bytes_per_sequence=cache.fixed,
        cache_bytes_per_sequence=per_sequence,
        cache_bytes_per_sequence_per_device=stage.cache_bytes.at(context_tokens),
        kv_cache_bytes=apply(kv_cache_bytes, batch_size=batch_size, cache_bytes_per_sequence=per_sequence),
        weight_bytes=footprint.weight_bytes,
        weight_bytes_per_device=stage.weight_bytes,
        tightest_stage=number,
        total_parameters=split.architecture.num_parameters,
        active_parameters=split.architecture.num_active_parameters,
        max_tokens=_max_tokens(footprint, found, context_tokens) if found else None,
        max_sequences=found.max_sequences if found else None,
        budget=(),
        fits=found.fits if found else None,
        shortfall=None,
        num_devices=footprint.shape.num_devices,
        assumptions=(),
        catalogue_revision="",
    )


def _figures(device: Device) -> tuple[UsedFigure, ...]:
    return (device.figures["usable_memory"],) if "usable_memory" in device.figures else ()


def _max_tokens(footprint: Footprint, found: Capacity, context_tokens: int) -> float | None:
    """Tokens that fit in sequences of ``context_tokens``, parts of a sequence counted. None where there is no cache."""
    if found.max_sequences is None:
        return None
    pools = [
        (found.available_bytes - stage.weight_bytes) / cache
        for stage in footprint.stages
        if (cache := stage.cache_bytes.at(context_tokens)) > 0
    ]
    return float(max(0.0, min(pools)) * context_tokens * footprint.shape.attention_data // 1)
