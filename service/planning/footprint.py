"""What a model split a given way puts on one device: bytes stored, bytes read, operations, cache.

Everything that does not depend on batch and context is summed here once; a footprint is then cheap to evaluate.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from service.architectures import Architecture
from service.architectures.architecture import (
    AttentionShape,
    CacheEntry,
    FeedForward,
    LayerKind,
    Mixer,
    QuantizedCut,
    Role,
    Tensor,
)
from service.formulas.attention import attention_flops_per_token, latent_attention_flops_per_token
from service.formulas.transformer import matmul_flops_per_token
from service.planning.context_cost import ContextCost, add_up
from service.planning.formats import StoredFormats
from service.planning.requests import Parallelism
from service.planning.shape import is_first_stage, is_last_stage, share_on_device, stage_layers
from service.units import BYTES_PER_ELEMENT


class StageFootprint(Struct, frozen=True):
    """One pipeline stage on one device: stored weights, and the cache that one of its sequences takes."""

    num_layers: int
    weight_bytes: float
    cache_bytes: ContextCost


class Footprint(Struct, frozen=True):
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


class _Summary(Struct, frozen=True):
    """A group of tensors as one device holds them."""

    stored: float = 0.0
    read: float = 0.0
    experts: float = 0.0
    flops: tuple[tuple[str, float], ...] = ()
    expert_flops: tuple[tuple[str, float], ...] = ()


_LOOKED_UP = frozenset({Role.EMBEDDING, Role.PER_LAYER_EMBEDDING})


def _summarise(
    tensors: Iterable[Tensor], architecture: Architecture, formats: StoredFormats, shape: Parallelism, heads: int | None
) -> _Summary:
    stored = read = experts = 0.0
    flops: dict[str, float] = defaultdict(float)
    expert_flops: dict[str, float] = defaultdict(float)
    for tensor in tensors:
        share = share_on_device(tensor.split, shape, heads)
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
    """Stored and read bytes of one sequence in one layer. Sparse attention stores all entries but reads those it picks."""
    heads = kind.attention.num_kv_heads if kind.attention else None
    stored, read = [], []
    for entry in kind.cache:
        share = share_on_device(entry.split, shape, heads)
        stored.append((_entry_cost(entry, formats, share, entry.window_tokens), 1.0))
        read.append((_entry_cost(entry, formats, share, _read_window(kind.attention, entry)), 1.0))
    return add_up(stored), add_up(read)


def _read_window(attention: AttentionShape | None, entry: CacheEntry) -> int | None:
    """Tokens whose entries a step reads at most; an indexer's keys are all read, to pick the others by."""
    attended = None
    if attention is not None and entry.name != "indexer":
        attended = attention.window_tokens if entry.tokens_per_entry == 1 else _compressed_window(attention)
    return min((window for window in (entry.window_tokens, attended) if window is not None), default=None)


def _compressed_window(attention: AttentionShape) -> int | None:
    """Tokens that the picked compressed entries stand for; None where all are attended."""
    if attention.max_compressed_entries is None or attention.tokens_per_compressed_entry is None:
        return None
    return attention.max_compressed_entries * attention.tokens_per_compressed_entry


def attention_cost(attention: AttentionShape | None) -> ContextCost:
    """Operations of one layer's attention for one new token, as a function of the context."""
    if attention is None:
        return ContextCost()
    each = _flops_per_attended_entry(attention)
    window, compressed = attention.window_tokens, attention.tokens_per_compressed_entry
    if window is None and compressed is None:
        return ContextCost(per_token=each)
    terms = [(window, 1, each)]
    if compressed is not None:
        terms.append((_compressed_window(attention), compressed, each))
    return ContextCost(terms=tuple(terms))


def _flops_per_attended_entry(attention: AttentionShape) -> float:
    if attention.kv_lora_rank is not None:
        return latent_attention_flops_per_token(
            num_layers=1,
            num_query_heads=attention.num_query_heads,
            kv_lora_rank=attention.kv_lora_rank,
            rope_head_dim=attention.rope_head_dim or 0,
            attended_tokens=1,
        )
    return expanded_flops_per_pair(attention)


