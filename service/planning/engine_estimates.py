"""What an engine takes beside weights and cache, as estimates: the most likely value and a range."""

from collections.abc import Iterable

from msgspec import Struct

from service.architectures import Architecture
from service.architectures.architecture import Role
from service.catalogue.engines import EngineFigure
from service.formulas.engine_memory import (
    expert_workspace_bytes,
    forward_peak_bytes,
    graph_bytes,
    rotary_table_bytes,
    sampler_peak_bytes,
)
from service.planning.device import MemoryBasis
from service.planning.engine_settings import EngineRun
from service.planning.explain import Apply, plainly
from service.planning.footprint import FootprintBuilder
from service.planning.shape import share_on_device

_GIB = 2.0**30
#: Bytes/s one way from which a link counts as fast: NVLink and its like. PCIe Gen5 x16 has 64e9.
_FAST_LINK_BYTES_PER_SECOND = 100e9
#: Memory from which a device whose links are not known is taken for one of those that have fast ones.
_LARGE_DEVICE_GIB = 70.0
#: Multiprocessors where they are not known.
_COMPUTE_UNITS = 132.0
_MAX_GRAPH_SEQUENCES = 512
_CHUNKED_BEYOND_TOKENS = 32_768


class Estimate(Struct, frozen=True):
    """A most likely value and the range around it, in bytes. An exact value has no width."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> "Estimate":
        """A value that is known."""
        return cls(value, value, value)

    @classmethod
    def of(cls, figure: EngineFigure, factor: float = 1.0) -> "Estimate":
        """A constant of the catalogue, times something known."""
        return cls(figure.value * factor, figure.low * factor, figure.high * factor)

    @property
    def is_exact(self) -> bool:
        """Whether there is no range."""
        return self.low == self.high


def remainder(total: float, parts: Iterable[Estimate]) -> tuple[float, float]:
    """The range of what is left of a total: the parts vary independently, so their deviations add up as squares."""
    parts = tuple(parts)
    left = total - sum(part.value for part in parts)
    below = sum((part.high - part.value) ** 2 for part in parts) ** 0.5
    above = sum((part.value - part.low) ** 2 for part in parts) ** 0.5
    return left - below, left + above


def physical_memory(run: EngineRun) -> Estimate:
    """The memory of a device as a framework sees it: the catalogue's figure, the caller's, or the driver's less its share."""
    device = run.device
    if device.framework_visible_memory_bytes is not None:
        return Estimate.exact(device.framework_visible_memory_bytes)
    usable = device.usable_memory_bytes or 0.0
    if device.memory_basis is MemoryBasis.CALLER:
        return Estimate.exact(usable)
    fixed, share = run.constant("framework_memory_loss"), run.constant("framework_memory_loss_ratio")
    return Estimate(
        usable * (1 - share.value) - fixed.value,
        usable * (1 - share.high) - fixed.high,
        usable * (1 - share.low) - fixed.low,
    )


def beside_checkpoint(run: EngineRun, builder: FootprintBuilder, layers: range) -> Estimate:
    """Weights of a stage beyond what the checkpoint stores: tables and buffers, and mxfp4 experts repacked for a kernel."""
    parts = [Estimate.exact(_rotary_table(builder)), Estimate.of(run.constant("weights_beside_checkpoint"))]
    tower = run.known("weights_beside_vision_tower")
    if tower is not None and has_vision(builder.architecture):
        parts.append(Estimate.of(tower))
    parts.append(_repacked_experts(run, builder, layers))
    return Estimate(*(sum(getattr(part, end) for part in parts) for end in ("value", "low", "high")))


def has_vision(architecture: Architecture) -> bool:
    """Whether the model has a vision tower."""
    return any(tensor.role is Role.VISION for tensor in architecture.outer)


