"""What is asked of a simulation: jobs, and the policy by which they are placed. All of it frozen.

Sources: Kueue's ``waitForPodsReady`` (kubernetes-sigs/kueue ``apis/config/v1beta2``), Volcano's ``minMember``.
"""

from enum import StrEnum

from msgspec import Struct, field

from service.placement.cluster import Pod
from service.placement.scoring import ScoringPolicy


class QueueOrder(StrEnum):
    """Which job comes first among those that wait."""

    FIFO = "FIFO"  # by arrival
    PRIORITY = "PRIORITY"  # by priority, then by arrival


class WaitForPodsReady(Struct, frozen=True):
    """Eviction of jobs that hold something and do not get the rest in time, and their return, as Kueue does it.

    The wait before the n-th return is ``backoff_base_seconds`` · 2^(n − 1), up to ``backoff_max_seconds``.
    """

    timeout_seconds: float = 300
    backoff_base_seconds: float = 60
    backoff_max_seconds: float = 3600
    backoff_limit_count: int | None = None  # returns before the job is given up; None: without end


class Policy(Struct, frozen=True):
    """How pods are placed.

    ``gang``: nothing of a job is bound unless its first ``min_pods`` fit together. ``backfill``: what does not fit does not
    hold up what stands behind it. ``interleave_pods``: of jobs that arrive together the first pods are tried first, then the
    second ones (pod-at-a-time only). ``horizon_seconds``: the moment that the answer describes, if things still happen then.
    """

    gang: bool = False
    scoring: ScoringPolicy = field(default_factory=ScoringPolicy)
    queue_order: QueueOrder = QueueOrder.FIFO
    backfill: bool = True
    interleave_pods: bool = False
    wait_for_pods_ready: WaitForPodsReady | None = None
    horizon_seconds: float = 86_400


class Job(Struct, frozen=True):
    """Pods that make sense together: at least ``min_pods`` of them must run before any works.

    ``device_resource`` is what its devices are counted in. ``duration_seconds`` None: it never ends.
    ``takes_shared_devices``: whether a time slice or a partition will do for a device.
    """

    name: str
    pods: tuple[Pod, ...]
    min_pods: int
    device_resource: str
    priority: int = 0
    arrival_seconds: float = 0
    duration_seconds: float | None = None
    needs_one_link_domain: bool = False
    takes_shared_devices: bool = False
    is_gang: bool = True  # pods on their own are placed one by one also under a gang policy


class JobState(StrEnum):
    """Where a job stands in the end."""

    RUNNING = "RUNNING"  # its min_pods are placed
    WAITING = "WAITING"  # it holds nothing
    WAITING_PARTIAL = "WAITING_PARTIAL"  # it holds something and waits for more
    EVICTED = "EVICTED"  # thrown out for holding something too long; waits to return, or was given up
    FINISHED = "FINISHED"  # its duration is over
    NOT_ARRIVED = "NOT_ARRIVED"  # arrives after the horizon
    GATED = "GATED"  # scheduling gates hold it back


class Action(StrEnum):
    """What happens in a step."""

    BOUND = "BOUND"
    WAITS = "WAITS"
    STARTED = "STARTED"
    EVICTED = "EVICTED"
    REQUEUED = "REQUEUED"
    GIVEN_UP = "GIVEN_UP"
    FINISHED = "FINISHED"


class Step(Struct, frozen=True):
    """One thing that happened. ``score`` is the node's, where it was chosen by it."""

    seconds: float
    action: Action
    job: str
    pod: str = ""
    node: str = ""
    score: int | None = None
    reason: str = ""
