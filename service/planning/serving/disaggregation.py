"""Prompts on replicas of their own: they no longer disturb those that decode, and each side has a rate of its own."""

from msgspec.structs import replace

from service.catalogue.calibrations import Parameters
from service.formulas.serving import queue_seconds
from service.planning.explain import Apply, plainly
from service.planning.pick import FLOATS
from service.planning.serving.load import FULL_RATIO, Loaded, arrivals
from service.planning.serving.requests import Disaggregation, Workload
from service.planning.serving.steady import Steady, Traffic, steady
from service.planning.serving.step import growth_at
from service.planning.serving.work import ServingWork

#: Rounds of the fixed point between a replica's batch and its times, and halvings in search of a rate.
_ROUNDS = 4
_HALVINGS = 24
#: Fewer than this part of all in flight are no queue but what the fixed point leaves open.
_QUEUE_RATIO = 1e-3


def disaggregated(work: ServingWork, by: Parameters, traffic: Traffic, load: Workload, most: float, apply: Apply) -> Loaded:
    """The state of one decoding replica, with the prompts' wait at theirs; rates are those of all replicas together."""
    split = load.disaggregation
    assert split is not None
    if load.concurrency is not None:
        return _kept_in_flight(work, by, traffic, load.concurrency, split, max(most, 1.0), apply)
    return _arriving(work, by, traffic, load.requests_per_second or 0.0, split, most, apply)


def _fixed_seconds(work: ServingWork, by: Parameters, traffic: Traffic, split: Disaggregation, prompt: float) -> float:
    """Until the first token, less the wait: the host, the prompt itself, and moving its cache."""
    host = by.first_token_host_seconds + by.prompt_token_seconds * traffic.input_tokens
    return host + prompt + _transfer_seconds(work, traffic, split)


def _wait(split: Disaggregation, prompt: float, busy: float, apply: Apply = plainly) -> float:
    return apply(
        queue_seconds,
        utilization_ratio=busy,
        num_slots=float(split.prefill_replicas),
        service_seconds=prompt,
        squared_variation=0.0,
    )


def _kept_in_flight(
    work: ServingWork, by: Parameters, traffic: Traffic, in_flight: float, split: Disaggregation, most: float, apply: Apply
) -> Loaded:
    """A closed loop: as many per second as Little's law allows, given that all in flight wait, compute, move or decode."""
    replicas = split.decode_replicas

    def decoding(batch: float, apply: Apply = plainly) -> Steady:
        return steady(work, by, traffic, running=max(batch, 1.0), decoding=max(batch, 1.0), apply=apply)

    batch = min(in_flight / replicas, most)
    state = decoding(batch)
    prompt = state.prompt.seconds
    fixed = _fixed_seconds(work, by, traffic, split, prompt)
    for _ in range(_ROUNDS):
        rate = _rate_of(in_flight, state.decode_seconds + fixed, split, prompt)
        batch = min(rate * state.decode_seconds / replicas, most)
        state = decoding(batch)
    full = decoding(most)
    ceiling = min(replicas * most / max(full.decode_seconds, 1e-9), split.prefill_replicas / prompt)
    rate = min(_rate_of(in_flight, state.decode_seconds + fixed, split, prompt), ceiling)
    busy = rate * prompt / split.prefill_replicas
    wait = _wait(split, prompt, busy * _others_ratio(in_flight, split), apply)
    state = replace(
        decoding(batch, apply),
        batch=rate * state.decode_seconds / replicas,
        first_token_seconds=fixed + wait,
        prompt_wait_seconds=wait,
        requests_per_second=rate,
        running=min(in_flight, rate * (state.decode_seconds + fixed + wait)),
    )
    queued = in_flight - state.running
    utilization = max(busy, rate * state.decode_seconds / replicas / most)
    is_saturated = queued > _QUEUE_RATIO * in_flight
    return Loaded(state, utilization, queued / rate, queued, is_saturated, True, ceiling)


def _others_ratio(in_flight: float, split: Disaggregation) -> float:
    """Of the load on the prompt replicas, what a request can have to wait for: none while each could have one to itself."""
    return max(0.0, in_flight - split.prefill_replicas) / in_flight


def _rate_of(in_flight: float, seconds: float, split: Disaggregation, prompt: float) -> float:
    """Requests per second that keep so many in flight, each for so long and the wait for its prompt."""
    low, high = 0.0, min(split.prefill_replicas / prompt, in_flight / seconds)
    others = _others_ratio(in_flight, split)
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        busy = rate * prompt / split.prefill_replicas * others
        if rate * (seconds + _wait(split, prompt, busy)) < in_flight:
            low = rate
        else:
            high = rate
    return (low + high) / 2


def _arriving(
    work: ServingWork, by: Parameters, traffic: Traffic, per_second: float, split: Disaggregation, most: float, apply: Apply
) -> Loaded:
    one = arrivals(work, by, traffic, per_second / split.decode_replicas, most, apply)
    prompt = one.state.prompt.seconds
    ceiling = min(one.most_per_second * split.decode_replicas, split.prefill_replicas / prompt)
    busy = per_second * prompt / split.prefill_replicas
    if not one.is_stable or busy >= FULL_RATIO:
        return _overloaded(one, per_second, split, ceiling)
    wait = _wait(split, prompt, busy, apply)
    first = _fixed_seconds(work, by, traffic, split, prompt) + wait
    state = replace(
        one.state,
        first_token_seconds=first,
        prompt_wait_seconds=wait,
        requests_per_second=per_second,
        running=per_second * (one.state.decode_seconds + first),
    )
    seen = one.waits
    if seen is not None:
        # A queue of equal services: the second moment of Pollaczek and Khinchine's wait, shared by the replicas.
        varying = (wait * wait + 2 / 3 * wait * prompt / split.prefill_replicas) ** 0.5
        seen = replace(
            seen,
            first_certain=first - wait,
            first_varying=wait,
            first_deviation=varying,
            met_chance=1.0,
            met_varying=wait,
            met_deviation=varying,
            unmet_seconds=0.0,
        )
    return replace(
        one,
        waits=seen,
        state=state,
        queued=one.queued * split.decode_replicas,
        utilization_ratio=max(one.utilization_ratio, busy),
        most_per_second=ceiling,
    )


def _overloaded(one: Loaded, per_second: float, split: Disaggregation, ceiling: float) -> Loaded:
    """More come than are computed or decoded: no steady state."""
    state = replace(
        one.state,
        requests_per_second=ceiling,
        running=one.state.running * split.decode_replicas,
        batch=min(one.state.batch, ceiling * one.state.decode_seconds / split.decode_replicas),
    )
    return replace(
        one,
        state=state,
        utilization_ratio=per_second / ceiling,
        is_saturated=True,
        is_stable=False,
        most_per_second=ceiling,
    )


def _transfer_seconds(work: ServingWork, traffic: Traffic, split: Disaggregation) -> float:
    """Moving a prompt's cache; every device sends its own part."""
    if split.transfer_bytes_per_second is None:
        return 0.0
    return growth_at(work.cache_bytes_stored, traffic.input_tokens, FLOATS) / split.transfer_bytes_per_second
