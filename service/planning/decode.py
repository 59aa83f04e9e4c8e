"""How fast can it decode? The bound on a step, what to expect on average, which limit binds and whether it fits."""

from service.planning import defaults
from service.planning.capacity import known_capacity
from service.planning.cures import Question, shortfall
from service.planning.decode_figures import decode_figures
from service.planning.decode_step import DecodePlan, bound_of
from service.planning.errors import InvalidRequest, Violation
from service.planning.explain import Apply, Recorder, plainly, show_cache_formulas
from service.planning.formats import lighter_formats
from service.planning.limits import limit_onsets
from service.planning.requests import EstimateDecodeRequest
from service.planning.resolve import Resolver, SplitModel
from service.planning.results import EstimateDecodeResponse, UsedFigure


def estimate_decode(resolver: Resolver, request: EstimateDecodeRequest) -> EstimateDecodeResponse:
    """The bound on one decode step. InvalidRequest, NotFound or Unanswerable where there is no answer."""
    split, plan, figures = resolver.decode(request.model, request.accelerator, request.precision, request.parallelism)
    context_tokens = _context(split, request)
    batch_size, batch_note = defaults.batch(request.batch_size)
    ratio, ratio_note = defaults.memory_ratio(request.memory_utilization_ratio)
    recorder = Recorder() if request.explain else None
    apply: Apply = recorder or plainly
    if recorder:
        show_cache_formulas(split.builder, apply)
    if recorder:
        terms, expected = decode_figures(plan, batch_size, context_tokens, apply)
    else:
        terms, expected = figures(batch_size, context_tokens)
    bound = bound_of(plan, terms, batch_size, context_tokens, apply)
    found = known_capacity(plan.footprint, plan.device, ratio, context_tokens, batch_size, apply)
    most = found.max_sequences if found else None
    limits = limit_onsets(plan, terms, context_tokens, most, apply)
    beyond = defaults.context_note(context_tokens, split.architecture.context_limit_tokens)
    notes = [note for note in (batch_note, ratio_note, beyond) if note]
    short = None
    if found and not found.fits:
        larger = resolver.larger_accelerators(plan.device, plan.footprint.shape.num_devices)
        lighter = lighter_formats(split.architecture, split.builder.formats, plan.device)
        asked = Question(batch_size, "batch_size", context_tokens, ratio, split.builder, lighter, larger)
        short = shortfall(found, asked, request.parallelism)
    return EstimateDecodeResponse(
        bound=bound,
        expected=expected,
        limits=limits,
        fits=found.fits if found else None,
        shortfall=short,
        num_devices=plan.footprint.shape.num_devices,
        assumptions=(*plan.assumptions, *notes),
        catalogue_revision=resolver.revision,
        explanation=recorder.explanation(bound_figures(plan)) if recorder else None,
    )


def _context(split: SplitModel, request: EstimateDecodeRequest) -> int:
    if request.context_tokens is not None:
        return request.context_tokens
    if split.has_cache:
        reason = "the model keeps a cache, which grows with the context"
        raise InvalidRequest(Violation("context_tokens", reason, "give the tokens that each sequence holds"))
    return 1  # there is no cache, so nothing depends on it


def bound_figures(plan: DecodePlan) -> tuple[UsedFigure, ...]:
    """The device's figures that the bound rests on."""
    figures = plan.device.figures
    peaks = tuple(figures[name] for name in sorted(figures) if name.startswith("peak_dense."))
    used = set(plan.peaks.values()) | {plan.attention_peak}
    return (*plan.device.speed_and_memory_figures, *(peak for peak in peaks if peak.value in used))
