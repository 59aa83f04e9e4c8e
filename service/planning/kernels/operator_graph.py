"""Operators as a graph: who reads whom, the shape of each result, and what each reads and computes."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from service.planning.errors import InvalidRequest, Violation
from service.planning.kernels.requests import (
    Attention,
    Elementwise,
    Gemm,
    Normalization,
    Operator,
    Reduction,
    Softmax,
)

Shape: TypeAlias = tuple[int, ...]

#: Operations on an element, counted by hand: a softmax subtracts the maximum, exponentiates, sums and divides, after finding
#: the maximum; a normalisation sums twice, subtracts, scales and offsets. Memory binds these operators whatever the count.
FLOPS_PER_ELEMENT: Final = {"elementwise": 1.0, "reduction": 1.0, "normalization": 5.0, "softmax": 5.0}
_LONGEST_AXIS: Final = 2**31 - 1
_MOST_ELEMENTS: Final = 1e18


class Kind(StrEnum):
    """What an operator does."""

    GEMM = "gemm"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    NORMALIZATION = "normalization"
    SOFTMAX = "softmax"
    ATTENTION = "attention"


class Node(Struct, frozen=True):
    """One operator. ``work`` is the shape it goes over, ``axis`` the one it needs whole rows of.

    ``operand_elements`` come from memory and no operator made them; ``fixed_elements`` of them stay as they are when the
    number of rows changes (weights, biases).
    """

    index: int
    name: str
    kind: Kind
    inputs: tuple[int, ...]
    shape: Shape
    work: Shape
    axis: int | None
    operand_elements: float
    fixed_elements: float
    flops: float
    gemm: Gemm | None = None
    attention: Attention | None = None

    @property
    def result_elements(self) -> float:
        """Elements that it writes where somebody needs them."""
        return float(math.prod(self.shape))

    @property
    def is_soft(self) -> bool:
        """Whether it goes over elements, and so can share a kernel with others that do."""
        return self.kind not in {Kind.GEMM, Kind.ATTENTION}


class GraphReader:
    """Reads operators one by one, and notes all that is wrong with them."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self._operators = operators
        self._nodes: list[Node] = []
        self._by_name: dict[str, int] = {}
        self._violations: list[Violation] = []

    def read(self) -> tuple[Node, ...]:
        """The graph. InvalidRequest with every fault."""
        if not self._operators:
            raise InvalidRequest(Violation("operators", "there is none", "give at least one"))
        for index, operator in enumerate(self._operators):
            node = self._node(index, operator)
            if node.name in self._by_name:
                self._refuse(index, "name", f"two operators are called {node.name!r}", "give each a name of its own")
            self._by_name[node.name] = index
            self._nodes.append(node)
        if self._violations:
            raise InvalidRequest(*self._violations)
        return tuple(self._nodes)

    def _refuse(self, index: int, field: str, reason: str, remedy: str = "") -> None:
        self._violations.append(Violation(f"operators[{index}].{field}", reason, remedy))

    def _node(self, index: int, operator: Operator) -> Node:
        kind = next(kind for kind in Kind if getattr(operator, kind.value) is not None)
        name = operator.name or f"{kind.value}_{index + 1}"
        inputs = self._inputs(index, operator)
        if operator.gemm is not None:
            node = self._gemm(index, name, inputs, operator.gemm)
        elif operator.attention is not None:
            node = self._attention(index, name, inputs, operator.attention)
        elif operator.elementwise is not None:
            node = self._elementwise(index, name, inputs, operator.elementwise)
        else:
            rowwise = operator.reduction or operator.normalization or operator.softmax
            assert rowwise is not None  # the doors let pass exactly one kind
            node = self._rowwise(index, name, kind, inputs, rowwise)
        if max(*node.shape, *node.work) > _LONGEST_AXIS or max(node.result_elements, node.operand_elements) > _MOST_ELEMENTS:
            reason = f"an axis is longer than {_LONGEST_AXIS}, or a tensor has more than {_MOST_ELEMENTS:g} elements"
            self._refuse(index, kind.value, reason, "nothing that large runs")
        return node

    def _inputs(self, index: int, operator: Operator) -> tuple[int, ...]:
        if operator.reads_memory_only or (not operator.inputs and index == 0):
            if operator.inputs:
                self._refuse(index, "inputs", "reads_memory_only says that it reads no operator", "give one of the two")
            return ()
        if not operator.inputs:
            return (index - 1,)
        found = []
        for name in dict.fromkeys(operator.inputs):
            if name in self._by_name:
                found.append(self._by_name[name])
            else:
                known = ", ".join(self._by_name) or "there is none"
                self._refuse(index, "inputs", f"no operator before it is called {name!r}", f"earlier ones: {known}")
        return tuple(found)

    def _elements_of(self, inputs: tuple[int, ...]) -> list[float]:
        return [self._nodes[each].result_elements for each in inputs]

    def _gemm(self, index: int, name: str, inputs: tuple[int, ...], gemm: Gemm) -> Node:
        matrices = gemm.num_matrices or 1
        factors = [float(matrices * gemm.m * gemm.k), float(matrices * gemm.k * gemm.n)]
        read = self._elements_of(inputs)
        if len(inputs) > len(factors):
            self._refuse(index, "inputs", f"a product has two factors, and {len(inputs)} inputs are named")
        for label, factor, elements in zip(("left", "right"), factors, read, strict=False):
            if factor != elements:
                reason = f"its {label} factor has {factor:.0f} elements, and what it reads {elements:.0f}"
                self._refuse(index, "gemm", reason, "make m, k and n match, or set reads_memory_only")
        shape = (matrices, gemm.m, gemm.n) if matrices > 1 else (gemm.m, gemm.n)
        operands = sum(factors[len(inputs) :])
        fixed = factors[1] if len(inputs) < 2 else 0.0
        flops = 2.0 * matrices * gemm.m * gemm.n * gemm.k
        return Node(index, name, Kind.GEMM, inputs, shape, shape, None, operands, fixed, flops, gemm=gemm)

    def _attention(self, index: int, name: str, inputs: tuple[int, ...], asked: Attention) -> Node:
        kv_heads = asked.num_kv_heads or asked.num_query_heads
        context = asked.context_tokens or asked.query_tokens
        if asked.num_query_heads % kv_heads:
            reason = f"{asked.num_query_heads} query heads do not divide over {kv_heads} KV heads"
            self._refuse(index, "attention.num_kv_heads", reason)
        if asked.is_causal and context < asked.query_tokens:
            reason = f"{asked.query_tokens} tokens ask, and only {context} are there"
            self._refuse(index, "attention.context_tokens", reason, "it counts the asking tokens too")
        rows = (asked.num_sequences or 1) * asked.query_tokens
        needed = attention_operands(asked)
        left = sum(needed) - sum(self._elements_of(inputs))
        if left < 0:
            reason = f"queries, keys and values have {sum(needed):.0f} elements, and what it reads more"
            self._refuse(index, "attention", reason, "make the shapes match, or set reads_memory_only")
        shape = (rows, asked.num_query_heads * asked.head_dim)
        flops = attention_flops(asked)
        return Node(index, name, Kind.ATTENTION, inputs, shape, shape, None, max(left, 0.0), 0.0, flops, attention=asked)

    def _elementwise(self, index: int, name: str, inputs: tuple[int, ...], asked: Elementwise) -> Node:
        shapes = [self._nodes[each].shape for each in inputs]
        shape = self._shape(index, "elementwise.shape", asked.shape, _broadcast(shapes))
        for each in shapes:
            if _broadcast([each, shape]) != shape and math.prod(each) != math.prod(shape):
                self._refuse(index, "elementwise.shape", f"{list(each)}, which it reads, does not extend to {list(shape)}")
        elements = float(math.prod(shape))
        flops = FLOPS_PER_ELEMENT["elementwise"] if asked.flops_per_element is None else asked.flops_per_element
        return self._over_elements(
            index, name, Kind.ELEMENTWISE, inputs, (shape, shape), None, asked.extra_operand_elements, flops * elements
        )

    def _rowwise(
        self, index: int, name: str, kind: Kind, inputs: tuple[int, ...], asked: Reduction | Normalization | Softmax
    ) -> Node:
        read = self._nodes[inputs[0]].shape if inputs else None
        work = self._shape(index, f"{kind.value}.shape", asked.shape, read)
        if len(inputs) > 1:
            self._refuse(index, "inputs", f"it reads one operator, and {len(inputs)} are named")
        if read is not None and math.prod(read) != math.prod(work):
            self._refuse(index, f"{kind.value}.shape", f"{list(read)}, which it reads, has another number of elements")
        axis = -1 if asked.axis is None else asked.axis
        if not -len(work) <= axis < len(work):
            self._refuse(index, f"{kind.value}.axis", f"the shape {list(work)} has no axis {axis}")
            axis = -1
        axis %= len(work)
        shape = (*work[:axis], 1, *work[axis + 1 :]) if kind is Kind.REDUCTION else work
        extra = asked.extra_operand_elements if isinstance(asked, Normalization) else 0.0
        flops = FLOPS_PER_ELEMENT[kind.value] * math.prod(work)
        return self._over_elements(index, name, kind, inputs, (shape, work), axis, extra, flops)

    def _over_elements(
        self,
        index: int,
        name: str,
        kind: Kind,
        inputs: tuple[int, ...],
        shapes: tuple[Shape, Shape],
        axis: int | None,
        extra: float,
        flops: float,
    ) -> Node:
        shape, work = shapes
        own = 0.0 if inputs else float(math.prod(work))
        fixed = extra if extra < math.prod(work) else 0.0
        return Node(index, name, kind, inputs, shape, work, axis, own + extra, fixed, flops)

    def _shape(self, index: int, field: str, given: Shape, read: Shape | None) -> Shape:
        if not given:
            if read is None:
                self._refuse(index, field, "it cannot be told from what it reads", "give it")
            return read or (1,)
        if min(given) < 1:
            self._refuse(index, field, f"{list(given)} has an axis of no length")
            return (1,)
        return given


