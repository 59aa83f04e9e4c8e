"""What is answered. Field for field the response messages of cluster_fit.proto."""

from enum import StrEnum

from msgspec import Struct

from service.placement.making_room import Move
from service.placement.replica_fit import PlacedReplica
from service.planning.requests import Parallelism


class ClusterObstacle(Struct, frozen=True):
    """What keeps one more pod of a replica from some nodes of one group."""

    node_group: str
    num_nodes: int
    limit: str
    reason: str
    remedy: str


class ClusterRemedyKind(StrEnum):
    """What is changed."""

    MOVE_PODS = "MOVE_PODS"
    ADD_NODES = "ADD_NODES"


class ClusterRemedy(Struct, frozen=True):
    """A change after which more replicas fit."""

    kind: ClusterRemedyKind
    description: str
    num_replicas: int
    moves: tuple[Move, ...] = ()
    emptied_nodes: tuple[str, ...] = ()
    replica: PlacedReplica | None = None
    num_nodes: int = 0
    node_group: str = ""


class ClusterFitOption(Struct, frozen=True):
    """What the nodes of one accelerator offer."""

    accelerator: str
    device_resource: str
    num_nodes: int
    num_devices: int
    num_devices_free: int
    reason: str
    fits: bool = False
    parallelism: Parallelism | None = None
    num_devices_per_replica: int = 0
    num_pods_per_replica: int = 0
    num_devices_per_pod: int = 0
    needs_one_link_domain: bool = False
    max_sequences: float = 0.0
    headroom_bytes_per_device: float = 0.0
    num_replicas_now: int = 0
    replicas: tuple[PlacedReplica, ...] = ()
    obstacles: tuple[ClusterObstacle, ...] = ()
    remedies: tuple[ClusterRemedy, ...] = ()


class Manifest(Struct, frozen=True):
    """One object for ``kubectl apply``."""

    kind: str
    api_version: str
    name: str
    yaml: str


class FitClusterResponse(Struct, frozen=True):
    """Where replicas fit, for each accelerator of the cluster, that with the best answer first."""

    options: tuple[ClusterFitOption, ...]
    summary: str
    manifests: tuple[Manifest, ...]
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
    catalogue_revision: str
