"""What a model split a given way puts on one device: bytes stored, bytes read, operations, cache.

Everything that does not depend on batch and context is summed here once; a footprint is then cheap to evaluate.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.architectures import Architecture
from service.architectures.architecture import (
    AttentionShape,
    CacheEntry,
    FeedForward,
    LayerKind,
    Mixer,
    Role,
    Split,
    Tensor,
)
from service.formulas.attention import attention_flops_per_token, latent_attention_flops_per_token
from service.formulas.kv_cache import num_kv_heads_per_device
from service.formulas.transformer import matmul_flops_per_token
from service.planning.formats import StoredFormats
from service.planning.requests import Parallelism
from service.planning.shape import is_first_stage, stage_layers
from service.units import BYTES_PER_ELEMENT


@dataclass(frozen=True, slots=True)
class ContextCost:
    """Something that depends on the length T of a sequence: fixed + per_token · T + Σ ⌊min(T, window) / tokens⌋ · each.

    A term without a window is only listed where an entry covers several tokens; else it is part of ``per_token``.
    """

    fixed: float = 0.0
    per_token: float = 0.0
    terms: tuple[tuple[int | None, int, float], ...] = ()  # window, tokens per entry, cost of each entry

    def at(self, context_tokens: float) -> float:
        """The cost of a sequence of so many tokens."""
        cost = self.fixed + self.per_token * context_tokens
        for window, tokens, each in self.terms:
            covered = context_tokens if window is None else min(context_tokens, window)
            cost += covered // tokens * each
        return cost

    @property
    def growing_per_token(self) -> float:
        """What one more token costs for good: terms that no window ends."""
        return self.per_token + sum(each / tokens for window, tokens, each in self.terms if window is None)

    @property
    def windowed_per_token(self) -> float:
        """What one more token costs besides, until the windows are full."""
        return sum((each / tokens for window, tokens, each in self.terms if window is not None), start=0.0)


def add_up(costs: Iterable[tuple[ContextCost, float]]) -> ContextCost:
    """Costs times their counts, like terms merged."""
    fixed = per_token = 0.0
    terms: dict[tuple[int | None, int], float] = defaultdict(float)
    for cost, count in costs:
        fixed += cost.fixed * count
        per_token += cost.per_token * count
        for window, tokens, each in cost.terms:
            terms[window, tokens] += each * count
    return ContextCost(fixed, per_token, tuple((window, tokens, each) for (window, tokens), each in terms.items()))


@dataclass(frozen=True, slots=True)
class StageFootprint:
    """One pipeline stage on one device: stored weights, and the cache that one of its sequences takes."""

    num_layers: int
    weight_bytes: float
    cache_bytes: ContextCost


@dataclass(frozen=True, slots=True)
class Footprint:
    """A replica as one of its devices sees it. ``…_per_device`` sums over all stages: what one token meets on its way."""

    shape: Parallelism
    stages: tuple[StageFootprint, ...]  # alike ones once
    read_bytes_per_device: float  # weights that every step reads, routed experts and looked-up tables excluded
    expert_bytes_per_device: float  # routed experts held, all of them
    num_experts: int
    num_experts_per_token: int
    flops_per_device: Mapping[str, float]  # per token of this device's sequences, by stored format, without experts
    expert_flops_per_device: Mapping[str, float]  # per token of any group's sequences, by stored format
    attention_flops_per_device: ContextCost
    cache_read_bytes_per_device: ContextCost
    num_all_reduces: int
    num_expert_layers: int
    hidden_size: int
    # The whole model, copies counted once.
    weight_bytes: float
    total_expert_bytes: float
    flops_per_token: float
    attention_flops: ContextCost
    cache_bytes: ContextCost

    @property
    def weight_bytes_per_device(self) -> float:
        """Stored weights of the fullest stage."""
        return max(stage.weight_bytes for stage in self.stages)

    def cache_bytes_per_device(self, context_tokens: float) -> float:
        """Cache of one sequence on the fullest stage."""
        return max(stage.cache_bytes.at(context_tokens) for stage in self.stages)


@dataclass(frozen=True, slots=True)
class _Summary:
    """A group of tensors as one device holds them."""

    stored: float = 0.0
    read: float = 0.0
    experts: float = 0.0
    flops: tuple[tuple[str, float], ...] = ()
    expert_flops: tuple[tuple[str, float], ...] = ()


def _share(split: Split, shape: Parallelism, num_kv_heads: int | None) -> float:
    """The part of a tensor or cache entry that one device holds."""
    if split is Split.REPLICATED:
        return 1.0
    if split is Split.EXPERTS:
        return 1.0 / (shape.tensor * shape.attention_data)
    if split is Split.KV_HEADS and num_kv_heads:
        return num_kv_heads_per_device(num_kv_heads=num_kv_heads, tensor_parallel_size=shape.tensor) / num_kv_heads
    return 1.0 / shape.tensor


_LOOKED_UP = frozenset({Role.EMBEDDING, Role.PER_LAYER_EMBEDDING})


def _summarise(
    tensors: Iterable[Tensor], architecture: Architecture, formats: StoredFormats, shape: Parallelism, heads: int | None
) -> _Summary:
    stored = read = experts = 0.0
    flops: dict[str, float] = defaultdict(float)
    expert_flops: dict[str, float] = defaultdict(float)
    for tensor in tensors:
        share = _share(tensor.split, shape, heads)
        held = formats.bytes_of(tensor) * share
        stored += held
        operations = matmul_flops_per_token(num_matmul_parameters=tensor.num_matmul_parameters) * share
        if tensor.role is Role.ROUTED_EXPERTS:
            experts += held
            expert_flops[formats.precision_of(tensor)] += operations * architecture.active_ratio(tensor)
        elif tensor.role is not Role.VISION:
            read += 0.0 if tensor.role in _LOOKED_UP else held
            flops[formats.precision_of(tensor)] += operations
    return _Summary(stored, read, experts, tuple(flops.items()), tuple(expert_flops.items()))


def _entry_cost(entry: CacheEntry, formats: StoredFormats, share: float, window: int | None) -> ContextCost:
    element = BYTES_PER_ELEMENT[entry.precision] if entry.precision else formats.kv_bytes_per_element
    each = entry.num_elements * element * share
    if entry.fixed_entries is not None:
        return ContextCost(fixed=each * entry.fixed_entries)
    if window is None and entry.tokens_per_entry == 1:
        return ContextCost(per_token=each)
    return ContextCost(terms=((window, entry.tokens_per_entry, each),))


def _cache_costs(kind: LayerKind, formats: StoredFormats, shape: Parallelism) -> tuple[ContextCost, ContextCost]:
    """Stored and read bytes of one sequence in one layer. Sparse attention stores all tokens but reads its top k."""
    heads = kind.attention.num_kv_heads if kind.attention else None
    stored, read = [], []
    for entry in kind.cache:
        share = _share(entry.split, shape, heads)
        stored.append((_entry_cost(entry, formats, share, entry.window_tokens), 1.0))
        window = entry.window_tokens
        if kind.mixer is Mixer.SPARSE_LATENT and kind.attention and entry.name == "latent":
            window = kind.attention.window_tokens
        read.append((_entry_cost(entry, formats, share, window), 1.0))
    return add_up(stored), add_up(read)


def attention_cost(attention: AttentionShape | None) -> ContextCost:
    """Operations of one layer's attention for one new token, as a function of the context."""
    if attention is None:
        return ContextCost()
    if attention.kv_lora_rank is not None:
        each = latent_attention_flops_per_token(
            num_layers=1,
            num_query_heads=attention.num_query_heads,
            kv_lora_rank=attention.kv_lora_rank,
            rope_head_dim=attention.rope_head_dim or 0,
            attended_tokens=1,
        )
    else:
        each = attention_flops_per_token(
            num_layers=1,
            num_query_heads=attention.num_query_heads,
            query_key_head_dim=attention.query_key_head_dim,
            value_head_dim=attention.value_head_dim,
            attended_tokens=1,
        )
    if attention.window_tokens is None:
        return ContextCost(per_token=each)
    return ContextCost(terms=((attention.window_tokens, 1, each),))


