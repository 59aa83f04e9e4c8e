"""What is short where something does not fit, and what would cure it, the smallest change first."""

from collections.abc import Iterator

from msgspec import Struct

from service.planning.capacity import Capacity, capacity
from service.planning.defaults import HIGHEST_MEMORY_RATIO
from service.planning.footprint import FootprintBuilder, StageFootprint
from service.planning.requests import Parallelism
from service.planning.results import Cure, Shortfall

_GIB = 2.0**30


class Question(Struct, frozen=True):
    """What was asked of a model on a device, and what else could be tried."""

    sequences: int
    sequences_field: str  # where the request says how many: "batch_size", "concurrency"
    context_tokens: int
    memory_ratio: float
    builder: FootprintBuilder
    lighter_formats: tuple[str, ...]  # for weights, the heaviest first
    larger_hardware: tuple[tuple[float, str], ...]  # usable bytes of a device and name, the best choice first
    hardware_field: str = "accelerator.name"  # where the request names it


def shortfall(found: Capacity, asked: Question, shape: Parallelism) -> Shortfall | None:
    """What is short and what cures it within the shape, or None where it fits."""
    if found.fits:
        return None
    short = found.required_bytes - found.available_bytes
    need, have = f"{found.required_bytes / _GIB:.2f} GiB", f"{found.available_bytes / _GIB:.2f} GiB"
    description = (
        f"weights and cache need {need} on a device and {asked.memory_ratio:g} of its memory is {have}: "
        f"{short / _GIB:.2f} GiB short"
    )
    cures = tuple(_cures(found, asked, shape))
    return Shortfall("DEVICE_MEMORY", found.required_bytes, found.available_bytes, short, description, cures)


def _cures(found: Capacity, asked: Question, shape: Parallelism) -> Iterator[Cure]:
    needed_ratio = found.required_bytes / found.usable_bytes
    if needed_ratio <= HIGHEST_MEMORY_RATIO:
        rounded = f"{-(-needed_ratio * 1000 // 1) / 1000:g}"
        text = f"it would fit at a memory ratio of {rounded}, with next to nothing else on the device"
        yield Cure("memory_utilization_ratio", rounded, text)
    if found.max_sequences:
        most = int(found.max_sequences)
        yield Cure(asked.sequences_field, str(most), f"{sequences(most)} of {asked.context_tokens} tokens fit")
    limit = asked.builder.architecture.context_limit_tokens
    context = longest_context(found, min(asked.context_tokens, limit or asked.context_tokens))
    if context:
        yield Cure("context_tokens", str(context), f"{sequences(asked.sequences)} of {context} tokens fit")
    if asked.builder.formats.kv_bytes_per_element > 1 and _fits_as(asked.builder.with_fp8_cache, found, asked, shape):
        yield Cure("precision.kv_cache", "fp8", "it would fit with the cache in fp8")
    for weights in asked.lighter_formats:
        if _fits_as(asked.builder.with_weights(weights), found, asked, shape):
            yield lighter_weights_cure(weights)
            break
    for usable, name in asked.larger_hardware:
        if usable * asked.memory_ratio >= found.required_bytes:
            yield larger_hardware_cure(asked, usable, name)
            break


def lighter_weights_cure(weights: str) -> Cure:
    """Weights in a lighter format."""
    return Cure("precision.weights", weights, f"it would fit with the weights in {weights}")


def larger_hardware_cure(asked: Question, usable_bytes: float, name: str) -> Cure:
    """The same shape on hardware whose devices have so much usable memory."""
    size = f"{usable_bytes / _GIB:.1f} GiB"
    text = f"the same shape fits {name}, the smallest in the catalogue that holds it ({size})"
    if asked.hardware_field == "node.name":
        text = f"the same shape fits {name}, whose devices have {size}"
    return Cure(asked.hardware_field, name, text)


def sequences(number: int) -> str:
    """So many sequences, in words."""
    return f"{number} sequence{'' if number == 1 else 's'}"


def _fits_as(builder: FootprintBuilder, found: Capacity, asked: Question, shape: Parallelism) -> bool:
    return capacity(
        builder.stages(shape),
        attention_groups=shape.attention_data,
        usable_bytes=found.usable_bytes,
        memory_ratio=asked.memory_ratio,
        context_tokens=asked.context_tokens,
        sequences=asked.sequences,
    ).fits


def longest_context(found: Capacity, at_most: int) -> int:
    """The longest context at which every stage still holds the asked sequences; 0 where there is none."""
    return min(_longest_on(stage, found, at_most) for stage in found.stages)


def _longest_on(stage: StageFootprint, found: Capacity, at_most: int) -> int:
    room = (found.available_bytes - stage.weight_bytes) / found.sequences_per_device
    cost = stage.cache_bytes
    if room < 0 or cost.fixed > room:
        return 0
    if not cost.terms:
        return min(at_most, int((room - cost.fixed) // cost.per_token)) if cost.per_token else at_most
    low, high = 0, at_most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost.at(middle) <= room else (low, middle)
    return low
