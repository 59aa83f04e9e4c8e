"""Accelerators side by side under one workload: peaks, bounds, estimates, cost and energy, each beside the first."""

from typing import Final

from msgspec import Struct

from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import accelerator as find_accelerator
from service.planning.decode import bound_figures
from service.planning.decode_step import Load, decode_bound
from service.planning.device import Device
from service.planning.errors import InvalidRequest, NotFound, Unanswerable, Violation
from service.planning.explain import Apply, Recorder, plainly
from service.planning.fleet.costing import DEFAULT_CURRENCY
from service.planning.fleet.figures import device_power_figures, price_figure
from service.planning.fleet.generations import dense_peaks, generation_step
from service.planning.fleet.requests import CompareAcceleratorsRequest
from service.planning.fleet.results import (
    CompareAcceleratorsResponse,
    ComparedAccelerator,
    GenerationStep,
)
from service.planning.fleet.token_prices import token_prices
from service.planning.money import PriceTerm, is_currency
from service.planning.price_choice import NoPrice, Quote
from service.planning.prices import PriceBook
from service.planning.purchase import Power
from service.planning.requests import AcceleratorSpec, EngineSpec
from service.planning.results import Explanation, UsedFigure
from service.planning.serving.estimate import ServingEstimator
from service.planning.serving.prefill_bound import prefill_bound_seconds
from service.planning.serving.requests import EstimateServingRequest, Workload
from service.planning.serving.results import EstimateServingResponse

_DEFAULT_ENGINE: Final = EngineSpec("vllm")


class _Bounds(Struct, frozen=True):
    step_seconds: float
    decode_rate: float  # per device
    prefill_seconds: float
    prefill_rate: float  # per device
    figures: tuple[UsedFigure, ...]


def compare_accelerators(serving: ServingEstimator, request: CompareAcceleratorsRequest) -> CompareAcceleratorsResponse:
    """All side by side. InvalidRequest or NotFound where there is no answer; what one of them lacks stands in its notes."""
    currency = request.currency or DEFAULT_CURRENCY
    if not is_currency(currency):
        raise InvalidRequest(Violation("currency", f"{currency!r} is no ISO 4217 code", "give one, such as USD"))
    names = _names(serving, request)
    book = PriceBook(serving.resolver.catalogue, request.price_list)
    devices = [serving.resolver.device(AcceleratorSpec(name)) for name in names]
    compared = tuple(
        _compared(serving, request, name, device, book, currency) for name, device in zip(names, devices, strict=True)
    )
    steps = [_step(devices[0], other) for other in devices[1:]]
    return CompareAcceleratorsResponse(
        accelerators=compared,
        generations=tuple(step for step in steps if step is not None),
        unread_prices=book.unread,
        assumptions=(
            f"{request.concurrency} requests in flight on each replica, of {request.input_tokens} and "
            f"{request.output_tokens} tokens",
            "bounds and peaks are dense, and per counted unit",
        ),
        catalogue_revision=serving.resolver.revision,
    )


def _names(serving: ServingEstimator, request: CompareAcceleratorsRequest) -> list[str]:
    names = []
    for at, name in enumerate(request.accelerators):
        try:
            names.append(find_accelerator(serving.resolver.catalogue, name).name)
        except UnknownName as unknown:
            raise NotFound(f"accelerators[{at}]", "accelerator", name, unknown.nearest) from None
    if len(set(names)) < 2 or len(set(names)) < len(names):
        reason = "the same accelerator is named twice" if len(names) > 1 else "one accelerator is no comparison"
        raise InvalidRequest(Violation("accelerators", reason, "name at least two that differ"))
    return names


def _step(first: Device, other: Device) -> GenerationStep | None:
    try:
        return generation_step(first, other)
    except Unanswerable:  # its note says what is missing
        return None


