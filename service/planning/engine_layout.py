"""How an engine lays the cache of a model's layers out in blocks: kinds, groups, pages, and blocks per sequence."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from service.architectures.architecture import CacheEntry, LayerKind, Mixer
from service.formulas.engine_memory import (
    hybrid_block_tokens,
    padded_num_layers,
    sequence_blocks,
    windowed_sequence_blocks,
)
from service.planning.engine_settings import EngineRun
from service.planning.footprint import FootprintBuilder
from service.planning.shape import share_on_device
from service.units import BYTES_PER_ELEMENT


class Kept(StrEnum):
    """What a layer keeps of a sequence."""

    ALL = "ALL"
    WINDOW = "WINDOW"
    CHUNK = "CHUNK"
    STATE = "STATE"


class LayerCache(Struct, frozen=True, order=True):
    """What one layer keeps on one device: bytes a token (all or windowed), or bytes a sequence (a state)."""

    kept: Kept
    bytes_per_token: float = 0.0
    window_tokens: int = 0
    state_bytes: float = 0.0


class Group(Struct, frozen=True):
    """Layers that share a table of blocks: their indices, and the page that each puts behind one block."""

    kept: Kept
    layers: tuple[int, ...]
    page_bytes: tuple[float, ...]  # of each layer
    block_tokens: int
    window_tokens: int = 0

    def page_bytes_on(self, stage: range) -> float:
        """The pages of the group's layers on a stage, behind one block."""
        return sum(page for layer, page in zip(self.layers, self.page_bytes, strict=True) if layer in stage)


class CacheLayout(Struct, frozen=True):
    """The groups of a model. Every block is as large in every group, so the fullest group sets its bytes on a stage."""

    groups: tuple[Group, ...]
    max_num_batched_tokens: int
    state_blocks_per_sequence: int
    state_bytes_on: Callable[[range], float]  # beside the pool, per sequence, where states do not share the blocks
    num_padding_layers: int = 0
    ignores_windows: bool = False  # windowed layers are charged for the whole context

    def block_bytes(self, stage: range) -> float:
        """Bytes of one block over all layers of a stage."""
        return max((group.page_bytes_on(stage) for group in self.groups), default=0.0)

    @property
    def block_tokens(self) -> int:
        """Tokens of the smallest block."""
        return min((group.block_tokens for group in self.groups if group.kept is not Kept.STATE), default=1)

    def blocks_per_sequence(self, tokens: float) -> float:
        """Blocks that one sequence of so many tokens is charged, over all groups."""
        return sum(self._blocks(group, tokens) for group in self.groups)

    def _blocks(self, group: Group, tokens: float) -> float:
        if group.kept is Kept.STATE:
            return self.state_blocks_per_sequence
        if group.kept is Kept.WINDOW:
            return windowed_sequence_blocks(
                sequence_tokens=tokens,
                window_tokens=group.window_tokens,
                max_num_batched_tokens=self.max_num_batched_tokens,
                block_tokens=group.block_tokens,
            )
        return sequence_blocks(sequence_tokens=tokens, block_tokens=group.block_tokens)


def cache_layout(run: EngineRun, builder: FootprintBuilder) -> CacheLayout:
    """The layout of a model's cache. Unanswerable where how the engine lays it out is not known."""
    layers = tuple(_layer_caches(run, builder))
    states = [(index, each) for index, each in layers if each.kept is Kept.STATE]
    attending = [(index, each) for index, each in layers if each.kept is not Kept.STATE]
    if states and not attending:
        raise run.unknown("how a cache of nothing but recurrent states is laid out is not known")
    if states and run.known("state_blocks_per_sequence"):
        return _grouped(run, attending, states)
    if states and run.known("state_to_cache_ratio") is None:
        raise run.unknown("how recurrent states are laid out is not known")
    if len({(each.kept, each.window_tokens) for _, each in attending}) <= 1:
        windowed = any(entry.window_tokens for kind in builder.architecture.layer_kinds for entry in kind.cache)
        ignored = windowed and all(each.kept is Kept.ALL for _, each in attending)
        return replace(_uniform(run, attending, states), ignores_windows=ignored)
    return _grouped(run, attending, [])


