"""What a simulation finds. All of it frozen; field for field messages of placement.proto."""

from enum import StrEnum

from msgspec import Struct

from service.placement.policies import JobState, Step


class Placement(Struct, frozen=True):
    """Pods of a job on one node."""

    node: str
    num_pods: int
    num_devices: int


class PlacementObstacle(Struct, frozen=True):
    """What keeps a waiting pod from some nodes of one group."""

    node_group: str
    num_nodes: int
    limit: str  # the resource that is short, or what else keeps it away
    reason: str


class JobOutcome(Struct, frozen=True):
    """Where a job stands in the end, and why."""

    name: str
    state: JobState
    reason: str
    num_pods: int
    num_pods_placed: int
    min_pods: int
    num_devices_held: int
    placements: tuple[Placement, ...]
    obstacles: tuple[PlacementObstacle, ...]
    started_seconds: float | None
    num_evictions: int
    gang: str  # who says that its pods belong together


class DeadlockMember(Struct, frozen=True):
    """One job of a deadlock: what it holds, and whose devices it waits for."""

    job: str
    num_pods_placed: int
    min_pods: int
    num_devices_held: int
    holds: tuple[Placement, ...]
    waits_for: tuple[str, ...]


class Deadlock(Struct, frozen=True):
    """Jobs each of which waits for what others of them hold."""

    jobs: tuple[DeadlockMember, ...]
    description: str


class NodeGroupUse(Struct, frozen=True):
    """The devices of one group of nodes."""

    name: str
    num_nodes: int
    num_devices: int
    num_devices_working: int
    num_devices_held_idle: int
    num_devices_free: int
    num_devices_stranded: int


class RemedyKind(StrEnum):
    """What can be changed."""

    GANG = "GANG"
    BIN_PACKING = "BIN_PACKING"
    GANG_AND_BIN_PACKING = "GANG_AND_BIN_PACKING"
    EVICTION = "EVICTION"
    BACKFILL = "BACKFILL"
    DRAIN_NODE = "DRAIN_NODE"
    ADD_NODES = "ADD_NODES"


class Remedy(Struct, frozen=True):
    """A change after which more devices work, as a simulation of it shows."""

    kind: RemedyKind
    description: str
    num_devices_working: int
    num_devices_held_idle: int
    jobs_helped: tuple[str, ...]  # those that run then and do not run now


class Outcome(Struct, frozen=True):
    """The end of a simulation."""

    num_devices: int
    num_devices_working: int
    num_devices_held_idle: int
    num_devices_free: int
    num_devices_stranded: int
    num_devices_unavailable: int
    end_seconds: float
    jobs: tuple[JobOutcome, ...]
    node_groups: tuple[NodeGroupUse, ...]
    deadlocks: tuple[Deadlock, ...]
    steps: tuple[Step, ...]
    num_steps: int
    notes: tuple[str, ...]
