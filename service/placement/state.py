"""A cluster while pods come and go: what is free on each node, which nodes a pod fits, and which of them is best.

Everything is an array over nodes. What ranks the nodes for a kind of pod is kept and brought up to date only where a pod has
come or gone since, so that placing the next pod of the kind costs little however large the cluster is. Whatever depends on who
asks is bounded: scores are dropped again where there are many kinds, and ``work`` counts what was done, for callers to stop.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.placement.affinity import Mask, PodAffinities
from service.placement.cluster import CPU, DEVICE_RESOURCES, EPHEMERAL_STORAGE, MEMORY, PODS, Node, Pod
from service.placement.constraints import Obstacle, constraint_key, obstacle
from service.placement.errors import Unreadable
from service.placement.scoring import Amounts, ScoringPolicy, node_scores

#: Amounts beyond it would overflow when scores multiply them by 100; 8 PiB in bytes.
LARGEST_AMOUNT: Final = 2**53
_ALWAYS_COUNTED: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
#: Scores that are kept, a byte each: those of the kinds that were asked for last.
_MAX_KEPT_SCORES: Final = 2**26
_NUMBER: Final = re.compile(r"(\d+)", re.ASCII)


def natural_order(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sorts node-2 before node-10. Ties between nodes of one score go to the first name in this order.

    >>> sorted(["node-10", "node-2"], key=natural_order)
    ['node-2', 'node-10']
    """
    parts = _NUMBER.split(name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name


class Kind(Struct, eq=False):
    """Pods that ask for the same and may go to the same nodes: what placing one of them needs to know."""

    pod: Pod  # one of them
    requests: Amounts  # by resource
    scored: Amounts
    asked: NDArray[np.int64]  # the rows of which it asks for anything
    counted: list[bool]
    has_affinity: bool
    whole_devices: bool
    scores: NDArray[np.int8] | None = None  # −1 where it does not fit; None where they are not kept
    seen: int = 0  # how much of the log of changes the scores know


class ClusterState:
    """The nodes, in natural order of their names, with what is free on each."""

    def __init__(
        self, nodes: Iterable[Node], pods: Sequence[Pod], scoring: ScoringPolicy, background: Sequence[Pod] = ()
    ) -> None:
        """Free nodes.

        Args:
            nodes: in any order.
            pods: all for which nodes may be looked for: they decide which resources, labels and affinities matter.
            scoring: how nodes are ranked.
            background: further ones that are only ever put where they lie.
        """
        self.work = 0  # about the microseconds that looking for nodes has taken
        self.nodes = sorted(nodes, key=lambda node: natural_order(node.name))
        self.index = {node.name: place for place, node in enumerate(self.nodes)}
        self.scoring = scoring
        asked = {resource for pod in pods for resource in pod.requests}  # of what nobody else asks for, nothing can be short
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
        self._kept: dict[int, Kind] = {}  # whose scores are kept, that asked for last at the end
        self.affinities = PodAffinities(self.nodes, pods, background)
        self.work += self.affinities.work
        self.class_of, self._examples = _classes(self.nodes, pods)
        self._free_classes: dict[tuple[object, ...], Mask] = {}
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
        return Kind(
            pod=pod,
            requests=requests,
            scored=scored,
            asked=np.flatnonzero(requests),
            counted=[self.resources[row] in _ALWAYS_COUNTED or requests[row] > 0 for row in self._weighed],
            has_affinity=bool(self.affinities),
            whole_devices=whole_devices,
        )

    def _vector(self, pod: Pod, amounts: Mapping[str, int]) -> Amounts:
        vector = np.zeros(len(self.resources), np.int64)
        for resource, quantity in amounts.items():
            if quantity > LARGEST_AMOUNT:
                raise Unreadable(pod.full_name, f"it asks for more {resource} than any node has (2^53)")
            if resource in self.row:
                vector[self.row[resource]] = quantity
        return vector

    def eligible(self, kind: Kind, columns: slice | NDArray[np.intp] = slice(None)) -> Mask:
        """Which nodes pods of the kind may go to, resources and other pods aside."""
        key = (constraint_key(kind.pod), kind.whole_devices)
        if key not in self._free_classes:
            self.work += 2 * len(self._examples)
            found = [self.obstacle(kind, number) is None for number in range(len(self._examples))]
            self._free_classes[key] = np.array(found, np.bool_)
        mask: Mask = self._free_classes[key][self.class_of[columns]]
        return mask

    def obstacle(self, kind: Kind, number: int) -> Obstacle | None:
        """What keeps pods of the kind from the nodes of a class (``class_of``), resources and other pods aside."""
        node = self._examples[number]
        found = obstacle(kind.pod, node)
        if found is None and kind.whole_devices and not node.has_whole_devices:
            return Obstacle.shared(node)
        return found

    # ----------------------------------------------------------------------------------------------------- choosing

    def best(self, kind: Kind, pod: Pod, allowed: Mask | None = None) -> tuple[int, int] | None:
        """The node that scores highest among those that the pod fits, and its score; the first by name among equals."""
        self.work += 40 + len(self.nodes) // 200
        scores = self._refreshed(kind)
        if allowed is not None:
            scores = np.where(allowed, scores, -1)
        if kind.has_affinity:
            self.work += self.affinities.num_terms(pod) * (10 + len(self.nodes) // 20)
            scores = np.where(self.affinities.allowed(pod), scores, -1)
        if not scores.size:
            return None
        node = int(scores.argmax())
        return (node, int(scores[node])) if scores[node] >= 0 else None

    def room(self, kind: Kind, allowed: Mask | None = None) -> Amounts:
        """How many pods of the kind each node would still take, other pods' affinities aside."""
        self.work += 10 + len(self.nodes) // 50
        asked = kind.asked
        copies = (np.maximum(self.free[asked], 0) // kind.requests[asked, None]).min(axis=0)
        here = self.eligible(kind) if allowed is None else self.eligible(kind) & allowed
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

    def _refreshed(self, kind: Kind) -> NDArray[np.int8]:
        changed = self._changed[kind.seen :] if kind.scores is not None else []
        kind.seen = len(self._changed)
        if kind.scores is None or len(changed) * 8 > len(self.nodes):
            self.work += len(self.nodes) // 20
            kind.scores = self._scores(kind, slice(None))
            self._keep(kind)
        elif changed:
            columns = np.array(sorted(set(changed)), np.intp)
            kind.scores[columns] = self._scores(kind, columns)
        return kind.scores

    def _keep(self, kind: Kind) -> None:
        self._kept.pop(id(kind), None)
        self._kept[id(kind)] = kind
        if len(self._kept) > 1 and len(self._kept) * len(self.nodes) > _MAX_KEPT_SCORES:
            self._kept.pop(next(iter(self._kept))).scores = None

    def _scores(self, kind: Kind, columns: slice | NDArray[np.intp]) -> NDArray[np.int8]:
        asked, rows = kind.asked[:, None], np.array(self._weighed, np.intp)[:, None]
        fits = (self.free[asked[:, 0]] if isinstance(columns, slice) else self.free[asked, columns]) >= kind.requests[asked]
        names = [self.resources[row] for row in self._weighed]
        used, have = (
            (each[self._weighed] if isinstance(columns, slice) else each[rows, columns])
            for each in (self._scored_used, self.allocatable)
        )
        scores = node_scores(self.scoring, names, used + kind.scored[rows], have, kind.counted)
        return np.where(fits.all(axis=0) & self.eligible(kind, columns), scores, -1).astype(np.int8)

    # ------------------------------------------------------------------------------------------------------- changes

    def place(self, kind: Kind, pod: Pod, node: int) -> None:
        """Puts a pod on a node, whether it fits or not: what a cluster already holds is a fact."""
        self._change(kind, pod, node, 1)

    def remove(self, kind: Kind, pod: Pod, node: int) -> None:
        """Takes a pod from its node."""
        self._change(kind, pod, node, -1)

    def place_copies(self, kind: Kind, copies: Amounts) -> None:
        """Puts so many pods of a kind on each node, at once."""
        self.free -= kind.requests[:, None] * copies
        self._scored_used += kind.scored[:, None] * copies
        for node in np.flatnonzero(copies).tolist():
            self._changed.append(node)
            if self.affinities:
                self.affinities.count(kind.pod, node, int(copies[node]))

    @property
    def num_changes(self) -> int:
        """How often a pod has come to a node or left it."""
        return len(self._changed)

    def changed_since(self, num_changes: int) -> set[int]:
        """The nodes that pods came to or left since there were so many changes."""
        return set(self._changed[num_changes:])

    def _change(self, kind: Kind, pod: Pod, node: int, change: int) -> None:
        self.free[:, node] -= change * kind.requests
        self._scored_used[:, node] += change * kind.scored
        self._changed.append(node)
        if self.affinities:
            self.affinities.count(pod, node, change)
        if change > 0 and self.free[:, node].min() < -LARGEST_AMOUNT:
            raise Unreadable(self.nodes[node].name, "its pods together ask for more than any node has (2^53)")


def _classes(nodes: Sequence[Node], pods: Iterable[Pod]) -> tuple[NDArray[np.intp], list[Node]]:
    """Nodes that no pod can tell apart, resources aside: for each node its class, and for each class one node."""
    keys: set[str] = set()
    names: set[str] = set()
    for pod in {id(pod.required_node_terms): pod for pod in pods}.values():
        for term in pod.required_node_terms or ():
            keys.update(each.key for each in term.match_expressions)
            names.update(name for each in term.match_fields for name in each.values)
    for pod in pods:
        keys.update(pod.node_selector)
    ordered = sorted(keys)
    numbers: dict[tuple[object, ...], int] = {}
    examples: list[Node] = []
    class_of = np.zeros(len(nodes), np.intp)
    for place, node in enumerate(nodes):
        labels = tuple(node.labels.get(key) for key in ordered)
        sharing = (node.num_shares_per_device, node.partition)
        signature = (node.unschedulable, node.ready, node.taints, labels, sharing, node.name if node.name in names else "")
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