def _all_reduces(kind: LayerKind, shape: Parallelism) -> int:
    """Sums over tensor-parallel ranks in one layer; expert groups over several replicas exchange tokens instead."""
    mixer = kind.mixer is not Mixer.NONE
    exchanged = kind.feed_forward is FeedForward.EXPERTS and shape.attention_data > 1
    feed_forward = kind.feed_forward is not FeedForward.NONE and not exchanged
    return (mixer + feed_forward) if shape.tensor > 1 else 0


def _merge(parts: Iterable[tuple[tuple[tuple[str, float], ...], float]]) -> dict[str, float]:
    merged: dict[str, float] = defaultdict(float)
    for pairs, count in parts:
        for precision, operations in pairs:
            merged[precision] += operations * count
    return dict(merged)


class FootprintBuilder:
    """Sums an architecture kept in given formats over one shape after another."""

    def __init__(self, architecture: Architecture, formats: StoredFormats, multi_token_prediction: bool = False) -> None:
        self.architecture = architecture
        self.formats = formats
        self.multi_token_prediction = multi_token_prediction

    @property
    def block_size(self) -> int | None:
        """Side of the blocks that the checkpoint's weights are quantised in; None where other formats are asked for."""
        return self.architecture.weight_block_size if self.formats.weights is None else None

    def build(self, shape: Parallelism) -> Footprint:
        """The footprint of one shape, which must be legal (``service.planning.shape``)."""
        architecture, kinds = self.architecture, self.architecture.layer_kinds
        counts = architecture.layer_counts
        layers = [self._layer(kind, shape) for kind in kinds]
        outer = self._summarise(architecture.outer, shape, None)
        parts = [(outer, 1.0), *zip(layers, map(float, counts), strict=True)]
        caches = [_cache_costs(kind, self.formats, shape) for kind in kinds]
        attention = add_up((attention_cost(kind.attention), float(count)) for kind, count in zip(kinds, counts, strict=True))
        whole_tensors = [(tensor, count) for tensor, count in architecture.tensors() if tensor.role is not Role.VISION]
        whole = [(_cache_costs(kind, self.formats, Parallelism())[0]) for kind in kinds]
        experts = architecture.experts
        return Footprint(
            shape=shape,
            stages=self._stages(shape, layers, [stored for stored, _ in caches]),
            read_bytes_per_device=sum(part.read * count for part, count in parts),
            expert_bytes_per_device=sum(part.experts * count for part, count in parts),
            num_experts=experts.num_experts if experts else 0,
            num_experts_per_token=experts.num_experts_per_token if experts else 0,
            flops_per_device=_merge((part.flops, count) for part, count in parts),
            expert_flops_per_device=_merge((part.expert_flops, count) for part, count in parts),
            attention_flops_per_device=add_up([(attention, 1 / shape.tensor)]),
            cache_read_bytes_per_device=add_up((read, float(n)) for (_, read), n in zip(caches, counts, strict=True)),
            num_all_reduces=sum(_all_reduces(kind, shape) * n for kind, n in zip(kinds, counts, strict=True)),
            num_expert_layers=sum(n for kind, n in zip(kinds, counts, strict=True) if kind.feed_forward is FeedForward.EXPERTS),
            hidden_size=architecture.hidden_size,
            weight_bytes=sum(self.formats.bytes_of(tensor) * n for tensor, n in architecture.tensors())
            + self._extra_bytes(Parallelism()),
            total_expert_bytes=sum(
                self.formats.bytes_of(tensor) * n for tensor, n in whole_tensors if tensor.role is Role.ROUTED_EXPERTS
            ),
            flops_per_token=sum(
                matmul_flops_per_token(num_matmul_parameters=tensor.num_matmul_parameters)
                * n
                * architecture.active_ratio(tensor)
                for tensor, n in whole_tensors
            ),
            attention_flops=attention,
            cache_bytes=add_up((stored, float(n)) for stored, n in zip(whole, counts, strict=True)),
        )

    def _layer(self, kind: LayerKind, shape: Parallelism) -> _Summary:
        return self._summarise(kind.tensors, shape, kind.attention.num_kv_heads if kind.attention else None)

    def _summarise(self, tensors: Iterable[Tensor], shape: Parallelism, heads: int | None) -> _Summary:
        return _summarise(tensors, self.architecture, self.formats, shape, heads)

    def _extra_bytes(self, shape: Parallelism) -> float:
        """Multi-token-prediction layers on one device of the last stage, where they are loaded."""
        if not self.multi_token_prediction:
            return 0.0
        return self._summarise(self.architecture.multi_token_prediction, shape, None).stored

    def _stages(self, shape: Parallelism, layers: list[_Summary], caches: list[ContextCost]) -> tuple[StageFootprint, ...]:
        """The stages, alike ones once. Bare parameters (role ALL) divide like the layers."""
        order, start = self.architecture.layer_order, 0
        stages = []
        sizes = stage_layers(len(order), shape.pipeline)
        for index, size in enumerate(sizes):
            own = order[start : start + size]
            start += size
            counts = [own.count(kind) for kind in range(len(layers))]
            outer = self._outer_bytes(shape, index == 0, index == len(sizes) - 1, size / max(1, len(order)))
            stages.append(
                StageFootprint(
                    num_layers=size,
                    weight_bytes=outer + sum(layer.stored * n for layer, n in zip(layers, counts, strict=True)),
                    cache_bytes=add_up(zip(caches, map(float, counts), strict=True)),
                )
            )
        return tuple(dict.fromkeys(stages))

    def _outer_bytes(self, shape: Parallelism, first: bool, last: bool, layer_ratio: float) -> float:
        if first and last:
            return self._summarise(self.architecture.outer, shape, None).stored + self._extra_bytes(shape)
        total = self._extra_bytes(shape) if last else 0.0
        for tensor in self.architecture.outer:
            held = self._summarise((tensor,), shape, None).stored
            tied = tensor.role is Role.LM_HEAD and self.architecture.embeddings_tied
            if tensor.role is Role.ALL:
                total += held * layer_ratio
            elif (first and (tied or is_first_stage(tensor.role))) or (last and not is_first_stage(tensor.role)):
                total += held
        return total
