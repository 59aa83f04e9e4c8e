"""What does fusing a chain or small graph of operators save? Bytes, operations, launches and roofline time in each form."""

import math
from collections.abc import Sequence

from service.formulas.fusion import other_to_gemm_ratio, paced_seconds, submission_seconds, tensor_bytes
from service.formulas.roofline import (
    arithmetic_intensity_flops_per_byte,
    memory_seconds,
    ridge_point_flops_per_byte,
)
from service.planning.explain import Recorder, plainly
from service.planning.kernels.fusion_costs import (
    Machine,
    Work,
    cost,
    eager_works,
    kernel_work,
    kernels_dominate_from,
    rows_of,
    show_operator,
)
from service.planning.kernels.fusion_groups import Grouping, eager, epilogue_fused, fused, place_of
from service.planning.kernels.fusion_notes import LAUNCH_FIGURE, LAUNCH_SECONDS, NOTES
from service.planning.kernels.operator_graph import GraphReader, Node
from service.planning.kernels.requests import AnalyzeFusionRequest
from service.planning.kernels.results import (
    AnalyzeFusionResponse,
    Form,
    FusionForm,
    KernelLimit,
    OperatorAnalysis,
)
from service.planning.resolve import Resolver
from service.planning.results import UsedFigure
from service.units import BYTES_PER_ELEMENT

_ASSUMED = (
    "each tensor is read and written once by a kernel that needs it: a bound, which ignores what a cache keeps between kernels",
    "arithmetic outside matrix products is held against the dense peak too: a bound, since the vector units are slower",
    "rows that are normalised or summed stay on the chip while they are",
    "what a kernel takes to start and to end, some microseconds, is not counted beyond its submission",
)
_PRECISION = "bf16"


def analyze_fusion(resolver: Resolver, request: AnalyzeFusionRequest) -> AnalyzeFusionResponse:
    """The operators, and the graph in each form. InvalidRequest, NotFound or Unanswerable where there is no answer."""
    nodes = GraphReader(request.operators).read()
    device = resolver.device(request.accelerator)
    precision = request.precision or _PRECISION
    recorder = Recorder() if request.explain else None
    machine = Machine(
        peak_flops_per_second=device.peak_dense(precision, "precision"),
        bandwidth_bytes_per_second=device.memory_bandwidth(),
        bytes_per_element=BYTES_PER_ELEMENT[precision],
        apply=recorder or plainly,
    )
    launch = LAUNCH_SECONDS if request.launch_seconds is None else request.launch_seconds
    groupings = {Form.EAGER: eager(nodes), Form.FUSED: fused(nodes), Form.EPILOGUE_FUSED: epilogue_fused(nodes)}
    last = groupings[Form.EPILOGUE_FUSED]
    operators = tuple(_operator(node, nodes, last, machine) for node in nodes)
    forms = tuple(_form(form, grouping, machine, launch) for form, grouping in groupings.items())
    ridge = machine.apply(
        ridge_point_flops_per_byte,
        peak_dense_flops_per_second=machine.peak_flops_per_second,
        memory_bandwidth_bytes_per_second=machine.bandwidth_bytes_per_second,
    )
    figures = [device.figures[name] for name in ("memory_bandwidth", f"peak_dense.{precision}") if name in device.figures]
    return AnalyzeFusionResponse(
        operators=operators,
        forms=forms,
        num_rows=rows_of(nodes),
        launch_seconds=launch,
        ridge_point_flops_per_byte=ridge,
        summary=_summary(forms),
        notes=NOTES,
        assumptions=(*_ASSUMED, *_defaults(request), *device.notes),
        catalogue_revision=resolver.revision,
        explanation=recorder.explanation((*figures, _launch_figure(request))) if recorder else None,
    )


