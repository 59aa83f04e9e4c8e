"""Which fleet comes first: the cheapest, or where nothing has a price the one that draws least or has the fewest devices."""

from collections.abc import Iterable

from service.planning.fleet.results import Ranking
from service.planning.fleet.sized import Sized


def ranking_of(fleets: Iterable[Sized]) -> Ranking:
    """What these can be ranked by."""
    listed = list(fleets)
    if not listed or any(fleet.per_hour is not None for fleet in listed):
        return Ranking.COST
    return Ranking.POWER if all(fleet.facility_watts is not None for fleet in listed) else Ranking.DEVICES


def worth(fleet: Sized, ranking: Ranking) -> float | None:
    """The figure that it is ranked by, less is better; None where it has none."""
    figures = {
        Ranking.COST: fleet.per_hour,
        Ranking.POWER: fleet.facility_watts,
        Ranking.DEVICES: float(fleet.devices),
    }
    return figures[ranking]


def order(fleet: Sized, ranking: Ranking) -> tuple[bool, float, int, float, str, str, bool]:
    """The order of the ranking: fleets without the figure last, and equal ones by devices, power and name."""
    figure = worth(fleet, ranking)
    option = fleet.option
    return (
        figure is None,
        figure or 0.0,
        fleet.devices,
        fleet.facility_watts or 0.0,
        option.hardware.name,
        option.engine.name,
        option.way.is_disaggregated,
    )
