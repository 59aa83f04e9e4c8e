"""Which number formats weights and cache are kept in, and which one the matrix units multiply in."""

from collections.abc import Mapping

from msgspec import Struct

from service.architectures import Architecture
from service.architectures.architecture import Role, Tensor
from service.planning.device import Device
from service.planning.requests import Precision
from service.units import BYTES_PER_ELEMENT

#: Roles that engines quantise. Embeddings, lm_head, routers and norms stay as the checkpoint has them.
_QUANTISED_ROLES = frozenset(
    {
        Role.ATTENTION,
        Role.LINEAR_ATTENTION,
        Role.CROSS_ATTENTION,
        Role.MLP,
        Role.ROUTED_EXPERTS,
        Role.SHARED_EXPERTS,
        Role.ALL,
    }
)
_WHOLE_MODEL = frozenset({"fp32", "bf16", "fp16"})
#: 4-bit floating point, as checkpoints of expert models use it: for feed-forward parts, with attention left in 16 bits
#: (hf_quant_config.json of nvidia/DeepSeek-V3, MiniMax-M2.5, Kimi-K2.5, GLM-5 in NVFP4; gpt-oss in MXFP4).
_FOUR_BIT_FLOATS = frozenset({"fp4", "nvfp4", "mxfp4"})
_MIXERS = frozenset({Role.ATTENTION, Role.LINEAR_ATTENTION, Role.CROSS_ATTENTION})

#: What a weight format is multiplied in where the request does not say. A tuple: the first that the device has.
#: int4 is a weight-only format (AWQ, GPTQ): it is widened to 16 bits. mxfp4 is multiplied in fp4 where there are such units.
_ARITHMETIC: Mapping[str, tuple[str, ...]] = {
    "fp32": ("tf32", "fp32"),
    "bf16": ("bf16",),
    "fp16": ("fp16",),
    "fp8": ("fp8",),
    "int8": ("int8",),
    "int4": ("bf16", "fp16"),
    "fp4": ("fp4",),
    "nvfp4": ("fp4",),
    "mxfp4": ("fp4", "bf16", "fp16"),
}


class StoredFormats(Struct, frozen=True):
    """What weights and cache are kept in. ``weights`` None: each tensor as the checkpoint stores it."""

    weights: str | None
    kv_cache: str
    has_experts: bool = False

    def precision_of(self, tensor: Tensor) -> str:
        """The number format that a tensor is kept in."""
        if self.weights is None:
            return tensor.precision
        if self.has_experts and self.weights in _FOUR_BIT_FLOATS and tensor.role in _MIXERS and tensor.num_matmul_parameters:
            return "bf16"
        if self.weights in _WHOLE_MODEL or (tensor.role in _QUANTISED_ROLES and tensor.num_matmul_parameters > 0):
            return self.weights
        return tensor.precision

    def bytes_of(self, tensor: Tensor) -> float:
        """The bytes that a tensor takes, block scales included."""
        precision = self.precision_of(tensor)
        if self.weights is None or precision == tensor.precision:
            return tensor.num_bytes
        return tensor.num_parameters * BYTES_PER_ELEMENT[precision]

    @property
    def kv_bytes_per_element(self) -> float:
        """Bytes of one element of the cache."""
        return BYTES_PER_ELEMENT[self.kv_cache]


def stored_formats(architecture: Architecture, precision: Precision) -> tuple[StoredFormats, tuple[str, ...]]:
    """The formats to keep weights and cache in, and sentences on what was assumed."""
    native = architecture.checkpoint_precision
    asked = precision.weights
    weights = None if asked is None or asked == native else asked
    notes = []
    if asked is None:
        notes.append(f"weights as the checkpoint stores them ({native})")
    elif weights is not None and weights not in _WHOLE_MODEL and architecture.layer_kinds:
        kept = "embeddings, lm_head, routers and norms as stored"
        if architecture.experts is not None and weights in _FOUR_BIT_FLOATS:
            notes.append(f"{weights} weights: experts and MLP, as such checkpoints do; attention in bf16; {kept}")
        else:
            notes.append(f"{weights} weights: projections, MLP and experts; {kept}")
    declared = architecture.kv_cache_precision
    kv_cache = precision.kv_cache or declared or "bf16"
    if precision.kv_cache is None:
        why = "as the checkpoint declares" if declared else "the engines' default; it does not follow the weights"
        notes.append(f"KV cache in {kv_cache} ({why})")
    return StoredFormats(weights, kv_cache, architecture.experts is not None), tuple(notes)


class Arithmetic(Struct, frozen=True):
    """Which peak each stored format is held against, on one device. ``main`` is the bulk of the weights'."""

    main: str
    by_stored_format: Mapping[str, str]
    attention: str
    notes: tuple[str, ...]


def arithmetic(architecture: Architecture, formats: StoredFormats, precision: Precision, device: Device) -> Arithmetic:
    """The number formats that the device multiplies in.

    Unanswerable where the device has no dense peak for one that is needed: nothing is extrapolated.
    """
    bulk = formats.weights or architecture.checkpoint_precision
    stored = {formats.precision_of(tensor) for tensor, _ in architecture.tensors() if tensor.num_matmul_parameters} | {bulk}
    chosen = {fmt: _peak_format(fmt, fmt == bulk, precision, device) for fmt in sorted(stored)}
    wide = chosen[bulk] if chosen[bulk] in _WHOLE_MODEL else _sixteen_bits(device)
    attention = formats.kv_cache if formats.kv_cache in {"fp8", "int8"} and formats.kv_cache in device.peaks_dense else wide
    notes = []
    if precision.compute is None and chosen[bulk] != bulk:
        notes.append(f"{bulk} weights are multiplied in {chosen[bulk]}")
    return Arithmetic(chosen[bulk], chosen, attention, tuple(notes))


def lighter_formats(architecture: Architecture, formats: StoredFormats, device: Device) -> tuple[str, ...]:
    """Formats that take fewer bytes than the weights' and that the device can multiply, the heaviest first."""
    bulk = BYTES_PER_ELEMENT[formats.weights or architecture.checkpoint_precision]
    eight = next((each for each in ("fp8", "int8") if each in device.peaks_dense), None)
    four = "nvfp4" if "fp4" in device.peaks_dense and device.vendor == "NVIDIA" else "int4"
    return tuple(each for each in (eight, four) if each is not None and BYTES_PER_ELEMENT[each] < bulk)


def _sixteen_bits(device: Device) -> str:
    return "bf16" if "bf16" in device.peaks_dense or "fp16" not in device.peaks_dense else "fp16"


def _peak_format(stored: str, is_bulk: bool, precision: Precision, device: Device) -> str:
    """The arithmetic of one stored format; the caller's choice goes for the bulk, and for all where it is 16 bits or more."""
    asked = precision.compute
    if asked is not None and (is_bulk or asked in _WHOLE_MODEL):
        device.peak_dense(asked, "precision.compute")
        return asked
    candidates = _ARITHMETIC[stored]
    if not is_bulk and stored in _WHOLE_MODEL:
        candidates = (*candidates, _sixteen_bits(device))
    for candidate in candidates:
        if candidate in device.peaks_dense:
            return candidate
    device.peak_dense(candidates[0], "precision.weights" if precision.weights else "precision.compute")
    raise AssertionError("unreachable: a format without a peak is refused above")
