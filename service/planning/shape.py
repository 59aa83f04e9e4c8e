"""Which ways to split a model an engine accepts, and how pipeline stages cut its layers."""

from collections.abc import Iterator
from dataclasses import replace

from service.architectures import Architecture
from service.architectures.architecture import Role, Split
from service.formulas.kv_cache import num_kv_heads_per_device
from service.planning.errors import InvalidRequest, Violation
from service.planning.requests import Parallelism

#: Engines pad the vocabulary to a multiple of this before they divide it (vLLM, vocab_parallel_embedding.py).
VOCABULARY_PADDING = 64
#: Devices of one replica.
MOST_DEVICES = 1_000_000
#: Tensor-parallel sizes that a refusal looks through for ones that the model allows.
_MOST_LISTED = 128


def check_shape(architecture: Architecture, shape: Parallelism, block_size: int | None) -> None:
    """InvalidRequest with every reason for which an engine would refuse the shape."""
    violations = tuple(shape_violations(architecture, shape, block_size))
    if not violations:
        return
    remedy = _legal_tensor_sizes(architecture, block_size)
    raise InvalidRequest(
        *(replace(each, remedy=remedy) if each.field == "parallelism.tensor" and remedy else each for each in violations)
    )


def _legal_tensor_sizes(architecture: Architecture, block_size: int | None) -> str:
    """What tensor may be for this model, in a sentence; empty where more than the model's shape decides."""
    sizes = [size for size in range(1, _MOST_LISTED + 1) if is_legal(architecture, Parallelism(tensor=size), block_size)]
    return f"this model allows tensor {', '.join(map(str, sizes))}" if sizes != list(range(1, _MOST_LISTED + 1)) else ""


def is_legal(architecture: Architecture, shape: Parallelism, block_size: int | None) -> bool:
    """Whether an engine would accept the shape."""
    return next(shape_violations(architecture, shape, block_size), None) is None


def shape_violations(architecture: Architecture, shape: Parallelism, block_size: int | None) -> Iterator[Violation]:
    """Every reason for which an engine would refuse to split the model this way.

    ``block_size``: side of the blocks that the weights are quantised in, which cannot be cut; None where they have none.
    """
    if shape.num_devices > MOST_DEVICES:
        reason = f"tensor × pipeline × attention_data is {shape.num_devices} devices; a replica has at most {MOST_DEVICES}"
        yield Violation("parallelism", reason, "choose smaller ones")
        return
    yield from _tensor_violations(architecture, shape.tensor, block_size)
    yield from _pipeline_violations(architecture, shape.pipeline)
    yield from _expert_violations(architecture, shape, block_size)


def _tensor_violations(architecture: Architecture, tensor: int, block_size: int | None) -> Iterator[Violation]:
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
    if architecture.intermediate_size:
        yield from _width_violations(architecture.intermediate_size, tensor, block_size, field, "MLP width")


def _width_violations(width: int, ranks: int, block: int | None, field: str, what: str) -> Iterator[Violation]:
    """A width must divide over the ranks, and block-quantised weights cannot be cut inside a block."""
    if width % ranks:
        yield Violation(field, f"{ranks} ranks do not divide the {what} of {width}")
    elif ranks > 1 and block and (width // ranks) % block:
        reason = f"{ranks} ranks cut the {what} of {width} inside a quantisation block of {block}"
        yield Violation(field, reason, f"each rank's share must be a multiple of {block}")


def _pipeline_violations(architecture: Architecture, pipeline: int) -> Iterator[Violation]:
    if pipeline == 1:
        return
    field = "parallelism.pipeline"
    if not architecture.num_layers:
        yield Violation(field, "the model is given without layers, which pipeline stages divide", "give num_layers")
    elif pipeline > architecture.num_layers:
        reason = f"{pipeline} stages are more than the model's {architecture.num_layers} layers"
        yield Violation(field, reason, "every stage needs a layer")


def _expert_violations(architecture: Architecture, shape: Parallelism, block_size: int | None) -> Iterator[Violation]:
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
    field = "parallelism.tensor" if shape.expert == 1 else "parallelism.expert"
    yield from _width_violations(width, sharers, block_size, field, "expert width")


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
