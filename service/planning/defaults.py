"""What a request that is silent gets, and the sentence that says so."""

from service.planning.device import Device, MemoryBasis

MEMORY_UTILIZATION_RATIO = 0.9
#: No engine leaves less of a device to what it does not count: beyond, nothing is advised.
HIGHEST_MEMORY_RATIO = 0.97
BATCH_SIZE = 1
CONCURRENCY = 1
MAX_NUM_NODES = 16
#: Activations, and with them all-reduce messages and exchanged results, are 16 bits in every engine.
ACTIVATION_BYTES_PER_ELEMENT = 2.0

_DEFAULT_RATIO = f"memory_utilization_ratio {MEMORY_UTILIZATION_RATIO} (default)"
NOT_COUNTED = (
    "activations, CUDA graphs and the engine's own memory are not counted: they come out of what the memory ratio reserves"
)


def memory_ratio(asked: float | None) -> tuple[float, str | None]:
    """The memory ratio, and the sentence to state where it is the default."""
    if asked is not None:
        return asked, None
    return MEMORY_UTILIZATION_RATIO, _DEFAULT_RATIO


def batch(asked: int | None) -> tuple[int, str | None]:
    """The batch size, and the sentence to state where it is the default."""
    if asked is not None:
        return asked, None
    return BATCH_SIZE, f"batch_size {BATCH_SIZE} (default)"


def context_note(context_tokens: int, context_limit_tokens: int | None) -> str | None:
    """The sentence to state where a context is longer than the model's own limit."""
    if context_limit_tokens is None or context_tokens <= context_limit_tokens:
        return None
    return f"a context of {context_tokens} tokens is beyond the model's own {context_limit_tokens}"


def memory_note(device: Device) -> str:
    """The sentence on where the usable memory comes from."""
    if device.usable_memory_bytes is None:
        return f"whether it fits is not said: the memory of {device.title} is not given"
    sizes = f"{device.usable_memory_bytes / 2**30:.2f} GiB"
    basis = {
        MemoryBasis.MEASURED: "reported by the driver",
        MemoryBasis.MARKETED: "as marketed; the driver's figure is not known",
        MemoryBasis.CALLER: "given by the caller",
    }[device.memory_basis]
    return f"usable memory of {device.title}: {sizes}, {basis}"
