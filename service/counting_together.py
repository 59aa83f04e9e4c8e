"""The counts of ``service.counting`` for several processes behind one port, in files of prometheus_client that all add to."""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Generic

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from service.counting import Code, Families, Family


class Bound(dict[Code, Counter]):
    """Children of one counter by what tells them apart; those known are bound at once, others on first use.

    Only for keys out of a closed set: status codes, our own RPCs.
    """

    __slots__ = ("_bind",)

    def __init__(self, bind: Callable[[Code], Counter], known: Iterable[Code]) -> None:
        self._bind = bind
        super().__init__((key, bind(key)) for key in known)

    def __missing__(self, key: Code) -> Counter:
        child = self[key] = self._bind(key)
        return child


class _Requests(Struct, Generic[Code]):
    _begun: Counter | None
    _ended: Bound[Code]
    _seconds: Histogram
    _in_flight: Gauge
    begun: int = 0  # in this process alone

    def begin(self) -> float:
        self.begun += 1
        if self._begun is not None:
            self._begun.inc()
        self._in_flight.inc()
        return perf_counter()

    def end(self, begun: float, code: Code) -> None:
        self._seconds.observe(perf_counter() - begun)
        self._ended[code].inc()
        self._in_flight.dec()


class _LookUps:
    def __init__(self, counter: Counter, known: Iterable[tuple[str, str]]) -> None:
        self._counter = counter
        for tier, rpc in known:
            counter.labels(tier, rpc, "hit")
            counter.labels(tier, rpc, "miss")

    def hit(self, tier: str, rpc: str) -> None:
        self._counter.labels(tier, rpc, "hit").inc()

    def miss(self, tier: str, rpc: str) -> None:
        self._counter.labels(tier, rpc, "miss").inc()


class _Door(Struct, frozen=True):
    begun: Counter | None
    ended: Counter
    seconds: Histogram


class CountsTogether:
    """Counts in files that other processes count in too.

    Args:
        families: how they are called.
        registry: which asks for the samples.
    """

    def __init__(self, families: Families, registry: CollectorRegistry) -> None:
        def counter(family: Family) -> Counter:
            return Counter(family.name, family.documentation, family.labels, registry=registry)

        def histogram(family: Family, bounds: Iterable[float]) -> Histogram:
            return Histogram(family.name, family.documentation, family.labels, registry=registry, buckets=tuple(bounds))

        self._doors = {
            door: _Door(
                begun=None if names.begun is None else counter(names.begun),
                ended=counter(names.ended),
                seconds=histogram(names.seconds, families.door_bounds),
            )
            for door, names in families.doors.items()
        }
        gauge = families.in_flight
        self._in_flight = Gauge(gauge.name, gauge.documentation, gauge.labels, registry=registry, multiprocess_mode="livesum")
        self._planning = histogram(families.planning, families.planning_bounds)
        self._look_ups = counter(families.look_ups)

    def requests(self, door: str, labels: tuple[str, ...], codes: Iterable[Code]) -> _Requests[Code]:
        """Counts the requests under these labels; those codes show as zero before they happen."""
        names = self._doors[door]
        return _Requests(
            _begun=None if names.begun is None else names.begun.labels(*labels),
            _ended=Bound(lambda code: names.ended.labels(*labels, code), codes),
            _seconds=names.seconds.labels(*labels),
            _in_flight=self._in_flight.labels(door),
        )

    def planning(self, rpc: str) -> Histogram:
        """Counts how long planning takes for an RPC."""
        return self._planning.labels(rpc)

    def look_ups(self, known: Iterable[tuple[str, str]]) -> _LookUps:
        """Counts look-ups by tier and RPC; the known ones show as zero before they happen."""
        return _LookUps(self._look_ups, known)
