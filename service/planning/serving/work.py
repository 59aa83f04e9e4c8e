"""What serving asks of one device: bytes, arithmetic and collectives, ready to be put into time.

All of it follows from the split model and the device; nothing depends on the load. Numbers are held by width class, since
kernels for 16, 8 and 4 bits reach different parts of bandwidth and peak.
"""

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct

from service.architectures.architecture import LayerKind, Mixer, Role, Tensor
from service.planning.context_cost import ContextCost
from service.planning.decode_step import DecodePlan
from service.planning.defaults import ACTIVATION_BYTES_PER_ELEMENT
from service.planning.footprint import expanded_flops_per_pair
from service.planning.formats import StoredFormats
from service.planning.resolve import SplitModel
from service.planning.shape import share_on_device
from service.units import BYTES_PER_ELEMENT

#: Terms of a cost that windows bound; no known model has more.
_MOST_WINDOWS = 3
_LOOKED_UP = frozenset({Role.EMBEDDING, Role.PER_LAYER_EMBEDDING, Role.VISION})


class ByWidth(Struct, frozen=True):
    """One figure for each width class of the stored weights."""

    sixteen: float = 0.0  # 16 bits and wider
    eight: float = 0.0
    four: float = 0.0


class Growth(Struct, frozen=True):
    """A cost of a sequence of T tokens: fixed + per_token · T + Σ each · min(T, window)."""

    fixed: float
    per_token: float
    windows: tuple[tuple[float, float], ...]  # window in tokens, cost of each token within it; padded to one length


class ServingWork(Struct, frozen=True):
    """What one device of a replica does, summed over all layers that a token passes.

    ``…_seconds`` are at the dense peak, before any calibration; ``…_per_pair`` is for one query attending to one key.
    A sweep holds arrays in the same fields.
    """

    bandwidth_bytes_per_second: float
    link_bandwidth_bytes_per_second: float  # one way; 1 where there is no collective
    num_ranks: float  # devices that a collective joins
    log2_num_ranks: float
    num_stages: float
    num_attention_groups: float
    weight_bytes: ByWidth
    head_bytes: float
    expert_bytes: ByWidth  # all experts that the device holds
    expert_slices_per_device: float  # experts of one layer that a device holds a part of
    num_expert_layers: float
    num_experts: float
    num_experts_per_token: float
    is_emulated: float  # 1 where the device has no arithmetic for its 4-bit experts and widens them first
    peak_seconds_per_token: ByWidth
    expert_peak_seconds_per_token: ByWidth
    num_layers: float
    num_quantized_layers: float
    num_latent_layers: float
    num_linear_layers: float
    cache_bytes: Growth
    attention_peak_seconds: Growth
    prefill_seconds_per_pair: float
    prefill_seconds_per_windowed_pair: tuple[tuple[float, float], ...]  # window, seconds
    num_collectives: float
    state_bytes_per_token: float  # a hidden state: what is moved between kernels, and what a collective joins
    least_read_ratio: float  # of the experts that a device holds, the part that one token makes the busiest device read
    cache_bytes_stored: Growth  # by the tightest stage: what a running sequence occupies


def serving_work(split: SplitModel, plan: DecodePlan) -> ServingWork:
    """What the split model asks of the plan's device."""
    footprint, shape, formats = split.footprint, split.footprint.shape, split.builder.formats
    architecture = split.architecture
    tensors = tuple(_tensors(split))
    ranks = float(shape.tensor * shape.attention_data)
    pairs, windowed = _prefill_attention(split, plan)
    held = float(footprint.num_experts / shape.expert) if footprint.num_experts else 0.0
    counts = list(zip(architecture.layer_kinds, map(float, architecture.layer_counts), strict=True))
    return ServingWork(
        bandwidth_bytes_per_second=plan.bandwidth,
        link_bandwidth_bytes_per_second=plan.ring_bandwidth or plan.link_bandwidth or 1.0,
        num_ranks=ranks,
        log2_num_ranks=math.log2(ranks),
        num_stages=float(shape.pipeline),
        num_attention_groups=float(shape.attention_data),
        weight_bytes=_by_width((formats.precision_of(t), b) for t, b in tensors if _is_dense(t)),
        head_bytes=sum(b for t, b in tensors if t.role is Role.LM_HEAD),
        expert_bytes=_by_width((formats.precision_of(t), b) for t, b in tensors if t.role is Role.ROUTED_EXPERTS),
        expert_slices_per_device=held,
        num_expert_layers=float(footprint.num_expert_layers),
        num_experts=float(footprint.num_experts or 1),
        num_experts_per_token=float(footprint.num_experts_per_token),
        is_emulated=float(_is_emulated(plan, formats, tensors)),
        peak_seconds_per_token=_peak_seconds(plan, footprint.flops_per_device),
        expert_peak_seconds_per_token=_peak_seconds(plan, footprint.expert_flops_per_device),
        num_layers=float(architecture.num_layers),
        num_quantized_layers=sum(n for kind, n in counts if _is_quantized(kind, formats)),
        num_latent_layers=sum(n for kind, n in counts if kind.attention and kind.attention.kv_lora_rank is not None),
        num_linear_layers=sum(n for kind, n in counts if kind.mixer is Mixer.LINEAR),
        cache_bytes=_growth(footprint.cache_read_bytes_per_device),
        attention_peak_seconds=_growth(footprint.attention_flops_per_device, 1 / plan.attention_peak),
        prefill_seconds_per_pair=pairs,
        prefill_seconds_per_windowed_pair=windowed,
        num_collectives=_num_collectives(split),
        state_bytes_per_token=float(footprint.hidden_size) * ACTIVATION_BYTES_PER_ELEMENT,
        least_read_ratio=plan.bound_experts_read_per_device / held if held else 0.0,
        cache_bytes_stored=_growth(max((stage.cache_bytes for stage in footprint.stages), key=lambda cost: cost.at(8192))),
    )


