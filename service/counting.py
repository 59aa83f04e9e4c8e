"""Counts of requests and of times in plain integers, which become Prometheus samples only when somebody reads them.

For one process: prometheus_client's own counters take about a microsecond each, for locks and checks, and a request moves eight
of them. The event loop counts here. Of what a planning thread counts as well, a count may be lost where both do at once.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from service.request_context import CURRENT

Code = TypeVar("Code", bound=str | int)
AnyCode = TypeVar("AnyCode", bound=str | int, contravariant=True)


class Family(Struct, frozen=True):
    """A metric: its name, what it counts, its labels."""

    name: str
    documentation: str
    labels: tuple[str, ...] = ()


class DoorFamilies(Struct, frozen=True):
    """What is counted of every request at a door."""

    ended: Family  # whose last label is the status code
    seconds: Family
    begun: Family | None = None


class Families(Struct, frozen=True):
    """What a request moves, from door to plan. Times of doors and of planning have buckets of their own, in seconds."""

    doors: Mapping[str, DoorFamilies]
    in_flight: Family
    planning: Family
    look_ups: Family
    door_bounds: Sequence[float]
    planning_bounds: Sequence[float]


class Times(Protocol):
    """Counts times."""

    def observe(self, seconds: float) -> None:
        """Counts one."""
        ...


class RequestCounts(Protocol[AnyCode]):
    """Counts the requests of one RPC or route."""

    @property
    def begun(self) -> int:
        """How many began in this process."""
        ...

    def begin(self) -> float:
        """Counts a request as begun; returns the clock, in seconds, to hand to ``end``."""
        ...

    def end(self, begun: float, code: AnyCode) -> None:
        """Counts it as ended with a status code, one of a closed set."""
        ...


class LookUpCounts(Protocol):
    """Counts look-ups in the tiers of a cache."""

    def hit(self, tier: str, rpc: str) -> None:
        """A tier had the answer."""
        ...

    def miss(self, tier: str, rpc: str) -> None:
        """A tier did not have it."""
        ...


class Counts(Protocol):
    """Makes what counts."""

    def requests(self, door: str, labels: tuple[str, ...], codes: Iterable[Code]) -> RequestCounts[Code]:
        """Counts the requests under these labels; those codes show as zero before they happen."""
        ...

    def planning(self, rpc: str) -> Times:
        """Counts how long planning takes for an RPC."""
        ...

    def look_ups(self, known: Iterable[tuple[str, str]]) -> LookUpCounts:
        """Counts look-ups by tier and RPC; the known ones show as zero before they happen."""
        ...


class Seconds:
    """A histogram of times.

    Args:
        bounds: upper ends of the buckets, in seconds, ascending; one more without an end follows.
    """

    __slots__ = ("_bounds", "_buckets", "_exemplars", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._exemplars: list[Exemplar | None] = [None] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Counts a time. Where the request at hand is one whose trace is kept, it becomes its bucket's example."""
        bucket = bisect_left(self._bounds, seconds)
        self._buckets[bucket] += 1
        self._sum += seconds
        request = CURRENT.get()
        if request is not None and request.is_sampled:
            self._exemplars[bucket] = Exemplar({"trace_id": request.trace_id}, seconds, time.time())

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Adds the samples under these labels."""
        count, buckets = 0, []
        ends = (*map(str, map(float, self._bounds)), "+Inf")
        for end, counted, exemplar in zip(ends, self._buckets, self._exemplars, strict=True):
            count += counted
            buckets.append((end, float(count), exemplar))
        family.add_metric(labels, buckets, self._sum)  # type: ignore[arg-type]  # its stub forgets exemplars


class Requests(Generic[Code]):
    """Requests of one RPC or route: begun, ended by status code, and how long they took.

    Args:
        bounds: upper ends of the buckets of times.
        codes: those to show as zero before they happen.
    """

    __slots__ = ("_ended", "begun", "seconds")

    def __init__(self, bounds: Sequence[float], codes: Iterable[Code]) -> None:
        self.begun = 0
        self.seconds = Seconds(bounds)
        self._ended = dict.fromkeys(codes, 0)

    def begin(self) -> float:
        """Counts a request as begun; returns the clock, in seconds, to hand to ``end``."""
        self.begun += 1
        return perf_counter()

    def end(self, begun: float, code: Code) -> None:
        """Counts it as ended with a status code, one of a closed set."""
        self.seconds.observe(perf_counter() - begun)
        ended = self._ended
        ended[code] = ended.get(code, 0) + 1

    @property
    def ended(self) -> Mapping[Code, int]:
        """How many ended, by code."""
        return self._ended

    @property
    def in_flight(self) -> int:
        """How many began and have not ended."""
        return self.begun - sum(self._ended.values())


class LookUps:
    """Look-ups in the tiers of a cache, by tier and RPC: hits and misses.

    Args:
        known: tiers and RPCs to show as zero before anybody asks.
    """

    __slots__ = ("_hits", "_misses")

    def __init__(self, known: Iterable[tuple[str, str]]) -> None:
        self._hits = dict.fromkeys(known, 0)
        self._misses = self._hits.copy()

    def hit(self, tier: str, rpc: str) -> None:
        """A tier had the answer."""
        key = (tier, rpc)
        self._hits[key] = self._hits.get(key, 0) + 1

    def miss(self, tier: str, rpc: str) -> None:
        """A tier did not have it."""
        key = (tier, rpc)
        self._misses[key] = self._misses.get(key, 0) + 1

    def __iter__(self) -> Iterator[tuple[str, str, str, int]]:
        """Tier, RPC, outcome, how often."""
        for outcome, counts in (("hit", self._hits), ("miss", self._misses)):
            for (tier, rpc), count in counts.items():
                yield tier, rpc, outcome, count


class CountsHere(Collector):
    """Counts in this process, for this process.

    Args:
        families: how they are called.
        registry: which asks for the samples.
    """

    def __init__(self, families: Families, registry: CollectorRegistry) -> None:
        self._families = families
        self._requests: dict[str, dict[tuple[str, ...], Requests[Any]]] = {door: {} for door in families.doors}
        self._planning: dict[str, Seconds] = {}
        self._look_ups = LookUps(())
        registry.register(self)

    def requests(self, door: str, labels: tuple[str, ...], codes: Iterable[Code]) -> Requests[Code]:
        """Counts the requests under these labels; those codes show as zero before they happen."""
        return self._requests[door].setdefault(labels, Requests(self._families.door_bounds, codes))

    def planning(self, rpc: str) -> Seconds:
        """Counts how long planning takes for an RPC."""
        return self._planning.setdefault(rpc, Seconds(self._families.planning_bounds))

    def look_ups(self, known: Iterable[tuple[str, str]]) -> LookUps:
        """Counts look-ups by tier and RPC; the known ones show as zero before they happen."""
        self._look_ups = LookUps(known)
        return self._look_ups

    def collect(self) -> Iterator[Metric]:
        """All samples, as they are now."""
        families = self._families
        for door, names in families.doors.items():
            yield from _of_door(names, self._requests[door])
        in_flight = GaugeMetricFamily(*_head(families.in_flight), labels=families.in_flight.labels)
        for door, counted in self._requests.items():
            in_flight.add_metric((door,), sum(each.in_flight for each in counted.values()))
        yield in_flight
        planning = HistogramMetricFamily(*_head(families.planning), labels=families.planning.labels)
        for rpc, seconds in self._planning.items():
            seconds.add_to(planning, (rpc,))
        yield planning
        look_ups = CounterMetricFamily(*_head(families.look_ups), labels=families.look_ups.labels)
        for *labels, count in self._look_ups:
            look_ups.add_metric(labels, count)
        yield look_ups


def _head(family: Family) -> tuple[str, str]:
    return family.name, family.documentation


def _of_door(names: DoorFamilies, counted: Mapping[tuple[str, ...], Requests[Any]]) -> Iterator[Metric]:
    ended = CounterMetricFamily(*_head(names.ended), labels=names.ended.labels)
    seconds = HistogramMetricFamily(*_head(names.seconds), labels=names.seconds.labels)
    for labels, requests in counted.items():
        for code, count in requests.ended.items():
            ended.add_metric((*labels, str(code)), count)
        requests.seconds.add_to(seconds, labels)
    if names.begun is not None:
        begun = CounterMetricFamily(*_head(names.begun), labels=names.begun.labels)
        for labels, requests in counted.items():
            begun.add_metric(labels, requests.begun)
        yield begun
    yield ended
    yield seconds
