"""The bases of utilisation: which operations, and which N, each counts against which peak."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from service.architectures import Architecture
from service.architectures.architecture import AttentionShape, Role
from service.formulas.utilization import (
    decode_bytes_per_second,
    full_recomputation_flops_per_second,
    inference_flops_per_second,
    selective_recomputation_flops_per_second,
    training_attention_flops_per_token,
    training_flops_per_second,
    utilization_ratio,
)
from service.planning.context_cost import ContextCost
from service.planning.device import Device
from service.planning.explain import Apply
from service.planning.footprint import attention_cost
from service.planning.requests import ComputeUtilizationRequest, Phase
from service.planning.results import Utilization, UtilizationBasis

_IMPLAUSIBLE = (
    "above 1: no run beats its peak, so tokens_per_second, num_devices, peak_precision or the accelerator does not match "
    "the run"
)


class Counts(Struct, frozen=True):
    """What a model costs per token. Attention is forward only, over the whole sequence."""

    active_parameters: float
    total_parameters: float
    body_parameters: float  # active, without embedding table and lm_head
    attention_forward_flops: float  # per token, every token seeing the whole sequence; 0 where not known
    attention_causal_flops: float  # per token, on average over the sequence, every token seeing those before it
    has_experts: bool
    palm: tuple[float, float, float] | None  # L, H, Q where every layer is alike, for the explanation's 12·L·H·Q·T


def count(architecture: Architecture, sequence_tokens: int | None) -> Counts:
    """Parameters and attention of a model, as utilisation counts them."""
    outside = sum(
        tensor.num_parameters * n
        for tensor, n in architecture.tensors()
        if tensor.role in {Role.EMBEDDING, Role.LM_HEAD, Role.PER_LAYER_EMBEDDING}
    )
    active = architecture.num_active_parameters
    forward = causal = 0.0
    if sequence_tokens is not None:
        for kind, n in zip(architecture.layer_kinds, architecture.layer_counts, strict=True):
            cost = attention_cost(_expanded(kind.attention))
            forward += cost.at(sequence_tokens) * n
            causal += _causal(cost, sequence_tokens) * n
    has_experts, uniform = architecture.experts is not None, _uniform(architecture)
    return Counts(active, architecture.num_parameters, active - outside, forward, causal, has_experts, uniform)


def _causal(cost: ContextCost, sequence_tokens: int) -> float:
    """The mean cost over a sequence in which the token at t attends to the t before it, up to its window w.

    That is T/2 without a window, and w·(1 − w/2T) with one shorter than the sequence.
    """
    mean = cost.per_token * sequence_tokens / 2
    for window, tokens, each in cost.terms:
        reach = min(sequence_tokens, sequence_tokens if window is None else window)
        mean += each * reach * (1 - reach / (2 * sequence_tokens)) / tokens
    return mean


def _expanded(attention: AttentionShape | None) -> AttentionShape | None:
    """Latent attention as training and prefill run it: keys and values expanded, not absorbed."""
    if attention is None or attention.kv_lora_rank is None:
        return attention
    return replace(attention, kv_lora_rank=None)


def _uniform(architecture: Architecture) -> tuple[float, float, float] | None:
    if len(architecture.layer_kinds) != 1:
        return None
    shape = architecture.layer_kinds[0].attention
    if shape is None or shape.window_tokens or shape.query_key_head_dim != shape.value_head_dim:
        return None
    return float(architecture.num_layers), float(shape.num_query_heads), float(shape.query_key_head_dim)


_HFU_WARNING = (
    "HFU depends on what the implementation recomputed and is not comparable between systems; this one assumes the named "
    "recomputation"
)
_SPARSE_WARNING = (
    "the denominator is the peak with 2:4 structured sparsity, which a dense model cannot reach: this is not its MFU"
)
_TOTAL_WARNING = "counts the experts that no token passed: this is not the model's MFU"


class _Rule(Struct, frozen=True):
    """How one basis counts: which formula, which N, how much of full attention, which peak."""

    basis: UtilizationBasis
    body: Callable[..., float]
    description: str
    parameters: str = "active_parameters"  # a field of Counts
    attention: str = ""  # a field of Attention; "" leaves it out
    sparse_peak: bool = False
    warning: str = ""
    valid: bool = True


_TRAINING = (
    _Rule(UtilizationBasis.MFU_6N, training_flops_per_second, "6 FLOP per active parameter and token; attention left out"),
    _Rule(
        UtilizationBasis.MFU_6N_ATTENTION_FULL,
        training_flops_per_second,
        "6N and attention as if every token saw its whole sequence, or its window (12·L·H·Q·T, the PaLM convention)",
        attention="full",
    ),
    _Rule(
        UtilizationBasis.MFU_6N_ATTENTION_CAUSAL,
        training_flops_per_second,
        "6N and attention to earlier tokens only, as the causal mask has it: half, or less saved under a window",
        attention="causal",
    ),
    _Rule(
        UtilizationBasis.MFU_6N_WITHOUT_EMBEDDING,
        training_flops_per_second,
        "6 FLOP per active parameter outside embedding table and lm_head; attention left out",
        parameters="body_parameters",
    ),
    _Rule(
        UtilizationBasis.HFU_6N_FULL_RECOMPUTATION,
        full_recomputation_flops_per_second,
        "8N: 6N and one more forward pass, every activation recomputed; attention left out",
        warning=_HFU_WARNING,
    ),
    _Rule(
        UtilizationBasis.HFU_6N_ATTENTION_FULL_FULL_RECOMPUTATION,
        full_recomputation_flops_per_second,
        "8N and full attention with one more forward pass of it",
        attention="full",
        warning=_HFU_WARNING,
    ),
    _Rule(
        UtilizationBasis.HFU_6N_ATTENTION_FULL_SELECTIVE_RECOMPUTATION,
        selective_recomputation_flops_per_second,
        "6N and full attention, of which only scores and weighted sums are recomputed",
        attention="full",
        warning=_HFU_WARNING,
    ),
    _Rule(
        UtilizationBasis.MFU_6N_SPARSE_PEAK,
        training_flops_per_second,
        "6N against the peak with structured sparsity",
        sparse_peak=True,
        warning=_SPARSE_WARNING,
        valid=False,
    ),
    _Rule(
        UtilizationBasis.MFU_6N_TOTAL_PARAMETERS,
        training_flops_per_second,
        "6 FLOP for every parameter, experts that the token did not pass included",
        parameters="total_parameters",
        warning=_TOTAL_WARNING,
        valid=False,
    ),
)
_INFERENCE = (
    _Rule(UtilizationBasis.MFU_2N, inference_flops_per_second, "2 FLOP per active parameter and token; attention left out"),
    _Rule(
        UtilizationBasis.MFU_2N_ATTENTION_FULL,
        inference_flops_per_second,
        "2N and attention over the whole sequence, or the window, for every token",
        attention="full",
    ),
    _Rule(
        UtilizationBasis.MFU_2N_ATTENTION_CAUSAL,
        inference_flops_per_second,
        "2N and attention to earlier tokens only, as the causal mask has it: half, or less saved under a window",
        attention="causal",
    ),
    _Rule(
        UtilizationBasis.MFU_2N_WITHOUT_EMBEDDING,
        inference_flops_per_second,
        "2 FLOP per active parameter outside embedding table and lm_head; attention left out",
        parameters="body_parameters",
    ),
    _Rule(
        UtilizationBasis.MFU_2N_SPARSE_PEAK,
        inference_flops_per_second,
        "2N against the peak with structured sparsity",
        sparse_peak=True,
        warning=_SPARSE_WARNING,
        valid=False,
    ),
    _Rule(
        UtilizationBasis.MFU_2N_TOTAL_PARAMETERS,
        inference_flops_per_second,
        "2 FLOP for every parameter, experts that the token did not pass included",
        parameters="total_parameters",
        warning=_TOTAL_WARNING,
        valid=False,
    ),
)


def utilizations(
    request: ComputeUtilizationRequest, counts: Counts, device: Device, step_bytes: float | None, apply: Apply
) -> tuple[Utilization, ...]:
    """The run on every basis that the request has the inputs for.

    ``step_bytes``: what one decode step reads at least over all devices, for MBU; None where it is not known.
    """
    training = request.phase is Phase.TRAINING
    attention = _attention_flops(request, counts, training, apply)
    rules = _TRAINING if training else _INFERENCE
    found = [
        _on_basis(rule, request, counts, device, attention, apply)
        for rule in rules
        if _applies(rule, request, counts, device, attention)
    ]
    if step_bytes is not None and request.batch_size is not None:
        found.append(_bandwidth(request, device, step_bytes, apply))
    return tuple(found)


class Attention(Struct, frozen=True):
    """Attention's operations per token of the run; 0 where it is not known."""

    full: float
    causal: float


