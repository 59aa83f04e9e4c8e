"""The best of several options: one criterion after the other, or by weights. The order in which they are given says nothing."""

from collections.abc import Callable, Sequence
from typing import Final

from service.planning.node_groups.options import Standing, Weights

#: Costs and scores closer than this are equal: they differ by rounding alone.
_EQUAL: Final = 1e-9


def best_of(standings: Sequence[Standing], weights: Weights) -> tuple[Standing, ...]:
    """The best options, by id in order; at least one where there is any."""
    if weights.are_given:
        standings = _highest(standings, _score(standings, weights))
    left = _highest(standings, lambda each: each.num_running)
    left = _highest(left, lambda each: each.gang_ratio)
    left = _highest(left, lambda each: each.num_fitting)
    left = _highest(left, lambda each: -each.waste_ratio)
    left = _cheapest(left)
    return tuple(sorted(left, key=lambda each: each.group.id))


def _highest(standings: Sequence[Standing], value: Callable[[Standing], float]) -> Sequence[Standing]:
    values = [value(each) for each in standings]
    least = max(values, default=0.0) - _EQUAL
    return [each for each, its in zip(standings, values, strict=True) if its >= least]


def _cheapest(standings: Sequence[Standing]) -> Sequence[Standing]:
    """Leaves out what is known to be dearer than another. What has no price is neither cheap nor dear."""
    if len({each.currency for each in standings if each.cost_per_pod is not None}) > 1:
        return standings
    lowest = _lowest_cost(standings)
    return [each for each in standings if each.cost_per_pod is None or each.cost_per_pod <= lowest * (1 + _EQUAL)]


def _lowest_cost(standings: Sequence[Standing]) -> float:
    return min((each.cost_per_pod for each in standings if each.cost_per_pod is not None), default=0.0)


def _score(standings: Sequence[Standing], weights: Weights) -> Callable[[Standing], float]:
    most_running = max((each.num_running for each in standings), default=0)
    most_fitting = max((each.num_fitting for each in standings), default=0)
    lowest = _lowest_cost(standings)
    costs_compare = all(each.cost_per_pod for each in standings) and len({each.currency for each in standings}) == 1

    given = [weight or 0.0 for weight in (weights.fit, weights.gangs, weights.waste, weights.cost)]
    shares = [weight / (sum(given) or 1.0) for weight in given]

    def score(each: Standing) -> float:
        fit = each.num_running / most_running if most_running else each.num_fitting / most_fitting
        cost = lowest / each.cost_per_pod if costs_compare and each.cost_per_pod else 0.0
        ratios = (fit, each.gang_ratio, 1 - each.waste_ratio, cost)
        return sum(share * ratio for share, ratio in zip(shares, ratios, strict=True))

    return score
