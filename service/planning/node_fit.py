"""Every legal way to split a model over nodes, what each holds, and the smallest that fits."""

from collections.abc import Iterator
from dataclasses import replace

from service.architectures import Architecture
from service.catalogue.lookup import UnknownName, node_type
from service.planning import defaults
from service.planning.capacity import Capacity, capacity, shortfall
from service.planning.device import Device
from service.planning.errors import InvalidRequest, NotFound, Unanswerable, Violation
from service.planning.explain import Apply, Recorder, plainly, show_cache_formulas
from service.planning.footprint import FootprintBuilder
from service.planning.requests import AcceleratorSpec, FitNodeRequest, Parallelism
from service.planning.resolve import Resolver
from service.planning.results import Cure, Explanation, FitCandidate, FitNodeResponse
from service.planning.shape import is_even, shape_violations


class NodeFit:
    """Tries shapes of one model over nodes of one kind."""

    def __init__(
        self,
        builder: FootprintBuilder,
        *,
        devices_per_node: int,
        usable_bytes: float,
        memory_ratio: float,
        context_tokens: int,
        sequences: int,
    ) -> None:
        self.builder = builder
        self.devices_per_node = devices_per_node
        self.usable_bytes = usable_bytes
        self.memory_ratio = memory_ratio
        self.context_tokens = context_tokens
        self.sequences = sequences

    def candidates(self, max_num_nodes: int | None, default_num_nodes: int) -> tuple[FitCandidate, ...]:
        """Every legal shape, plain ones first.

        Without a ``max_num_nodes`` the search takes in one more node at a time until a shape of whole nodes fits.
        """
        found: list[FitCandidate] = []
        for num_nodes in range(1, (max_num_nodes or default_num_nodes) + 1):
            found += [self._candidate(shape) for shape in self._shapes(num_nodes)]
            if max_num_nodes is None and any(c.fits and not c.uneven_pipeline and not c.partial_node for c in found):
                break
        ordered = tuple(sorted(found, key=_order))
        return _with_device_cures(ordered)

    def _shapes(self, num_nodes: int) -> Iterator[Parallelism]:
        """Legal shapes that need exactly so many nodes."""
        architecture, per_node = self.builder.architecture, self.devices_per_node
        fewest, most = (num_nodes - 1) * per_node + 1, num_nodes * per_node
        for tensor in range(1, most + 1):
            if tensor > per_node and tensor % per_node:
                continue  # a tensor group over nodes takes whole ones
            for groups in _attention_groups(architecture, most // tensor):
                ranks = tensor * groups
                for pipeline in range(-(-fewest // ranks), most // ranks + 1):
                    yield from self._legal(tensor, pipeline, groups)

    def _legal(self, tensor: int, pipeline: int, groups: int) -> Iterator[Parallelism]:
        ranks = tensor * groups
        experts = self.builder.architecture.experts
        for expert in dict.fromkeys((1, ranks) if experts else (1,)):
            shape = Parallelism(tensor, pipeline, expert, groups)
            if next(shape_violations(self.builder.architecture, shape, self.builder.block_size), None) is None:
                yield shape

    def capacity_of(self, shape: Parallelism, apply: Apply = plainly) -> Capacity:
        """What a shape holds."""
        return capacity(
            self.builder.stages(shape),
            attention_groups=shape.attention_data,
            usable_bytes=self.usable_bytes,
            memory_ratio=self.memory_ratio,
            context_tokens=self.context_tokens,
            sequences=self.sequences,
            apply=apply,
        )

    def _candidate(self, shape: Parallelism) -> FitCandidate:
        held = self.capacity_of(shape)
        num_devices = shape.num_devices
        num_nodes = -(-num_devices // self.devices_per_node)
        return FitCandidate(
            parallelism=shape,
            num_devices=num_devices,
            num_nodes=num_nodes,
            fits=held.fits,
            max_sequences=held.max_sequences or 0.0,
            headroom_bytes_per_device=held.headroom_bytes,
            weight_bytes_per_device=held.tightest.weight_bytes,
            cache_bytes_per_sequence_per_device=held.cache_bytes_per_sequence,
            uneven_pipeline=not is_even(self.builder.architecture, shape.pipeline),
            partial_node=num_nodes > 1 and num_devices % self.devices_per_node != 0,
            shortfall=shortfall(held, self.memory_ratio, self.sequences, self.context_tokens, "concurrency"),
        )


def _attention_groups(architecture: Architecture, most: int) -> Iterator[int]:
    """Numbers of attention groups: only models with routed experts share anything between groups."""
    yield 1
    if architecture.experts is not None:
        yield from (groups for groups in range(2, most + 1) if architecture.experts.num_experts % groups == 0)


def _order(candidate: FitCandidate) -> tuple[bool, int, int, int, int, int]:
    shape = candidate.parallelism
    marked = candidate.uneven_pipeline or candidate.partial_node
    return marked, candidate.num_devices, shape.pipeline, shape.attention_data, shape.expert, shape.tensor


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


def fit_node(resolver: Resolver, request: FitNodeRequest) -> FitNodeResponse:
    """Every legal shape over nodes, and the smallest that fits. InvalidRequest, NotFound or Unanswerable otherwise."""
    device, devices_per_node = _node(resolver, request)
    builder, notes = resolver.builder(request.model, request.precision)
    ratio, ratio_note = defaults.memory_ratio(request.memory_utilization_ratio)
    _check(builder, device)
    search = NodeFit(
        builder,
        devices_per_node=devices_per_node,
        usable_bytes=device.usable_memory_bytes or 0.0,
        memory_ratio=ratio,
        context_tokens=request.context_tokens,
        sequences=request.concurrency or defaults.CONCURRENCY,
    )
    candidates = search.candidates(request.max_num_nodes, defaults.MAX_NUM_NODES)
    best = smallest(candidates)
    concurrency_note = None if request.concurrency else f"concurrency {defaults.CONCURRENCY} (default)"
    said = (*notes, *device.notes, concurrency_note, ratio_note, defaults.memory_note(device), defaults.NOT_COUNTED)
    return FitNodeResponse(
        fits=best is not None,
        smallest=best,
        candidates=candidates,
        accelerator=device.title,
        devices_per_node=devices_per_node,
        summary=_summary(request, device, best, candidates),
        assumptions=tuple(note for note in said if note),
        catalogue_revision=resolver.revision,
        explanation=_explanation(search, device, best) if request.explain and best else None,
    )


def _node(resolver: Resolver, request: FitNodeRequest) -> tuple[Device, int]:
    """The node's device and how many it has."""
    if (request.node is None) == (request.accelerator is None):
        both = "both are" if request.node else "neither is"
        reason = f"a node is either a node type or an accelerator with devices_per_node; {both} given"
        raise InvalidRequest(Violation("node", reason, "give node, or accelerator and devices_per_node"))
    if request.accelerator is not None:
        if request.devices_per_node is None:
            reason = "how many accelerators share a node is not given"
            raise InvalidRequest(Violation("devices_per_node", reason, "give it beside accelerator"))
        return resolver.device(request.accelerator), request.devices_per_node
    if request.devices_per_node is not None:
        reason = "the node type says how many accelerators it has"
        raise InvalidRequest(Violation("devices_per_node", reason, "leave it out beside node"))
    name = request.node.name if request.node else ""
    try:
        entry = node_type(resolver.catalogue, name)
    except UnknownName as unknown:
        raise NotFound("node.name", "node type", name, unknown.nearest) from None
    return resolver.device(AcceleratorSpec(name=entry.accelerator)), entry.num_devices


def _check(builder: FootprintBuilder, device: Device) -> None:
    if not builder.architecture.layer_kinds:
        reason = "without the shape of the KV cache no number of sequences can be given, and no fit means anything without one"
        remedy = "give num_layers, num_query_heads, num_kv_heads and head_dim"
        raise InvalidRequest(Violation("model.dense", reason, remedy))
    if device.usable_memory_bytes is None:
        missing = f"the memory of {device.title} is not given"
        raise Unanswerable("accelerator.inline.usable_memory_bytes", missing, "give it in bytes per device")


def _summary(request: FitNodeRequest, device: Device, best: FitCandidate | None, candidates: tuple[FitCandidate, ...]) -> str:
    at = f"at {request.context_tokens} tokens"
    if best is None:
        nodes = max((candidate.num_nodes for candidate in candidates), default=0)
        if not nodes:
            return "an engine would accept no shape of this model on these nodes"
        return f"no shape on up to {nodes} node{'s' if nodes > 1 else ''} of {device.title} fits"
    devices = f"{best.num_devices} × {device.title} ({describe(best.parallelism)})"
    return f"{devices} is the smallest that fits; it holds {best.max_sequences:.0f} sequences {at}"


def _explanation(search: NodeFit, device: Device, best: FitCandidate) -> Explanation:
    recorder = Recorder()
    show_cache_formulas(search.builder, recorder)
    search.capacity_of(best.parallelism, recorder)
    return recorder.explanation((device.figures["usable_memory"],))
