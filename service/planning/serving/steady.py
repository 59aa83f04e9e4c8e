"""What requests see when many of them share an engine: in a closed loop, or as they arrive.

A closed loop keeps so many requests in flight; the part of them that decodes follows from Little's law. Arrivals at a rate
settle at the number in flight that finishes as many per second as arrive, if any does: else there is no steady state.
"""

from typing import Final

from msgspec import Struct

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
#: Of a step that others are in: half of the one that runs when a request comes, and the whole of its prompt's own.
_STEPS_TO_FIRST_TOKEN: Final = 1.5
#: What engines take in one prefill pass where no flag says (max_num_batched_tokens, chunked_prefill_size).
TOKENS_PER_PASS: Final = 8192.0


class Traffic(Struct, frozen=True):
    """What the requests are like. Floats, or arrays in a sweep."""

    input_tokens: float
    output_tokens: float
    cached_ratio: float = 0.0  # of the input, found in the prefix cache
    tokens_per_pass: float = TOKENS_PER_PASS  # the most that one prefill pass takes
    tokens_per_step: float = 1.0  # that a request gains in a step: above 1 where drafts are accepted
    drafted_per_step: float = 0.0  # tokens that a step verifies besides
    is_disaggregated: float = 0.0  # 1: prompts run elsewhere and do not disturb those that decode


class Steady(Struct, frozen=True):
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
    prompt = _prompt(work, by, traffic, pick, plainly)
    batch = running if decoding is None else decoding
    state = _state(work, by, traffic, prompt, batch, running, pick, plainly)
    if decoding is None:
        for _ in range(_ROUNDS):
            batch = _decoding(state, running)
            state = _state(work, by, traffic, prompt, batch, running, pick, plainly)
    if apply is plainly:
        return state
    return _state(work, by, traffic, _prompt(work, by, traffic, pick, apply), batch, running, pick, apply)


def _decoding(state: Steady, running: float) -> float:
    return decoding_batch_size(
        num_running=running,
        decode_seconds=state.decode_seconds,
        first_token_seconds=state.first_token_seconds,
    )


def _prompt(work: ServingWork, by: Parameters, traffic: Traffic, pick: Pick, apply: Apply) -> Prefill:
    return prefill(
        work,
        by,
        new_tokens=new_tokens(traffic),
        cached_tokens=traffic.input_tokens * traffic.cached_ratio,
        tokens_per_pass=traffic.tokens_per_pass,
        pick=pick,
        apply=apply,
    )


def _state(
    work: ServingWork,
    by: Parameters,
    traffic: Traffic,
    prompt: Prefill,
    decoding: float,
    running: float,
    pick: Pick,
    apply: Apply,
) -> Steady:
    others, decoding_ratio = running - 1, decoding / running
    step = decode_step(
        work,
        by,
        batch=1 + others * decoding_ratio,  # that a request which decodes is in
        context_tokens=traffic.input_tokens + traffic.output_tokens / 2,
        tokens_per_request=1 + traffic.drafted_per_step,
        pick=pick,
        apply=apply,
    )
    host = by.first_token_host_seconds + by.prompt_token_seconds * traffic.input_tokens
    steps = traffic.output_tokens / traffic.tokens_per_step
    alone = host + prompt.seconds + step.seconds * steps
    met = _met(alone, others, decoding_ratio, _interference(by, traffic, prompt, step, 1.0, pick, plainly), host, pick)
    # Prompts come evenly while a request decodes. Of those that wait together with its own, half are behind it and are computed
    # then too, as far as the passes beside its tokens have room; the rest before its first token.
    room = traffic.tokens_per_pass / pick.larger(new_tokens(traffic), 1.0)
    beside = pick.smaller((others * decoding_ratio + met) / 2 / steps, room)
    together = 1 - traffic.is_disaggregated
    interference = _interference(by, traffic, prompt, step, beside, pick, apply) * together
    all_met = _interference(by, traffic, prompt, step, met / steps, pick, plainly) * together
    gaps = pick.larger(traffic.output_tokens - 1, 0.0)
    before = all_met * steps - interference * gaps / traffic.tokens_per_step
    bunched = prompt.seconds * by.prompts_ahead_per_request * others * decoding_ratio
    # A request waits for half the step that runs when it comes, if others are in the engine, and its prompt for a whole one.
    taken_up = (step.seconds + interference) * _STEPS_TO_FIRST_TOKEN * (1 - 1 / running) * together
    between = apply(inter_token_seconds, decode_step_seconds=step.seconds, interference_seconds=interference)
    between = between / traffic.tokens_per_step
    first = apply(
        first_token_seconds,
        host_seconds=host,
        prefill_seconds=prompt.seconds,
        wait_seconds=pick.larger(bunched + taken_up, before),
    )
    decode = between * gaps
    rate = apply(requests_per_second, num_running=running, decode_seconds=decode, first_token_seconds=first)
    return Steady(
        step,
        prompt,
        pick.larger(decoding, 1.0),
        running,
        between,
        interference / traffic.tokens_per_step,
        beside,
        first,
        pick.larger(bunched, before),
        decode,
        rate,
    )


def new_tokens(traffic: Traffic) -> float:
    """Tokens of a prompt that the prefix cache does not hold."""
    return traffic.input_tokens * (1 - traffic.cached_ratio)


def _met(
    alone_seconds: float, others: float, decoding_ratio: float, each_seconds: float, host_seconds: float, pick: Pick
) -> float:
    """Prompts of others, ``each_seconds`` long, that come while a request is in the engine.

    Every other request brings its prompt once in the time C that one is in flight; those that come while it is with the host
    pass it by: C = alone + others · each · (1 − host / C).
    """
    all_seconds = others * each_seconds
    both = alone_seconds + all_seconds
    root: float = (both * both - 4 * all_seconds * host_seconds) ** 0.5
    return others * (1 - pick.smaller(1 - decoding_ratio, host_seconds / ((both + root) / 2)))


def _interference(
    by: Parameters,
    traffic: Traffic,
    prompt: Prefill,
    step: DecodeStep,
    prompts_per_step: float,
    pick: Pick,
    apply: Apply,
) -> float:
    """What prompts of other requests add to a step.

    Several prompts share a pass, so that what a pass costs whatever its size is paid once a step at the most, unless their
    tokens need more passes.
    """
    filled = new_tokens(traffic) / traffic.tokens_per_pass
    passes = pick.smaller(prompts_per_step * pick.larger(1.0, filled), pick.larger(1.0, prompts_per_step * filled))
    both = apply(
        prefill_pass_seconds,
        compute_seconds=prompts_per_step * prompt.compute_seconds,
        fixed_seconds=passes * prompt.pass_beside_decode_seconds(step.experts_read_ratio),
    )
    return by.interference_ratio * both
