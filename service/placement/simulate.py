"""What a scheduler would do with jobs on a cluster, event by event.

At each moment all that arrives, ends or returns does so first; then the scheduler goes through the queue once. Evictions that
fall due together are done one at a time with a pass after each: what the first one frees may save the second.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final

import numpy as np

from service.placement.affinity import Mask
from service.placement.cluster import Node, Pod
from service.placement.errors import TooMany
from service.placement.policies import Action, Job, JobState, Policy, QueueOrder, Step
from service.placement.queueing import Run, in_queue_order, one_by_one
from service.placement.state import ClusterState

#: Steps that are kept; later ones are only counted.
MAX_STEPS: Final = 1000
#: Nodes and pods of one simulation.
MAX_NODES: Final = 20_000
MAX_PODS: Final = 100_000
#: Work that one simulation may do, in about microseconds: half a minute.
MAX_WORK: Final = 30_000_000
_FEW_PODS: Final = 4


class _Event(IntEnum):
    """In the order in which events of one moment are taken."""

    FINISH = 0
    RETURN = 1
    ARRIVE = 2
    TIMEOUT = 3


class Simulation:
    """One run of a scheduler. ``run()`` once; then ``state``, ``runs`` and ``steps`` say what came of it."""

    def __init__(
        self,
        nodes: Sequence[Node],
        background: Sequence[Pod],
        jobs: Sequence[Job],
        policy: Policy,
        *,
        max_work: int = MAX_WORK,
        check_time: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepares a run.

        Args:
            nodes: the cluster's.
            background: pods that lie on nodes and stay there.
            jobs: what arrives; pods of theirs that have a node already lie there from the start.
            policy: how pods are placed.
            max_work: what ``work`` may come to.
            check_time: called often; what it raises ends the simulation.

        Raises:
            TooMany: nodes or pods pass the limits.
        """
        check_size(len(nodes), len(background) + sum(len(job.pods) for job in jobs))
        self.policy = policy
        self._max_work, self._check_time = max_work, check_time
        self.state = ClusterState(nodes, [pod for job in jobs for pod in job.pods], policy.scoring, background)
        self.steps: list[Step] = []
        self.num_steps = 0
        self.now = 0.0
        self._looks = 0
        self._events: list[tuple[float, _Event, int, Run]] = []
        self._numbers = itertools.count()
        for pod in background:
            if pod.node_name in self.state.index:
                self.state.place(self.state.kind(pod), pod, self.state.index[pod.node_name])
        self.runs = [self._run_of(job, number) for number, job in enumerate(jobs)]

    def _run_of(self, job: Job, number: int) -> Run:
        kinds = [self.state.kind(pod, whole_devices=not job.takes_shared_devices) for pod in job.pods]
        run = Run(job, number, kinds, queued_seconds=job.arrival_seconds)
        for place, pod in enumerate(job.pods):
            if pod.node_name in self.state.index:
                self._bind(run, place, self.state.index[pod.node_name], None, reason="it lies there already")
        self._schedule(job.arrival_seconds, _Event.ARRIVE, run)
        return run

    @property
    def work(self) -> int:
        """What was done so far, in about microseconds."""
        return self._looks + self.state.work

    def run(self) -> None:
        """Lets everything happen until nothing more would, or the horizon is reached. TooMany where that takes too long."""
        for run in self.runs:
            if run.placed:
                self._after_binding(run)
        while self._events and self._events[0][0] <= self.policy.horizon_seconds:
            self.now = self._events[0][0]
            if self._take_moment():
                self._pass()

    def _take_moment(self) -> bool:
        """Takes the events of this moment, evictions only one at a time. Whether any of them was one."""
        happened = False
        while self._events and self._events[0][0] == self.now:
            kind = self._events[0][1]
            if kind is _Event.TIMEOUT and happened:
                break
            _, _, _, run = heapq.heappop(self._events)
            happened |= self._happen(kind, run)
        return happened

    def _happen(self, kind: _Event, run: Run) -> bool:
        if kind is _Event.ARRIVE:
            run.has_arrived = True
        elif kind is _Event.FINISH:
            self._release(run)
            run.state = JobState.FINISHED
            self._step(Action.FINISHED, run)
        elif kind is _Event.RETURN:
            run.state = JobState.WAITING
            run.queued_seconds = self.now
            self._step(Action.REQUEUED, run)
        elif run.state is JobState.WAITING_PARTIAL and run.timeout_seconds == self.now:
            self._evict(run)
        else:
            return False
        return True

    def _schedule(self, seconds: float, kind: _Event, run: Run) -> None:
        heapq.heappush(self._events, (seconds, kind, next(self._numbers), run))

    # ------------------------------------------------------------------------------------------------------ the pass

    def _pass(self) -> None:
        queue = in_queue_order(self.runs, self.policy.queue_order is QueueOrder.PRIORITY)
        if self.policy.gang or not self.policy.interleave_pods:
            self._pass_by_job(queue)
        else:
            self._pass_interleaved(queue)

    def _pass_by_job(self, queue: Sequence[Run]) -> None:
        full: set[int] = set()  # kinds that fit no node any more in this pass
        for run in queue:
            self._look()
            fits = self._place_gang(run) if self._comes_whole(run) else self._place_each(run, run.missing(), full)
            if not fits and not self.policy.backfill:
                break

    def _pass_interleaved(self, queue: Sequence[Run]) -> None:
        full: set[int] = set()
        for run, place in one_by_one(queue, self.policy.queue_order is QueueOrder.PRIORITY):
            if not self._place_each(run, [place], full) and not self.policy.backfill:
                break

    def _comes_whole(self, run: Run) -> bool:
        return self.policy.gang and run.job.is_gang and len(run.placed) < run.job.min_pods

    def _place_each(self, run: Run, places: Iterable[int], full: set[int]) -> bool:
        """Places pods one at a time; whether all of them fit."""
        fits = True
        for place in places:
            kind = run.kinds[place]
            if id(kind) in full and not run.job.needs_one_link_domain:
                found = None
            else:
                self._look()
                found = self.state.best(kind, run.job.pods[place], self._domain_mask(run))
                if found is None and not run.job.needs_one_link_domain and not kind.has_affinity:
                    full.add(id(kind))
            if found is None:
                fits = False
                self._waits(run, place)
            else:
                self._bind(run, place, *found)
                self._after_binding(run)
        return fits

    def _domain_mask(self, run: Run) -> Mask | None:
        """Where the rest of a job may go that needs one link domain: beside its first pod."""
        if not run.job.needs_one_link_domain or not run.placed:
            return None
        domain = self.state.domain_of[next(iter(run.placed.values()))]
        mask: Mask = self.state.domain_of == domain
        return mask

    # ------------------------------------------------------------------------------------------------------- gangs

    def _place_gang(self, run: Run) -> bool:
        """Binds enough pods of a job for it to run, or none; then what else of it fits. Whether all of it fits."""
        missing = run.missing()
        needed = run.job.min_pods - len(run.placed)
        if needed > len(missing):
            self._waits(run, missing[0] if missing else 0)
            return False
        for allowed in self._masks_for(run, needed):
            chosen = self._try_together(run, missing, needed, allowed)
            if chosen is not None:
                for place, (node, score) in chosen.items():
                    self._bind(run, place, node, score, is_there=True)
                self._after_binding(run)
                return self._place_each(run, run.missing(), set())
        self._waits(run, missing[0])
        return False

    def _masks_for(self, run: Run, needed: int) -> Iterator[Mask | None]:
        """Where to try a gang: anywhere, or in each link domain that might hold it, that with the fewest free devices first."""
        if not run.job.needs_one_link_domain:
            yield None
            return
        if run.placed:
            yield self._domain_mask(run)
            return
        room = np.max([self.state.room(kind) for kind in run.distinct_kinds()], axis=0)
        rooms = np.bincount(self.state.domain_of, weights=room, minlength=len(self.state.domains))
        free = np.bincount(self.state.domain_of, weights=self.state.free_devices(), minlength=len(self.state.domains))
        for domain in sorted(np.flatnonzero(rooms >= needed), key=lambda each: (free[each], each)):
            self._look()
            yield self.state.domain_of == domain

    def _try_together(
        self, run: Run, missing: Sequence[int], needed: int, allowed: Mask | None
    ) -> dict[int, tuple[int, int | None]] | None:
        """The node and score of each of ``needed`` pods, left in place; None, and nothing left, where they do not fit.

        Pods that are alike fit greedily whenever they fit at all. Unlike ones are tried in their order, then largest first.
        """
        kinds = run.distinct_kinds()
        # Of few pods, trying costs less than counting the room.
        is_counted = needed > _FEW_PODS and len(kinds) == 1 and not kinds[0].has_affinity
        if is_counted and self.state.room(kinds[0], allowed).sum() < needed:
            return None
        orders = [missing] if len(kinds) == 1 else [missing, sorted(missing, key=run.size_of, reverse=True)]
        for order in orders:
            chosen: dict[int, tuple[int, int | None]] = {}
            for place in order:
                self._look()
                found = self.state.best(run.kinds[place], run.job.pods[place], allowed)
                if found is not None:
                    chosen[place] = found
                    self.state.place(run.kinds[place], run.job.pods[place], found[0])
                if len(chosen) == needed:
                    return chosen
            for place, (node, _) in chosen.items():
                self.state.remove(run.kinds[place], run.job.pods[place], node)
        return None

    # ------------------------------------------------------------------------------------------------ what happens

    def _bind(self, run: Run, place: int, node: int, score: int | None, *, is_there: bool = False, reason: str = "") -> None:
        if not is_there:
            self.state.place(run.kinds[place], run.job.pods[place], node)
        run.placed[place] = node
        self._step(Action.BOUND, run, run.job.pods[place], self.state.nodes[node].name, score, reason)

    def _after_binding(self, run: Run) -> None:
        if run.state is JobState.RUNNING:
            return
        if len(run.placed) >= run.job.min_pods:
            run.state = JobState.RUNNING
            run.started_seconds = self.now
            self._step(Action.STARTED, run)
            if run.job.duration_seconds is not None:
                self._schedule(self.now + run.job.duration_seconds, _Event.FINISH, run)
        elif run.state is not JobState.WAITING_PARTIAL:
            run.state = JobState.WAITING_PARTIAL
            if self.policy.wait_for_pods_ready is not None:
                run.timeout_seconds = self.now + self.policy.wait_for_pods_ready.timeout_seconds
                self._schedule(run.timeout_seconds, _Event.TIMEOUT, run)

    def _waits(self, run: Run, place: int) -> None:
        if not run.is_known_to_wait:
            run.is_known_to_wait = True
            pod = run.job.pods[place] if run.job.pods else None
            self._step(
                Action.WAITS, run, pod, reason="no node has room for it" if not self._comes_whole(run) else "not all of it fits"
            )

    def _evict(self, run: Run) -> None:
        waiting = self.policy.wait_for_pods_ready
        assert waiting is not None
        held = len(run.placed)
        self._release(run)
        run.state = JobState.EVICTED
        run.num_evictions += 1
        run.is_known_to_wait = False
        self._step(Action.EVICTED, run, reason=f"{held} of {run.job.min_pods} pods after {waiting.timeout_seconds:g} s")
        if waiting.backoff_limit_count is not None and run.num_evictions > waiting.backoff_limit_count:
            run.is_given_up = True
            self._step(Action.GIVEN_UP, run, reason=f"{waiting.backoff_limit_count} returns are used up")
            return
        # Beyond 2^60 the maximum rules whatever the base.
        doubled = waiting.backoff_base_seconds * 2.0 ** min(run.num_evictions - 1, 60)
        self._schedule(self.now + min(doubled, waiting.backoff_max_seconds), _Event.RETURN, run)

    def _release(self, run: Run) -> None:
        for place, node in run.placed.items():
            self.state.remove(run.kinds[place], run.job.pods[place], node)
        run.placed.clear()

    def _step(
        self, action: Action, run: Run, pod: Pod | None = None, node: str = "", score: int | None = None, reason: str = ""
    ) -> None:
        self.num_steps += 1
        if len(self.steps) < MAX_STEPS:
            self.steps.append(Step(self.now, action, run.job.name, "" if pod is None else pod.name, node, score, reason))

    def _look(self) -> None:
        self._looks += 3
        self._check_time()
        if self.work > self._max_work:
            remedy = "ask for fewer jobs or kinds of them, no durations, or a nearer horizon_seconds"
            raise TooMany("jobs", f"placing them takes {self.work} units of work", self._max_work, remedy)


def check_size(num_nodes: int, num_pods: int) -> None:
    """TooMany where a simulation would be larger than one may be."""
    if num_nodes > MAX_NODES:
        raise TooMany("cluster", f"{num_nodes} nodes", MAX_NODES, "ask about a part of the cluster")
    if num_pods > MAX_PODS:
        raise TooMany("jobs", f"{num_pods} pods, those of the snapshot included", MAX_PODS, "ask about a part of them")
