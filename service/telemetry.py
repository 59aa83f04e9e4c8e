"""Every metric and log name of the service, in one place.

Nothing here is global: a ``Telemetry`` owns its registry, so that tests and processes do not share counts. What the hot
path touches is bound at start (``rpc``, ``route``), so that counting a request looks no label up. Names follow what
dashboards know: ``grpc_server_…`` as the Go and Java interceptors have them, ``http_server_…`` beside them for REST,
``tonnage_…`` for what is ours. Durations are in seconds. How counting is done is
``service.counting``'s.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final, Generic, Literal, Protocol, TypeAlias

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from service.counting import Code, Counts, CountsHere, DoorFamilies, Families, Family, RequestCounts, Times
from service.counting_together import Bound, CountsTogether

#: Names of our loggers. The cache, which imports nothing of ours, logs as ``service.cache.…``.
SERVER_LOG: Final = "tonnage.server"  # start, addresses, drain, stop
REQUEST_LOG: Final = "tonnage.request"  # what went wrong in a request; a bug's cause stands only here. At debug, every request
CATALOGUE_LOG: Final = "tonnage.catalogue"  # what was loaded, from where

_requests: Final = logging.getLogger(REQUEST_LOG)

#: The label of whatever matches no RPC or no route. A caller must not be able to make series by inventing paths.
UNKNOWN: Final = "unknown"

RpcType = Literal["unary", "server_stream", "client_stream", "bidi_stream"]
Door = Literal["grpc", "rest", "mcp"]

#: Codes that RPCs are known to end in: exposed as zero from the start, so that the first one shows as a rate.
_EXPECTED_CODES: Final = (
    "OK",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "FAILED_PRECONDITION",
    "RESOURCE_EXHAUSTED",
    "INTERNAL",
)
_CACHE_TIERS: Final = ("local", "redis")
_BREAKER_STATES: Final = {"closed": 0, "half_open": 1, "open": 2}

#: A cache hit takes about 100 µs from door to door, a fleet plan tens of milliseconds, a long sweep seconds.
_HANDLING_BUCKETS: Final = (2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 0.25, 1.0, 5.0)
#: A point takes 20–30 µs; what takes more than 500 µs goes to Redis.
_PLANNING_BUCKETS: Final = (2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)


class RpcName(Struct, frozen=True):
    """One method of a gRPC service, as the descriptors name it: ``tonnage.v1.CapacityService``, ``EstimateDecode``."""

    service: str
    method: str
    type: RpcType = "unary"

    @property
    def path(self) -> str:
        """The name as it goes over the wire: ``/tonnage.v1.CapacityService/EstimateDecode``."""
        return f"/{self.service}/{self.method}"


class Spans(Protocol):
    """Records requests as spans of traces. Satisfied by ``service.tracing``, which knows nothing of this module."""

    def begin(self, name: str, attributes: Mapping[str, str]) -> None:
        """The request at hand begins."""
        ...

    def end(self, code: str | int) -> None:
        """It ended with a status code of gRPC or HTTP."""
        ...


class _Recorded(Struct, Generic[Code], frozen=True):
    """Requests that are counted, and recorded as spans."""

    _counts: RequestCounts[Code]
    _spans: Spans
    _name: str
    _attributes: Mapping[str, str]

    @property
    def begun(self) -> int:
        return self._counts.begun

    def begin(self) -> float:
        self._spans.begin(self._name, self._attributes)
        return self._counts.begin()

    def end(self, begun: float, code: Code) -> None:
        self._counts.end(begun, code)
        self._spans.end(code)


class _Logged(Struct, Generic[Code], frozen=True):
    """Requests that are counted, and each leaves a line in the log when it ends."""

    _counts: RequestCounts[Code]
    _name: str

    @property
    def begun(self) -> int:
        return self._counts.begun

    def begin(self) -> float:
        return self._counts.begin()

    def end(self, begun: float, code: Code) -> None:
        seconds = round(perf_counter() - begun, 6)
        _requests.debug("%s ended", self._name, extra={"code": code, "seconds": seconds})
        self._counts.end(begun, code)


RpcMetrics: TypeAlias = RequestCounts[str]
RouteMetrics: TypeAlias = RequestCounts[int]


class ToolMetrics(Struct, frozen=True):
    """What is counted of MCP tools. A name that no tool has counts as ``unknown``: a caller must not make series."""

    _calls: Mapping[str, Bound[str]]
    _seconds: Mapping[str, Histogram]

    def end(self, tool: str, outcome: str, seconds: float) -> None:
        """Count a call as ended: "ok", or why there was no answer, out of a closed set."""
        name = tool if tool in self._calls else UNKNOWN
        self._calls[name][outcome].inc()
        self._seconds[name].observe(seconds)


def _outcomes_of(calls: Counter, tool: str) -> Bound[str]:
    return Bound(lambda outcome: calls.labels(tool, outcome), ("ok",))


class CacheMetrics:
    """Counts what the cache does: satisfies ``service.cache.port.Observer`` without importing it.

    Each look-up is one hit or one miss, so that their sum is the number of look-ups; errors are counted beside them.
    """

    def __init__(self, registry: CollectorRegistry, counts: Counts, methods: Iterable[str]) -> None:
        look_ups = counts.look_ups([(tier, rpc) for tier in _CACHE_TIERS for rpc in methods])
        self.hit, self.miss = look_ups.hit, look_ups.miss
        self._errors = Counter(
            "tonnage_cache_errors_total",
            "Times a cache tier could not be used or held something unusable.",
            ("tier", "rpc", "kind"),
            registry=registry,
        )
        self._breaker = Gauge(
            "tonnage_cache_breaker_state",
            "Circuit breaker in front of Redis: 0 closed (in use), 1 half open (probing), 2 open (not asked).",
            registry=registry,
            multiprocess_mode="livemax",
        )

    def error(self, tier: str, rpc: str, kind: str) -> None:
        """A tier could not be used; rare enough to look its labels up."""
        self._errors.labels(tier, rpc, kind).inc()

    def breaker_changed(self, state: str) -> None:
        """The breaker moved to closed, half_open or open."""
        self._breaker.set(_BREAKER_STATES[state])


_RPC_LABELS: Final = ("grpc_type", "grpc_service", "grpc_method")
_ROUTE_LABELS: Final = ("method", "route")

#: What every request moves.
_COUNTED: Final = Families(
    doors={
        "grpc": DoorFamilies(
            begun=Family("grpc_server_started_total", "RPCs started.", _RPC_LABELS),
            ended=Family("grpc_server_handled_total", "RPCs completed, by status code.", (*_RPC_LABELS, "grpc_code")),
            seconds=Family("grpc_server_handling_seconds", "Time from the start of an RPC to its status.", _RPC_LABELS),
        ),
        "rest": DoorFamilies(
            ended=Family("http_server_requests_total", "HTTP requests, by status code.", (*_ROUTE_LABELS, "code")),
            seconds=Family("http_server_request_duration_seconds", "Time from HTTP request to answer.", _ROUTE_LABELS),
        ),
    },
    in_flight=Family("tonnage_in_flight_requests", "Requests being worked on, by door.", ("door",)),
    planning=Family("tonnage_planning_seconds", "Time to compute an answer that no cache held.", ("rpc",)),
    look_ups=Family("tonnage_cache_requests_total", "Look-ups in a cache tier: hit or miss.", ("tier", "rpc", "outcome")),
    door_bounds=_HANDLING_BUCKETS,
    planning_bounds=_PLANNING_BUCKETS,
)


class _Rare:
    """What few requests move."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        seconds = partial(Histogram, registry=registry, buckets=_HANDLING_BUCKETS)
        self.shed = counter("tonnage_shed_requests_total", "Requests refused, too many being in flight.", ("door",))
        self.tls_reloads = counter(
            "tonnage_tls_reloads_total",
            "Times the certificate files of a door changed: ok, or failed (the old certificate stays in use).",
            ("door", "outcome"),
        )
        self.callers_refused = counter("tonnage_callers_refused_total", "Requests refused for who sent them.", ("reason",))
        self.cut_off = counter(
            "tonnage_connections_cut_off_total", "HTTP connections closed before a request was read.", ("code",)
        )
        self.tool_calls = counter("tonnage_mcp_tool_calls_total", "Calls of MCP tools, by outcome.", ("tool", "outcome"))
        self.tool_seconds = seconds("tonnage_mcp_tool_call_seconds", "Time from an MCP tool's call to its answer.", ("tool",))


