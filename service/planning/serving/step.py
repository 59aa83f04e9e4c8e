"""How long a decode step and a prompt take: the work of a device under a calibration.

Everything here is arithmetic on floats or arrays; ``Pick`` names the operations that differ between them.
"""

from msgspec import Struct

from service.catalogue.calibrations import Parameters
from service.formulas.serving import (
    collective_seconds,
    decode_attention_seconds,
    expert_read_ratio,
    prefill_pass_seconds,
    streaming_seconds,
)
from service.planning.explain import Apply, plainly
from service.planning.pick import ARRAYS, FLOATS, Pick
from service.planning.serving.work import ByWidth, Growth, ServingWork

__all__ = ["ARRAYS", "FLOATS", "DecodeStep", "Pick", "Prefill", "decode_step", "growth_at", "layer_seconds", "prefill"]


class DecodeStep(Struct, frozen=True):
    """The terms of a step in which every request decodes. Seconds."""

    weights_seconds: float  # dense weights and the output projection
    experts_seconds: float
    attention_seconds: float
    collectives_seconds: float
    layers_seconds: float  # kernels that take as long whatever the batch
    host_seconds: float  # the engine's own work a step and a request
    seconds: float
    experts_read_ratio: float


class Prefill(Struct, frozen=True):
    """What one prompt takes. ``pass_seconds`` is paid by each pass whatever its size."""

    compute_seconds: float
    pass_seconds: float  # with all experts read
    launches_seconds: float  # of it, for kernels that are launched one by one
    experts_seconds: float  # of it, for reading all experts
    num_passes: float
    seconds: float  # of one prompt alone

    def pass_beside_decode_seconds(self, experts_read_ratio: float) -> float:
        """What a pass adds to a step that decodes anyway, and so reads the weights and a part of the experts."""
        return self.launches_seconds + self.experts_seconds * (1 - experts_read_ratio)


def growth_at(growth: Growth, tokens: float, pick: Pick) -> float:
    """A cost that grows with a sequence, at so many tokens."""
    cost = growth.fixed + growth.per_token * tokens
    for window, each in growth.windows:
        cost = cost + each * pick.smaller(tokens, window)
    return cost


def _streamed(work: ServingWork, num_bytes: float, ratio: float, apply: Apply) -> float:
    return apply(
        streaming_seconds,
        num_bytes=num_bytes,
        bandwidth_bytes_per_second=work.bandwidth_bytes_per_second,
        bandwidth_ratio=ratio,
    )


def _weights(work: ServingWork, by: Parameters, apply: Apply) -> float:
    """Reading the dense weights and the output projection."""
    dense = by.dense_bandwidth_ratio
    each = work.weight_bytes
    effective = each.sixteen + each.eight / by.eight_bit_bandwidth_ratio + each.four / by.four_bit_bandwidth_ratio
    return _streamed(work, effective + work.head_bytes, dense, apply)


def _all_experts(work: ServingWork, by: Parameters, apply: Apply) -> float:
    """Reading every expert that the device holds."""
    each = work.expert_bytes
    eight = each.eight / by.eight_bit_bandwidth_ratio
    four = each.four / by.four_bit_expert_bandwidth_ratio
    read = _streamed(work, each.sixteen + eight + four, by.dense_bandwidth_ratio * by.expert_bandwidth_ratio, apply)
    widened = work.is_emulated * each.four / by.widening_bytes_per_second
    return read + widened + by.seconds_per_expert * work.expert_slices_per_device * work.num_expert_layers


def decode_step(
    work: ServingWork,
    by: Parameters,
    *,
    batch: float,
    context_tokens: float,
    tokens_per_request: float = 1.0,
    pick: Pick = FLOATS,
    apply: Apply = plainly,
) -> DecodeStep:
    """A step in which ``batch`` requests over the whole replica decode.

    ``tokens_per_request``: tokens that each puts through the model (more than one where drafts are verified).
    ``batch`` at least 1. With stages, the batch is cut into as many microbatches, and a step is one's way through all of them.
    """
    groups = pick.smaller(work.num_attention_groups, batch)  # a sequence's cache is read by one group alone
    in_flight = pick.smaller(work.num_stages, batch / groups)
    sequences = batch / (groups * in_flight)
    routed = pick.larger(batch / in_flight * tokens_per_request, 1.0)
    read = apply(
        expert_read_ratio,
        num_experts=work.num_experts,
        num_experts_per_token=work.num_experts_per_token,
        num_tokens=routed,
        routing_exponent=by.routing_exponent,
    )
    read = pick.larger(read, work.least_read_ratio)
    experts = _all_experts(work, by, apply) * read
    # Reading and multiplying proceed together: at large batches the matrices take what their arithmetic takes at the peak.
    weights = pick.larger(_weights(work, by, apply), _matrices_at_peak(work, sequences * tokens_per_request) - experts)
    attention = _attention(work, by, sequences, context_tokens, tokens_per_request, pick, apply)
    collectives = _collectives(work, by, sequences * tokens_per_request, apply)
    layers = layer_seconds(work, by)
    host = by.step_seconds + by.request_seconds * batch
    total = weights + experts + attention + collectives + layers + host
    return DecodeStep(weights, experts, attention, collectives, layers, host, total, read)


