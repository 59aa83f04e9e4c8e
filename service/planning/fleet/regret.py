"""The fleet of least regret: what it costs more, on average over the demand, than the fleet that one would have wished for.

A fleet that is too small serves what it can; the rest costs ``unserved`` times what the best fleet would have taken for it.
"""

from collections.abc import Sequence

from msgspec import Struct

from service.planning.fleet.demand import HIGH, LOW, MID
from service.planning.fleet.ranking import worth
from service.planning.fleet.results import Ranking
from service.planning.fleet.sized import Sized

_DEMANDS = (LOW, MID, HIGH)


class Regret(Struct, frozen=True):
    """A fleet and its regret, in the unit of the ranking."""

    fleet: Sized
    expected: float
    most: float


def least_regret(
    fleets: Sequence[Sized], ranking: Ranking, weights: tuple[float, float, float], unserved: float
) -> Regret | None:
    """Of fleets that are sized for any of the three demands, the one with the least regret; None where none has a worth."""
    valued = [(fleet, value) for fleet in fleets if (value := worth(fleet, ranking)) is not None]
    if not valued:
        return None
    best = [min((value for fleet, value in valued if fleet.at == at), default=0.0) for at in _DEMANDS]
    regrets = [_regret(fleet, value, best, weights, unserved) for fleet, value in valued]
    return min(regrets, key=lambda each: (each.expected, each.most, each.fleet.devices, each.fleet.option.hardware.name))


def _regret(fleet: Sized, value: float, best: Sequence[float], weights: tuple[float, float, float], unserved: float) -> Regret:
    each = []
    for at in _DEMANDS:
        served = min(1.0, fleet.option.way.capacity_ratio(fleet.replicas, at))
        each.append(value - best[at] + (1.0 - served) * unserved * best[at])
    expected = sum(weight * regret for weight, regret in zip(weights, each, strict=True))
    return Regret(fleet, expected, max(each))