def _attention_flops(request: ComputeUtilizationRequest, counts: Counts, training: bool, apply: Apply) -> Attention:
    """Full attention per token: three times the forward pass in training."""
    if request.sequence_tokens is None or counts.attention_forward_flops == 0:
        return Attention(0.0, 0.0)
    if training and counts.palm is not None:
        layers, heads, head_dim = counts.palm
        full = apply(
            training_attention_flops_per_token,
            num_layers=layers,
            num_query_heads=heads,
            head_dim=head_dim,
            sequence_tokens=request.sequence_tokens,
        )
        return Attention(full, full / 2)
    passes = 3 if training else 1
    return Attention(counts.attention_forward_flops * passes, counts.attention_causal_flops * passes)


def _applies(rule: _Rule, request: ComputeUtilizationRequest, counts: Counts, device: Device, attention: Attention) -> bool:
    if rule.attention and not attention.full:
        return False
    if rule.basis is UtilizationBasis.MFU_2N_ATTENTION_CAUSAL and request.phase is Phase.DECODE:
        return False  # a decoded token does see its whole context
    if rule.sparse_peak:
        return request.peak_precision in device.peaks_sparse
    if rule.parameters == "total_parameters":
        return counts.has_experts
    if rule.parameters == "body_parameters":
        return counts.body_parameters < counts.active_parameters
    return True


