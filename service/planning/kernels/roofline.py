"""The roofline of an accelerator with the points of a decode step, of operators, or of the caller's own."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.formulas.fusion import attainable_flops_per_second
from service.formulas.roofline import ridge_point_flops_per_byte
from service.planning.decode import estimate_decode
from service.planning.device import Device
from service.planning.errors import InvalidRequest, Violation
from service.planning.kernels.fusion import analyze_fusion
from service.planning.kernels.requests import AnalyzeFusionRequest, DrawRooflineRequest, OwnPoints
from service.planning.kernels.results import DrawRooflineResponse, Form, Roof, RooflinePoint
from service.planning.kernels.roofline_svg import Picture, draw
from service.planning.requests import EstimateDecodeRequest
from service.planning.resolve import Resolver

#: Batches that a decode step is drawn at, besides its own.
_BATCHES: Final = tuple(2**power for power in range(0, 13, 2))
#: Operations per byte below which there is no arithmetic to speak of, and no place on a logarithmic axis.
_LEAST_INTENSITY: Final = 1e-6
#: Where several formats have the same peak, the first of these names it.
_PREFERRED: Final = ("bf16", "fp16", "fp8", "int8", "fp4", "tf32", "fp32")


class _Drawn(Struct, frozen=True):
    """What goes into the picture: points, the formats that they use, and a heading."""

    device: Device
    points: tuple[RooflinePoint, ...]
    heading: str
    notes: tuple[str, ...]


def draw_roofline(resolver: Resolver, request: DrawRooflineRequest) -> DrawRooflineResponse:
    """The roofline as data and as a picture. InvalidRequest, NotFound or Unanswerable where there is no answer."""
    asked = [name.strip() for name in request.precisions.split(",") if name.strip()]
    if request.decode is not None:
        drawn = _decode(resolver, request.decode)
    elif request.fusion is not None:
        drawn = _fusion(resolver, request.fusion)
    else:
        assert request.own is not None  # the doors let pass exactly one subject
        drawn = _own(resolver, request.own, asked)
    used = [point.precision for point in drawn.points] if request.own is None else []
    roofs = _roofs(drawn.device, dict.fromkeys(asked or used or drawn.device.peaks_dense))
    heading = request.title or f"{drawn.heading} on {drawn.device.title}"
    notes = (*drawn.notes, *drawn.device.notes)
    names = ("memory_bandwidth", *(f"peak_dense.{roof.precision}" for roof in roofs))
    return DrawRooflineResponse(
        roofs=roofs,
        points=drawn.points,
        svg=draw(Picture(heading, roofs, drawn.points)),
        assumptions=tuple(dict.fromkeys(notes)),
        catalogue_revision=resolver.revision,
        figures=tuple(drawn.device.figures[name] for name in names if name in drawn.device.figures),
    )


def _roofs(device: Device, precisions: Iterable[str]) -> tuple[Roof, ...]:
    bandwidth = device.memory_bandwidth()
    peaks = {precision: device.peak_dense(precision, "precisions") for precision in precisions}
    if not peaks:
        device.peak_dense("bf16", "precisions")
    found = [
        Roof(
            precision=precision,
            peak_dense_flops_per_second=peak,
            memory_level="device memory",
            memory_bandwidth_bytes_per_second=bandwidth,
            ridge_point_flops_per_byte=ridge_point_flops_per_byte(
                peak_dense_flops_per_second=peak, memory_bandwidth_bytes_per_second=bandwidth
            ),
        )
        for precision, peak in peaks.items()
    ]
    return tuple(sorted(found, key=lambda roof: (-roof.peak_dense_flops_per_second, roof.precision)))


def _decode(resolver: Resolver, request: EstimateDecodeRequest) -> _Drawn:
    """A decode step at its own batch, and at others, with everything else as asked."""
    _, plan = resolver.plan(request.model, request.accelerator, request.precision, request.parallelism)
    named = {peak: name for name in reversed(_PREFERRED) if (peak := plan.device.peaks_dense.get(name))}
    precision = named.get(plan.main_peak, "bf16")
    own = request.batch_size or 1
    points, notes = [], []
    for batch in sorted({*_BATCHES, own}):
        answer = estimate_decode(resolver, replace(request, batch_size=batch, explain=False))
        bound = answer.bound
        asked, short = " (as asked)" if batch == own else "", ", does not fit" if answer.fits is False else ""
        points.append(
            RooflinePoint(
                label=f"batch {batch}{asked}{short}",
                series="decode",
                arithmetic_intensity_flops_per_byte=bound.arithmetic_intensity_flops_per_byte,
                bound_flops_per_second=bound.flops / bound.step_seconds / answer.num_devices,
                attained_flops_per_second=None,
                precision=precision,
            )
        )
        if batch == own:
            notes = [*answer.assumptions]
    heading = f"Decode step of {request.model.name or 'the model'}"
    return _Drawn(plan.device, tuple(points), heading, ("figures per device", *notes))


def _fusion(resolver: Resolver, request: AnalyzeFusionRequest) -> _Drawn:
    """Each operator by itself, and each kernel that takes in several."""
    answer = analyze_fusion(resolver, replace(request, explain=False))
    precision = request.precision or "bf16"
    last = next(form for form in answer.forms if form.form is Form.EPILOGUE_FUSED)
    costs = [(each.name, each.flops, each.num_bytes, each.kernel_seconds) for each in answer.operators]
    costs += [
        (f"fused: {' + '.join(kernel.operators)}", kernel.flops, kernel.num_bytes, kernel.kernel_seconds)
        for kernel in last.kernels
        if len(kernel.operators) > 1
    ]
    points = tuple(
        RooflinePoint(label, "", flops / num_bytes, flops / seconds, None, precision)
        for label, flops, num_bytes, seconds in costs
        if flops / num_bytes >= _LEAST_INTENSITY
    )
    notes = list(answer.assumptions)
    if len(points) < len(costs):
        notes.insert(0, "operators without arithmetic have no place on a roofline and are left out")
    return _Drawn(resolver.device(request.accelerator), points, "Operators", tuple(notes))


def _own(resolver: Resolver, request: OwnPoints, asked: list[str]) -> _Drawn:
    if not request.points:
        raise InvalidRequest(Violation("own.points", "there is none", "give at least one"))
    device = resolver.device(request.accelerator)
    bandwidth = device.memory_bandwidth()
    precision = asked[0] if asked else next((name for name in _PREFERRED if name in device.peaks_dense), "bf16")
    peak = device.peak_dense(precision, "precisions")
    points, notes = [], []
    for number, each in enumerate(request.points, 1):
        bound = attainable_flops_per_second(
            peak_dense_flops_per_second=peak,
            arithmetic_intensity_flops_per_byte=each.arithmetic_intensity_flops_per_byte,
            memory_bandwidth_bytes_per_second=bandwidth,
        )
        label = each.label or f"point {number}"
        attained = each.attained_flops_per_second
        points.append(RooflinePoint(label, "", each.arithmetic_intensity_flops_per_byte, bound, attained, precision))
        if attained is not None and attained > bound:
            notes.append(f"{label} lies above the {precision} roof: look at its number format, at sparsity, and at cache hits")
    return _Drawn(device, tuple(points), "Roofline", (f"points held against the dense {precision} peak", *notes))
