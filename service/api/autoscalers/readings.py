"""What is asked of each deployment now, and what one of its replicas carries: read ahead, so that autoscalers do not wait.

An autoscaler is answered within a tenth of a second, a Prometheus server may take seconds: so a reading that is asked for again
after a while is renewed in the background, and the one before it stands in until it is there, though not for long. The outcome
of the last attempt counts: where it failed, the failure is the answer, not the last good figure.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import SplitResult

from msgspec import Struct

from service.api.autoscalers.deployment import DemandSource
from service.api.errors import Unavailable
from service.api.prometheus import PrometheusReader, Unread
from service.planning.fleet.pools import Pool
from service.planning.fleet.results import PoolRole
from service.planning.replicas import MOST_REQUESTS_PER_SECOND, MOST_TOKENS, ReplicaPlanner, ReplicaSpec

#: A reading older than this is renewed when it is asked for.
REFRESH_SECONDS: Final = 5.0
#: A reading older than this says nothing any more.
MOST_AGE_SECONDS: Final = 60.0
#: How long an autoscaler waits for a reading that is under way.
ANSWER_SECONDS: Final = 0.05
#: Deployments that are kept in mind; the one not asked about for longest makes room.
MOST_KEPT: Final = 4096
#: Queries to one server at a time.
_QUERIES: Final = 16


class Reading(Struct, frozen=True):
    """One look at a deployment. ``pools`` is empty where nothing is asked for and lengths are therefore not known."""

    at_seconds: float
    requests_per_second: float
    input_tokens: float | None
    output_tokens: float | None
    pools: tuple[Pool, ...]

    def each_per_second(self, role: PoolRole) -> float:
        """What one replica of a role carries. Any number will do where nothing is asked for."""
        return next((pool.rate for pool in self.pools if pool.role is role), 1.0)


class _Kept(Struct, dict=True):
    outcome: Reading | Exception | None = None
    at_seconds: float = 0.0
    task: asyncio.Task[None] | None = None


class Readings:
    """The newest reading of every deployment that is asked about.

    Args:
        replicas: says what a replica carries.
        prometheus: reads the servers that are allowed.
        clock: seconds that never go back.
    """

    def __init__(
        self, replicas: ReplicaPlanner, prometheus: PrometheusReader, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.replicas = replicas
        self.prometheus = prometheus
        self._clock = clock
        self._kept: OrderedDict[tuple[ReplicaSpec, DemandSource], _Kept] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="replicas")
        self._turns: dict[tuple[str | None, int | None], asyncio.Semaphore] = {}  # by allowed server

    def check(self, spec: ReplicaSpec, source: DemandSource | None) -> None:
        """Raises what asking would raise whatever the demand: unknown names, a server that may not be read."""
        self.replicas.check(spec)
        if source is not None:
            self._server(source)

    async def latest(self, spec: ReplicaSpec, source: DemandSource, within_seconds: float) -> Reading:
        """The newest reading.

        Args:
            spec: what a replica is.
            source: where the demand is read.
            within_seconds: how long to wait for one that is under way.

        Raises:
            Unavailable: the demand is not known now.
            PlanningError: there is no answer, whatever the demand.
        """
        kept = self._of(spec, source)
        if kept.outcome is None or self._clock() - kept.at_seconds >= REFRESH_SECONDS:
            if kept.task is None:
                kept.task = asyncio.create_task(self._renew(kept, spec, source))
            await asyncio.wait({kept.task}, timeout=within_seconds)
        if kept.outcome is None:
            raise Unavailable("the demand is being read for the first time")
        age = self._clock() - kept.at_seconds
        if age > MOST_AGE_SECONDS:
            raise Unavailable(f"the demand was last read {age:.0f} s ago, too long to go by")
        if isinstance(kept.outcome, Exception):
            raise kept.outcome.with_traceback(None)
        return kept.outcome

    async def close(self) -> None:
        """Ends what is under way."""
        tasks = [kept.task for kept in self._kept.values() if kept.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _of(self, spec: ReplicaSpec, source: DemandSource) -> _Kept:
        key = (spec, source)
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept()
            if len(self._kept) > MOST_KEPT:
                _, oldest = self._kept.popitem(last=False)
                if oldest.task is not None:
                    oldest.task.cancel()
        self._kept.move_to_end(key)
        return kept

    async def _renew(self, kept: _Kept, spec: ReplicaSpec, source: DemandSource) -> None:
        begun = self._clock()  # what is read is as old as the question
        outcome: Reading | Exception
        try:
            outcome = await self._read(spec, source, begun)
        except Exception as error:
            outcome = error
        finally:
            kept.task = None
        kept.outcome, kept.at_seconds = outcome, begun

    async def _read(self, spec: ReplicaSpec, source: DemandSource, begun: float) -> Reading:
        server = self._server(source)
        rate = source.requests_per_second
        if rate is None:
            rate = await self._asked(server, source.query, "the demand", MOST_REQUESTS_PER_SECOND)
        queries = (source.input_tokens_query, source.output_tokens_query)
        if rate == 0.0 and any(queries):
            return Reading(begun, 0.0, source.input_tokens, source.output_tokens, ())
        prompt, answer = await asyncio.gather(
            self._length(server, source.input_tokens, queries[0], "the length of prompts"),
            self._length(server, source.output_tokens, queries[1], "the length of answers"),
        )
        # On a thread: a hundred that change at once would keep whoever asks about another waiting.
        pools = await asyncio.get_running_loop().run_in_executor(self._thread, self.replicas.pools, spec, prompt, answer)
        return Reading(begun, rate, prompt, answer, pools)

    async def _length(self, server: SplitResult | None, given: float | None, query: str, what: str) -> float:
        if given is not None:
            return given
        tokens = await self._asked(server, query, what, MOST_TOKENS)
        if tokens == 0.0:
            raise Unavailable(f"{what} is not known: its query yields 0 where requests come in")
        return tokens

    async def _asked(self, server: SplitResult | None, query: str, what: str, most: float) -> float:
        assert server is not None  # a source with queries has one
        turn = self._turns.setdefault((server.hostname, server.port), asyncio.Semaphore(_QUERIES))
        try:
            async with turn:
                found = await self.prometheus.number(server, query)
        except Unread as unread:
            raise Unavailable(f"{what} is not known: {server.geturl()}: {unread.why}; {unread.remedy}") from None
        if found > most:
            raise Unavailable(f"{what} is not known: its query yields {found:g}, which nothing can be")
        return found

    def _server(self, source: DemandSource) -> SplitResult | None:
        if not source.prometheus_server:
            return None
        return self.prometheus.server(source.prometheus_server, "prometheus_server")
