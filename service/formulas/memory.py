"""The memory budget of a device."""

from service.formulas.registry import formula


@formula("M · u", source="definition: the memory fraction that serving engines take as a setting")
def available_bytes_per_device(*, usable_memory_bytes: float, memory_utilization_ratio: float) -> float:
    """Memory of a device that weights and cache may take.

    >>> round(available_bytes_per_device(usable_memory_bytes=81559 * 2**20, memory_utilization_ratio=0.9) / 2**30, 2)
    71.68
    """
    return usable_memory_bytes * memory_utilization_ratio


@formula("W + B · K", source="definition")
def required_bytes_per_device(
    *, weight_bytes_per_device: float, sequences_per_device: float, cache_bytes_per_sequence_per_device: float
) -> float:
    """Memory that weights and cache take on a device.

    >>> required_bytes_per_device(weight_bytes_per_device=14e9, sequences_per_device=2,
    ...     cache_bytes_per_sequence_per_device=1e9)
    16000000000.0
    """
    return weight_bytes_per_device + sequences_per_device * cache_bytes_per_sequence_per_device


@formula("⌊(A − W) / K⌋", source="definition")
def max_sequences_per_device(
    *, available_bytes_per_device: float, weight_bytes_per_device: float, cache_bytes_per_sequence_per_device: float
) -> float:
    """Whole sequences whose cache fits beside the weights; negative where not even the weights fit.

    >>> max_sequences_per_device(available_bytes_per_device=20e9, weight_bytes_per_device=14e9,
    ...     cache_bytes_per_sequence_per_device=4e9)
    1.0
    """
    return (available_bytes_per_device - weight_bytes_per_device) // cache_bytes_per_sequence_per_device
