"""The roofline: how long bytes, operations and collectives take at least, and which of them decides."""

from collections.abc import Callable

from service.formulas.registry import formula

_ROOFLINE = "Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009"


@formula("P / BW", source=_ROOFLINE)
def ridge_point_flops_per_byte(*, peak_dense_flops_per_second: float, memory_bandwidth_bytes_per_second: float) -> float:
    """Operations per byte at which arithmetic and memory take equally long.

    Below it memory binds, above it arithmetic. The peak is the dense one: an ordinary model has no 2:4 sparsity.

    >>> round(ridge_point_flops_per_byte(peak_dense_flops_per_second=989.4e12, memory_bandwidth_bytes_per_second=3352e9), 2)
    295.17
    """
    return peak_dense_flops_per_second / memory_bandwidth_bytes_per_second


@formula("bytes / BW", source=_ROOFLINE)
def memory_seconds(*, bytes_per_device: float, memory_bandwidth_bytes_per_second: float) -> float:
    """Seconds to read a device's bytes at full memory bandwidth.

    >>> round(memory_seconds(bytes_per_device=1.4e10, memory_bandwidth_bytes_per_second=3352e9) * 1e3, 4)
    4.1766
    """
    return bytes_per_device / memory_bandwidth_bytes_per_second


@formula("FLOP / P", source=_ROOFLINE)
def seconds_at_peak(*, flops_per_device: float, peak_dense_flops_per_second: float) -> float:
    """Seconds for a device's operations of one number format at its dense peak.

    >>> round(seconds_at_peak(flops_per_device=1.4e10, peak_dense_flops_per_second=989.4e12) * 1e3, 5)
    0.01415
    """
    return flops_per_device / peak_dense_flops_per_second


@formula("bytes / BW_one_way", source="definition: a full-duplex link sends and receives at once")
def interconnect_seconds(*, interconnect_bytes_per_device: float, link_bandwidth_one_way_bytes_per_second: float) -> float:
    """Seconds for what a device sends, at its link's one-way bandwidth.

    >>> interconnect_seconds(interconnect_bytes_per_device=4.5e8, link_bandwidth_one_way_bytes_per_second=4.5e11)
    0.001
    """
    return interconnect_bytes_per_device / link_bandwidth_one_way_bytes_per_second


@formula("FLOP / bytes", source=_ROOFLINE)
def arithmetic_intensity_flops_per_byte(*, flops: float, num_bytes: float) -> float:
    """Operations per byte read.

    >>> arithmetic_intensity_flops_per_byte(flops=1.4e10, num_bytes=1.4e10)
    1.0
    """
    return flops / num_bytes


@formula("max(t_memory, t_compute, t_interconnect)", source=_ROOFLINE)
def step_seconds(
    *,
    memory_seconds: float,
    compute_seconds: float,
    interconnect_seconds: float,
    maximum: Callable[[float, float], float] = max,
) -> float:
    """Seconds that a step takes at least: memory, arithmetic and links can all be busy at once, so the slowest decides.

    A sweep passes ``maximum=np.maximum``.

    >>> step_seconds(memory_seconds=4e-3, compute_seconds=1e-5, interconnect_seconds=1e-4)
    0.004
    """
    return maximum(maximum(memory_seconds, compute_seconds), interconnect_seconds)


@formula("max(t_compute, t_weights)", source=_ROOFLINE)
def prefill_bound_seconds(
    *, prompt_compute_seconds: float, weights_seconds: float, maximum: Callable[[float, float], float] = max
) -> float:
    """Seconds that a prompt takes at least: its arithmetic at the dense peak, or reading the weights once.

    A sweep passes ``maximum=np.maximum``.

    >>> prefill_bound_seconds(prompt_compute_seconds=0.05, weights_seconds=0.004)
    0.05
    """
    return maximum(prompt_compute_seconds, weights_seconds)


@formula("t_memory + t_compute + t_interconnect", source="definition: nothing overlaps")
def expected_step_seconds(
    *, expected_memory_seconds: float, expected_compute_seconds: float, expected_interconnect_seconds: float
) -> float:
    """Seconds of a step in which memory, arithmetic and links take turns.

    >>> expected_step_seconds(expected_memory_seconds=4.0, expected_compute_seconds=2.0, expected_interconnect_seconds=1.0)
    7.0
    """
    return expected_memory_seconds + expected_compute_seconds + expected_interconnect_seconds


@formula("B / t_step", source="definition: every sequence gains one token per step")
def tokens_per_second(*, batch_size: float, step_seconds: float) -> float:
    """Tokens per second of all sequences together.

    >>> round(tokens_per_second(batch_size=64, step_seconds=0.0144268))
    4436
    """
    return batch_size / step_seconds


@formula("W / K", source="the batch at which B · K, the cache read, equals W, the weights read")
def kv_bandwidth_onset_batch_size(*, weight_bytes_per_device: float, cache_bytes_per_sequence_per_device: float) -> float:
    """Sequences per device at which reading the cache takes as long as reading the weights.

    >>> round(kv_bandwidth_onset_batch_size(weight_bytes_per_device=1.4e10, cache_bytes_per_sequence_per_device=536870912), 1)
    26.1
    """
    return weight_bytes_per_device / cache_bytes_per_sequence_per_device


@formula("(W / BW) / (t_1 − K / BW)", source="the batch B at which B · t_1 equals (W + B · K) / BW")
def limit_onset_batch_size(
    *,
    weight_bytes_per_device: float,
    cache_bytes_per_sequence_per_device: float,
    memory_bandwidth_bytes_per_second: float,
    seconds_per_sequence: float,
) -> float:
    """Sequences per device at which arithmetic, or links, take as long as memory; ``seconds_per_sequence`` is one sequence's.

    Holds where one sequence takes longer by the limit than its own cache takes to read; elsewhere memory stays slower at any
    batch and the result is negative or infinite.

    >>> round(limit_onset_batch_size(weight_bytes_per_device=1.4e10, cache_bytes_per_sequence_per_device=0.0,
    ...     memory_bandwidth_bytes_per_second=3352e9, seconds_per_sequence=1.4e10 / 989.4e12))
    295
    """
    weights = weight_bytes_per_device / memory_bandwidth_bytes_per_second
    cache = cache_bytes_per_sequence_per_device / memory_bandwidth_bytes_per_second
    return weights / (seconds_per_sequence - cache)