def _operator(node: Node, nodes: Sequence[Node], grouping: Grouping, machine: Machine) -> OperatorAnalysis:
    if isinstance(machine.apply, Recorder):
        show_operator(node, machine.apply)
    works = eager_works(node, nodes, grouping.consumers)
    kernels = [cost(work, machine) for work in works]
    flops = math.fsum(each.flops for each in kernels)
    num_bytes = math.fsum(each.num_bytes for each in kernels)
    reading = math.fsum(each.memory_seconds for each in kernels)
    computing = math.fsum(each.compute_seconds for each in kernels)
    place, reason = place_of(grouping, node)
    weights = seconds = None
    if node.gemm is not None:
        factor = float((node.gemm.num_matrices or 1) * node.gemm.k * node.gemm.n)
        weights = machine.apply(tensor_bytes, num_elements=factor, bytes_per_element=machine.bytes_per_element)
        seconds = machine.apply(
            memory_seconds, bytes_per_device=weights, memory_bandwidth_bytes_per_second=machine.bandwidth_bytes_per_second
        )
    return OperatorAnalysis(
        name=node.name,
        shape=node.shape,
        num_launches=len(kernels),
        flops=flops,
        num_bytes=num_bytes,
        arithmetic_intensity_flops_per_byte=machine.apply(
            arithmetic_intensity_flops_per_byte, flops=flops, num_bytes=num_bytes
        ),
        memory_seconds=reading,
        compute_seconds=computing,
        kernel_seconds=math.fsum(each.kernel_seconds for each in kernels),
        limit=KernelLimit.MEMORY if reading >= computing else KernelLimit.ARITHMETIC,
        place=place,
        reason=reason,
        weight_bytes=weights,
        weight_seconds=seconds,
    )


def _works(form: Form, grouping: Grouping) -> list[Work]:
    if form is Form.EAGER:
        return [work for node in grouping.nodes for work in eager_works(node, grouping.nodes, grouping.consumers)]
    return [kernel_work(members, grouping.nodes, grouping.consumers) for members in grouping.groups()]


def _form(form: Form, grouping: Grouping, machine: Machine, launch_seconds: float) -> FusionForm:
    works = _works(form, grouping)
    kernels = tuple(cost(work, machine) for work in works)
    gemm_seconds = math.fsum(each.kernel_seconds for each in kernels if each.has_gemm)
    other_seconds = math.fsum(each.kernel_seconds for each in kernels if not each.has_gemm)
    device_seconds = math.fsum(each.kernel_seconds for each in kernels)
    apply = machine.apply
    submission = apply(submission_seconds, num_launches=len(kernels), launch_seconds=launch_seconds)
    ratio = apply(other_to_gemm_ratio, other_seconds=other_seconds, gemm_seconds=gemm_seconds) if gemm_seconds else None
    return FusionForm(
        form=form,
        kernels=kernels,
        num_launches=len(kernels),
        num_bytes=math.fsum(each.num_bytes for each in kernels),
        flops=math.fsum(each.flops for each in kernels),
        other_bytes=math.fsum(each.num_bytes for each in kernels if not each.has_gemm),
        other_seconds=other_seconds,
        gemm_seconds=gemm_seconds,
        other_to_gemm_ratio=ratio,
        device_seconds=device_seconds,
        submission_seconds=submission,
        paced_seconds=apply(paced_seconds, device_seconds=device_seconds, submission_seconds=submission),
        graph_paced_seconds=apply(paced_seconds, device_seconds=device_seconds, submission_seconds=launch_seconds),
        launches_dominate=submission > device_seconds,
        kernels_dominate_from_rows=kernels_dominate_from(works, machine, rows_of(grouping.nodes), submission),
    )


def _summary(forms: Sequence[FusionForm]) -> str:
    """What fusing saves, in a sentence: bytes or launches, whichever takes longer."""
    first, last = forms[0], forms[-1]
    if first.num_launches == last.num_launches:
        return "nothing here can be fused: every operator keeps its own kernel"
    saved = first.device_seconds - last.device_seconds
    launches = first.num_launches - last.num_launches
    submitting = first.submission_seconds - last.submission_seconds
    by_kernels = f"{saved * 1e6:.3g} µs of {first.device_seconds * 1e6:.3g} µs on the device"
    by_launches = f"{launches} of {first.num_launches} launches, {submitting * 1e6:.3g} µs on the host"
    if saved >= submitting:
        return f"fusing saves mostly memory traffic: {by_kernels}; and {by_launches}"
    return f"fusing saves mostly launches: {by_launches}; and {by_kernels}. A CUDA Graph saves the same without fusing"


def _defaults(request: AnalyzeFusionRequest) -> list[str]:
    notes = []
    if request.precision is None:
        notes.append(f"every tensor in {_PRECISION} (default)")
    if request.launch_seconds is None:
        notes.append(f"{LAUNCH_SECONDS * 1e6:.2g} µs to submit a kernel (default, {LAUNCH_FIGURE.note})")
    return notes


def _launch_figure(request: AnalyzeFusionRequest) -> UsedFigure:
    if request.launch_seconds is None:
        return LAUNCH_FIGURE
    return UsedFigure("launch_seconds", request.launch_seconds, "s", "caller")
