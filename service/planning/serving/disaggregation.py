"""Prompts on replicas of their own: they no longer disturb those that decode, and each side has a rate of its own."""

from dataclasses import replace

from service.catalogue.calibrations import Parameters
from service.formulas.serving import queue_seconds
from service.planning.explain import Apply
from service.planning.serving.load import Loaded, arrivals, closed_loop
from service.planning.serving.requests import Disaggregation, Workload
from service.planning.serving.step import FLOATS, growth_at
from service.planning.serving.steady import Traffic
from service.planning.serving.work import ServingWork

#: A prompt pool that is busier than this never catches up in practice.
_FULL_RATIO = 0.995


def disaggregated(work: ServingWork, by: Parameters, traffic: Traffic, load: Workload, most: float, apply: Apply) -> Loaded:
    """The state of one decoding replica, with the prompts' wait at theirs; rates are those of all replicas together."""
    split = load.disaggregation
    assert split is not None  # noqa: S101 - the caller asks for it
    if load.concurrency is not None:
        per_replica = max(1.0, load.concurrency / split.decode_replicas)
        one = closed_loop(work, by, traffic, per_replica, most, apply)
    else:
        one = arrivals(work, by, traffic, (load.requests_per_second or 0.0) / split.decode_replicas, most, apply)
    per_second = one.state.requests_per_second * split.decode_replicas
    busy = per_second * one.state.prompt.seconds / split.prefill_replicas
    prompts_most = split.prefill_replicas / one.state.prompt.seconds
    ceiling = min(one.most_per_second * split.decode_replicas, prompts_most)
    if busy >= _FULL_RATIO:
        return _bound_by_prompts(one, load, split, ceiling)
    wait = apply(
        queue_seconds,
        utilization_ratio=busy,
        num_slots=float(split.prefill_replicas),
        service_seconds=one.state.prompt.seconds,
        squared_variation=0.0,
    )
    moved = _transfer_seconds(work, traffic, split)
    host = by.first_token_host_seconds + by.prompt_token_seconds * traffic.input_tokens
    first = host + one.state.prompt.seconds + wait + moved
    state = replace(
        one.state,
        first_token_seconds=first,
        prompt_wait_seconds=wait,
        requests_per_second=per_second,
        running=one.state.running * split.decode_replicas,
        batch=one.state.batch,
    )
    utilization = max(one.utilization_ratio, busy)
    return replace(one, state=state, utilization_ratio=utilization, most_per_second=ceiling)


def _bound_by_prompts(one: Loaded, load: Workload, split: Disaggregation, ceiling: float) -> Loaded:
    """More prompts come than are computed: arrivals never settle; a closed loop waits for its prompts."""
    stable = load.concurrency is not None
    in_flight = load.concurrency or 0.0
    served = in_flight / ceiling - one.state.decode_seconds if stable else 0.0
    state = replace(
        one.state,
        requests_per_second=ceiling,
        first_token_seconds=max(served, one.state.first_token_seconds),
        running=in_flight if stable else one.state.running * split.decode_replicas,
        batch=min(one.state.batch, ceiling * one.state.decode_seconds / split.decode_replicas),
    )
    rate = one.state.requests_per_second * split.decode_replicas / ceiling
    return replace(one, state=state, utilization_ratio=rate, is_saturated=True, is_stable=stable, most_per_second=ceiling)


def _transfer_seconds(work: ServingWork, traffic: Traffic, split: Disaggregation) -> float:
    """Moving a prompt's cache; every device sends its own part."""
    if split.transfer_bytes_per_second is None:
        return 0.0
    return growth_at(work.cache_bytes_stored, traffic.input_tokens, FLOATS) / split.transfer_bytes_per_second