def _rotary_table(builder: FootprintBuilder) -> float:
    shapes = [kind.attention for kind in builder.architecture.layer_kinds if kind.attention]
    return rotary_table_bytes(
        context_limit_tokens=builder.architecture.context_limit_tokens or 0,
        head_dim=max((shape.rope_head_dim or shape.query_key_head_dim for shape in shapes), default=0),
        activation_bytes_per_element=activation_element_bytes(builder),
    )


def activation_element_bytes(builder: FootprintBuilder) -> float:
    """Bytes of an activation: 16 bits unless the model is loaded in fp32."""
    return 4.0 if builder.formats.weights == "fp32" else 2.0


def _repacked_experts(run: EngineRun, builder: FootprintBuilder, layers: range) -> Estimate:
    experts = builder.architecture.experts
    columns, repacked = run.known("mxfp4_expert_columns"), run.known("mxfp4_repacking_ratio")
    stored = _mxfp4_expert_bytes(run, builder, layers)
    if not stored or experts is None or columns is None or repacked is None:
        return Estimate.exact(0.0)
    width = experts.intermediate_size / run.shape.expert_tensor
    padding = -(-width // columns.value) * columns.value / width - 1
    return Estimate(*(stored * (padding + ratio - 1) for ratio in (repacked.value, repacked.low, repacked.high)))


def _mxfp4_expert_bytes(run: EngineRun, builder: FootprintBuilder, layers: range) -> float:
    kinds, order = builder.architecture.layer_kinds, builder.architecture.layer_order
    return sum(
        builder.formats.bytes_of(tensor) * share_on_device(tensor.split, run.shape, None)
        for index in layers
        for tensor in kinds[order[index]].tensors
        if tensor.role is Role.ROUTED_EXPERTS and builder.formats.precision_of(tensor) == "mxfp4"
    )


def activation_peak(run: EngineRun, builder: FootprintBuilder, *, samples: bool, apply: Apply = plainly) -> Estimate:
    """The height of torch's memory in the profiling run, less the weights: the sampler's or the forward pass's.

    ``samples``: whether the stage holds the lm_head. Unanswerable where the model's vocabulary is not known.
    """
    architecture = builder.architecture
    if not architecture.vocab_size:
        raise run.unknown("the activation peak needs the vocabulary: give the model by name or by its config.json")
    tokens = profiled_tokens(run)
    width = (architecture.intermediate_size or 0) / run.shape.tensor
    workspace = _expert_workspace(run, builder, tokens, apply)
    forward = workspace + apply(
        forward_peak_bytes,
        profiled_tokens=tokens,
        mlp_width_per_device=width,
        hidden_size=architecture.hidden_size,
        forward_hidden_multiples=run.constant("forward_hidden_multiples").value,
        activation_bytes_per_element=activation_element_bytes(builder),
    )
    peak = forward
    if samples:
        kept = workspace if _keeps_workspace(run) else 0.0
        peak = max(forward, kept + _sampler(run, builder, tokens, apply) + _multimodal(run, architecture, tokens))
    spread, base = run.constant("activation_spread"), run.constant("activation_base")
    return Estimate(peak + base.value, peak * spread.low + base.low, peak * spread.high + base.high)


def profiled_tokens(run: EngineRun) -> int:
    """Tokens of the profiling run: one batch, or a whole prompt where prompts are not cut into chunks."""
    word = run.word("profiled_tokens")
    chunked = word == "batch" or (word == "whole_prompt_or_batch" and run.max_model_len > _CHUNKED_BEYOND_TOKENS)
    if chunked or run.settings.max_num_batched_tokens is not None:
        return run.max_num_batched_tokens
    return max(run.max_model_len, run.max_num_batched_tokens)


def _sampler(run: EngineRun, builder: FootprintBuilder, tokens: int, apply: Apply) -> float:
    buffer = run.known("sampler_bytes_per_vocabulary_entry_and_compute_unit")
    units = run.device.num_compute_units or _COMPUTE_UNITS
    return apply(
        sampler_peak_bytes,
        vocab_size=builder.architecture.vocab_size,
        hidden_size=builder.architecture.hidden_size,
        sampled_sequences=min(run.max_num_seqs, tokens),
        profiled_tokens=tokens,
        activation_bytes_per_element=activation_element_bytes(builder),
        sampler_bytes_per_logit=run.constant("sampler_bytes_per_logit").value,
        row_buffer_bytes_per_vocabulary_entry=buffer.value * units if buffer else 0.0,
    )


def _multimodal(run: EngineRun, architecture: Architecture, tokens: int) -> float:
    """Input embeddings and encoder outputs of a batch, which a model with a vision tower keeps beside the hidden states."""
    if not has_vision(architecture):
        return 0.0
    return run.constant("multimodal_hidden_multiples").value * 2 * architecture.hidden_size * tokens


def _keeps_workspace(run: EngineRun) -> bool:
    return run.word("expert_workspace") == "kept"


def _expert_workspace(run: EngineRun, builder: FootprintBuilder, tokens: int, apply: Apply) -> float:
    """The workspaces of fused expert kernels; mxfp4 kernels have none that shows."""
    experts = builder.architecture.experts
    routed = (tensor for tensor, _ in builder.architecture.tensors() if tensor.role is Role.ROUTED_EXPERTS)
    if experts is None or any(builder.formats.precision_of(tensor) == "mxfp4" for tensor in routed):
        return 0.0
    return apply(
        expert_workspace_bytes,
        profiled_tokens=tokens,
        num_experts_per_token=experts.num_experts_per_token,
        expert_width_per_device=experts.intermediate_size / run.shape.expert_tensor,
        hidden_size=builder.architecture.hidden_size,
        activation_bytes_per_element=activation_element_bytes(builder),
    )


def by_link(run: EngineRun, name: str) -> Estimate:
    """A constant that differs between devices with and without a fast link, for this run's devices."""
    # Unified memory has a constant of its own, whatever its links.
    slow = None if run.constant(name).only_for else run.known(f"{name}_without_fast_link")
    return Estimate.of(slow if slow and run.shape.tensor > 1 and not _has_fast_link(run) else run.constant(name))


def _has_fast_link(run: EngineRun) -> bool:
    if not run.device.links:
        return run.memory_gib >= _LARGE_DEVICE_GIB
    link = run.device.link_over(run.shape.tensor)
    return link is not None and link.bandwidth_one_way_bytes_per_second >= _FAST_LINK_BYTES_PER_SECOND


def graphs(run: EngineRun, apply: Apply = plainly) -> Estimate:
    """The memory of CUDA graphs; none where they are switched off or not known to be counted."""
    base, each = run.known("graph_base"), run.known("graph_bytes_per_capture")
    if run.settings.enforce_eager or base is None or each is None:
        return Estimate.exact(0.0)
    largest = run.known("default_graph_max_sequences")
    captures = num_captures(int(largest.value) if largest else min(2 * run.max_num_seqs, _MAX_GRAPH_SEQUENCES))

    def at(base_bytes: float, capture_bytes: float) -> float:
        return graph_bytes(graph_base_bytes=base_bytes, graph_bytes_per_capture=capture_bytes, num_captures=captures - 1)

    apply(graph_bytes, graph_base_bytes=base.value, graph_bytes_per_capture=each.value, num_captures=captures - 1)
    return Estimate(at(base.value, each.value), at(base.low, each.low), at(base.high, each.high))


def num_captures(largest: int) -> int:
    """Batch sizes that graphs are captured for: 1, 2, 4, multiples of 8 up to 256 and of 16 beyond.

    >>> num_captures(512), num_captures(16), num_captures(4)
    (51, 5, 3)
    """
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, _MAX_GRAPH_SEQUENCES + 1, 16)]
    return sum(size <= largest for size in sizes)
