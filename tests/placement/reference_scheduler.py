"""A scheduler written anew for tests: plain loops over dictionaries, no arrays, nothing kept from one pod to the next.

It shares with the engine what the words mean (nodes, pods, jobs, policies) and nothing else. Feasible for a handful of nodes.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from service.placement.cluster import Node, Pod
from service.placement.policies import Job, Policy, QueueOrder
from service.placement.scoring import Scoring, ScoringPolicy


@dataclass
class Standing:
    """A job as it goes: where its pods lie, since when it has run, whether it is over."""

    job: Job
    arrived: bool = False
    where: dict[int, str] = field(default_factory=dict)
    started: float | None = None
    finished: bool = False


class Reference:
    """One run, to its end."""

    def __init__(self, nodes: Sequence[Node], jobs: Sequence[Job], policy: Policy) -> None:
        self.nodes = {node.name: node for node in sorted(nodes, key=lambda node: int(node.name.rpartition("-")[2]))}
        self.policy = policy
        self.standings = [Standing(job) for job in jobs]
        moments = {job.arrival_seconds for job in jobs}
        while moments:
            now = min(moments)
            moments.discard(now)
            if now > policy.horizon_seconds:
                break
            for each in self.standings:
                ends = each.started is not None and each.job.duration_seconds is not None
                if ends and not each.finished and each.started + each.job.duration_seconds == now:  # type: ignore[operator]
                    each.finished = True
                    each.where.clear()
                each.arrived = each.arrived or each.job.arrival_seconds == now
            self._go_through_the_queue(now)
            for each in self.standings:
                if each.started is not None and each.job.duration_seconds is not None and not each.finished:
                    moments.add(each.started + each.job.duration_seconds)

    # ----------------------------------------------------------------------------------------------------- the queue

    def _go_through_the_queue(self, now: float) -> None:
        by_priority = self.policy.queue_order is QueueOrder.PRIORITY
        queue = [each for each in self.standings if each.arrived and not each.finished]
        queue.sort(key=lambda each: (-each.job.priority if by_priority else 0, each.job.arrival_seconds))
        for standing, pods in self._turns(queue, by_priority):
            fits = self._try(standing, pods)
            if standing.started is None and len(standing.where) >= standing.job.min_pods:
                standing.started = now
            if not fits and not self.policy.backfill:
                return

    def _turns(self, queue: list[Standing], by_priority: bool) -> Iterator[tuple[Standing, list[int]]]:
        def missing(standing: Standing) -> list[int]:
            return [place for place in range(len(standing.job.pods)) if place not in standing.where]

        if not self.policy.interleave_pods:
            for standing in queue:
                if missing(standing):
                    yield standing, missing(standing)
            return
        key = lambda each: (each.job.priority if by_priority else 0, each.job.arrival_seconds)  # noqa: E731
        for _, together in itertools.groupby(queue, key):
            turns = [
                (turn, number, standing, place)
                for number, standing in enumerate(together)
                for turn, place in enumerate(missing(standing))
            ]
            for _, _, standing, place in sorted(turns, key=lambda each: each[:2]):
                yield standing, [place]

    def _try(self, standing: Standing, pods: list[int]) -> bool:
        needed = standing.job.min_pods - len(standing.where)
        if self.policy.gang and needed > 0:
            before = dict(standing.where)
            for place in pods:
                self._bind(standing, place)
                if len(standing.where) == standing.job.min_pods:
                    break
            if len(standing.where) < standing.job.min_pods:
                standing.where = before
                return False
        bound = [self._bind(standing, place) for place in pods if place not in standing.where]
        return all(bound)

    def _bind(self, standing: Standing, place: int) -> bool:
        pod = standing.job.pods[place]
        able = [name for name in self.nodes if self._fits(pod, name)]
        if not able:
            return False
        standing.where[place] = max(able, key=lambda name: self._score(pod, name))  # the first of equals
        return True

    # ------------------------------------------------------------------------------------------------------ one node

    def used(self, name: str, resource: str) -> int:
        """What pods on a node ask for of a resource."""
        return sum(
            each.job.pods[place].requests.get(resource, 0)
            for each in self.standings
            for place, where in each.where.items()
            if where == name
        )

    def _fits(self, pod: Pod, name: str) -> bool:
        node = self.nodes[name]
        if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
            return False
        return all(self.used(name, key) + asked <= node.allocatable.get(key, 0) for key, asked in pod.requests.items())

    def _score(self, pod: Pod, name: str) -> int:
        return score(
            self.policy.scoring,
            self.nodes[name],
            {key: self.used(name, key) + pod.requests.get(key, 0) for key in self.policy.scoring.weights},
            pod,
        )


def score(policy: ScoringPolicy, node: Node, asked: dict[str, int], pod: Pod) -> int:
    """NodeResourcesFit for one node, in fractions."""
    parts: list[tuple[int, int]] = []
    for resource, weight in policy.weights.items():
        have = node.allocatable.get(resource, 0)
        counts = resource in ("cpu", "memory") or pod.requests.get(resource, 0) > 0
        if not have or not counts:
            continue
        use = min(Fraction(asked[resource], have), Fraction(1))
        if policy.strategy is Scoring.LEAST_ALLOCATED:
            parts.append((floor(100 * (1 - use)), weight))
        elif policy.strategy is Scoring.MOST_ALLOCATED:
            parts.append((floor(100 * use), weight))
        elif _along(policy, floor(100 * use)) > 0:
            parts.append((_along(policy, floor(100 * use)), weight))
    if not parts:
        return 0
    mean = Fraction(sum(part * weight for part, weight in parts), sum(weight for _, weight in parts))
    return floor(mean + Fraction(1, 2)) if policy.strategy is Scoring.REQUESTED_TO_CAPACITY_RATIO else floor(mean)


def _along(policy: ScoringPolicy, use: int) -> int:
    points = [(point.utilization, 10 * point.score) for point in policy.shape]
    if use <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in itertools.pairwise(points):
        if use <= right:
            return low + int(Fraction((high - low) * (use - left), right - left))  # int() drops towards zero
    return points[-1][1]


def can_all_be_placed(nodes: Sequence[Node], pods: Sequence[Pod]) -> bool:
    """Whether there is any way at all to place these pods: every way is tried."""

    def place(rest: Sequence[Pod], free: tuple[dict[str, int], ...]) -> bool:
        if not rest:
            return True
        pod, *others = rest
        for number, node in enumerate(nodes):
            if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
                continue
            if all(free[number].get(key, 0) >= asked for key, asked in pod.requests.items()):
                left = {key: have - pod.requests.get(key, 0) for key, have in free[number].items()}
                if place(others, (*free[:number], left, *free[number + 1 :])):
                    return True
        return False

    return place(pods, tuple(dict(node.allocatable) for node in nodes))