def attention_operands(asked: Attention) -> tuple[float, float, float]:
    """Elements of queries, keys and values."""
    sequences, context = asked.num_sequences or 1, asked.context_tokens or asked.query_tokens
    queries = float(sequences * asked.num_query_heads * asked.query_tokens * asked.head_dim)
    keys = float(sequences * (asked.num_kv_heads or asked.num_query_heads) * context * asked.head_dim)
    return queries, keys, keys


def attention_scores(asked: Attention) -> float:
    """Elements of the score matrices, masked ones included."""
    context = asked.context_tokens or asked.query_tokens
    return float((asked.num_sequences or 1) * asked.num_query_heads * asked.query_tokens * context)


def attended_ratio(asked: Attention) -> float:
    """The share of the scores that the mask leaves: under a causal one, token i of T_q sees the T_kv − T_q + i up to itself."""
    if not asked.is_causal:
        return 1.0
    context, queries = asked.context_tokens or asked.query_tokens, asked.query_tokens
    return max(context - (queries - 1) / 2, 1.0) / context


def attention_flops(asked: Attention) -> float:
    """Operations of its two products, masked ones left out."""
    return 4.0 * attention_scores(asked) * asked.head_dim * attended_ratio(asked)


def _broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """The shape that all extend to, aligned at the last axis; None where there is none."""
    if not shapes:
        return None
    length = max(map(len, shapes))
    axes = zip(*((1,) * (length - len(shape)) + shape for shape in shapes), strict=True)
    found = []
    for lengths in axes:
        longest = max(lengths)
        if any(each not in {1, longest} for each in lengths):
            return None
        found.append(longest)
    return tuple(found)
