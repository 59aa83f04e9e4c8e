"""How many requests per second one replica carries within a service level, or by how much it misses it when all but idle."""

from typing import Final

import numpy as np
from msgspec import Struct

from service.planning.fleet.curve import Array, Curve, Points
from service.planning.fleet.results import FleetLimit

_COARSE: Final = 96
_FINE: Final = 48
#: Replicas are not planned fuller: nearer to every place being taken, half of the time all are, and queues begin.
FULLEST_RATIO: Final = 0.9


class Capability(Struct, frozen=True):
    """A replica at the most that it carries. ``points``: the curve up to there, for fronts and for times at less."""

    curve: Curve
    rate: float
    decoding: float
    limit: FleetLimit


class Miss(Struct, frozen=True):
    """A replica that misses the service level even when it is all but idle, by ``ratio`` in the time that misses it most."""

    curve: Curve
    limit: FleetLimit
    ratio: float


def largest_rate(curve: Curve) -> Capability | Miss:
    """The most that a replica carries: every time grows with the rate, so the last point before the first that misses.

    The grid is fixed, and refined in one cell only: a tighter service level can so never find a higher rate.
    """
    coarse = curve.grid(_COARSE)
    points = curve.at(coarse)
    kept = _kept(curve, points)
    if not kept[0]:
        return _miss(curve, points)
    last = _last(kept)
    if last == len(coarse) - 1:
        return Capability(curve, float(points.rate[last]), float(coarse[last]), _capacity_limit(curve))
    fine = np.geomspace(coarse[last], coarse[last + 1], _FINE)
    points = curve.at(fine)
    best = _last(_kept(curve, points))
    return Capability(curve, float(points.rate[best]), float(fine[best]), _limit_after(curve, points, best))


def _kept(curve: Curve, points: Points) -> Array:
    """Where the service level is kept and the replica comes to rest."""
    stays = points.load < FULLEST_RATIO
    for ratio in curve.excess(points).values():
        stays = stays & (ratio <= 1.0)
    return stays


def _last(kept: Array) -> int:
    """Index of the last point before the first that is not kept; the first is."""
    misses = np.flatnonzero(~kept)
    return max(0, int(misses[0]) - 1) if len(misses) else len(kept) - 1


def _miss(curve: Curve, points: Points) -> Miss:
    ratios = {limit: float(ratio[0]) for limit, ratio in curve.excess(points).items()}
    limit = max(ratios, key=lambda each: ratios[each])
    return Miss(curve, limit, ratios[limit])


def _capacity_limit(curve: Curve) -> FleetLimit:
    return FleetLimit.KV_CAPACITY if curve.held.most < curve.held.by_engine else FleetLimit.ENGINE_LIMIT


def _limit_after(curve: Curve, points: Points, best: int) -> FleetLimit:
    """What the next point misses; where it misses no time, it is nearer to the most that finishes than queues allow."""
    after = min(best + 1, len(points.rate) - 1)
    ratios = {limit: float(ratio[after]) for limit, ratio in curve.excess(points).items()}
    missed = {limit: ratio for limit, ratio in ratios.items() if ratio > 1.0}
    return max(missed, key=lambda each: missed[each]) if missed else FleetLimit.SATURATION


class Seen(Struct, frozen=True):
    """Times at the percentile under a load; of several kinds those of the one that sees the most."""

    decoding: float
    ttft_seconds: float
    tpot_seconds: float | None  # None where every answer is of one token
    end_to_end_seconds: float


def seen_at(capability: Capability, rate: float) -> Seen:
    """What requests see where a replica carries so many per second, at most what it can."""
    curve = capability.curve
    grid = curve.grid(_COARSE)
    rates = curve.at(grid).rate
    decoding = min(float(np.interp(rate, np.maximum.accumulate(rates), grid)), capability.decoding)
    points = curve.at(np.array([decoding]))
    kinds = [(kind, kind.percentile) for kind in curve.mix.kinds]
    return Seen(
        decoding=decoding,
        ttft_seconds=max(float(curve.ttft(points, *each)[0]) for each in kinds),
        tpot_seconds=max((float(curve.tpot(points, *each)[0]) for each in kinds if each[0].output_tokens > 1), default=None),
        end_to_end_seconds=max(float(curve.end_to_end(points, *each)[0]) for each in kinds),
    )
