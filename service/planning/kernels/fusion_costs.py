"""What kernels cost: bytes, operations, and the time that a roofline gives them."""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from service.formulas.fusion import (
    fused_attention_flops,
    gemm_elements,
    gemm_flops,
    kernel_seconds,
    tensor_bytes,
)
from service.formulas.roofline import memory_seconds, seconds_at_peak
from service.planning.explain import Apply
from service.planning.kernels.operator_graph import (
    FLOPS_PER_ELEMENT,
    Kind,
    Node,
    attended_ratio,
    attention_operands,
    attention_scores,
)
from service.planning.kernels.results import FusedKernel, KernelLimit

#: Beyond so many rows nobody asks.
_MOST_ROWS: Final = 2**40


class Machine(Struct, frozen=True):
    """What the times are held against."""

    peak_flops_per_second: float
    bandwidth_bytes_per_second: float
    bytes_per_element: float
    apply: Apply


class Work(Struct, frozen=True):
    """What one kernel reads, writes and computes, in elements; ``fixed`` of them do not grow with the rows."""

    operators: tuple[str, ...]
    elements: float
    fixed: float
    flops: float
    has_gemm: bool


def kernel_work(members: Sequence[Node], nodes: Sequence[Node], consumers: Sequence[Sequence[int]]) -> Work:
    """A kernel of several operators: what passes between them stays on the chip."""
    own = {node.index for node in members}
    read = {each for node in members for each in node.inputs} - own
    written = [node for node in members if not consumers[node.index] or any(each not in own for each in consumers[node.index])]
    elements = (
        sum(nodes[each].result_elements for each in read)
        + sum(node.operand_elements for node in members)
        + sum(node.result_elements for node in written)
    )
    return Work(
        operators=tuple(node.name for node in members),
        elements=elements,
        fixed=sum(node.fixed_elements for node in members),
        flops=sum(node.flops for node in members),
        has_gemm=any(not node.is_soft for node in members),
    )


def composed_attention(node: Node) -> tuple[Work, ...]:
    """Attention written as product, softmax, product: the scores go to memory and back, masked ones too."""
    asked = node.attention
    assert asked is not None
    scores = attention_scores(asked)
    queries, keys, values = attention_operands(asked)
    flops = 2.0 * scores * asked.head_dim
    softmax = FLOPS_PER_ELEMENT["softmax"] * scores
    return (
        Work((f"{node.name}: scores",), queries + keys + scores, 0.0, flops, has_gemm=True),
        Work((f"{node.name}: softmax",), 2 * scores, 0.0, softmax, has_gemm=False),
        Work((f"{node.name}: product",), scores + values + node.result_elements, 0.0, flops, has_gemm=True),
    )


def eager_works(node: Node, nodes: Sequence[Node], consumers: Sequence[Sequence[int]]) -> tuple[Work, ...]:
    """The kernels that eager mode launches for one operator."""
    if node.attention is not None and node.attention.is_composed:
        return composed_attention(node)
    return (kernel_work([node], nodes, consumers),)


def cost(work: Work, machine: Machine) -> FusedKernel:
    """A kernel with its time."""
    apply = machine.apply
    num_bytes = apply(tensor_bytes, num_elements=work.elements, bytes_per_element=machine.bytes_per_element)
    reading = apply(
        memory_seconds, bytes_per_device=num_bytes, memory_bandwidth_bytes_per_second=machine.bandwidth_bytes_per_second
    )
    computing = apply(seconds_at_peak, flops_per_device=work.flops, peak_dense_flops_per_second=machine.peak_flops_per_second)
    return FusedKernel(
        operators=work.operators,
        flops=work.flops,
        num_bytes=num_bytes,
        memory_seconds=reading,
        compute_seconds=computing,
        kernel_seconds=apply(kernel_seconds, memory_seconds=reading, compute_seconds=computing),
        limit=KernelLimit.MEMORY if reading >= computing else KernelLimit.ARITHMETIC,
        has_gemm=work.has_gemm,
    )


def show_operator(node: Node, apply: Apply) -> None:
    """Applies the formulas behind an operator's operations and elements, for an explanation."""
    if node.gemm is not None:
        shape = {"rows": node.gemm.m, "columns": node.gemm.n, "depth": node.gemm.k}
        apply(gemm_flops, num_matrices=node.gemm.num_matrices or 1, **shape)
        apply(gemm_elements, num_matrices=node.gemm.num_matrices or 1, **shape)
    elif node.attention is not None:
        apply(
            fused_attention_flops,
            num_sequences=node.attention.num_sequences or 1,
            num_query_heads=node.attention.num_query_heads,
            query_tokens=node.attention.query_tokens,
            context_tokens=node.attention.context_tokens or node.attention.query_tokens,
            head_dim=node.attention.head_dim,
            attended_ratio=attended_ratio(node.attention),
        )


def rows_of(nodes: Sequence[Node]) -> float:
    """The rows that grow with the input: m of the first GEMM, else the first axis of the first operator."""
    gemm = next((node.gemm for node in nodes if node.kind is Kind.GEMM), None)
    return float(nodes[0].work[0] if gemm is None else gemm.m)


def kernels_dominate_from(works: Sequence[Work], machine: Machine, rows: float, submission_seconds: float) -> float | None:
    """The rows from which the kernels take at least as long as their submission; None where from the first, or never."""

    def device_seconds(at: float) -> float:
        return math.fsum(_seconds(work, machine, at / rows) for work in works)

    if device_seconds(1) >= submission_seconds or device_seconds(_MOST_ROWS) < submission_seconds:
        return None
    low, high = 1, _MOST_ROWS
    while high - low > 1:
        middle = (low + high) // 2
        if device_seconds(middle) >= submission_seconds:
            high = middle
        else:
            low = middle
    return float(high)


def _seconds(work: Work, machine: Machine, scale: float) -> float:
    elements = work.fixed + (work.elements - work.fixed) * scale
    reading = elements * machine.bytes_per_element / machine.bandwidth_bytes_per_second
    return max(reading, work.flops * scale / machine.peak_flops_per_second)
