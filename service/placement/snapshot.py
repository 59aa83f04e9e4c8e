"""A cluster as ``kubectl get nodes,pods -A -o json`` prints it → nodes and pods.

Also read, where they are included: PodGroup, Workload and LeaderWorkerSet objects, which say how many pods make a gang. Objects
of other kinds are passed over. What is not needed is dropped at once: nothing of it can reach an answer, an error or a log.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from service.placement.cluster import GangSpelling, Node, Pod, Taint, is_device
from service.placement.errors import TooMany, Unreadable
from service.placement.gangs import GroupCounts, group_counts
from service.placement.json_fields import Fields
from service.placement.node_labels import link_domain, node_group, num_shares_per_device, partition
from service.placement.pod_reading import read_pod
from service.placement.simulate import MAX_NODES, MAX_PODS
from service.placement.state import LARGEST_AMOUNT

_T = TypeVar("_T")

_LIST_KINDS: Final = {"List": "", "NodeList": "Node", "PodList": "Pod"}
_OVER: Final = ("Succeeded", "Failed")
_MOST_DEVICES: Final = 8192  # of one name on a node, slices included; sums over clusters are 32-bit numbers
_MOST_ASKED: Final = 2048
_MAX_ERRORS: Final = 20
_REMEDY: Final = "send what `kubectl get nodes,pods -A -o json` prints"


class Snapshot(Struct, frozen=True):
    """What a cluster held at a moment: its nodes, and the pods that are not over."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    num_pods_elsewhere: int  # pods on nodes that the snapshot does not hold; they are left out


class UnreadableSnapshot(ValueError):
    """What is wrong with a snapshot: the first ``_MAX_ERRORS`` faults, each with its path."""

    def __init__(self, errors: Sequence[Unreadable]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)


def read_snapshot(snapshot: Mapping[str, object]) -> Snapshot:
    """The nodes and pods of a snapshot.

    Raises:
        UnreadableSnapshot: it is no such list, or something that is needed is of the wrong kind.
        TooMany: it holds more than can be simulated.
    """
    errors: list[Unreadable] = []
    items = _items(snapshot)
    by_kind: dict[str, list[Fields]] = {"Node": [], "Pod": []}
    groups: dict[tuple[GangSpelling, str], int] = {}
    for kind, item in items:
        by_kind.get(kind, []).append(item)
        groups.update(group_counts(item.values))
    _check_size(len(by_kind["Node"]), len(by_kind["Pod"]))
    nodes = _unique(_each(by_kind["Node"], _read_node, errors), lambda node: f"node {node.name}", errors)
    alive = [item for item in by_kind["Pod"] if not _is_over(item, errors)]
    pods = _unique(_each(alive, lambda item: _read_pod(item, groups), errors), lambda pod: f"pod {pod.full_name}", errors)
    if not nodes and not errors:
        errors.append(Unreadable("items", "there is no node among them", _REMEDY))
    if errors:
        raise UnreadableSnapshot(errors)
    known = {node.name for node in nodes}
    here = tuple(pod for pod in pods if not pod.node_name or pod.node_name in known)
    return Snapshot(tuple(nodes), here, len(pods) - len(here))


def _items(snapshot: Mapping[str, object]) -> list[tuple[str, Fields]]:
    """The objects of a list with their kinds. Those of a NodeList or PodList, as the API sends them, name none themselves."""
    top = Fields(snapshot, "")
    try:
        kind = top.text("kind")
        if kind not in _LIST_KINDS and not (not kind and top.has("items")):
            reason = "this is no list of objects" if not kind else f"this is one {kind[:80]}, not a list of objects"
            raise Unreadable("kind", reason, _REMEDY)
        items = list(top.objects("items"))
        named = [(item.text("kind") or _LIST_KINDS.get(kind, ""), item) for item in items]
        nameless = next((item for name, item in named if not name), None)
        if nameless is not None:
            raise Unreadable(nameless.at("kind"), "it is missing", _REMEDY)
    except Unreadable as error:
        raise UnreadableSnapshot([error]) from None
    return named


def _check_size(num_nodes: int, num_pods: int) -> None:
    if num_nodes > MAX_NODES:
        raise TooMany("items", f"{num_nodes} nodes", MAX_NODES, "send a part of the cluster, one node pool with its pods, say")
    if num_pods > MAX_PODS:
        raise TooMany("items", f"{num_pods} pods", MAX_PODS, "send a part of the cluster, or only pods that are not over")


def _each(items: Iterable[Fields], read: Callable[[Fields], _T], errors: list[Unreadable]) -> list[tuple[str, _T]]:
    """What is made of each object, with its path; faults are gathered."""
    made = []
    for item in items:
        if len(errors) >= _MAX_ERRORS:
            break
        try:
            made.append((item.path, read(item)))
        except Unreadable as error:
            errors.append(error)
    return made


def _unique(made: Iterable[tuple[str, _T]], name: Callable[[_T], str], errors: list[Unreadable]) -> list[_T]:
    seen: dict[str, str] = {}
    kept = []
    for path, each in made:
        first = seen.setdefault(name(each), path)
        if first == path:
            kept.append(each)
        elif len(errors) < _MAX_ERRORS:
            errors.append(Unreadable(f"{path}.metadata.name", f"{name(each)} is listed twice, first as {first}"))
    return kept


def _is_over(item: Fields, errors: list[Unreadable]) -> bool:
    try:
        return item.inner("status").text("phase") in _OVER
    except Unreadable as error:
        errors.append(error)
        return True


def _read_pod(item: Fields, groups: GroupCounts) -> Pod:
    pod = read_pod(item, groups)
    crowded = next((each for each, count in pod.requests.items() if is_device(each) and count > _MOST_ASKED), None)
    if crowded is not None:
        raise Unreadable(item.at("spec"), f"it asks for more than {_MOST_ASKED} {crowded[:80]}")
    return pod


def _read_node(item: Fields) -> Node:
    labels = item.inner("metadata").text_map("labels")
    spec, status = item.inner("spec"), item.inner("status")
    allocatable = status.amounts("allocatable")
    too_much = next((resource for resource, quantity in allocatable.items() if quantity > LARGEST_AMOUNT), None)
    if too_much is not None:
        raise Unreadable(status.inner("allocatable").at(too_much), "no node has more than 2^53 of anything")
    crowded = next((each for each, count in allocatable.items() if is_device(each) and count > _MOST_DEVICES), None)
    if crowded is not None:
        raise Unreadable(status.inner("allocatable").at(crowded), f"no node has more than {_MOST_DEVICES} devices")
    return Node(
        name=item.name(),
        labels=labels,
        taints=tuple(Taint(each.text("key"), each.text("value"), each.text("effect")) for each in spec.objects("taints")),
        unschedulable=spec.flag("unschedulable"),
        ready=all(each.text("status") == "True" for each in status.objects("conditions") if each.text("type") == "Ready"),
        allocatable=allocatable,
        num_shares_per_device=num_shares_per_device(labels),
        partition=partition(labels),
        link_domain=link_domain(labels),
        group=node_group(labels),
    )
