"""How one accelerator stands beside another: how much of a faster decode is bandwidth, narrower numbers, memory."""

from service.formulas.roofline import ridge_point_flops_per_byte
from service.planning.device import Device
from service.planning.errors import Unanswerable
from service.planning.fleet.results import DensePeak, GenerationStep
from service.units import BYTES_PER_ELEMENT

#: Formats whose peaks count floating-point operations; those of integers are no FLOP/s.
_INTEGERS = frozenset({"int8", "int4"})


def dense_peaks(device: Device) -> tuple[DensePeak, ...]:
    """Dense peaks with their ridge points, the highest first."""
    ordered = sorted(device.peaks_dense.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(DensePeak(precision, peak, _ridge(device, peak)) for precision, peak in ordered)


def _ridge(device: Device, peak: float) -> float | None:
    bandwidth = device.memory_bandwidth_bytes_per_second
    if bandwidth is None:
        return None
    return ridge_point_flops_per_byte(peak_dense_flops_per_second=peak, memory_bandwidth_bytes_per_second=bandwidth)


def _best(device: Device) -> tuple[str, float]:
    """The format of the highest dense peak in floating-point operations. Unanswerable where none is known."""
    known = {name: peak for name, peak in device.peaks_dense.items() if name not in _INTEGERS and name in BYTES_PER_ELEMENT}
    if not known:
        remedy = "leave it out of the comparison"
        raise Unanswerable("accelerators", f"no dense floating-point peak of {device.title} is known", remedy)
    name = max(known, key=lambda each: (known[each], each))
    return name, known[name]


def generation_step(first: Device, other: Device) -> GenerationStep:
    """The other beside the first. Unanswerable where a peak or the memory of one of them is not known."""
    (from_format, from_peak), (to_format, to_peak) = _best(first), _best(other)
    same = other.peaks_dense.get(from_format)
    bandwidth = _ratio(other.memory_bandwidth_bytes_per_second, first.memory_bandwidth_bytes_per_second)
    narrower = BYTES_PER_ELEMENT[from_format] / BYTES_PER_ELEMENT[to_format]
    memory = _ratio(other.usable_memory_bytes, first.usable_memory_bytes)
    if memory is None:
        raise Unanswerable("accelerators", f"the memory of {first.title} or {other.title} is not known", "leave it out")
    peak = to_peak / from_peak
    return GenerationStep(
        from_accelerator=first.title,
        to_accelerator=other.title,
        from_precision=from_format,
        to_precision=to_format,
        peak_ratio=peak,
        same_precision_peak_ratio=None if same is None else same / from_peak,
        precision_peak_ratio=None if same is None else to_peak / same,
        bandwidth_ratio=bandwidth,
        memory_ratio=memory,
        weight_bytes_ratio=narrower,
        decode_speedup_at_most=None if bandwidth is None else bandwidth * narrower,
        ridge_point_ratio=None if bandwidth is None else peak / bandwidth,
        text=_text(first, other, from_format, to_format, peak, bandwidth, narrower, memory),
    )


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def _text(
    first: Device,
    other: Device,
    from_format: str,
    to_format: str,
    peak: float,
    bandwidth: float | None,
    narrower: float,
    memory: float,
) -> str:
    peaks = f"{first.title} {from_format} to {other.title} {to_format}: dense peak × {peak:.3g}"
    if bandwidth is None:
        return f"{peaks}, memory × {memory:.2g}; the bandwidth of one is not known"
    return (
        f"{peaks}, bandwidth × {bandwidth:.2g}, memory × {memory:.2g}. Decode at small batches follows the bandwidth, × "
        f"{bandwidth:.2g}, and what narrower weights leave to read, × {narrower:.2g}: at most × {bandwidth * narrower:.3g} "
        f"in all; the peak helps prefill and large batches alone"
    )
