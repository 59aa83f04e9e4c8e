"""Which shapes fit a node? Every legal one, what each holds, the smallest that fits, and what the others lack."""

from service.catalogue.entries import NodeType
from service.catalogue.lookup import UnknownName, node_type
from service.planning import defaults
from service.planning.cures import Question
from service.planning.device import Device
from service.planning.engine_view import EngineQuestion, check_engine
from service.planning.errors import InvalidRequest, NotFound, Unanswerable, Violation
from service.planning.explain import Recorder, show_cache_formulas
from service.planning.footprint import FootprintBuilder
from service.planning.formats import lighter_formats
from service.planning.requests import AcceleratorSpec, FitNodeRequest
from service.planning.resolve import Resolver
from service.planning.results import Explanation, FitCandidate, FitNodeResponse
from service.planning.shape_search import ShapeSearch, describe, smallest


def fit_node(resolver: Resolver, request: FitNodeRequest) -> FitNodeResponse:
    """Every legal shape over nodes, and the smallest that fits. InvalidRequest, NotFound or Unanswerable otherwise."""
    device, devices_per_node, node = _node(resolver, request)
    builder, notes = resolver.builder(request.model, request.precision)
    check_engine(request.engine, request.context_tokens, request.memory_utilization_ratio)
    ratio, ratio_note = defaults.memory_ratio(request.memory_utilization_ratio)
    check_memory(builder, device)
    concurrency, context = request.concurrency or defaults.CONCURRENCY, request.context_tokens
    larger = resolver.larger_nodes(node, device) if node else resolver.larger_accelerators(device, devices_per_node)
    field = "node.name" if node else "accelerator.name"
    lighter = lighter_formats(builder.architecture, builder.formats, device)
    asked = Question(concurrency, "concurrency", context, ratio, builder, lighter, larger, field)
    engine = EngineQuestion(resolver, device, request.engine, asked) if request.engine else None
    search = ShapeSearch(asked, device, devices_per_node, engine)
    candidates = search.cured(search.candidates(request.max_num_nodes, defaults.MAX_NUM_NODES))
    best = smallest(candidates)
    concurrency_note = None if request.concurrency else f"concurrency {defaults.CONCURRENCY} (default)"
    plain = (ratio_note, defaults.memory_note(device), defaults.NOT_COUNTED)
    own = best.engine_memory.assumptions if best and best.engine_memory else ()
    beyond = defaults.context_note(context, builder.architecture.context_limit_tokens)
    said = (*notes, *device.notes, concurrency_note, beyond, *(own if request.engine else plain))
    return FitNodeResponse(
        fits=best is not None,
        smallest=best,
        candidates=candidates,
        accelerator=device.title,
        devices_per_node=devices_per_node,
        summary=_summary(request, device, best, candidates),
        assumptions=tuple(note for note in said if note),
        catalogue_revision=resolver.revision,
        explanation=_explanation(search, best) if request.explain and best else None,
    )


def _node(resolver: Resolver, request: FitNodeRequest) -> tuple[Device, int, NodeType | None]:
    """The node's device, how many it has, and its type where it is one of the catalogue's."""
    if (request.node is None) == (request.accelerator is None):
        both = "both are" if request.node else "neither is"
        reason = f"a node is either a node type or an accelerator with devices_per_node; {both} given"
        raise InvalidRequest(Violation("node", reason, "give node, or accelerator and devices_per_node"))
    if request.accelerator is not None:
        if request.devices_per_node is None:
            reason = "how many accelerators share a node is not given"
            raise InvalidRequest(Violation("devices_per_node", reason, "give it beside accelerator"))
        return resolver.device(request.accelerator), request.devices_per_node, None
    if request.devices_per_node is not None:
        reason = "the node type says how many accelerators it has"
        raise InvalidRequest(Violation("devices_per_node", reason, "leave it out beside node"))
    name = request.node.name if request.node else ""
    try:
        entry = node_type(resolver.catalogue, name)
    except UnknownName as unknown:
        raise NotFound("node.name", "node type", name, unknown.nearest) from None
    return resolver.device(AcceleratorSpec(name=entry.accelerator)), entry.num_devices, entry


def check_memory(builder: FootprintBuilder, device: Device) -> None:
    """InvalidRequest where the model keeps no cache that could be counted, Unanswerable where the memory is unknown."""
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
    alone = "" if best.num_nodes == 1 else "No shape on one node fits; "
    over = "" if best.num_nodes == 1 else f" on {best.num_nodes} nodes"
    devices = f"{best.num_devices} × {device.title} ({describe(best.parallelism)}){over}"
    even = " with even stages on whole nodes" if _is_passed_over(best, candidates) else ""
    return f"{alone}{devices} is the smallest that fits{even}; it holds {best.max_sequences:.0f} sequences {at}"


def _is_passed_over(best: FitCandidate, candidates: tuple[FitCandidate, ...]) -> bool:
    """Whether a shape of fewer devices fits too, with uneven stages or on a part of a node."""
    return any(each.fits and each.num_devices < best.num_devices for each in candidates)


def _explanation(search: ShapeSearch, best: FitCandidate) -> Explanation:
    recorder = Recorder()
    show_cache_formulas(search.asked.builder, recorder)
    search.capacity_of(best.parallelism, search.asked.sequences, search.asked.context_tokens, recorder)
    return recorder.explanation((search.device.figures["usable_memory"],))
