"""From which batch each limit binds, and below which context arithmetic could bind at all."""

import math
from operator import attrgetter
from typing import Final

from service.formulas.roofline import kv_bandwidth_onset_batch_size, limit_onset_batch_size
from service.planning.decode_step import DecodePlan, DecodeTerms
from service.planning.explain import Apply, plainly
from service.planning.results import Limit, LimitOnset


def _never(limit: Limit, description: str, below: float | None = None) -> LimitOnset:
    return LimitOnset(limit, None, below, description)


_READ_FIRST: Final = "from the first sequence on: weights are read in every step"
_MEMORY_FIRST: Final = LimitOnset(Limit.MEMORY_BANDWIDTH, 1.0, None, _READ_FIRST)
_MEMORY_NEVER: Final = _never(Limit.MEMORY_BANDWIDTH, "arithmetic or links take longer already for one sequence")
_NO_CACHE: Final = _never(Limit.KV_BANDWIDTH, "there is no cache to read")
_LINKS_LONGER: Final = _never(Limit.COMPUTE, "the links take longer than arithmetic at any batch")
_NO_LINKS: Final = _never(Limit.INTERCONNECT, "nothing is sent between devices, or no link is known")
_ARITHMETIC_LONGER: Final = _never(Limit.INTERCONNECT, "arithmetic takes longer than the links at any batch")
_batch: Final = attrgetter("binds_from_batch_size")


def limit_onsets(
    plan: DecodePlan, terms: DecodeTerms, context_tokens: int, max_sequences: float | None, apply: Apply = plainly
) -> tuple[LimitOnset, ...]:
    """Each limit with the batch from which it binds, the first to bind first; those that never do come last."""
    cache, link = terms.cache_bytes_per_sequence, plan.link_seconds_per_sequence
    compute = plan.matmul_seconds_per_sequence + terms.attention_flops_per_sequence / plan.attention_peak
    memory = (plan.weight_bytes_read_per_device + cache) / plan.bandwidth
    onsets = [
        _MEMORY_FIRST if memory >= compute and memory >= link else _MEMORY_NEVER,
        _cache_bandwidth(plan, cache, apply),
        _LINKS_LONGER if compute < link else _compute(plan, context_tokens, cache, compute, apply),
        _interconnect(plan, context_tokens, cache, compute, apply),
    ]
    if max_sequences is not None:
        held = f"{max_sequences:.0f}" if max_sequences else "not even one"
        plural = "" if max_sequences in {0, 1} else "s"
        text = f"{held} sequence{plural} of {context_tokens} tokens fit{'' if plural else 's'} beside the weights"
        onsets.append(LimitOnset(Limit.KV_CAPACITY, max_sequences + 1, None, text))
    binding = [each for each in onsets if each.binds_from_batch_size is not None]
    binding.sort(key=_batch)
    return (*binding, *[each for each in onsets if each.binds_from_batch_size is None])


def _batch_from(plan: DecodePlan, sequences: float) -> float:
    """The whole batch at which one microbatch of one device has at least so many sequences."""
    shape = plan.footprint.shape
    # A hair below a whole number is rounding, not a fraction of a sequence.
    return max(1.0, float(math.ceil(sequences * shape.attention_data * shape.pipeline * (1 - 1e-12))))


def _cache_bandwidth(plan: DecodePlan, cache: float, apply: Apply) -> LimitOnset:
    if cache <= 0:
        return _NO_CACHE
    sequences = apply(
        kv_bandwidth_onset_batch_size,
        weight_bytes_per_device=plan.weight_bytes_read_per_device,
        cache_bytes_per_sequence_per_device=cache,
    )
    text = "from here on reading the cache takes longer than reading the weights"
    return LimitOnset(Limit.KV_BANDWIDTH, _batch_from(plan, sequences), None, text)


def _onset(plan: DecodePlan, cache: float, seconds: float, apply: Apply) -> float | None:
    """Sequences per device from which a limit of so many seconds per sequence exceeds memory; None where it never does."""
    if seconds <= cache / plan.bandwidth:
        return None
    return apply(
        limit_onset_batch_size,
        weight_bytes_per_device=plan.weight_bytes_read_per_device,
        cache_bytes_per_sequence_per_device=cache,
        memory_bandwidth_bytes_per_second=plan.bandwidth,
        seconds_per_sequence=seconds,
    )


def _compute(plan: DecodePlan, context_tokens: int, cache: float, seconds: float, apply: Apply) -> LimitOnset:
    sequences = _onset(plan, cache, seconds, apply)
    if sequences is not None:
        text = "from here on arithmetic takes longer than reading weights and cache"
        return LimitOnset(Limit.COMPUTE, _batch_from(plan, sequences), None, text)
    below = plan.context_below_which_compute_can_bind
    only = f"; only below some {below:.0f} tokens, at a batch large enough" if below else ""
    text = (
        f"never at a context of {context_tokens} tokens: each sequence's cache takes longer to read than its arithmetic{only}"
    )
    return _never(Limit.COMPUTE, text, below or None)


def _interconnect(plan: DecodePlan, context_tokens: int, cache: float, compute: float, apply: Apply) -> LimitOnset:
    seconds = plan.link_seconds_per_sequence
    if seconds == 0:
        return _NO_LINKS
    if seconds < compute:
        return _ARITHMETIC_LONGER
    sequences = _onset(plan, cache, seconds, apply)
    if sequences is None:
        text = f"never at a context of {context_tokens} tokens: each sequence's cache takes longer to read than its messages"
        return _never(Limit.INTERCONNECT, text)
    text = "from here on collectives take longer than reading weights and cache"
    return LimitOnset(Limit.INTERCONNECT, _batch_from(plan, sequences), None, text)