class Telemetry:
    """All metrics of one process, in one registry of their own.

    Args:
        rpcs: every RPC served, from the descriptors.
        version: of the code.
        registry: where the metrics are kept; a new one when not given.
        spans: records every request that is counted; None for no traces.
    """

    def __init__(
        self,
        rpcs: Iterable[RpcName] = (),
        *,
        version: str,
        registry: CollectorRegistry | None = None,
        spans: Spans | None = None,
    ) -> None:
        self.registry = CollectorRegistry(auto_describe=False) if registry is None else registry
        self._counts: Counts = (CountsTogether if _are_several() else CountsHere)(_COUNTED, self.registry)
        self._rare = _Rare(self.registry)
        self._spans = spans
        names = tuple(rpcs)
        self._unknown_rpc = self._bind(RpcName(UNKNOWN, UNKNOWN), expected=())
        self._rpcs: Mapping[str, RpcMetrics] = {name.path: self._bind(name, _EXPECTED_CODES) for name in names}
        self._planning = {name.path: self._counts.planning(name.method) for name in names}
        self._routes: dict[tuple[str, str], RouteMetrics] = {}
        self._shed = {door: self._rare.shed.labels(door) for door in ("grpc", "rest", "mcp")}
        self._in_memory: Collector | None = None
        self.cache = CacheMetrics(self.registry, self._counts, dict.fromkeys(name.method for name in names))
        self._info("tonnage_build_info", "The code that runs, as labels; always 1.", version=version)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def _bind(self, name: RpcName, expected: Iterable[str]) -> RpcMetrics:
        counts: RpcMetrics = self._counts.requests("grpc", (name.type, name.service, name.method), expected)
        about = {"rpc.system": "grpc", "rpc.service": name.service, "rpc.method": name.method}
        return self._told(counts, name.path[1:], about)

    def _told(self, counts: RequestCounts[Code], name: str, about: Mapping[str, str]) -> RequestCounts[Code]:
        """With whatever else is to be told of a request; what nobody wants to know costs nothing."""
        if self._spans is not None:
            counts = _Recorded(counts, self._spans, name, about)
        return _Logged(counts, name) if _requests.isEnabledFor(logging.DEBUG) else counts

    def _info(self, name: str, documentation: str, **labels: str) -> None:
        # A gauge, not prometheus_client's Info: that one does not work with several processes.
        gauge = Gauge(name, documentation, tuple(labels), registry=self.registry, multiprocess_mode="livemax")
        gauge.labels(*labels.values()).set(1)

    def rpc(self, path: str) -> RpcMetrics:
        """The bound metrics of an RPC by its path on the wire; those of ``unknown`` for a path nobody serves."""
        return self._rpcs.get(path, self._unknown_rpc)

    def planning_seconds(self, path: str) -> Times:
        """What counts the times of planning an RPC, by its path on the wire. KeyError for a path nobody serves."""
        return self._planning[path]

    def route(self, method: str, route: str, rpc: str | None = None) -> RouteMetrics:
        """The metrics of a REST route, bound on first call: call it when mounting, with the route's template.

        Never pass a path as a caller sent it; ``UNKNOWN`` stands for those that match no route. ``rpc`` names its spans.
        """
        key = (method, route)
        if key not in self._routes:
            counts: RouteMetrics = self._counts.requests("rest", key, (200,))
            about = {"http.request.method": method, "http.route": route}
            self._routes[key] = self._told(counts, rpc or f"{method} {route}", about)
        return self._routes[key]

    def collect_from(self, collector: Collector) -> None:
        """Expose what a collector has in memory too: with several processes, each exposes its own. Call it at most once."""
        self._in_memory = collector
        self.registry.register(collector)

    def tools(self, names: Iterable[str]) -> ToolMetrics:
        """The metrics of the MCP tools of these names, and of ``unknown`` for any other."""
        families = self._rare
        return ToolMetrics(
            _calls={name: _outcomes_of(families.tool_calls, name) for name in (*names, UNKNOWN)},
            _seconds={name: families.tool_seconds.labels(name) for name in (*names, UNKNOWN)},
        )

    def shed(self, door: Door) -> None:
        """Count a request refused because too many were in flight."""
        self._shed[door].inc()

    def caller_refused(self, reason: str) -> None:
        """Count a request refused for who sent it: unauthenticated, permission_denied or limited."""
        self._rare.callers_refused.labels(reason).inc()

    def connection_cut_off(self, code: int) -> None:
        """Count a connection closed before a request was read, by the status that it was told."""
        self._rare.cut_off.labels(code).inc()

    def tls_reloads(self, door: str) -> Callable[[bool], None]:
        """Counts changed certificate files of a door, and whether they could be used; shown as zero from the start."""
        children = {outcome: self._rare.tls_reloads.labels(door, outcome) for outcome in ("ok", "failed")}
        return lambda succeeded: children["ok" if succeeded else "failed"].inc()

    def catalogue_loaded(self, *, revision: str, version: str) -> None:
        """Expose which catalogue the answers come from. Call it once, after loading."""
        self._info("tonnage_catalogue_info", "The catalogue loaded, as labels; always 1.", revision=revision, version=version)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """The body and content type of ``/metrics``, in the format that the Accept header prefers.

        With several processes behind one port, a scrape reaches any one of them. Where ``PROMETHEUS_MULTIPROC_DIR``
        was set before this module was imported, every process counts into files there, and this adds them up.
        """
        source: Collector = self.registry
        if _are_several():
            source = _Together(MultiProcessCollector(CollectorRegistry()), self._in_memory)  # type: ignore[no-untyped-call]
        encode, content_type = choose_encoder(accept)
        return encode(_WithoutCreated(source)), content_type


def _are_several() -> bool:
    """Whether other processes count into the same files."""
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ


@dataclass(frozen=True, slots=True)
class _Together(Collector):
    """What all processes count, and what this one has in memory, as every other has it."""

    counted: Collector
    in_memory: Collector | None

    def collect(self) -> Iterator[Metric]:
        yield from self.counted.collect()
        if self.in_memory is not None:
            yield from self.in_memory.collect()


class _WithoutCreated(Struct, frozen=True):
    """Leaves out the ``_created`` twin of every counter and histogram: half of all lines, and no dashboard reads them.

    prometheus_client has a switch for it, but a global one.
    """

    source: Collector

    def collect(self) -> Iterator[Metric]:
        for metric in self.source.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
