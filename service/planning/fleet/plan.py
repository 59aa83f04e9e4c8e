"""How much hardware carries a demand? Every option tried, sized, ranked, and excused where it is rejected."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.planning.fleet.candidates import engines
from service.planning.fleet.costing import Costing
from service.planning.fleet.curve import Curve
from service.planning.fleet.demand import DEFAULT_CONFIDENCE, HIGH, LOW, MID, Mix, asked, is_range, relaxed, weights
from service.planning.fleet.explanation import Asked, explained
from service.planning.fleet.options import NearMiss, Option, Options
from service.planning.fleet.pareto import cost_front, pareto_front, points
from service.planning.fleet.pools import Pool, aggregated
from service.planning.fleet.ranking import order, ranking_of
from service.planning.fleet.regret import least_regret
from service.planning.fleet.requests import Certainty, PlanFleetRequest
from service.planning.fleet.results import (
    ExcuseReason,
    FleetExcuse,
    Infeasible,
    LeastRegret,
    PlanFleetResponse,
    PoolRole,
    Ranking,
)
from service.planning.fleet.sized import Sized, as_plan, sized
from service.planning.fleet.sizing import FULLEST_RATIO, Capability, largest_rate
from service.planning.price_choice import NoPrice
from service.planning.requests import EngineSpec, Parallelism
from service.planning.serving.estimate import ServingEstimator
from service.planning.shape_search import describe
from service.planning.streams import NEVER, Stop

_DEFAULT_PLANS: Final = 20
_DEFAULT_UNSERVED: Final = 10.0
_MOST_EXCUSES: Final = 1000
#: A service level is relaxed by so much more than an idle replica needs, so that one carries something.
_ROOM: Final = 1.1
_RANKED_BY: Final = {Ranking.COST: "cost", Ranking.POWER: "W of the building", Ranking.DEVICES: "devices"}


class _Search(Struct, frozen=True):
    """One request on its way to an answer."""

    request: PlanFleetRequest
    mix: Mix
    costing: Costing
    options: Options

    @property
    def headroom(self) -> float:
        return self.request.headroom_ratio or 0.0

    @property
    def redundant(self) -> int:
        return self.request.redundant_nodes or 0

    def sized(self, option: Option, at: int) -> Sized | None:
        return sized(option, at, self.costing, self.headroom, self.redundant)


def plan_fleet(serving: ServingEstimator, request: PlanFleetRequest, stop: Stop = NEVER) -> PlanFleetResponse:
    """Fleets, ranked. InvalidRequest, NotFound or TooLarge where there is no answer, OutOfTime where it was stopped before."""
    mix = asked(request)
    costing = Costing(serving.resolver.catalogue, request)
    search = _Search(request, mix, costing, Options(serving, request, mix, stop).try_all())
    fleets = [fleet for option in search.options.found if (fleet := search.sized(option, HIGH)) is not None]
    ranking = ranking_of(fleets)
    best, rejected = _best_of_each(fleets, ranking)
    front = points(_curves(search), costing)
    chosen = best[: request.max_plans or _DEFAULT_PLANS]
    infeasible, nearest = (None, None) if fleets else _infeasible(search)
    regret, careful = _least_regret(search, ranking) if is_range(mix) else (None, None)
    first = chosen[0] if chosen else nearest
    shown = [each for each in (*chosen, nearest, careful) if each is not None]
    return PlanFleetResponse(
        plans=tuple(as_plan(fleet, costing, mix, search.headroom, search.redundant, at + 1) for at, fleet in enumerate(chosen)),
        least_regret=regret,
        infeasible=infeasible,
        excuses=_excuses(search, best, rejected)[:_MOST_EXCUSES],
        pareto_front=pareto_front(front),
        cost_front=cost_front(front),
        ranking=ranking,
        num_candidates=search.options.num_candidates,
        unread_prices=costing.book.unread,
        assumptions=(*_assumptions(search, shown), *_of_replicas(shown, engines(request))),
        catalogue_revision=serving.resolver.revision,
        explanation=explained(first, costing, Asked(mix, search.headroom, search.redundant))
        if request.explain and first
        else None,
    )


def _best_of_each(fleets: list[Sized], ranking: Ranking) -> tuple[list[Sized], list[tuple[Sized, Sized]]]:
    """The best fleet of each hardware, engine and kind, in order, and every other beside the one that beats it."""
    best: dict[tuple[object, ...], Sized] = {}
    rejected = []
    for fleet in sorted(fleets, key=lambda each: order(each, ranking)):
        option = fleet.option
        winner = best.setdefault((option.hardware, option.engine, option.way.is_disaggregated), fleet)
        if winner is not fleet:
            rejected.append((fleet, winner))
    return list(best.values()), rejected


def _curves(search: _Search) -> Iterator[tuple[Option, Parallelism, Curve]]:
    """Every shape that carries the demand, with what requests see on it; none where no answer has a second token."""
    for option in search.options.found:
        search.options.check_time()
        for pool in option.way.pools:
            shared = pool.role is PoolRole.AGGREGATED and option.way.is_mixed
            if shared and pool.capability is not None and pool.mix.decoding is not None:
                yield option, pool.shape, pool.capability.curve


def _least_regret(search: _Search, ranking: Ranking) -> tuple[LeastRegret | None, Sized | None]:
    every = [fleet for option in search.options.found for at in (LOW, MID, HIGH) if (fleet := search.sized(option, at))]
    confidences = [each.requests_per_second.confidence or DEFAULT_CONFIDENCE for each in search.request.workloads]
    likely = weights(min(confidences))
    found = least_regret(every, ranking, likely, search.request.unserved_cost_ratio or _DEFAULT_UNSERVED)
    if found is None:
        return None, None
    fleet, costing = found.fleet, search.costing
    unit = costing.currency if ranking is Ranking.COST else _RANKED_BY[ranking]
    told = LeastRegret(
        plan=as_plan(fleet, costing, search.mix, search.headroom, search.redundant, 0),
        requests_per_second=search.mix.rates[fleet.at],
        expected_regret_per_hour=found.expected,
        max_regret_per_hour=found.most,
        unit=unit,
        weights=likely,
    )
    return told, fleet


def _infeasible(search: _Search) -> tuple[Infeasible, Sized | None]:
    """What would have to give way, and the fleet that then carries the demand."""
    nearest = sorted(search.options.misses, key=lambda each: (each.miss.ratio, each.hardware.name, each.shape))
    for miss in nearest:
        ratio = max(1.0, miss.miss.ratio) * _ROOM
        fleet = _relaxed(search, miss, ratio)
        if fleet is not None:
            text = (
                f"nothing that is allowed meets the service level, however many replicas: the nearest misses it by a factor of "
                f"{miss.miss.ratio:.3g} in {miss.miss.limit} even when idle; with every time × {ratio:.3g}, a tenth more, "
                "so that it carries something too, it is met"
            )
            plan = as_plan(fleet, search.costing, search.mix, search.headroom, search.redundant, 0)
            return Infeasible(text, ratio, plan, relaxed(search.mix.kinds[0].level, ratio)), fleet
    text = "nothing that is allowed carries the demand at any service level: the excuses say why"
    return Infeasible(text, 0.0, None, None), None


def _relaxed(search: _Search, near: NearMiss, ratio: float) -> Sized | None:
    mix = search.mix.relaxed(ratio)
    found = largest_rate(replace(near.miss.curve, mix=mix))
    if not isinstance(found, Capability):
        return None
    way = aggregated(mix, near.shape, found)
    return search.sized(Option(near.hardware, near.engine, way, near.deployed, near.is_familiar), HIGH)


def _excuses(search: _Search, best: list[Sized], rejected: list[tuple[Sized, Sized]]) -> tuple[FleetExcuse, ...]:
    found = list(search.options.excuses)
    large = (option for option in search.options.found if search.sized(option, HIGH) is None)
    found += [_excuse(each, ExcuseReason.TOO_LARGE, "it takes more than a million replicas") for each in large]
    for hardware in dict.fromkeys(fleet.option.hardware for fleet in best):
        unit = search.costing.unit_cost(hardware)
        if isinstance(unit, NoPrice):
            text = f"{unit.reason}: {unit.remedy}"
            found.append(FleetExcuse(hardware.node_type, hardware.accelerator, "", None, False, ExcuseReason.NO_PRICE, text))
    beaten: dict[tuple[object, ...], FleetExcuse] = {}
    for fleet, winner in rejected:  # the best of each shape comes first
        option, winning = fleet.option, winner.option.way
        if option.way.is_mixed and winning.is_mixed and option.way.pools[0].shape == winning.pools[0].shape:
            continue  # the same shape, its times divided another way
        excuse = _excuse(option, ExcuseReason.COSTS_MORE, _beaten(fleet, winner))
        beaten.setdefault((option.hardware, option.engine, excuse.parallelism, excuse.is_disaggregated), excuse)
    return (*found, *beaten.values())


def _excuse(option: Option, reason: ExcuseReason, text: str) -> FleetExcuse:
    hardware, way = option.hardware, option.way
    return FleetExcuse(
        hardware.node_type,
        hardware.accelerator,
        option.engine.name,
        way.pools[0].shape if way.is_mixed else None,
        way.is_disaggregated,
        reason,
        text,
    )


def _beaten(fleet: Sized, winner: Sized) -> str:
    return f"{_in_words(fleet)} where {_in_words(winner)} carry the same"


def _in_words(fleet: Sized) -> str:
    shapes = ", ".join(dict.fromkeys(describe(pool.shape) for pool in fleet.option.way.pools))
    apart = "" if fleet.option.way.is_mixed or fleet.option.way.is_disaggregated else " apart"
    return f"{sum(fleet.replicas)} replicas{apart} of {shapes} on {fleet.nodes} nodes"


def _assumptions(search: _Search, shown: Sequence[Sized]) -> tuple[str, ...]:
    request = search.request
    levels = [each.service_level or request.service_level for each in request.workloads]
    notes = [f"sized for {search.mix.rates[HIGH]:g} requests/s that arrive at random (Poisson)"]
    if request.headroom_ratio is None:
        notes.append("no headroom (default)")
    if request.redundant_nodes is None:
        notes.append("no node may be lost (default)")
    if any(level and level.percentile is None for level in levels):
        which = "" if all(level and level.percentile is None for level in levels) else ", where a workload does not say"
        notes.append(f"times hold for nine requests in ten (default{which})")
    if request.certainty is not Certainty.CAUTIOUS:
        notes.append("by the estimate itself, which is as likely too low as too high")
    notes.append(f"replicas are planned to {FULLEST_RATIO:g} of the most that they finish: nearer to it, queues begin")
    if request.disaggregated and request.transfer_bytes_per_second is None:
        notes.append("moving a prompt's cache from prefill to decode takes no time: transfer_bytes_per_second is not given")
    if len(search.mix.kinds) > 1 and any(fleet.option.way.is_mixed for fleet in shown):
        notes.append("workloads on shared replicas keep the proportions of the middles of their demands")
    notes.append(
        "requests of a workload are alike; a request that waits long for its first token is taken to decode slowly too"
    )
    return tuple(notes)


def _of_replicas(fleets: Sequence[Sized], allowed: Sequence[EngineSpec]) -> Iterator[str]:
    """What was taken for granted of the fleets' replicas; what does not hold for all of them says for which."""
    holders: dict[str, dict[str, None]] = {}
    names = set()
    for option, pool in ((fleet.option, pool) for fleet in fleets for pool in fleet.option.way.pools):
        name = _replica_name(option, pool, allowed)
        names.add(name)
        curve = pool.capability.curve if pool.capability else pool.prompts
        for note in curve.notes if curve else ():
            holders.setdefault(note, {})[name] = None
    for note, held_by in holders.items():
        yield note if len(held_by) == len(names) else f"{', '.join(held_by)}: {note}"


def _replica_name(option: Option, pool: Pool, allowed: Sequence[EngineSpec]) -> str:
    """What to call a pool's replicas beside others: by what there are several of."""
    engine, way = option.engine, option.way
    alike = [each for each in allowed if each.name == engine.name]
    number = f" (engines[{allowed.index(engine)}])" if len(alike) > 1 else ""
    told = f"{engine.name}{number}" if len(allowed) > 1 else ""
    is_apart = not way.is_mixed and not way.is_disaggregated
    workloads = f"for {', '.join(kind.name for kind in pool.mix.kinds)}" if is_apart else ""
    return " ".join(filter(None, (option.hardware.name, told, describe(pool.shape), workloads)))
