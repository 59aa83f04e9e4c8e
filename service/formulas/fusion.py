"""Operators on one device: the operations and bytes of each, and what kernels and launches take together."""

from collections.abc import Callable

from service.formulas.registry import formula

_ROOFLINE = "Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009"


@formula("2 · b · M · N · K", source="definition: a multiply-add is two operations")
def gemm_flops(*, num_matrices: float, rows: float, columns: float, depth: float) -> float:
    """Operations of a batch of matrix products, (M × K) by (K × N) each.

    >>> gemm_flops(num_matrices=1, rows=8, columns=4096, depth=4096)
    268435456
    """
    return 2 * num_matrices * rows * columns * depth


@formula("b · (M · K + K · N + M · N)", source="each factor is read once and the product written once")
def gemm_elements(*, num_matrices: float, rows: float, columns: float, depth: float) -> float:
    """Elements that a batch of matrix products reads and writes at least.

    >>> gemm_elements(num_matrices=1, rows=4096, columns=4096, depth=4096) == 3 * 4096**2
    True
    """
    return num_matrices * (rows * depth + depth * columns + rows * columns)


@formula("4 · H · T_q · T_kv · d · b · c", source="Dao et al., FlashAttention, NeurIPS 2022: two products of T_q × T_kv × d")
def fused_attention_flops(
    *,
    num_sequences: float,
    num_query_heads: float,
    query_tokens: float,
    context_tokens: float,
    head_dim: float,
    attended_ratio: float,
) -> float:
    """Operations of attention's two products; ``attended_ratio`` is the share of the score matrix that a mask leaves.

    >>> fused_attention_flops(num_sequences=1, num_query_heads=32, query_tokens=4096, context_tokens=4096, head_dim=128,
    ...     attended_ratio=0.5)
    137438953472.0
    """
    return 4 * num_sequences * num_query_heads * query_tokens * context_tokens * head_dim * attended_ratio


@formula("E · b", source="definition")
def tensor_bytes(*, num_elements: float, bytes_per_element: float) -> float:
    """Bytes of a number of elements.

    >>> tensor_bytes(num_elements=4 * 4096**2, bytes_per_element=2) == 128 * 2**20
    True
    """
    return num_elements * bytes_per_element


@formula("max(t_memory, t_compute)", source=_ROOFLINE)
def kernel_seconds(*, memory_seconds: float, compute_seconds: float, maximum: Callable[[float, float], float] = max) -> float:
    """Seconds that a kernel takes at least: it reads, writes and computes at once, so the slower decides.

    >>> kernel_seconds(memory_seconds=50.3e-6, compute_seconds=274.9e-6)
    0.0002749
    """
    return maximum(memory_seconds, compute_seconds)


@formula("n · t_launch", source="definition: one thread submits one kernel after another")
def submission_seconds(*, num_launches: float, launch_seconds: float) -> float:
    """Seconds that the host takes to submit so many kernels.

    >>> submission_seconds(num_launches=3, launch_seconds=4e-6)
    1.2e-05
    """
    return num_launches * launch_seconds


@formula("max(t_kernels, t_submission)", source="submission runs ahead of execution: the slower of the two sets the pace")
def paced_seconds(*, device_seconds: float, submission_seconds: float, maximum: Callable[[float, float], float] = max) -> float:
    """Seconds per pass at least, when the device works on one kernel while the host submits the next.

    >>> paced_seconds(device_seconds=17e-6, submission_seconds=12e-6)
    1.7e-05
    """
    return maximum(device_seconds, submission_seconds)


@formula("t_other / t_GEMM", source="definition")
def other_to_gemm_ratio(*, other_seconds: float, gemm_seconds: float) -> float:
    """Time of the kernels that hold no matrix product, against that of those that do.

    >>> round(other_to_gemm_ratio(other_seconds=67.1e-6, gemm_seconds=274.9e-6), 3)
    0.244
    """
    return other_seconds / gemm_seconds


@formula("min(P, I · BW)", source=_ROOFLINE)
def attainable_flops_per_second(
    *,
    peak_dense_flops_per_second: float,
    arithmetic_intensity_flops_per_byte: float,
    memory_bandwidth_bytes_per_second: float,
    minimum: Callable[[float, float], float] = min,
) -> float:
    """The roof over an arithmetic intensity: what memory can feed, up to the dense peak.

    >>> attainable_flops_per_second(peak_dense_flops_per_second=500e12, arithmetic_intensity_flops_per_byte=8.0,
    ...     memory_bandwidth_bytes_per_second=2e12)
    16000000000000.0
    """
    return minimum(peak_dense_flops_per_second, arithmetic_intensity_flops_per_byte * memory_bandwidth_bytes_per_second)