def _tensors(split: SplitModel) -> Iterable[tuple[Tensor, float]]:
    """Every tensor that a token meets, with its bytes on the device."""
    formats, shape, architecture = split.builder.formats, split.footprint.shape, split.architecture
    for tensor in architecture.outer:
        if tensor.role not in _LOOKED_UP:
            yield tensor, formats.bytes_of(tensor) * share_on_device(tensor.split, shape, None)
    for kind, count in zip(architecture.layer_kinds, architecture.layer_counts, strict=True):
        heads = kind.attention.num_kv_heads if kind.attention else None
        for tensor in kind.tensors:
            yield tensor, formats.bytes_of(tensor) * share_on_device(tensor.split, shape, heads) * count


def _is_dense(tensor: Tensor) -> bool:
    return tensor.role not in {Role.ROUTED_EXPERTS, Role.LM_HEAD}


def _width(precision: str) -> str:
    size = BYTES_PER_ELEMENT[precision]
    return "sixteen" if size >= 2 else "eight" if size >= 1 else "four"


def _by_width(parts: Iterable[tuple[str, float]]) -> ByWidth:
    sums = {"sixteen": 0.0, "eight": 0.0, "four": 0.0}
    for precision, amount in parts:
        sums[_width(precision)] += amount
    return ByWidth(**sums)


def _peak_seconds(plan: DecodePlan, flops: Mapping[str, float]) -> ByWidth:
    """Seconds at the dense peak for one token, each stored format at the peak that it is multiplied at."""
    return _by_width((stored, amount / plan.peaks[stored]) for stored, amount in flops.items() if amount)


def _is_emulated(plan: DecodePlan, formats: StoredFormats, tensors: Iterable[tuple[Tensor, float]]) -> bool:
    """Whether 4-bit experts are widened before they are multiplied, for want of 4-bit arithmetic."""
    stored = {formats.precision_of(t) for t, _ in tensors if t.role is Role.ROUTED_EXPERTS and t.num_matmul_parameters}
    return any(_width(each) == "four" for each in stored) and "fp4" not in plan.device.peaks_dense


def _is_quantized(kind: LayerKind, formats: StoredFormats) -> bool:
    """Whether a layer's projections are kept in 8 or 4 bits: their inputs are then converted, by kernels of their own."""
    roles = {Role.ATTENTION, Role.LINEAR_ATTENTION}
    projections = [t for t in kind.tensors if t.role in roles and t.num_matmul_parameters]
    return bool(projections) and _width(formats.precision_of(projections[0])) != "sixteen"


def _growth(cost: ContextCost, scale: float = 1.0) -> Growth:
    windows: list[tuple[float, float]] = []
    per_token = cost.per_token
    for window, tokens, each in cost.terms:
        if window is None:
            per_token += each / tokens
        else:
            windows.append((float(window), each / tokens * scale))
    return Growth(cost.fixed * scale, per_token * scale, _padded(windows))


def _padded(windows: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """As many terms for every model, so that a sweep over models has one shape; the smallest of too many are joined."""
    while len(windows) > _MOST_WINDOWS:
        windows.sort(key=lambda term: term[1])
        (_, first), (window, second), *rest = windows
        windows = [(window, first + second), *rest]
    return (*windows, *((1.0, 0.0),) * (_MOST_WINDOWS - len(windows)))


def _prefill_attention(split: SplitModel, plan: DecodePlan) -> tuple[float, tuple[tuple[float, float], ...]]:
    """Seconds at peak for one query and one key, over all layers that attend to everything and by window.

    Latent attention is not absorbed in prefill: keys and values are made for every head.
    """
    everything, windows = 0.0, []
    architecture = split.architecture
    for kind, count in zip(architecture.layer_kinds, architecture.layer_counts, strict=True):
        if kind.attention is None:
            continue
        seconds = expanded_flops_per_pair(kind.attention) * count / split.footprint.shape.tensor / plan.attention_peak
        if kind.attention.window_tokens is None:
            everything += seconds
        else:
            windows.append((float(kind.attention.window_tokens), seconds))
    return everything, _padded(windows)


def _num_collectives(split: SplitModel) -> float:
    """All-reduces in a step; with data-parallel attention also the way to the experts and back."""
    footprint = split.footprint
    exchanges = 2 * footprint.num_expert_layers if footprint.shape.attention_data > 1 else 0
    return float(footprint.num_all_reduces + exchanges)
