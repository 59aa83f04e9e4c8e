"""What can be asked about clusters. Field for field the messages of placement.proto and placement_service.proto.

As in ``service.planning.requests``: ``None`` means "not given", and planning states the default that it takes.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from service.placement.policies import QueueOrder
from service.placement.scoring import Scoring, ShapePoint


class NodeTaint(Struct, frozen=True):
    """What keeps pods away from a node."""

    key: str
    value: str = ""
    effect: str = ""


class NodeGroup(Struct, frozen=True):
    """Nodes that are alike."""

    count: int
    devices: int | None = None
    node_type: str = ""
    name: str = ""
    cpus: float | None = None
    memory_bytes: float | None = None
    device_resource: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = ()
    nodes_per_link_domain: int | None = None


class Cluster(Struct, frozen=True):
    """Counted nodes, a snapshot of a real cluster, or both together."""

    nodes: tuple[NodeGroup, ...] = ()
    snapshot: Mapping[str, object] | None = None
    without_waiting_pods: bool = False


class PodToleration(Struct, frozen=True):
    """What lets a pod pass a taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PlacementJob(Struct, frozen=True):
    """Pods that make sense together."""

    name: str
    num_pods: int | None = None
    devices_per_pod: int | None = None
    cpus_per_pod: float | None = None
    memory_bytes_per_pod: float | None = None
    device_resource: str = ""
    min_pods: int | None = None
    priority: int = 0
    needs_one_link_domain: bool = False
    takes_shared_devices: bool = False
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[PodToleration, ...] = ()
    arrival_seconds: float | None = None
    duration_seconds: float | None = None


class WaitForPodsReady(Struct, frozen=True):
    """Eviction of jobs that wait half placed."""

    timeout_seconds: float | None = None
    backoff_base_seconds: float | None = None
    backoff_max_seconds: float | None = None
    backoff_limit_count: int | None = None


class PlacementPolicy(Struct, frozen=True):
    """How pods are placed."""

    gang: bool = False
    scoring: Scoring | None = None
    weights: Mapping[str, int] = field(default_factory=dict)
    shape: tuple[ShapePoint, ...] = ()
    queue_order: QueueOrder | None = None
    backfill: bool | None = None
    interleave_pods: bool = False
    wait_for_pods_ready: WaitForPodsReady | None = None
    horizon_seconds: float | None = None


class SimulatePlacementRequest(Struct, frozen=True):
    """A cluster, the jobs that arrive at it, and the policy of its scheduler."""

    cluster: Cluster
    jobs: tuple[PlacementJob, ...] = ()
    policy: PlacementPolicy = PlacementPolicy()
