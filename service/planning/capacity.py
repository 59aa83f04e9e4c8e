"""What fits: sequences beside the weights, and what is short where they do not fit."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from service.formulas.memory import available_bytes_per_device, max_sequences_per_device, required_bytes_per_device
from service.planning.device import Device
from service.planning.explain import Apply, plainly
from service.planning.footprint import Footprint, StageFootprint
from service.planning.pick import FLOATS, Pick


class Capacity(Struct, frozen=True):
    """What a replica holds at a given context. ``tightest`` is the stage that decides; bytes are its per-device figures."""

    usable_bytes: float
    available_bytes: float
    required_bytes: float
    tightest: StageFootprint
    cache_bytes_per_sequence: float  # of the tightest stage
    max_sequences: float | None  # over the whole replica; None where there is no cache to count
    stages: tuple[StageFootprint, ...]
    sequences_per_device: int

    @property
    def headroom_bytes(self) -> float:
        """What is left on the tightest device; negative where it does not fit."""
        return self.available_bytes - self.required_bytes

    def on_stage(self, stage: StageFootprint, context_tokens: int) -> "Capacity":
        """The same with another stage's figures: of the one that an engine finds the tightest."""
        cache = stage.cache_bytes.at(context_tokens)
        required = stage.weight_bytes + self.sequences_per_device * cache
        return replace(self, required_bytes=required, tightest=stage, cache_bytes_per_sequence=cache)

    @property
    def fits(self) -> bool:
        """Whether weights and the asked sequences fit."""
        return self.required_bytes <= self.available_bytes


def tightest_stage(stages: Sequence[StageFootprint], context_tokens: int, sequences_per_device: int) -> StageFootprint:
    """The stage whose devices need most memory for weights and the asked sequences; of several alike the first."""
    if len(stages) == 1:
        return stages[0]
    return max(stages, key=lambda stage: stage.weight_bytes + sequences_per_device * stage.cache_bytes.at(context_tokens))


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
    tightest = tightest_stage(stages, context_tokens, per_device)
    cache = tightest.cache_bytes.at(context_tokens)
    required = apply(
        required_bytes_per_device,
        weight_bytes_per_device=tightest.weight_bytes,
        sequences_per_device=per_device,
        cache_bytes_per_sequence_per_device=cache,
    )
    held = []
    weights_fit = True
    for stage in stages:
        weights_fit = weights_fit and stage.weight_bytes <= available
        stage_cache = stage.cache_bytes.at(context_tokens)
        if stage_cache > 0:
            sequences_held = apply(
                max_sequences_per_device,
                available_bytes_per_device=available,
                weight_bytes_per_device=stage.weight_bytes,
                cache_bytes_per_sequence_per_device=stage_cache,
            )
            held.append(sequences_held)
    most = (max(0.0, min(held)) * attention_groups if weights_fit else 0.0) if held else None
    return Capacity(usable_bytes, available, required, tightest, cache, most, stages, per_device)


def fits_everywhere(
    footprint: Footprint,
    usable_bytes: float,
    memory_ratio: float,
    context_tokens: float,
    sequences: float,
    pick: Pick = FLOATS,
) -> bool:
    """Whether weights and sequences fit on the devices of every stage: what ``capacity`` says of its tightest."""
    per_device = -(-sequences // footprint.shape.attention_data)
    available = available_bytes_per_device(usable_memory_bytes=usable_bytes, memory_utilization_ratio=memory_ratio)
    most = 0.0
    for stage in footprint.stages:
        required = required_bytes_per_device(
            weight_bytes_per_device=stage.weight_bytes,
            sequences_per_device=per_device,
            cache_bytes_per_sequence_per_device=stage.cache_bytes.at(context_tokens, pick.smaller),
        )
        most = pick.larger(most, required)
    return most <= available


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
