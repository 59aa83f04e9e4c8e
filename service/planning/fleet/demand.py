"""What is asked of a fleet: kinds of requests, how many of each come, and what each is to see."""

from collections.abc import Callable
from statistics import NormalDist
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.planning.errors import InvalidRequest, Violation
from service.planning.fleet.requests import Demand, FleetWorkload, Percentile, PlanFleetRequest, ServiceLevel

DEFAULT_CONFIDENCE: Final = 0.8
#: Ends of the range and its middle, by which everything that depends on the demand is indexed.
LOW, MID, HIGH = 0, 1, 2


class Kind(Struct, frozen=True):
    """Requests of one kind. ``rates``: requests per second at the low end, in the middle and at the high end."""

    name: str
    input_tokens: float
    output_tokens: float
    cached_ratio: float
    rates: tuple[float, float, float]
    level: ServiceLevel

    @property
    def percentile(self) -> str:
        """The percentile of its service level, as the quantiles are keyed."""
        return str(self.level.percentile or Percentile.P90).lower()


class Mix(Struct, frozen=True):
    """Kinds that share their replicas, in proportion to the middles of their demands."""

    kinds: tuple[Kind, ...]

    @property
    def rates(self) -> tuple[float, float, float]:
        """Requests per second over all kinds: their ranges are taken to rise and fall together."""
        low, mid, high = (sum(kind.rates[at] for kind in self.kinds) for at in (LOW, MID, HIGH))
        return low, mid, high

    @property
    def output_tokens(self) -> float:
        """Mean tokens of an answer."""
        return self._mean(lambda kind: kind.output_tokens)

    @property
    def input_tokens(self) -> float:
        """Mean tokens of a prompt."""
        return self._mean(lambda kind: kind.input_tokens)

    def _mean(self, of: Callable[[Kind], float]) -> float:
        total = sum(kind.rates[MID] for kind in self.kinds)
        return sum(of(kind) * kind.rates[MID] for kind in self.kinds) / total

    @property
    def decoding(self) -> "Mix | None":
        """The kinds whose answers have more than the token that their prompt yields; None where there is none."""
        kinds = tuple(kind for kind in self.kinds if kind.output_tokens > 1)
        return Mix(kinds) if kinds else None

    def relaxed(self, ratio: float) -> "Mix":
        """The same with every time of its service levels multiplied."""
        return Mix(tuple(replace(kind, level=relaxed(kind.level, ratio)) for kind in self.kinds))


def relaxed(level: ServiceLevel, ratio: float) -> ServiceLevel:
    """A service level with every time multiplied."""
    times = {name: getattr(level, name) for name in ("ttft_seconds", "tpot_seconds", "end_to_end_seconds")}
    return replace(level, **{name: None if time is None else time * ratio for name, time in times.items()})


def asked(request: PlanFleetRequest) -> Mix:
    """The workloads with all defaults applied. InvalidRequest with every fault of them."""
    faults: list[Violation] = []
    kinds = []
    for index, workload in enumerate(request.workloads):
        at = f"workloads[{index}]"
        level = workload.service_level or request.service_level
        if level is None or (level.ttft_seconds, level.tpot_seconds, level.end_to_end_seconds) == (None, None, None):
            where = f"{at}.service_level" if workload.service_level else "service_level"
            faults.append(
                Violation(where, "no time is given that requests are to see", "give ttft_seconds, tpot_seconds or both")
            )
            continue
        faults += _demand_faults(workload.requests_per_second, f"{at}.requests_per_second")
        kinds.append(_kind(workload, level, str(index + 1)))
    names = [kind.name for kind in kinds]
    if len(set(names)) < len(names):
        faults.append(Violation("workloads", "two workloads have one name", "give each a name of its own"))
    if not request.workloads:
        faults.append(Violation("workloads", "no workload is given", "give at least one"))
    if faults:
        raise InvalidRequest(*faults)
    return Mix(tuple(kinds))


def _kind(workload: FleetWorkload, level: ServiceLevel, number: str) -> Kind:
    demand = workload.requests_per_second
    low = demand.mid if demand.low is None else demand.low
    high = demand.mid if demand.high is None else demand.high
    return Kind(
        name=workload.name or number,
        input_tokens=float(workload.input_tokens),
        output_tokens=float(workload.output_tokens),
        cached_ratio=workload.prefix_cache_hit_ratio or 0.0,
        rates=(low, demand.mid, high),
        level=replace(level, percentile=level.percentile or Percentile.P90),
    )


def _demand_faults(demand: Demand, field: str) -> list[Violation]:
    if (demand.low is None) != (demand.high is None):
        return [Violation(field, "a range has both a low and a high end", "give low and high, or neither")]
    if demand.low is not None and demand.high is not None and not demand.low <= demand.mid <= demand.high:
        return [Violation(field, f"{demand.low:g}, {demand.mid:g}, {demand.high:g} do not rise", "low ≤ mid ≤ high")]
    return []


def is_range(mix: Mix) -> bool:
    """Whether the demand is more than a point."""
    return mix.rates[LOW] < mix.rates[HIGH]


def weights(confidence: float) -> tuple[float, float, float]:
    """Likelihoods of the three points that have mean and variance of a normal with this much between low and high.

    At 0.8 they are Swanson's 0.3, 0.4, 0.3, at 0.9 those of Pearson and Tukey, 0.185, 0.63, 0.185.

    >>> [round(each, 3) for each in weights(0.9)]
    [0.185, 0.63, 0.185]
    """
    end = min(0.5, 1 / (2 * NormalDist().inv_cdf((1 + confidence) / 2) ** 2))
    return end, 1 - 2 * end, end