def _uniform(run: EngineRun, attending: list[tuple[int, LayerCache]], states: list[tuple[int, LayerCache]]) -> CacheLayout:
    """All layers keep equally many tokens: one group, whatever their sizes. States have a pool of their own."""
    block = run.block_tokens
    pages = tuple(each.bytes_per_token * block for _, each in attending)
    first = attending[0][1] if attending else LayerCache(Kept.ALL)
    group = Group(first.kept, tuple(index for index, _ in attending), pages, block, first.window_tokens)
    return CacheLayout(
        (group,), run.max_num_batched_tokens, 0, lambda stage: sum(s.state_bytes for index, s in states if index in stage)
    )


def _grouped(run: EngineRun, attending: list[tuple[int, LayerCache]], states: list[tuple[int, LayerCache]]) -> CacheLayout:
    """Kinds of layers divided into groups of one size, padded, every page as large as the largest."""
    block = run.block_tokens
    if states:
        block = max(block, _hybrid_block(run, attending, states))
    largest = max(each.bytes_per_token for _, each in attending) * block
    by_kind: dict[LayerCache, list[int]] = defaultdict(list)
    for index, each in sorted([*attending, *states], key=lambda pair: pair[0]):
        by_kind[each].append(index)
    size = _group_size(run, [len(indices) for indices in by_kind.values()])
    groups, padding = [], 0
    for kind, indices in by_kind.items():
        padded = int(padded_num_layers(num_layers=len(indices), group_size=size))
        padding += padded - len(indices)
        tokens = block if kind.kept is Kept.STATE else _block_of(run, kind, block, largest)
        for start in range(padded // size):
            own = tuple(indices[start :: padded // size])
            groups.append(Group(kind.kept, own, (largest,) * len(own), tokens, kind.window_tokens))
    blocks = run.known("state_blocks_per_sequence")
    per_sequence = int(blocks.value) if blocks and run.settings.enable_prefix_caching is not False else 1
    return CacheLayout(
        tuple(groups),
        run.max_num_batched_tokens,
        per_sequence + run.settings.num_speculative_tokens,
        lambda _: 0.0,
        padding,
    )


def _hybrid_block(run: EngineRun, attending: list[tuple[int, LayerCache]], states: list[tuple[int, LayerCache]]) -> int:
    return int(
        hybrid_block_tokens(
            state_bytes=max(each.state_bytes for _, each in states),
            attention_bytes_per_token=max(each.bytes_per_token for _, each in attending),
            alignment_tokens=run.constant("hybrid_block_alignment_tokens").value,
        )
    )


def _block_of(run: EngineRun, kind: LayerCache, block: int, largest: float) -> int:
    """Tokens of a kind's block once its page is as large as the largest: a whole multiple, or the engine refuses."""
    multiple, rest = divmod(largest, kind.bytes_per_token * block)
    if rest:
        raise run.unknown("layers whose pages are no multiples of each other cannot share a pool")
    return int(multiple) * block


def _group_size(run: EngineRun, counts: list[int]) -> int:
    """Layers in a group: as many as the rarest kind has, or the commonest where that is hardly more."""
    fewest, most = min(counts), max(counts)
    return most if most < fewest * run.constant("group_growth_ratio").value else fewest


def _layer_caches(run: EngineRun, builder: FootprintBuilder) -> Iterator[tuple[int, LayerCache]]:
    """What each layer keeps on one device, first to last, as the engine treats it."""
    architecture = builder.architecture
    kinds = [tuple(_kind_caches(run, builder, kind)) for kind in architecture.layer_kinds]
    used = [kinds[kind] for kind in architecture.layer_order]
    whole = _kept_whole(run, {each for caches in used for each in caches})
    for index, caches in enumerate(used):
        attending = [each for each in caches if each.kept is not Kept.STATE]
        if attending:
            kept, window = (Kept.ALL, 0) if whole else (attending[0].kept, attending[0].window_tokens)
            yield index, LayerCache(kept, sum(each.bytes_per_token for each in attending), window)
        state = sum(each.state_bytes for each in caches)
        if state:
            yield index, LayerCache(Kept.STATE, state_bytes=state)


def _kept_whole(run: EngineRun, caches: set[LayerCache]) -> bool:
    """Whether windows save nothing: one kind of layer that is charged in full makes all of them so."""
    windowed = {each for each in caches if each.kept in {Kept.WINDOW, Kept.CHUNK}}
    names = {Kept.WINDOW: "windowed_layers", Kept.CHUNK: "chunked_layers"}
    words = {run.word(names[each.kept]) for each in windowed}
    if "unknown" in words:
        if any(each.window_tokens < run.max_model_len for each in windowed):
            raise run.unknown("how windowed layers share the pool is not known")
        return True  # no sequence outgrows a window
    return "whole_context" in words or (bool(words) and run.settings.disable_hybrid_kv_cache_manager)


def _kind_caches(run: EngineRun, builder: FootprintBuilder, kind: LayerKind) -> Iterator[LayerCache]:
    for entry in kind.cache:
        if entry.tokens_per_entry > 1:
            raise run.unknown("how compressed caches are laid out is not known")
        if entry.name == "cross_kv":
            raise run.unknown("how the cache of cross-attention is laid out is not known")
        yield _entry_cache(run, builder, kind, entry)


def _entry_cache(run: EngineRun, builder: FootprintBuilder, kind: LayerKind, entry: CacheEntry) -> LayerCache:
    heads = kind.attention.num_kv_heads if kind.attention else None
    elements = entry.num_elements * share_on_device(entry.split, run.shape, heads)
    if entry.fixed_entries is not None:
        return LayerCache(Kept.STATE, state_bytes=_state_bytes(run, builder, entry, elements * entry.fixed_entries))
    element = BYTES_PER_ELEMENT[entry.precision] if entry.precision else builder.formats.kv_bytes_per_element
    own = _latent_bytes(run, builder, kind, entry, element)
    each = LayerCache(Kept.ALL, elements * element if own is None else own)
    if entry.window_tokens is None:
        return each
    kept = Kept.CHUNK if kind.mixer is Mixer.CHUNKED else Kept.WINDOW
    return replace(each, kept=kept, window_tokens=entry.window_tokens)


def _latent_bytes(
    run: EngineRun, builder: FootprintBuilder, kind: LayerKind, entry: CacheEntry, element: float
) -> float | None:
    """Bytes a token where the engine does not keep a latent as it is: expanded (old), or fp8 with its scales (sparse)."""
    expanded = run.known("expanded_latent_head_dim")
    if entry.name == "latent" and expanded and kind.attention:
        return 2 * kind.attention.num_query_heads / run.shape.tensor * expanded.value * element
    if kind.mixer is Mixer.SPARSE_LATENT and entry.name == "indexer":
        figure = run.known("sparse_indexer_fp8_bytes_per_token")
        return figure.value if figure else None
    if kind.mixer is Mixer.SPARSE_LATENT and builder.formats.kv_cache == "fp8":
        figure = run.known("sparse_latent_fp8_bytes_per_token")
        return figure.value if figure else None
    return None


def _state_bytes(run: EngineRun, builder: FootprintBuilder, entry: CacheEntry, elements: float) -> float:
    """Bytes of a recurrent state as the engine keeps it.

    A convolution keeps one column less than its kernel is wide, one more for every speculated token. The scan's state is in
    the model's own format unless the model's configuration, or a flag, says fp32.
    """
    precision = entry.precision or "bf16"
    if entry.name == "conv_state":
        kept = run.known("conv_state_kept_ratio")
        if kept is None:
            raise run.unknown("how recurrent states are laid out is not known")
        # LFM2's kernel is 3 wide, all others' 4.
        kernel = 3 if builder.architecture.family.startswith("lfm2") else round(1 / (1 - kept.value))
        return elements * (kernel - 1 + run.settings.num_speculative_tokens) / kernel * BYTES_PER_ELEMENT[precision]
    declared = builder.architecture.family in run.engine.fp32_state_families
    if precision == "fp32" and not (declared or run.writes_fp32_states):
        precision = "bf16"
    return elements * BYTES_PER_ELEMENT[precision]