def layer_seconds(work: ServingWork, by: Parameters) -> float:
    """Kernels of all layers that take as long whatever the batch."""
    mixers = (
        work.num_layers * by.layer_seconds
        + work.num_quantized_layers * by.quantized_layer_seconds
        + work.num_latent_layers * by.latent_layer_seconds
        + work.num_linear_layers * by.linear_layer_seconds
    )
    experts = by.expert_layer_seconds + work.is_emulated * by.widening_layer_seconds
    return mixers + work.num_expert_layers * experts


def _matrices_at_peak(work: ServingWork, tokens: float) -> float:
    """The least that multiplying so many tokens with all matrices takes, experts included."""
    dense, experts = work.peak_seconds_per_token, work.expert_peak_seconds_per_token
    return tokens * (dense.sixteen + dense.eight + dense.four + experts.sixteen + experts.eight + experts.four)


def _attention(
    work: ServingWork, by: Parameters, sequences: float, context: float, tokens: float, pick: Pick, apply: Apply
) -> float:
    cache = growth_at(work.cache_bytes, context, pick) * sequences
    arithmetic = growth_at(work.attention_peak_seconds, context, pick) * sequences * tokens
    return apply(
        decode_attention_seconds,
        cache_seconds=_streamed(work, cache, by.cache_bandwidth_ratio, apply),
        arithmetic_seconds=arithmetic / by.decode_attention_compute_ratio,
    )


def _collectives(work: ServingWork, by: Parameters, tokens: float, apply: Apply) -> float:
    each = apply(
        collective_seconds,
        message_bytes=work.state_bytes_per_token * tokens,
        num_devices=work.num_ranks,
        log2_num_devices=work.log2_num_ranks,
        link_bandwidth_one_way_bytes_per_second=work.link_bandwidth_bytes_per_second,
        collective_base_seconds=by.collective_base_seconds,
        collective_doubling_seconds=by.collective_doubling_seconds,
        collective_seconds_per_root_byte=by.collective_seconds_per_root_byte,
    )
    return work.num_collectives * each * by.collective_ratio


def _computed(each: ByWidth, by: Parameters) -> float:
    """Seconds of arithmetic at what large matrices reach of the peak."""
    return (
        each.sixteen / by.prefill_sixteen_bit_ratio
        + each.eight / by.prefill_eight_bit_ratio
        + each.four / by.prefill_four_bit_ratio
    )


def prefill(
    work: ServingWork,
    by: Parameters,
    *,
    new_tokens: float,
    cached_tokens: float,
    tokens_per_pass: float,
    pick: Pick = FLOATS,
    apply: Apply = plainly,
) -> Prefill:
    """A prompt of so many new tokens behind so many that the prefix cache holds.

    ``tokens_per_pass``: the most that one pass takes; decoding requests share it, so a prompt as long needs a second pass.
    """
    matrices = _computed(work.peak_seconds_per_token, by)
    matrices = matrices + _computed(work.expert_peak_seconds_per_token, by) / by.expert_prefill_ratio
    attention = pairs_seconds(work, new_tokens, cached_tokens, pick) / by.prefill_attention_ratio
    slowed = 1 + (by.linear_prefill_factor - 1) * work.num_linear_layers / pick.larger(work.num_layers, 1.0)
    slowed = slowed * (1 + (by.latent_prefill_factor - 1) * work.num_latent_layers / pick.larger(work.num_layers, 1.0))
    whole = pick.larger(pick.smaller(new_tokens, tokens_per_pass), 1.0)  # tokens of a pass, which are one message
    sent = _collectives(work, by, whole, apply) * new_tokens / whole
    compute = (matrices * new_tokens + attention) * slowed + sent + _moved(work, by, new_tokens, apply)
    launches = by.prefill_launch_ratio * layer_seconds(work, by)
    experts = _all_experts(work, by, apply)
    fixed = launches + experts + _weights(work, by, apply)
    passes = 1 + new_tokens / tokens_per_pass
    alone = apply(prefill_pass_seconds, compute_seconds=compute, fixed_seconds=passes * fixed)
    return Prefill(compute, fixed, launches, experts, passes, alone)


def _moved(work: ServingWork, by: Parameters, tokens: float, apply: Apply) -> float:
    """Kernels between the matrices (norms, conversions, activations, the way to the experts and back) move hidden states.

    Every rank moves all of them, so that tensor parallelism does not shorten it; each expert of a token gets a state.
    """
    states = work.num_layers + work.num_expert_layers * work.num_experts_per_token
    moved = by.prefill_state_moves * work.state_bytes_per_token * states * tokens
    return _streamed(work, moved, by.dense_bandwidth_ratio, apply)


def pairs_seconds(work: ServingWork, new: float, cached: float, pick: Pick) -> float:
    """Attention of a prompt's new tokens to all before them, at the peak."""
    total = work.prefill_seconds_per_pair * (new * cached + new * new / 2)
    for window, each in work.prefill_seconds_per_windowed_pair:
        total = total + each * (_windowed_pairs(new + cached, window, pick) - _windowed_pairs(cached, window, pick))
    return total


def _windowed_pairs(tokens: float, window: float, pick: Pick) -> float:
    """Queries times keys where each token sees at most ``window`` of those before it."""
    within = pick.smaller(tokens, window)
    return within * within / 2 + (tokens - within) * window
