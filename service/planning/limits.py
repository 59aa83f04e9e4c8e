"""From which batch each limit binds, and below which context arithmetic could bind at all."""

import math

from service.formulas.roofline import kv_bandwidth_onset_batch_size, limit_onset_batch_size
from service.planning.decode_step import DecodePlan
from service.planning.explain import Apply, plainly
from service.planning.results import Limit, LimitOnset


def limit_onsets(
    plan: DecodePlan, context_tokens: int, max_sequences: float | None, apply: Apply = plainly
) -> tuple[LimitOnset, ...]:
    """Each limit with the batch from which it binds, the first to bind first; those that never do come last."""
    onsets = [
        LimitOnset(Limit.MEMORY_BANDWIDTH, 1.0, None, "from the first sequence on: weights are read in every step")
        if _memory_binds_first(plan, context_tokens)
        else _never(Limit.MEMORY_BANDWIDTH, "arithmetic or links take longer already for one sequence"),
        _cache_bandwidth(plan, context_tokens, apply),
        _compute(plan, context_tokens, apply),
        _interconnect(plan, context_tokens, apply),
    ]
    if max_sequences is not None:
        held = f"{max_sequences:.0f}" if max_sequences else "not even one"
        plural = "" if max_sequences in {0, 1} else "s"
        text = f"{held} sequence{plural} of {context_tokens} tokens fit{'' if plural else 's'} beside the weights"
        onsets.append(LimitOnset(Limit.KV_CAPACITY, max_sequences + 1, None, text))
    return tuple(sorted(onsets, key=_order))


def _order(onset: LimitOnset) -> float:
    return math.inf if onset.binds_from_batch_size is None else onset.binds_from_batch_size


def _never(limit: Limit, description: str, below: float | None = None) -> LimitOnset:
    return LimitOnset(limit, None, below, description)


def _batch_from(plan: DecodePlan, sequences: float) -> float:
    """The whole batch at which one microbatch of one device has at least so many sequences."""
    shape = plan.footprint.shape
    # A hair below a whole number is rounding, not a fraction of a sequence.
    return max(1.0, float(math.ceil(sequences * shape.attention_data * shape.pipeline * (1 - 1e-12))))


def _memory_binds_first(plan: DecodePlan, context_tokens: int) -> bool:
    cache = plan.footprint.cache_read_bytes_per_device.at(context_tokens)
    memory = (plan.weight_bytes_read_per_device + cache) / plan.bandwidth
    return memory >= max(plan.compute_seconds_per_sequence(context_tokens), plan.link_seconds_per_sequence)


def _cache_bandwidth(plan: DecodePlan, context_tokens: int, apply: Apply) -> LimitOnset:
    cache = plan.footprint.cache_read_bytes_per_device.at(context_tokens)
    if cache <= 0:
        return _never(Limit.KV_BANDWIDTH, "there is no cache to read")
    sequences = apply(
        kv_bandwidth_onset_batch_size,
        weight_bytes_per_device=plan.weight_bytes_read_per_device,
        cache_bytes_per_sequence_per_device=cache,
    )
    text = "from here on reading the cache takes longer than reading the weights"
    return LimitOnset(Limit.KV_BANDWIDTH, _batch_from(plan, sequences), None, text)


def _onset(plan: DecodePlan, context_tokens: int, seconds: float, apply: Apply) -> float | None:
    """Sequences per device from which a limit of so many seconds per sequence exceeds memory; None where it never does."""
    cache = plan.footprint.cache_read_bytes_per_device.at(context_tokens)
    if seconds <= cache / plan.bandwidth:
        return None
    return apply(
        limit_onset_batch_size,
        weight_bytes_per_device=plan.weight_bytes_read_per_device,
        cache_bytes_per_sequence_per_device=cache,
        memory_bandwidth_bytes_per_second=plan.bandwidth,
        seconds_per_sequence=seconds,
    )


def _compute(plan: DecodePlan, context_tokens: int, apply: Apply) -> LimitOnset:
    seconds = plan.compute_seconds_per_sequence(context_tokens)
    if seconds < plan.link_seconds_per_sequence:
        return _never(Limit.COMPUTE, "the links take longer than arithmetic at any batch")
    sequences = _onset(plan, context_tokens, seconds, apply)
    if sequences is not None:
        text = "from here on arithmetic takes longer than reading weights and cache"
        return LimitOnset(Limit.COMPUTE, _batch_from(plan, sequences), None, text)
    below = plan.context_below_which_compute_can_bind
    text = f"never at a context of {context_tokens} tokens: each sequence's cache takes longer to read than its arithmetic"
    if below:
        text += f"; only below some {below:.0f} tokens, at a batch large enough"
    return _never(Limit.COMPUTE, text, below or None)


def _interconnect(plan: DecodePlan, context_tokens: int, apply: Apply) -> LimitOnset:
    seconds = plan.link_seconds_per_sequence
    if seconds == 0:
        return _never(Limit.INTERCONNECT, "nothing is sent between devices, or no link is known")
    if seconds < plan.compute_seconds_per_sequence(context_tokens):
        return _never(Limit.INTERCONNECT, "arithmetic takes longer than the links at any batch")
    sequences = _onset(plan, context_tokens, seconds, apply)
    if sequences is None:
        text = f"never at a context of {context_tokens} tokens: each sequence's cache takes longer to read than its messages"
        return _never(Limit.INTERCONNECT, text)
    text = "from here on collectives take longer than reading weights and cache"
    return LimitOnset(Limit.INTERCONNECT, _batch_from(plan, sequences), None, text)
