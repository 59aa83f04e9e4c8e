"""What requests see when many of them share an engine: in a closed loop, or as they arrive.

A closed loop keeps so many requests in flight; the part of them that decodes follows from Little's law. Arrivals at a rate
settle at the number in flight that finishes as many per second as arrive, if any does: else there is no steady state.
"""

from dataclasses import dataclass
from typing import Final

from service.catalogue.calibrations import Parameters
from service.formulas.serving import (
    decoding_batch_size,
    first_token_seconds,
    inter_token_seconds,
    prefill_pass_seconds,
    requests_per_second,
)
from service.planning.explain import Apply, plainly
from service.planning.serving.step import FLOATS, DecodeStep, Pick, Prefill, decode_step, prefill
from service.planning.serving.work import ServingWork

#: Rounds of the fixed point between batch and times. Each shrinks the error about tenfold; the fourth is below 0.1 %.
_ROUNDS: Final = 4
#: What engines take in one prefill pass where no flag says (max_num_batched_tokens, chunked_prefill_size).
TOKENS_PER_PASS: Final = 8192.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the requests are like. Floats, or arrays in a sweep."""

    input_tokens: float
    output_tokens: float
    cached_ratio: float = 0.0  # of the input, found in the prefix cache
    tokens_per_pass: float = TOKENS_PER_PASS  # the most that one prefill pass takes
    tokens_per_step: float = 1.0  # that a request gains in a step: above 1 where drafts are accepted
    drafted_per_step: float = 0.0  # tokens that a step verifies besides
    is_disaggregated: float = 0.0  # 1: prompts run elsewhere and do not disturb those that decode


@dataclass(frozen=True, slots=True)
class Steady:
    """One engine with a steady number of requests in flight. Seconds, requests and tokens."""

    step: DecodeStep
    prompt: Prefill
    batch: float  # requests that decode at a time
    running: float  # with those that wait for their first token
    inter_token_seconds: float
    interference_seconds: float  # of it, by prompts of others
    prefills_per_token: float  # prompts that come in between two tokens of a request
    first_token_seconds: float  # without waiting for a place
    prompt_wait_seconds: float  # of it, for prompts that are before it
    decode_seconds: float  # from first to last token
    requests_per_second: float


def steady(
    work: ServingWork,
    by: Parameters,
    traffic: Traffic,
    *,
    running: float,
    decoding: float | None = None,
    pick: Pick = FLOATS,
    apply: Apply = plainly,
) -> Steady:
    """So many requests in the engine. ``decoding``: how many of them decode, where that is known (measured) already."""
    batch = running if decoding is None else decoding
    state = _state(work, by, traffic, batch, running, pick, plainly)
    if decoding is None:
        for _ in range(_ROUNDS):
            batch = pick.larger(_decoding(state, running), 1.0)
            state = _state(work, by, traffic, batch, running, pick, plainly)
    return state if apply is plainly else _state(work, by, traffic, batch, running, pick, apply)


def _decoding(state: Steady, running: float) -> float:
    return decoding_batch_size(
        num_running=running,
        decode_seconds=state.decode_seconds,
        first_token_seconds=state.first_token_seconds,
    )


def _state(
    work: ServingWork, by: Parameters, traffic: Traffic, batch: float, running: float, pick: Pick, apply: Apply
) -> Steady:
    step = decode_step(
        work,
        by,
        batch=batch,
        context_tokens=traffic.input_tokens + traffic.output_tokens / 2,
        tokens_per_request=1 + traffic.drafted_per_step,
        pick=pick,
        apply=apply,
    )
    prompt = prefill(
        work,
        by,
        new_tokens=traffic.input_tokens * (1 - traffic.cached_ratio),
        cached_tokens=traffic.input_tokens * traffic.cached_ratio,
        tokens_per_pass=traffic.tokens_per_pass,
        experts_read_ratio=step.experts_read_ratio,
        pick=pick,
        apply=apply,
    )
    steps = traffic.output_tokens / traffic.tokens_per_step
    others = pick.larger(batch - 1, 0.0) / steps  # prompts that come in per step
    interference = _interference(by, traffic, prompt, others, pick, apply) * (1 - traffic.is_disaggregated)
    between = (
        apply(inter_token_seconds, decode_step_seconds=step.seconds, interference_seconds=interference)
        / traffic.tokens_per_step
    )
    ahead = by.prompts_ahead_per_request * pick.larger(batch - 1, 0.0)
    first = apply(
        first_token_seconds,
        host_seconds=by.first_token_host_seconds + by.prompt_token_seconds * traffic.input_tokens,
        prefill_seconds=prompt.seconds,
        prompts_ahead=ahead,
        decode_step_seconds=step.seconds * (1 - traffic.is_disaggregated),
    )
    waited = prompt.seconds * ahead
    decode = between * pick.larger(traffic.output_tokens - 1, 0.0)
    # Prompts are computed one after the other: whoever is in flight waits at least for the arithmetic of all who are.
    all_prompts = running * prompt.compute_seconds * (1 - traffic.is_disaggregated)
    first = pick.larger(first, all_prompts - decode)
    rate = apply(requests_per_second, num_running=running, decode_seconds=decode, first_token_seconds=first)
    return Steady(
        step, prompt, batch, running, between, interference / traffic.tokens_per_step, others, first, waited, decode, rate
    )


def _interference(
    by: Parameters, traffic: Traffic, prompt: Prefill, prompts_per_step: float, pick: Pick, apply: Apply
) -> float:
    """What prompts of other requests add to a step.

    Several prompts share a pass, so that what a pass costs whatever its size is paid once a step at the most, unless their
    tokens need more passes.
    """
    tokens = traffic.input_tokens * (1 - traffic.cached_ratio)
    passes = pick.smaller(prompts_per_step, pick.larger(1.0, prompts_per_step * tokens / traffic.tokens_per_pass))
    both = apply(
        prefill_pass_seconds,
        compute_seconds=prompts_per_step * prompt.compute_seconds,
        fixed_seconds=passes * prompt.pass_beside_decode_seconds,
    )
    return by.interference_ratio * both
