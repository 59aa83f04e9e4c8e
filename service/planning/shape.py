"""Which ways to split a model an engine accepts, and how pipeline stages cut its layers."""

from collections.abc import Iterator
from typing import TypeAlias

from msgspec.structs import replace

from service.architectures import Architecture
from service.architectures.architecture import Divided, QuantizedCut, Role, Split
from service.formulas.kv_cache import num_kv_heads_per_device
from service.planning.errors import InvalidRequest, Violation
from service.planning.requests import Parallelism

#: Engines pad the vocabulary to a multiple of this before they divide it (vLLM, vocab_parallel_embedding.py).
VOCABULARY_PADDING = 64
#: Where ranks cut through quantised weights.
Cuts: TypeAlias = tuple[QuantizedCut, ...]
#: Devices of one replica.
MOST_DEVICES = 1_000_000
#: Tensor-parallel sizes that a refusal looks through for ones that the model allows.
_MOST_LISTED = 128


def check_shape(architecture: Architecture, shape: Parallelism, cuts: Cuts) -> None:
    """InvalidRequest with every reason for which an engine would refuse the shape."""
    violations = tuple(shape_violations(architecture, shape, cuts))
    if not violations:
        return
    sizes = [size for size in range(1, _MOST_LISTED + 1) if is_legal(architecture, Parallelism(tensor=size), cuts)]
    raise InvalidRequest(*(_with_legal_sizes(each, sizes, shape.tensor) for each in violations))


def _with_legal_sizes(violation: Violation, sizes: list[int], asked: int) -> Violation:
    """The violation with what tensor may be for this model, unless the model leaves it free."""
    if violation.field != "parallelism.tensor" or len(sizes) == _MOST_LISTED:
        return violation
    allowed = f"this model allows tensor {', '.join(map(str, sizes))}"
    if not violation.remedy:
        return replace(violation, remedy=allowed)
    nearest = min(sizes, key=lambda size: abs(size - asked))
    return replace(violation, remedy=f"{violation.remedy}; {allowed}; the nearest is {nearest}")


def is_legal(architecture: Architecture, shape: Parallelism, cuts: Cuts) -> bool:
    """Whether an engine would accept the shape."""
    return next(shape_violations(architecture, shape, cuts), None) is None


def shape_violations(architecture: Architecture, shape: Parallelism, cuts: Cuts) -> Iterator[Violation]:
    """Every reason for which an engine would refuse to split the model this way.

    ``cuts``: widths of quantised weights of which every rank must hold whole blocks or groups.
    """
    if shape.num_devices > MOST_DEVICES:
        reason = f"tensor × pipeline × attention_data is {shape.num_devices} devices; a replica has at most {MOST_DEVICES}"
        yield Violation("parallelism", reason, "choose smaller ones")
        return
    yield from _tensor_violations(architecture, shape.tensor)
    yield from _pipeline_violations(architecture, shape.pipeline)
    yield from _expert_violations(architecture, shape)
    yield from _cut_violations(cuts, shape)