def expanded_flops_per_pair(attention: AttentionShape) -> float:
    """Operations of one query and one key over all heads of a layer; a latent is expanded to keys and values of every head."""
    return attention_flops_per_token(
        num_layers=1,
        num_query_heads=attention.num_query_heads,
        query_key_head_dim=attention.query_key_head_dim,
        value_head_dim=attention.value_head_dim,
        attended_tokens=1,
    )


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
        # What one device holds does not depend on the number of stages, nor on how ranks group into experts.
        self._parts: dict[tuple[int, int], _Parts] = {}
        self._stage_cuts: dict[int, tuple[_Cut, ...]] = {}
        self._stages: dict[tuple[int, int, int], tuple[StageFootprint, ...]] = {}
        self._in_other_formats: dict[str, FootprintBuilder] = {}

    @property
    def quantized_cuts(self) -> tuple[QuantizedCut, ...]:
        """Where ranks cut through the checkpoint's quantised weights; nowhere where another format is asked for."""
        return self.architecture.quantized_cuts if self.formats.weights is None else ()

    @cached_property
    def with_fp8_cache(self) -> "FootprintBuilder":
        """The same model with its cache in fp8."""
        return FootprintBuilder(self.architecture, replace(self.formats, kv_cache="fp8"), self.multi_token_prediction)

    def with_weights(self, weights: str) -> "FootprintBuilder":
        """The same model with its weights in another format."""
        if weights not in self._in_other_formats:
            formats = replace(self.formats, weights=weights)
            self._in_other_formats[weights] = FootprintBuilder(self.architecture, formats, self.multi_token_prediction)
        return self._in_other_formats[weights]

    def build(self, shape: Parallelism) -> Footprint:
        """The footprint of one shape, which must be legal (``service.planning.shape``)."""
        architecture = self.architecture
        parts, counts = self._parts_of(shape), [float(count) for count in architecture.layer_counts]
        summaries = [(parts.outer, 1.0), *zip(parts.layers, counts, strict=True)]
        whole, experts = self._parts_of(Parallelism()), architecture.experts
        attention = add_up(zip(map(_attention_of, architecture.layer_kinds), counts, strict=True))
        return Footprint(
            shape=shape,
            stages=self.stages(shape),
            read_bytes_per_device=sum(part.read * count for part, count in summaries),
            expert_bytes_per_device=sum(part.experts * count for part, count in summaries),
            num_experts=experts.num_experts if experts else 0,
            num_experts_per_token=experts.num_experts_per_token if experts else 0,
            flops_per_device=_merge((part.flops, count) for part, count in summaries),
            expert_flops_per_device=_merge((part.expert_flops, count) for part, count in summaries),
            attention_flops_per_device=add_up([(attention, 1 / shape.tensor)]),
            cache_read_bytes_per_device=add_up(zip(parts.cache_read, counts, strict=True)),
            num_all_reduces=self._count(lambda kind: _all_reduces(kind, shape)),
            num_expert_layers=self._count(lambda kind: int(kind.feed_forward is FeedForward.EXPERTS)),
            hidden_size=architecture.hidden_size,
            weight_bytes=self._whole_bytes(set(Role)) + self._extra_bytes(Parallelism()),
            total_expert_bytes=self._whole_bytes({Role.ROUTED_EXPERTS}),
            flops_per_token=self._flops_per_token(),
            attention_flops=attention,
            cache_bytes=add_up(zip(whole.cache_stored, counts, strict=True)),
        )

    def stages(self, shape: Parallelism) -> tuple[StageFootprint, ...]:
        """What each pipeline stage puts on a device, alike ones once."""
        return tuple(dict.fromkeys(self.each_stage(shape)))

    def each_stage(self, shape: Parallelism) -> tuple[StageFootprint, ...]:
        """What each pipeline stage puts on a device, first to last."""
        key = (shape.tensor, shape.attention_data, shape.pipeline)
        if key not in self._stages:
            parts, cuts = self._parts_of(shape), self._cuts(shape.pipeline)
            made = {cut: self._stage(cut, parts, shape) for cut in dict.fromkeys(cuts)}
            self._stages[key] = tuple(made[cut] for cut in cuts)
        return self._stages[key]

    def _cuts(self, pipeline: int) -> tuple["_Cut", ...]:
        """The stages by how many layers of each kind they hold, first to last."""
        if pipeline not in self._stage_cuts:
            order, start, cuts = self.architecture.layer_order, 0, []
            sizes = stage_layers(len(order), pipeline)
            for index, size in enumerate(sizes):
                own = order[start : start + size]
                start += size
                counts = tuple(own.count(kind) for kind in range(len(self.architecture.layer_kinds)))
                cuts.append(_Cut(counts, index == 0, index == len(sizes) - 1))
            self._stage_cuts[pipeline] = tuple(cuts)
        return self._stage_cuts[pipeline]

    def _stage(self, cut: "_Cut", parts: "_Parts", shape: Parallelism) -> StageFootprint:
        layers = sum(part.stored * n for part, n in zip(parts.layers, cut.layer_counts, strict=True))
        return StageFootprint(
            num_layers=sum(cut.layer_counts),
            weight_bytes=layers + self._outer_bytes(cut, parts, shape),
            cache_bytes=add_up(zip(parts.cache_stored, map(float, cut.layer_counts), strict=True)),
        )

    def _parts_of(self, shape: Parallelism) -> "_Parts":
        key = (shape.tensor, shape.attention_data)
        if key not in self._parts:
            kinds = self.architecture.layer_kinds
            caches = [_cache_costs(kind, self.formats, shape) for kind in kinds]
            outer = self.architecture.outer
            tied = self.architecture.embeddings_tied
            self._parts[key] = _Parts(
                outer=self._summarise(outer, shape, None),
                outer_first=self._stored(outer, shape, lambda role: is_first_stage(role, tied)),
                outer_last=self._stored(outer, shape, is_last_stage),
                outer_spread=self._stored(outer, shape, lambda role: role is Role.ALL),
                layers=tuple(self._layer(kind, shape) for kind in kinds),
                cache_stored=tuple(stored for stored, _ in caches),
                cache_read=tuple(read for _, read in caches),
            )
        return self._parts[key]

    def _stored(self, tensors: Iterable[Tensor], shape: Parallelism, wanted: Callable[[Role], bool]) -> float:
        return self._summarise((tensor for tensor in tensors if wanted(tensor.role)), shape, None).stored

    def _count(self, per_layer: Callable[[LayerKind], int]) -> int:
        kinds = zip(self.architecture.layer_kinds, self.architecture.layer_counts, strict=True)
        return sum(per_layer(kind) * count for kind, count in kinds)

    def _layer(self, kind: LayerKind, shape: Parallelism) -> _Summary:
        return self._summarise(kind.tensors, shape, kind.attention.num_kv_heads if kind.attention else None)

    def _summarise(self, tensors: Iterable[Tensor], shape: Parallelism, heads: int | None) -> _Summary:
        return _summarise(tensors, self.architecture, self.formats, shape, heads)

    def _whole_bytes(self, roles: set[Role]) -> float:
        return sum(self.formats.bytes_of(tensor) * n for tensor, n in self.architecture.tensors() if tensor.role in roles)

    def _flops_per_token(self) -> float:
        """Matrix multiplications of one token, copies on several devices counted once."""
        active_ratio = self.architecture.active_ratio
        return sum(
            matmul_flops_per_token(num_matmul_parameters=tensor.num_matmul_parameters) * n * active_ratio(tensor)
            for tensor, n in self.architecture.tensors()
            if tensor.role is not Role.VISION
        )

    def _extra_bytes(self, shape: Parallelism) -> float:
        """Multi-token-prediction layers on one device of the last stage, where they are loaded."""
        if not self.multi_token_prediction:
            return 0.0
        return self._summarise(self.architecture.multi_token_prediction, shape, None).stored

    def _outer_bytes(self, cut: "_Cut", parts: "_Parts", shape: Parallelism) -> float:
        """What stands outside the layers, on the stages that hold it. Bare parameters (role ALL) divide like the layers."""
        extra = self._extra_bytes(shape) if cut.last else 0.0
        if cut.first and cut.last:
            return parts.outer.stored + extra
        spread = parts.outer_spread * sum(cut.layer_counts) / max(1, self.architecture.num_layers)
        return extra + spread + parts.outer_first * cut.first + parts.outer_last * cut.last


class _Cut(Struct, frozen=True):
    """One pipeline stage: layers of each kind, and whether it is the first or the last."""

    layer_counts: tuple[int, ...]
    first: bool
    last: bool


class _Parts(Struct, frozen=True):
    """One device's share of what stands outside the layers and of one layer of each kind."""

    outer: _Summary
    outer_first: float  # stored bytes that the first of several stages holds; a tied table stands at both ends
    outer_last: float
    outer_spread: float
    layers: tuple[_Summary, ...]
    cache_stored: tuple[ContextCost, ...]
    cache_read: tuple[ContextCost, ...]


def _attention_of(kind: LayerKind) -> ContextCost:
    return attention_cost(kind.attention)