def _on_basis(
    rule: _Rule, request: ComputeUtilizationRequest, counts: Counts, device: Device, attention: Attention, apply: Apply
) -> Utilization:
    peak = (
        device.peaks_sparse[request.peak_precision]
        if rule.sparse_peak
        else device.peak_dense(request.peak_precision, "peak_precision")
    )
    achieved = apply(
        rule.body,
        num_parameters=getattr(counts, rule.parameters),
        attention_flops_per_token=getattr(attention, rule.attention) if rule.attention else 0.0,
        tokens_per_second=request.tokens_per_second,
    )
    return _utilization(rule.basis, rule.valid, achieved, request, peak, rule.description, rule.warning, apply)


def _bandwidth(request: ComputeUtilizationRequest, device: Device, step_bytes: float, apply: Apply) -> Utilization:
    achieved = apply(
        decode_bytes_per_second,
        bytes_per_step=step_bytes,
        tokens_per_second=request.tokens_per_second,
        batch_size=request.batch_size or 1,
    )
    text = "bytes that a decode step reads at least (weights and cache), per second, over the memory bandwidth"
    basis = UtilizationBasis.MBU
    return _utilization(basis, True, achieved, request, device.memory_bandwidth(), text, "", apply)


def _utilization(
    basis: UtilizationBasis,
    valid: bool,
    achieved: float,
    request: ComputeUtilizationRequest,
    peak: float,
    description: str,
    warning: str,
    apply: Apply,
) -> Utilization:
    ratio = apply(
        utilization_ratio,
        achieved_per_second=achieved,
        num_devices=request.num_devices,
        peak_per_second_per_device=peak,
    )
    if ratio > 1:
        warning = f"{warning}; {_IMPLAUSIBLE}" if warning else _IMPLAUSIBLE
    return Utilization(basis, ratio, valid and ratio <= 1, achieved, peak * request.num_devices, description, warning)


_PREFERENCE = {
    Phase.TRAINING: (UtilizationBasis.MFU_6N_ATTENTION_FULL, UtilizationBasis.MFU_6N),
    Phase.INFERENCE: (UtilizationBasis.MFU_2N,),
    Phase.PREFILL: (UtilizationBasis.MFU_2N_ATTENTION_CAUSAL, UtilizationBasis.MFU_2N),
    Phase.DECODE: (UtilizationBasis.MBU, UtilizationBasis.MFU_2N_ATTENTION_FULL, UtilizationBasis.MFU_2N),
}


def recommended(phase: Phase, found: tuple[Utilization, ...]) -> Utilization:
    """The figure to quote: with attention where it is known; for decode the bandwidth, which is what binds."""
    by_basis = {utilization.basis: utilization for utilization in found}
    return next(by_basis[basis] for basis in _PREFERENCE[phase] if basis in by_basis)


_ATTENTION_WORDS = {
    UtilizationBasis.MFU_6N_ATTENTION_FULL: "attention counted in full, without halving for the causal mask",
    UtilizationBasis.MFU_2N_ATTENTION_FULL: "attention over the whole context counted",
    UtilizationBasis.MFU_2N_ATTENTION_CAUSAL: "attention counted, halved for the causal mask",
}


def statement(request: ComputeUtilizationRequest, quoted: Utilization, device: Device, counts: Counts) -> str:
    """The sentence without which the figure says nothing: attention, peak, sparsity, padding, which N."""
    padding = {
        None: "whether tokens/s includes padding is not known",
        True: "tokens/s includes padding",
        False: "tokens/s excludes padding",
    }[request.tokens_include_padding]
    run = f"{request.tokens_per_second:,.10g} tokens/s on {request.num_devices} × {device.title}"
    head = f"{quoted.ratio:.1%} {quoted.basis}: {run}"
    if not quoted.valid:
        return f"{head}: not to be quoted, {quoted.warning}."
    if quoted.basis is UtilizationBasis.MBU:
        bandwidth = quoted.peak_per_second / request.num_devices / 1e9
        return f"{head}, bytes of the bound on a decode step over {bandwidth:g} GB/s each; {padding}."
    peak = quoted.peak_per_second / request.num_devices / 1e12
    attention = _ATTENTION_WORDS.get(quoted.basis, "attention not counted")
    experts = ", only the experts that a token passes" if counts.has_experts else ""
    embedding = "as given" if counts.body_parameters == counts.active_parameters else "embeddings and lm_head included"
    return (
        f"{head}, {attention}; N = {counts.active_parameters / 1e9:.4g} billion parameters ({embedding}{experts}); "
        f"against the dense {request.peak_precision} peak of {peak:g} TFLOP/s each, no sparsity; {padding}."
    )