def _tensor_violations(architecture: Architecture, tensor: int) -> Iterator[Violation]:
    if tensor == 1:
        return
    field = "parallelism.tensor"
    shapes = {kind.attention for kind in architecture.layer_kinds if kind.attention is not None}
    for heads in sorted({shape.num_query_heads for shape in shapes}):
        if heads % tensor:
            yield Violation(field, f"{tensor} ranks do not divide {heads} query heads")
    for heads in sorted({shape.num_kv_heads for shape in shapes if shape.kv_lora_rank is None}):
        if heads % tensor and tensor % heads:
            reason = f"{heads} KV heads can be neither divided over {tensor} ranks nor copied to equally many of them"
            yield Violation(field, reason)
    padded = -(-architecture.vocab_size // VOCABULARY_PADDING) * VOCABULARY_PADDING
    if padded % tensor:
        yield Violation(field, f"{tensor} ranks do not divide the padded vocabulary of {padded}")
    for each in sorted({each for kind in architecture.layer_kinds for each in kind.divided}, key=_in_words):
        if each.number % tensor:
            yield Violation(field, f"{tensor} ranks do not divide {_in_words(each)}")
    if architecture.intermediate_size and architecture.intermediate_size % tensor:
        yield Violation(field, f"{tensor} ranks do not divide the MLP width of {architecture.intermediate_size}")


def _in_words(divided: Divided) -> str:
    return f"{divided.number} {divided.what}"


def _cut_violations(cuts: Cuts, shape: Parallelism) -> Iterator[Violation]:
    """Quantised weights cannot be cut inside a block or group; widths that do not divide at all are refused elsewhere."""
    for cut in cuts:
        ranks = max(1, shape.expert_tensor if cut.of_experts else shape.tensor)
        share = max(cut.width // ranks, cut.smallest)
        divides = cut.width % ranks == 0 or cut.smallest > 1
        if ranks > 1 and divides and share % cut.multiple:
            what = f"the {cut.width} of {cut.name} into shares of {share}"
            reason = f"{ranks} ranks cut {what}, inside a quantisation block of {cut.multiple}"
            field = "parallelism.expert" if cut.of_experts and shape.expert > 1 else "parallelism.tensor"
            yield Violation(field, reason, f"each rank's share must be a multiple of {cut.multiple}")


def _pipeline_violations(architecture: Architecture, pipeline: int) -> Iterator[Violation]:
    if pipeline == 1:
        return
    field = "parallelism.pipeline"
    if not architecture.num_layers:
        yield Violation(field, "the model is given without layers, which pipeline stages divide", "give num_layers")
    elif pipeline > architecture.num_layers:
        reason = f"{pipeline} stages are more than the model's {architecture.num_layers} layers"
        yield Violation(field, reason, "every stage needs a layer")


def _expert_violations(architecture: Architecture, shape: Parallelism) -> Iterator[Violation]:
    experts = architecture.experts
    if experts is None:
        if shape.expert > 1:
            yield Violation("parallelism.expert", "the model has no routed experts", "leave it out")
        if shape.attention_data > 1:
            reason = "data-parallel attention shares routed experts, of which the model has none"
            yield Violation("parallelism.attention_data", reason, "leave it out and run several replicas instead")
        return
    ranks = shape.tensor * shape.attention_data
    if ranks % shape.expert:
        reason = f"{shape.expert} expert groups do not divide {ranks} ranks (tensor × attention_data)"
        yield Violation("parallelism.expert", reason, _divisors_of(ranks))
        return
    if experts.num_experts % shape.expert:
        reason = f"{shape.expert} groups do not divide {experts.num_experts} experts"
        yield Violation("parallelism.expert", reason, _divisors_of(experts.num_experts))
    width, sharers = experts.intermediate_size, shape.expert_tensor
    if width % sharers:
        field = "parallelism.tensor" if shape.expert == 1 else "parallelism.expert"
        yield Violation(field, f"{sharers} ranks do not divide the expert width of {width}")


def _divisors_of(number: int, limit: int = 1024) -> str:
    divisors = [str(candidate) for candidate in range(1, min(number, limit) + 1) if number % candidate == 0]
    return f"choose one of {', '.join(divisors)}"


def stage_layers(num_layers: int, pipeline: int) -> tuple[int, ...]:
    """How many layers each stage gets, first to last.

    Where they do not divide evenly, the stages before the last get one more each, from the back, since the last also holds the
    lm_head (vLLM, distributed/utils.py, get_pp_indices).

    >>> stage_layers(61, 2)
    (31, 30)
    >>> stage_layers(61, 4)
    (15, 15, 16, 15)
    """
    base, extra = divmod(num_layers, pipeline)
    counts = [base] * pipeline
    for back in range(extra):
        counts[pipeline - 2 - back] += 1
    return tuple(counts)


def is_even(architecture: Architecture, pipeline: int) -> bool:
    """Whether the layers divide evenly over the stages."""
    return pipeline == 1 or architecture.num_layers % pipeline == 0


_BEFORE_THE_LAYERS = frozenset({Role.EMBEDDING, Role.PER_LAYER_EMBEDDING, Role.VISION})


def is_first_stage(role: Role, embeddings_tied: bool) -> bool:
    """Whether the first of several stages holds a tensor outside the layers; a tied lm_head is its embedding too."""
    return role in _BEFORE_THE_LAYERS or (embeddings_tied and role is Role.LM_HEAD)


def is_last_stage(role: Role) -> bool:
    """Whether the last of several stages holds a tensor that stands outside the layers (final norm, lm_head)."""
    return role not in _BEFORE_THE_LAYERS and role is not Role.ALL


def share_on_device(split: Split, shape: Parallelism, num_kv_heads: int | None) -> float:
    """The part of a tensor or cache entry that one device holds."""
    if split is Split.REPLICATED:
        return 1.0
    if split is Split.EXPERTS:
        return 1.0 / (shape.tensor * shape.attention_data)
    if split is Split.KV_HEADS and num_kv_heads:
        return num_kv_heads_per_device(num_kv_heads=num_kv_heads, tensor_parallel_size=shape.tensor) / num_kv_heads
    return 1.0 / shape.tensor
