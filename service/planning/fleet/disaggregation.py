"""Prompts and answers on replicas of their own: how many requests per second a replica of each kind carries.

Prompts queue for a replica that computes one after the other; those that decode are never disturbed. Each side is sized by
itself, so the ratio of the two follows; only a limit on the time to the last token ties them together, and is divided between
them by a small search.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.formulas.serving import queue_seconds
from service.planning.fleet.curve import Array, Curve
from service.planning.fleet.demand import Kind, Mix
from service.planning.fleet.pools import Pool, Way
from service.planning.fleet.results import FleetLimit, PoolRole
from service.planning.fleet.sizing import Miss, largest_rate
from service.planning.pick import ARRAYS
from service.planning.requests import Parallelism
from service.planning.serving.step import FLOATS, growth_at
from service.planning.serving.waiting import NORMAL, quantile

#: How busy a prompt replica may be, from all but idle to as full as others are planned.
_BUSY: Final = np.linspace(0.005, 0.9, 180)
#: Parts of an end-to-end time that go to the first token, where the two have to share it.
_PARTS: Final = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6)


class _Prompts(Struct, frozen=True):
    rate: float
    ttft_seconds: float
    limit: FleetLimit


def disaggregated(curve: Curve, shape: Parallelism, transfer: float | None) -> tuple[Way, ...] | Miss:
    """Every way to divide the times between the two sides; Miss where even idle replicas miss the service level."""
    tried = [_with(replace(curve, mix=mix, is_disaggregated=True), shape, transfer) for mix in _divided(curve.mix)]
    ways = tuple(each for each in tried if isinstance(each, Way))
    return ways or min((each for each in tried if isinstance(each, Miss)), key=lambda miss: miss.ratio)


def _divided(mix: Mix) -> Iterator[Mix]:
    """The mix with every end-to-end limit divided into one on the first token and one on those after it."""
    if all(kind.level.end_to_end_seconds is None for kind in mix.kinds):
        yield mix
        return
    for part in _PARTS:
        yield Mix(tuple(_divide(kind, part) for kind in mix.kinds))


def _divide(kind: Kind, part: float) -> Kind:
    whole = kind.level.end_to_end_seconds
    if whole is None:
        return kind
    gaps = kind.output_tokens - 1
    first = min(whole * part if gaps else whole, kind.level.ttft_seconds or whole)
    token = min((whole - first) / gaps, kind.level.tpot_seconds or whole) if gaps else None
    return replace(kind, level=replace(kind.level, ttft_seconds=first, tpot_seconds=token, end_to_end_seconds=None))


def _with(curve: Curve, shape: Parallelism, transfer: float | None) -> Way | Miss:
    prompts = _prompts(curve, transfer)
    if isinstance(prompts, Miss):
        return prompts
    first = Pool(PoolRole.PREFILL, curve.mix, shape, prompts.rate, prompts.limit, None, prompts.ttft_seconds, curve)
    mix = curve.mix.decoding
    if mix is None:  # the prompt yields the only token
        return Way((first,), True, True)
    kinds = tuple(replace(kind, level=replace(kind.level, ttft_seconds=None)) for kind in mix.kinds)
    answers = largest_rate(replace(curve, mix=Mix(kinds)))
    if isinstance(answers, Miss):
        return answers
    return Way((first, Pool(PoolRole.DECODE, mix, shape, answers.rate, answers.limit, answers)), True, True)


def _prompts(curve: Curve, transfer: float | None) -> _Prompts | Miss:
    """The most prompts per second of one replica; with several replicas, waits are shorter."""
    service = curve.mean_prompt_seconds
    uneven = curve.unevenness
    wait = queue_seconds(
        utilization_ratio=_BUSY,  # type: ignore[arg-type]
        num_slots=1.0,
        service_seconds=service,
        squared_variation=uneven - 1.0,
    )
    deviation = (wait * wait + 2 / 3 * wait * service * uneven) ** 0.5
    rate = _BUSY / service
    worst, ttft = np.zeros_like(_BUSY), np.zeros_like(_BUSY)
    for kind in curve.mix.kinds:
        first = _first(curve, kind, transfer) + quantile(wait, deviation, NORMAL[kind.percentile], ARRAYS)
        ttft = np.maximum(ttft, first * curve.certainty[0])
        if kind.level.ttft_seconds is not None:
            worst = np.maximum(worst, first * curve.certainty[0] / kind.level.ttft_seconds)
    return _fullest(curve, worst, rate, ttft)


def _fullest(curve: Curve, worst: Array, rate: Array, ttft: Array) -> _Prompts | Miss:
    if worst[0] > 1.0:
        return Miss(curve, FleetLimit.TTFT, float(worst[0]))
    missed = np.flatnonzero(worst > 1.0)
    last = int(missed[0]) - 1 if len(missed) else len(rate) - 1
    limit = FleetLimit.TTFT if len(missed) else FleetLimit.SATURATION
    return _Prompts(float(rate[last]), float(ttft[last]), limit)


def _first(curve: Curve, kind: Kind, transfer: float | None) -> float:
    """Seconds to the first token of a prompt that does not wait: host, prompt, and moving its cache."""
    moved = growth_at(curve.work.cache_bytes_stored, kind.input_tokens, FLOATS) / transfer if transfer else 0.0
    host = curve.by.first_token_host_seconds + curve.by.prompt_token_seconds * kind.input_tokens
    return host + curve.prompt_seconds(kind.input_tokens, kind.cached_ratio) + moved
