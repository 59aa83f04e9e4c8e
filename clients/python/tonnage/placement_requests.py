"""From keyword arguments to request messages, for questions about clusters."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from google.protobuf.message import Message

from tonnage.errors import InvalidRequest, Violation
from tonnage.requests import _either, _message
from tonnage.snapshots import trimmed
from tonnage.structs import struct
from tonnage.v1.placement_pb2 import Cluster, NodeGroup, PlacementJob, PlacementPolicy
from tonnage.v1.placement_service_pb2 import SimulatePlacementRequest

Fields: TypeAlias = Mapping[str, object]
_MessageT = TypeVar("_MessageT", bound=Message)


def simulate_placement(
    request: SimulatePlacementRequest | None = None,
    /,
    *,
    nodes: Iterable[NodeGroup | Fields] = (),
    snapshot: Fields | None = None,
    without_waiting_pods: bool = False,
    jobs: Iterable[PlacementJob | Fields] = (),
    policy: PlacementPolicy | Fields | None = None,
) -> SimulatePlacementRequest:
    """Asks where a scheduler would put jobs on a cluster, who waits and why, and what would help.

    Args:
        request: A ready request, in place of all that follows.
        nodes: Counted nodes: {"count": 3, "devices": 8}, {"count": 4, "node_type": "dgx-h100"}, or messages.
        snapshot: What ``kubectl get nodes,pods -A -o json`` prints. Only what a scheduler reads of it is sent.
        without_waiting_pods: Whether pods of the snapshot that wait are left out.
        jobs: In order of arrival: {"name": "T16", "num_pods": 2, "devices_per_pod": 8}, or messages.
        policy: {"gang": True, "scoring": "MOST_ALLOCATED", "weights": {"nvidia.com/gpu": 5}}, or the message. Default: one pod
            at a time, as kube-scheduler does out of the box.

    Raises:
        InvalidRequest: Cluster, jobs or policy contradict themselves or cannot be read.
        NotFound: The catalogue knows no such node type.
        Overloaded: There are more nodes or pods than are simulated.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        SimulatePlacementRequest,
        cluster=cluster_of(nodes, snapshot, without_waiting_pods),
        jobs=[message_of(PlacementJob, each, f"jobs[{place}]") for place, each in enumerate(jobs)],
        policy=None if policy is None else message_of(PlacementPolicy, policy, "policy"),
    )
    return _either(request, asked)


def cluster_of(nodes: Iterable[NodeGroup | Fields], snapshot: Fields | None, without_waiting_pods: bool) -> Cluster | None:
    """The cluster; None where nothing is given. What no scheduler reads of a snapshot is left out."""
    cluster = Cluster(
        nodes=[message_of(NodeGroup, each, f"cluster.nodes[{place}]") for place, each in enumerate(nodes)],
        snapshot=None if snapshot is None else struct(trimmed(snapshot), "cluster.snapshot"),
        without_waiting_pods=without_waiting_pods,
    )
    return cluster if cluster != Cluster() else None


def message_of(kind: type[_MessageT], value: _MessageT | Fields, path: str) -> _MessageT:
    """The message, or the one that its fields make; ``path`` is where it goes in the request."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise InvalidRequest.of(Violation(path, "this should be the message or its fields as a mapping"))
    return _message(kind, path, **{str(name): field for name, field in value.items()})