def _compared(
    serving: ServingEstimator,
    request: CompareAcceleratorsRequest,
    name: str,
    device: Device,
    book: PriceBook,
    currency: str,
) -> ComparedAccelerator:
    recorder = Recorder() if request.explain else None
    apply: Apply = recorder or plainly
    notes: list[str] = list(device.notes)
    bounds = _bounds(serving, request, name, notes, apply)
    answer = _estimate(serving, request, name, notes) if bounds else None
    estimate = answer.estimate if answer else None
    if recorder and answer and answer.explanation:
        recorder.adopt(answer.explanation)
    quote = _quote(request, name, book, currency, notes, apply)
    entry = serving.resolver.catalogue.accelerators[name]
    watts = entry.max_power.value if entry.max_power else None
    per_hour = quote.amount_per_device_hour if quote else None
    runs = answer is None or answer.fits is not False  # what cannot run has no cost
    at_most = bounds.decode_rate if bounds and runs else None
    will_be = estimate.output_tokens_per_second_per_device if estimate and runs else None
    costs = token_prices(per_hour, watts, at_most, will_be, apply)
    return ComparedAccelerator(
        accelerator=name,
        counted_unit=entry.counted_unit,
        peaks=dense_peaks(device),
        memory_bandwidth_bytes_per_second=device.memory_bandwidth_bytes_per_second,
        usable_memory_bytes=device.usable_memory_bytes or 0.0,
        max_watts=watts,
        decode_step_seconds=bounds.step_seconds if bounds else None,
        decode_tokens_per_second_per_device=bounds.decode_rate if bounds else None,
        prefill_seconds=bounds.prefill_seconds if bounds else None,
        prefill_tokens_per_second_per_device=bounds.prefill_rate if bounds else None,
        fits=answer.fits if answer else None,
        output_tokens_per_second_per_device=estimate.output_tokens_per_second_per_device if estimate else None,
        tpot_seconds=estimate.tpot_seconds if estimate else None,
        ttft_seconds=estimate.ttft_seconds if estimate else None,
        cost_per_device_hour=per_hour,
        bound_cost_per_million_output_tokens=costs.bound_cost,
        bound_joules_per_million_output_tokens=costs.bound_joules,
        estimated_cost_per_million_output_tokens=costs.estimated_cost,
        estimated_joules_per_million_output_tokens=costs.estimated_joules,
        currency=quote.currency if quote else "",
        price=quote.price if quote else None,
        notes=tuple(dict.fromkeys(notes)),
        explanation=_explanation(recorder, serving, name, device, bounds, quote) if recorder else None,
    )


def _explanation(
    recorder: Recorder, serving: ServingEstimator, name: str, device: Device, bounds: _Bounds | None, quote: Quote | None
) -> Explanation:
    """What was noted, with the figures of the device, its power and its price."""
    figures = list(bounds.figures if bounds else device.speed_and_memory_figures)
    figures += device_power_figures(serving.resolver.catalogue, name, Power())
    if quote:
        figures.append(price_figure(quote.price))
    return recorder.explanation(figures)


def _bounds(
    serving: ServingEstimator, request: CompareAcceleratorsRequest, name: str, notes: list[str], apply: Apply
) -> _Bounds | None:
    """Shortest decode step and prefill; None, with a note, where a figure of the accelerator is missing."""
    try:
        split, plan = serving.resolver.plan(request.model, AcceleratorSpec(name), request.precision, request.parallelism)
    except Unanswerable as refusal:
        notes.append(f"no bounds: {refusal.missing}; {refusal.remedy}")
        return None
    context = round(request.input_tokens + request.output_tokens / 2)
    step = decode_bound(plan, Load.of(plan.footprint, request.concurrency), context, apply)
    prompt = prefill_bound_seconds(split, plan, request.input_tokens, apply)
    each = request.input_tokens / prompt / plan.footprint.shape.num_devices
    return _Bounds(step.step_seconds, step.tokens_per_second_per_device, prompt, each, bound_figures(plan))


def _estimate(
    serving: ServingEstimator, request: CompareAcceleratorsRequest, name: str, notes: list[str]
) -> EstimateServingResponse | None:
    asked = EstimateServingRequest(
        model=request.model,
        accelerator=AcceleratorSpec(name),
        engine=request.engine or _DEFAULT_ENGINE,
        workload=Workload(request.input_tokens, request.output_tokens, concurrency=float(request.concurrency)),
        parallelism=request.parallelism,
        precision=request.precision,
        explain=request.explain,
    )
    try:
        answer = serving.estimate_serving(asked)
    except Unanswerable as refusal:
        notes.append(f"no estimate: {refusal.missing}; {refusal.remedy}")
        return None
    if answer.no_estimate_reason:
        notes.append(f"no estimate: {answer.no_estimate_reason}")
    if answer.saturation:
        notes.append(answer.saturation)
    return answer


def _quote(
    request: CompareAcceleratorsRequest, name: str, book: PriceBook, currency: str, notes: list[str], apply: Apply
) -> Quote | None:
    term = request.term or PriceTerm.ON_DEMAND
    try:
        quote = book.device_price(name, term=term, region=request.region, currency=currency, apply=apply)
    except InvalidRequest as refusal:
        if request.price_list is not None:
            raise
        notes.append(f"no price: {refusal.violations[0].reason}")
        return None
    if isinstance(quote, NoPrice):
        notes.append(f"no price: {quote.reason}")
        return None
    notes += quote.notes
    return quote
