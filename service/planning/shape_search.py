"""Every legal way to split a model over nodes of one kind, what each holds, and the smallest that fits."""

import time
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from service.architectures import Architecture
from service.planning.capacity import Capacity, capacity
from service.planning.cures import Question, longest_context, shortfall
from service.planning.device import Device
from service.planning.engine_view import EngineQuestion
from service.planning.errors import TooLarge
from service.planning.explain import Apply, plainly
from service.planning.requests import Parallelism
from service.planning.results import Cure, FitCandidate, FitLimit
from service.planning.shape import is_even, is_legal

#: Where a model declares no longest context, none beyond this is looked for.
_LONGEST_CONTEXT = 10_000_000
#: Shapes of one search: without an engine some half a second of work, and half a megabyte of answer.
MOST_CANDIDATES = 3000
#: Seconds of work that one search may take, which an engine's word on large models exceeds: others wait for them.
TIME_BUDGET_SECONDS = 20.0
#: Devices of one search. Beyond it even finding out which shapes are legal takes long.
MOST_DEVICES = 2048


class ShapeSearch(Struct, frozen=True):
    """Tries shapes of one model over nodes of one kind."""

    asked: Question
    device: Device
    devices_per_node: int
    engine: EngineQuestion | None = None  # whose word on memory goes, where one is asked

    def candidates(self, max_num_nodes: int | None, default_num_nodes: int) -> tuple[FitCandidate, ...]:
        """Every legal shape, plain ones first.

        Without a ``max_num_nodes`` the search takes in one more node at a time until a shape of whole nodes fits.
        """
        most = max_num_nodes or min(default_num_nodes, max(1, MOST_DEVICES // self.devices_per_node))
        if most * self.devices_per_node > MOST_DEVICES:
            what, remedy = f"{most} nodes of {self.devices_per_node} devices", "allow fewer"
            raise TooLarge("max_num_nodes", what, MOST_DEVICES, remedy)
        found: list[FitCandidate] = []
        begun = time.thread_time()
        for num_nodes in range(1, most + 1):
            for shape in self._shapes(num_nodes):
                if len(found) == MOST_CANDIDATES:
                    what, remedy = "the shapes to look at", "allow fewer with max_num_nodes"
                    raise TooLarge("max_num_nodes", what, MOST_CANDIDATES, remedy)
                spent = time.thread_time() - begun
                if spent > TIME_BUDGET_SECONDS:
                    what = f"{spent:.1f} seconds of work for shapes on up to {num_nodes} nodes"
                    remedy = "allow fewer with max_num_nodes, or leave the engine out"
                    raise TooLarge("max_num_nodes", what, round(TIME_BUDGET_SECONDS), remedy)
                found.append(self.candidate(shape))
            if max_num_nodes is None and any(c.fits and not c.uneven_pipeline and not c.partial_node for c in found):
                break
        return tuple(sorted(found, key=_order))

    def cured(self, candidates: tuple[FitCandidate, ...]) -> tuple[FitCandidate, ...]:
        """The same, with more cures of what does not fit: the engine's for what lacks least, the next larger shape for each.

        To look for the engine's cures of every shape would take long.
        """
        short = {each.parallelism: each.shortfall.short_bytes_per_device for each in candidates if each.shortfall}
        nearest = min(short, key=short.__getitem__, default=None) if self.engine else None
        cured = [
            self._as_engine_sees_it(each, with_remedies=True) if each.parallelism == nearest else each for each in candidates
        ]
        return _with_device_cures(tuple(cured))

    def capacity_of(self, shape: Parallelism, sequences: int, context_tokens: int, apply: Apply = plainly) -> Capacity:
        """What a shape holds."""
        return capacity(
            self.asked.builder.stages(shape),
            attention_groups=shape.attention_data,
            usable_bytes=self.device.usable_memory_bytes or 0.0,
            memory_ratio=self.asked.memory_ratio,
            context_tokens=context_tokens,
            sequences=sequences,
            apply=apply,
        )

    @property
    def _architecture(self) -> Architecture:
        return self.asked.builder.architecture

    def _shapes(self, num_nodes: int) -> Iterator[Parallelism]:
        """Legal shapes that need exactly so many nodes."""
        per_node = self.devices_per_node
        fewest, most = (num_nodes - 1) * per_node + 1, num_nodes * per_node
        for tensor in range(1, most + 1):
            if tensor > per_node and tensor % per_node:
                continue  # a tensor group over nodes takes whole ones
            for groups in _attention_groups(self._architecture, most // tensor):
                ranks = tensor * groups
                for pipeline in range(-(-fewest // ranks), most // ranks + 1):
                    yield from self._legal(tensor, pipeline, groups)

    def _legal(self, tensor: int, pipeline: int, groups: int) -> Iterator[Parallelism]:
        ranks, cuts = tensor * groups, self.asked.builder.quantized_cuts
        for expert in dict.fromkeys((1, ranks) if self._architecture.experts else (1,)):
            shape = Parallelism(tensor, pipeline, expert, groups)
            if is_legal(self._architecture, shape, cuts):
                yield shape

    def candidate(self, shape: Parallelism) -> FitCandidate:
        """What a legal shape holds, and whether it fits."""
        asked, limit = self.asked, self._architecture.context_limit_tokens
        held = self.capacity_of(shape, asked.sequences, asked.context_tokens)
        one = self.capacity_of(shape, 1, asked.context_tokens)
        at_limit = self.capacity_of(shape, 1, limit).max_sequences if limit else None
        num_devices = shape.num_devices
        num_nodes = -(-num_devices // self.devices_per_node)
        plain = FitCandidate(
            parallelism=shape,
            num_devices=num_devices,
            num_nodes=num_nodes,
            fits=held.fits,
            max_sequences=held.max_sequences or 0.0,
            headroom_bytes_per_device=held.headroom_bytes,
            weight_bytes_per_device=held.tightest.weight_bytes,
            cache_bytes_per_sequence_per_device=held.cache_bytes_per_sequence,
            tightest_stage=asked.builder.each_stage(shape).index(held.tightest),
            uneven_pipeline=not is_even(self._architecture, shape.pipeline),
            partial_node=num_nodes > 1 and num_devices % self.devices_per_node != 0,
            crosses_link_domain=self._crosses_link_domain(shape, num_nodes),
            replicas_per_node=self.devices_per_node // num_devices,
            longest_context_tokens=longest_context(one, limit or _LONGEST_CONTEXT),
            max_sequences_at_model_limit=at_limit,
            binding_limit=FitLimit.KV_CACHE if held.max_sequences else FitLimit.WEIGHTS,
            shortfall=None if self.engine else shortfall(held, asked, shape),
        )
        return self._as_engine_sees_it(plain) if self.engine else plain

    def _as_engine_sees_it(self, candidate: FitCandidate, *, with_remedies: bool = False) -> FitCandidate:
        assert self.engine is not None
        view = self.engine.view(candidate.parallelism, with_remedies=with_remedies)
        stage = self.asked.builder.each_stage(candidate.parallelism)[view.memory.tightest_stage]
        return replace(
            candidate,
            weight_bytes_per_device=stage.weight_bytes,
            cache_bytes_per_sequence_per_device=stage.cache_bytes.at(self.asked.context_tokens),
            tightest_stage=view.memory.tightest_stage,
            fits=view.fits,
            max_sequences=view.max_sequences,
            headroom_bytes_per_device=view.headroom_bytes,
            longest_context_tokens=view.memory.likely.longest_context_tokens,
            max_sequences_at_model_limit=None,
            binding_limit=FitLimit.KV_CACHE if view.max_sequences else FitLimit.WEIGHTS,
            shortfall=view.shortfall(),
            engine_memory=view.memory,
        )

    def _crosses_link_domain(self, shape: Parallelism, num_nodes: int) -> bool:
        """Whether ranks that exchange messages in every layer reach beyond the fastest link."""
        ranks = shape.tensor * shape.attention_data
        fastest = self.device.links[0].num_devices_in_domain if self.device.links else 1
        return ranks > 1 and (ranks > fastest or (num_nodes > 1 and ranks > self.devices_per_node))


def _attention_groups(architecture: Architecture, most: int) -> Iterator[int]:
    """Numbers of attention groups: only models with routed experts share anything between groups."""
    yield 1
    if architecture.experts is not None:
        yield from (groups for groups in range(2, most + 1) if architecture.experts.num_experts % groups == 0)


def _order(candidate: FitCandidate) -> tuple[bool, int, bool, int, int, int, int]:
    shape = candidate.parallelism
    marked = candidate.uneven_pipeline or candidate.partial_node
    rest = (candidate.crosses_link_domain, shape.pipeline, shape.attention_data, shape.expert, shape.tensor)
    return marked, candidate.num_devices, *rest


def smallest(candidates: tuple[FitCandidate, ...]) -> FitCandidate | None:
    """The fitting shape with the fewest devices; unmarked ones come first in the order."""
    return next((candidate for candidate in candidates if candidate.fits), None)


def _with_device_cures(candidates: tuple[FitCandidate, ...]) -> tuple[FitCandidate, ...]:
    """Adds to each shortfall the next larger shape that fits, which is the cure when nothing else may change."""
    best = smallest(candidates)
    if best is None:
        return candidates
    cured = []
    for candidate in candidates:
        if candidate.shortfall is not None and best.num_devices > candidate.num_devices:
            shortage = replace(candidate.shortfall, cures=(*candidate.shortfall.cures, _devices_cure(best)))
            candidate = replace(candidate, shortfall=shortage)
        cured.append(candidate)
    return tuple(cured)


def _devices_cure(best: FitCandidate) -> Cure:
    text = f"{describe(best.parallelism)} fits and holds {best.max_sequences:.0f} sequences"
    return Cure("parallelism", describe(best.parallelism), text)


def describe(shape: Parallelism) -> str:
    """A shape in words: "tensor 8 × pipeline 2"."""
    parts = [
        f"{name} {value}"
        for name, value in (
            ("tensor", shape.tensor),
            ("pipeline", shape.pipeline),
            ("attention_data", shape.attention_data),
        )
        if value > 1
    ]
    expert = f" with {shape.expert} expert groups" if shape.expert > 1 else ""
    return (" × ".join(parts) or "one device") + expert
