"""How well was the hardware used? MFU on every basis, HFU, MBU, the figure to quote and the sentence that goes with it."""

from service.planning.decode_step import decode_bytes
from service.planning.device import Device
from service.planning.errors import InvalidRequest, Violation
from service.planning.explain import Apply, Recorder, plainly
from service.planning.model import phrase
from service.planning.requests import ComputeUtilizationRequest, Parallelism, Phase
from service.planning.resolve import Resolver, SplitModel
from service.planning.results import ComputeUtilizationResponse, UsedFigure
from service.planning.utilization_bases import Counts, count, recommended, statement, utilizations

_NVML_REASON = (
    "what nvidia-smi shows is the share of the sample period in which at least one kernel ran (NVML), not how much arithmetic "
    "was done: no MFU follows from it"
)


def compute_utilization(resolver: Resolver, request: ComputeUtilizationRequest) -> ComputeUtilizationResponse:
    """A run's utilisation on every basis. InvalidRequest, NotFound or Unanswerable where there is no answer."""
    _check(request)
    split = resolver.split(request.model, request.precision, Parallelism())
    device = resolver.device(request.accelerator)
    counts = count(split.architecture, request.sequence_tokens)
    recorder = Recorder() if request.explain else None
    apply: Apply = recorder or plainly
    step_bytes, notes = _step_bytes(request, split)
    found = utilizations(request, counts, device, step_bytes, apply)
    quoted = recommended(request.phase, found)
    return ComputeUtilizationResponse(
        utilizations=found,
        recommended_basis=quoted.basis,
        statement=statement(request, quoted, device, counts),
        num_active_parameters=counts.active_parameters,
        assumptions=(*_notes(request, split, device, counts), *notes),
        catalogue_revision=resolver.revision,
        explanation=recorder.explanation(_figures(request, device)) if recorder else None,
    )


def _check(request: ComputeUtilizationRequest) -> None:
    violations = []
    if request.nvml_gpu_utilization_ratio is not None:
        violations.append(Violation("nvml_gpu_utilization_ratio", _NVML_REASON, "send the run's tokens_per_second instead"))
    if request.batch_size is not None and request.phase not in {Phase.DECODE, Phase.INFERENCE}:
        reason = f"it belongs to MBU, which phase {request.phase} does not have"
        violations.append(Violation("batch_size", reason, "leave it out"))
    if violations:
        raise InvalidRequest(*violations)


def _step_bytes(request: ComputeUtilizationRequest, split: SplitModel) -> tuple[float | None, tuple[str, ...]]:
    """What one decode step reads at least, for MBU, and what is to be said about it."""
    if request.phase not in {Phase.DECODE, Phase.INFERENCE}:
        return None, ()
    if request.batch_size is None:
        return None, ("MBU left out: batch_size is not given",)
    if split.has_cache and request.sequence_tokens is None:
        return None, ("MBU left out: sequence_tokens, which the cache grows with, is not given",)
    formats = (note for note in split.notes if note.startswith(("weights", "KV cache in")))
    step = decode_bytes(split.footprint, request.batch_size, request.sequence_tokens or 1)
    experts = ("of routed experts, those of one token",) if split.architecture.experts else ()
    counted = f"MBU counts one copy of weights and cache at batch_size {request.batch_size}, whatever the parallelism"
    return step, (counted, *experts, *formats)


def _notes(request: ComputeUtilizationRequest, split: SplitModel, device: Device, counts: Counts) -> tuple[str, ...]:
    notes = [phrase(note) for note in split.architecture.notes if not note.startswith("KV cache left out")]
    notes += device.notes
    if request.sequence_tokens is None:
        notes.append("attention left out: sequence_tokens is not given")
    elif counts.attention_forward_flops == 0:
        notes.append("attention left out: num_layers, num_query_heads, num_kv_heads and head_dim are not given")
    if request.peak_precision not in device.peaks_sparse:
        notes.append(f"no sparse {request.peak_precision} peak is known for {device.title}, so none is compared")
    return tuple(notes)


def _figures(request: ComputeUtilizationRequest, device: Device) -> tuple[UsedFigure, ...]:
    names = (
        f"peak_dense.{request.peak_precision}",
        f"peak_structured_2_4.{request.peak_precision}",
        "memory_bandwidth",
    )
    return tuple(device.figures[name] for name in names if name in device.figures)
