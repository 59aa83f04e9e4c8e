"""Where each job stands while a simulation runs, and in which order those that wait are looked at."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from service.placement.policies import Job, JobState
from service.placement.state import Kind


class Run(Struct, eq=False):
    """A job as the simulation goes."""

    job: Job
    number: int  # in order of arrival
    kinds: list[Kind]  # by pod
    queued_seconds: float  # arrival, or the last return after an eviction
    state: JobState = JobState.WAITING
    placed: dict[int, int] = field(default_factory=dict)  # pod → node
    has_arrived: bool = False
    started_seconds: float | None = None
    timeout_seconds: float | None = None
    num_evictions: int = 0
    is_given_up: bool = False
    is_known_to_wait: bool = False

    def missing(self) -> list[int]:
        """Its pods that have no node and are not gated."""
        return [place for place, pod in enumerate(self.job.pods) if place not in self.placed and not pod.scheduling_gates]

    def distinct_kinds(self) -> list[Kind]:
        """The different kinds among its pods."""
        return list({id(kind): kind for kind in self.kinds}.values())

    def size_of(self, place: int) -> tuple[int, ...]:
        """Sorts its pods by what they ask for: devices first."""
        pod = self.job.pods[place]
        others = sorted(pod.requests.items())
        return pod.requests.get(self.job.device_resource, 0), *(quantity for _, quantity in others)

    @property
    def is_queued(self) -> bool:
        """Whether the scheduler looks at it."""
        waits = self.state in (JobState.WAITING, JobState.WAITING_PARTIAL, JobState.RUNNING)
        return self.has_arrived and waits and len(self.placed) < len(self.job.pods)


def in_queue_order(runs: Iterable[Run], by_priority: bool) -> list[Run]:
    """Those that wait for anything, in the order in which they are served."""
    return sorted((run for run in runs if run.is_queued), key=lambda run: _place_in_queue(run, by_priority))


def one_by_one(queue: Sequence[Run], by_priority: bool) -> Iterator[tuple[Run, int]]:
    """The waiting pods of a queue, where jobs that came together take turns: their first pods, then their second ones."""
    together = itertools.groupby(queue, key=lambda run: _place_in_queue(run, by_priority)[:2])
    for _, group in together:
        waiting = [[(run, place) for place in run.missing()] for run in group]
        for turn in itertools.zip_longest(*waiting):
            yield from (each for each in turn if each is not None)


def _place_in_queue(run: Run, by_priority: bool) -> tuple[int, float, int]:
    return -run.job.priority if by_priority else 0, run.queued_seconds, run.number
