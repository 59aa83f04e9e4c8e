"""A cluster while pods come and go: what is free on each node, which nodes a pod fits, and which of them is best.

Everything is an array over nodes. What ranks the nodes for a kind of pod is kept and brought up to date only where a pod has
come or gone since, so that placing the next pod of the kind costs little however large the cluster is.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from service.placement.affinity import Mask, PodAffinities
from service.placement.cluster import CPU, DEVICE_RESOURCES, EPHEMERAL_STORAGE, MEMORY, PODS, Node, Pod
from service.placement.constraints import Obstacle, constraint_key, obstacle
from service.placement.errors import Unreadable
from service.placement.scoring import Amounts, ScoringPolicy, node_scores

#: Amounts beyond it would overflow when scores multiply them by 100; 8 PiB in bytes.
LARGEST_AMOUNT: Final = 2**53
_ALWAYS_COUNTED: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_NUMBER: Final = re.compile(r"(\d+)", re.ASCII)


def natural_order(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sorts node-2 before node-10. Ties between nodes of one score go to the first name in this order.

    >>> sorted(["node-10", "node-2"], key=natural_order)
    ['node-2', 'node-10']
    """
    parts = _NUMBER.split(name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name


@dataclass(slots=True, eq=False)
class Kind:
    """Pods that ask for the same and may go to the same nodes: what placing one of them needs to know."""

    pod: Pod  # one of them
    requests: Amounts  # by resource
    scored: Amounts
    asked: NDArray[np.int64]  # the rows of which it asks for anything
    eligible: Mask  # nodes that it may go to, resources aside
    classes: Sequence[Obstacle | None]  # by class of nodes
    scores: Amounts  # −1 where it does not fit
    seen: int = -1  # how much of the log of changes the scores know
    counted: list[bool] = field(default_factory=list)
    has_affinity: bool = False


class ClusterState:
    """The nodes, in natural order of their names, with what is free on each."""

    def __init__(self, nodes: Iterable[Node], pods: Sequence[Pod], scoring: ScoringPolicy) -> None:
        """Free nodes. ``pods`` are all that may ever be placed: they decide which resources and labels matter."""
        self.nodes = sorted(nodes, key=lambda node: natural_order(node.name))
        self.index = {node.name: place for place, node in enumerate(self.nodes)}
        self.scoring = scoring
        asked = {resource for pod in pods for resource in pod.requests}
        self.resources = (PODS, *sorted({*asked, *scoring.weights, *DEVICE_RESOURCES} - {PODS}))
        self.row = {resource: place for place, resource in enumerate(self.resources)}
        self.allocatable = np.array(
            [
                [node.allocatable.get(each, LARGEST_AMOUNT if each == PODS else 0) for node in self.nodes]
                for each in self.resources
            ],
            np.int64,
        ).reshape(len(self.resources), len(self.nodes))
        self.free = self.allocatable.copy()
        self._scored_used = np.zeros_like(self.free)
        self._weighed = [place for place, each in enumerate(self.resources) if each in scoring.weights and each != PODS]
        self._changed: list[int] = []  # nodes, in the order in which pods came to them or left them
        self._kinds: dict[tuple[object, ...], Kind] = {}
        self.affinities = PodAffinities(self.nodes, pods)
        self.class_of, self._examples = _classes(self.nodes, pods)
        self._masks: dict[tuple[object, ...], tuple[Mask, Sequence[Obstacle | None]]] = {}
        self.is_whole = np.array([node.has_whole_devices for node in self.nodes], np.int64)
        self.groups = list(dict.fromkeys(node.group for node in self.nodes))
        numbers = {name: place for place, name in enumerate(self.groups)}
        self.group_of = np.array([numbers[node.group] for node in self.nodes], np.intp)
        self.domain_of, self.domains = _link_domains(self.nodes)

    # ------------------------------------------------------------------------------------------------------- kinds

    def kind(self, pod: Pod, *, whole_devices: bool = False) -> Kind:
        """The kind of a pod. ``whole_devices``: slices and partitions will not do for devices."""
        key = (
            tuple(sorted(pod.requests.items())),
            tuple(sorted(pod.scored_requests.items())),
            constraint_key(pod),
            whole_devices,
            (pod.namespace, tuple(sorted(pod.labels.items())), pod.pod_affinity, pod.pod_anti_affinity)
            if self.affinities
            else (),
        )
        if key not in self._kinds:
            self._kinds[key] = self._new_kind(pod, whole_devices)
        return self._kinds[key]

    def _new_kind(self, pod: Pod, whole_devices: bool) -> Kind:
        requests = self._vector(pod, pod.requests)
        requests[0] = 1
        scored = requests.copy()
        for resource in (CPU, MEMORY):
            if resource in self.row:
                scored[self.row[resource]] = pod.scored_requests.get(resource, pod.requests.get(resource, 0))
        eligible, classes = self._mask(pod, whole_devices)
        return Kind(
            pod=pod,
            requests=requests,
            scored=scored,
            asked=np.flatnonzero(requests),
            eligible=eligible,
            classes=classes,
            scores=np.full(len(self.nodes), -1, np.int64),
            counted=[self.resources[row] in _ALWAYS_COUNTED or requests[row] > 0 for row in self._weighed],
            has_affinity=bool(self.affinities),
        )

    def _vector(self, pod: Pod, amounts: Mapping[str, int]) -> Amounts:
        vector = np.zeros(len(self.resources), np.int64)
        for resource, quantity in amounts.items():
            if quantity > LARGEST_AMOUNT:
                raise Unreadable(pod.full_name, f"it asks for more {resource} than any node has (2^53)")
            vector[self.row[resource]] = quantity
        return vector

    def _mask(self, pod: Pod, whole_devices: bool) -> tuple[Mask, Sequence[Obstacle | None]]:
        key = (constraint_key(pod), whole_devices)
        if key not in self._masks:
            found = [_obstacle(pod, node, whole_devices) for node in self._examples]
            free = np.array([each is None for each in found], np.bool_)
            self._masks[key] = free[self.class_of], found
        return self._masks[key]

    # ----------------------------------------------------------------------------------------------------- choosing

    def best(self, kind: Kind, pod: Pod, allowed: Mask | None = None) -> tuple[int, int] | None:
        """The node that scores highest among those that the pod fits, and its score; the first by name among equals."""
        self._refresh(kind)
        scores = kind.scores
        if allowed is not None:
            scores = np.where(allowed, scores, -1)
        if kind.has_affinity:
            scores = np.where(self.affinities.allowed(pod), scores, -1)
        if not scores.size:
            return None
        node = int(scores.argmax())
        return (node, int(scores[node])) if scores[node] >= 0 else None

    def room(self, kind: Kind, allowed: Mask | None = None) -> Amounts:
        """How many pods of the kind each node would still take, other pods' affinities aside."""
        asked = kind.asked
        copies = (np.maximum(self.free[asked], 0) // kind.requests[asked, None]).min(axis=0)
        here = kind.eligible if allowed is None else kind.eligible & allowed
        return np.where(here, copies, 0)

    def free_devices(self) -> Amounts:
        """Whole devices that are free on each node; never below 0, whatever a cluster already holds."""
        rows = [self.row[each] for each in DEVICE_RESOURCES]
        free: Amounts = np.maximum(self.free[rows], 0).sum(axis=0) * self.is_whole
        return free

    def num_devices(self) -> Amounts:
        """Whole devices of each node."""
        devices: Amounts = self.allocatable[[self.row[each] for each in DEVICE_RESOURCES]].sum(axis=0) * self.is_whole
        return devices

    def _refresh(self, kind: Kind) -> None:
        changed = self._changed[kind.seen :] if kind.seen >= 0 else None
        kind.seen = len(self._changed)
        if changed is None or len(changed) * 8 > len(self.nodes):
            kind.scores = self._scores(kind, slice(None))
        elif changed:
            columns = np.unique(np.array(changed, np.intp)) if len(changed) > 1 else np.array(changed, np.intp)
            kind.scores[columns] = self._scores(kind, columns)

    def _scores(self, kind: Kind, columns: slice | NDArray[np.intp]) -> Amounts:
        asked = kind.asked
        fits = (self.free[asked][:, columns] >= kind.requests[asked, None]).all(axis=0) & kind.eligible[columns]
        rows = self._weighed
        requested = self._scored_used[rows][:, columns] + kind.scored[rows, None]
        names = [self.resources[row] for row in rows]
        scores = node_scores(self.scoring, names, requested, self.allocatable[rows][:, columns], kind.counted)
        return np.where(fits, scores, -1)

    # ------------------------------------------------------------------------------------------------------- changes

    def place(self, kind: Kind, pod: Pod, node: int) -> None:
        """Puts a pod on a node, whether it fits or not: what a cluster already holds is a fact."""
        self._change(kind, pod, node, 1)

    def remove(self, kind: Kind, pod: Pod, node: int) -> None:
        """Takes a pod from its node."""
        self._change(kind, pod, node, -1)

    def _change(self, kind: Kind, pod: Pod, node: int, change: int) -> None:
        self.free[:, node] -= change * kind.requests
        self._scored_used[:, node] += change * kind.scored
        self._changed.append(node)
        if self.affinities:
            self.affinities.count(pod, node, change)
        if change > 0 and self.free[:, node].min() < -LARGEST_AMOUNT:
            raise Unreadable(self.nodes[node].name, "its pods together ask for more than any node has (2^53)")


def _obstacle(pod: Pod, node: Node, whole_devices: bool) -> Obstacle | None:
    found = obstacle(pod, node)
    if found is None and whole_devices and not node.has_whole_devices:
        return Obstacle.shared(node)
    return found


def _classes(nodes: Sequence[Node], pods: Iterable[Pod]) -> tuple[NDArray[np.intp], list[Node]]:
    """Nodes that no pod can tell apart, resources aside: for each node its class, and for each class one node."""
    keys: set[str] = set()
    by_name = False
    for pod in {id(pod.required_node_terms): pod for pod in pods}.values():
        for term in pod.required_node_terms or ():
            keys.update(each.key for each in term.match_expressions)
            by_name |= bool(term.match_fields)
    for pod in pods:
        keys.update(pod.node_selector)
    ordered = sorted(keys)
    numbers: dict[tuple[object, ...], int] = {}
    examples: list[Node] = []
    class_of = np.zeros(len(nodes), np.intp)
    for place, node in enumerate(nodes):
        labels = tuple(node.labels.get(key) for key in ordered)
        sharing = (node.num_shares_per_device, node.partition)
        signature = (node.unschedulable, node.ready, node.taints, labels, sharing, node.name if by_name else "")
        if signature not in numbers:
            numbers[signature] = len(examples)
            examples.append(node)
        class_of[place] = numbers[signature]
    return class_of, examples


def _link_domains(nodes: Sequence[Node]) -> tuple[NDArray[np.intp], list[str]]:
    """For each node the number of its link domain, and the domains' names; a node without one is a domain of its own."""
    numbers: dict[tuple[bool, str], int] = {}
    keys = [(node.link_domain is not None, node.link_domain or node.name) for node in nodes]
    places = [numbers.setdefault(key, len(numbers)) for key in keys]
    return np.array(places, np.intp), [name for _, name in numbers]
