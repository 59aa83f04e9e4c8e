"""What fits: sequences beside the weights, and what is short where they do not fit."""

from dataclasses import dataclass

from service.formulas.memory import available_bytes_per_device, max_sequences_per_device, required_bytes_per_device
from service.planning.device import Device
from service.planning.explain import Apply, plainly
from service.planning.footprint import Footprint, StageFootprint
from service.planning.results import Cure, Shortfall

_GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a replica holds at a given context. ``tightest`` is the stage that decides; bytes are its per-device figures."""

    usable_bytes: float
    available_bytes: float
    required_bytes: float
    tightest: StageFootprint
    cache_bytes_per_sequence: float  # of the tightest stage
    max_sequences: float | None  # over the whole replica; None where there is no cache to count

    @property
    def headroom_bytes(self) -> float:
        """What is left on the tightest device; negative where it does not fit."""
        return self.available_bytes - self.required_bytes

    @property
    def fits(self) -> bool:
        """Whether weights and the asked sequences fit."""
        return self.required_bytes <= self.available_bytes


def capacity(
    stages: tuple[StageFootprint, ...],
    *,
    attention_groups: int,
    usable_bytes: float,
    memory_ratio: float,
    context_tokens: int,
    sequences: int,
    apply: Apply = plainly,
) -> Capacity:
    """What the replica holds, and whether ``sequences`` of ``context_tokens`` fit. Sequences spread over attention groups."""
    per_device = -(-sequences // attention_groups)
    available = apply(available_bytes_per_device, usable_memory_bytes=usable_bytes, memory_utilization_ratio=memory_ratio)
    costs = [(stage.weight_bytes + per_device * stage.cache_bytes.at(context_tokens), stage) for stage in stages]
    tightest = max(costs, key=lambda cost: cost[0])[1]
    cache = tightest.cache_bytes.at(context_tokens)
    required = apply(
        required_bytes_per_device,
        weight_bytes_per_device=tightest.weight_bytes,
        sequences_per_device=per_device,
        cache_bytes_per_sequence_per_device=cache,
    )
    held = [
        apply(
            max_sequences_per_device,
            available_bytes_per_device=available,
            weight_bytes_per_device=stage.weight_bytes,
            cache_bytes_per_sequence_per_device=stage_cache,
        )
        for stage in stages
        if (stage_cache := stage.cache_bytes.at(context_tokens)) > 0
    ]
    weights_fit = all(stage.weight_bytes <= available for stage in stages)
    most = (max(0.0, min(held)) * attention_groups if weights_fit else 0.0) if held else None
    return Capacity(usable_bytes, available, required, tightest, cache, most)


def known_capacity(
    footprint: Footprint, device: Device, memory_ratio: float, context_tokens: int, sequences: int, apply: Apply
) -> Capacity | None:
    """The capacity on a device, or None where the device's memory is not known."""
    if device.usable_memory_bytes is None:
        return None
    return capacity(
        footprint.stages,
        attention_groups=footprint.shape.attention_data,
        usable_bytes=device.usable_memory_bytes,
        memory_ratio=memory_ratio,
        context_tokens=context_tokens,
        sequences=sequences,
        apply=apply,
    )


def shortfall(found: Capacity, memory_ratio: float, sequences: int, context_tokens: int, field: str) -> Shortfall | None:
    """What is short and what cures it within this shape, or None where it fits. ``field`` is where sequences were asked."""
    if found.fits:
        return None
    short = found.required_bytes - found.available_bytes
    need, have = f"{found.required_bytes / _GIB:.2f} GiB", f"{found.available_bytes / _GIB:.2f} GiB"
    description = (
        f"weights and cache need {need} on a device and {memory_ratio:g} of its memory is {have}: {short / _GIB:.2f} GiB short"
    )
    cures = tuple(_cures(found, sequences, context_tokens, field))
    return Shortfall("DEVICE_MEMORY", found.required_bytes, found.available_bytes, short, description, cures)


def _cures(found: Capacity, sequences: int, context_tokens: int, field: str) -> list[Cure]:
    cures = []
    needed_ratio = found.required_bytes / found.usable_bytes
    if needed_ratio <= 1:
        rounded = min(1.0, -(-needed_ratio * 1000 // 1) / 1000)
        text = f"it would fit at a memory ratio of {rounded:g}, with next to nothing else on the device"
        cures.append(Cure("memory_utilization_ratio", f"{rounded:g}", text))
    if found.max_sequences:
        most = int(found.max_sequences)
        text = f"{most} sequences of {context_tokens} tokens fit"
        cures.append(Cure(field, str(most), text))
    context = _longest_context(found, context_tokens)
    if context:
        plural = "s" if sequences > 1 else ""
        cures.append(Cure("context_tokens", str(context), f"{sequences} sequence{plural} of {context} tokens fit"))
    return cures


def _longest_context(found: Capacity, context_tokens: int) -> int:
    """The longest context at which the tightest stage still holds the sequences; 0 where there is none."""
    cache_now = found.cache_bytes_per_sequence
    per_device = (found.required_bytes - found.tightest.weight_bytes) / cache_now if cache_now else 0.0
    low, high = 0, context_tokens
    while high - low > 1:
        middle = (low + high) // 2
        required = found.tightest.weight_bytes + per_device * found.tightest.cache_bytes.at(middle)
        low, high = (middle, high) if required <= found.available_bytes else (low, middle)
    return low
