"""Required affinity and anti-affinity between pods, counted per topology as pods come and go.

Source: kubernetes/kubernetes ``pkg/scheduler/framework/plugins/interpodaffinity``.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.placement.cluster import Node, Pod, PodAffinityTerm
from service.placement.constraints import labels_match
from service.placement.errors import TooMany

Mask = NDArray[np.bool_]
_Labelled: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
_REMEDY: Final = "send a part of the cluster"


#: Counts that are kept: those of 6,000 terms on 10,000 nodes.
_MAX_COUNTS: Final = 2**26
#: Comparisons of terms with labels: some seconds.
_MAX_COMPARISONS: Final = 10_000_000


class PodAffinities:
    """Knows for each term that matters where the pods that it selects, and those that carry it, lie.

    A term matters where a pod carries it for which nodes are looked for; or, of anti-affinity, where it selects such a pod.
    """

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], background: Sequence[Pod] = ()) -> None:
        """No pod lies anywhere yet.

        Args:
            nodes: the cluster's.
            pods: all for which nodes may be looked for.
            background: further ones that are only ever put where they lie.

        Raises:
            TooMany: so many terms matter that counting them would take gigabytes.
        """
        self._nodes = nodes
        kinds = {_labelled(pod): pod for pod in pods}
        own = dict.fromkeys(term for pod in pods for term in (*pod.pod_affinity, *pod.pod_anti_affinity))
        others = dict.fromkeys(term for pod in background for term in pod.pod_anti_affinity if term not in own)
        self.work = len(others) * len(kinds)  # about the microseconds that it takes to find out
        _check_comparisons(len(others), len(kinds))
        meant = (term for term in others if any(_selects(term, pod) for pod in kinds.values()))
        self._terms = (*own, *meant)
        if len(self._terms) * len(nodes) > _MAX_COUNTS:
            raise TooMany("pods", f"{len(self._terms)} terms of affinity × {len(nodes)} nodes", _MAX_COUNTS, _REMEDY)
        if self._terms:
            labelled = kinds.keys() | {_labelled(pod) for pod in background}
            _check_comparisons(len(self._terms), len(labelled))
            self.work += len(self._terms) * len(labelled)
        self._selecting: dict[_Labelled, tuple[PodAffinityTerm, ...]] = {}
        self._domains: dict[str, NDArray[np.int64]] = {}
        self._selected = {term: np.zeros(len(nodes), np.int32) for term in self._terms}
        self._avoiding = {term: np.zeros(len(nodes), np.int32) for term in self._terms}

    def __bool__(self) -> bool:
        """Whether there is any term at all."""
        return bool(self._terms)

    def count(self, pod: Pod, node: int, change: int) -> None:
        """A pod came to (1) or left (−1) a node."""
        for term in self._that_select(pod):
            self._selected[term][node] += change
        for term in pod.pod_anti_affinity:
            if term in self._avoiding:
                self._avoiding[term][node] += change

    def num_terms(self, pod: Pod) -> int:
        """How many terms decide about a pod."""
        return len(pod.pod_affinity) + len(pod.pod_anti_affinity) + len(self._that_select(pod))

    def allowed(self, pod: Pod) -> Mask:
        """On which nodes the pod may lie beside those that are there."""
        mask = np.ones(len(self._nodes), np.bool_)
        for term in pod.pod_affinity:
            mask &= self._beside(term, pod)
        for term in pod.pod_anti_affinity:
            mask &= ~self._holding(term, self._selected[term])
        for term in self._that_select(pod):  # those that are there may object as well
            counts = self._avoiding[term]
            if counts.any():
                mask &= ~self._holding(term, counts)
        return mask

    def _that_select(self, pod: Pod) -> tuple[PodAffinityTerm, ...]:
        key = _labelled(pod)
        if key not in self._selecting:
            self._selecting[key] = tuple(term for term in self._terms if _selects(term, pod))
        return self._selecting[key]

    def _beside(self, term: PodAffinityTerm, pod: Pod) -> Mask:
        counts = self._selected[term]
        if not counts.any() and _selects(term, pod):  # the first of those that want to be together may go anywhere
            return self._domain(term.topology_key) >= 0
        return self._holding(term, counts)

    def _holding(self, term: PodAffinityTerm, counts: NDArray[np.int32]) -> Mask:
        """Nodes in whose topology domain any is counted."""
        domain = self._domain(term.topology_key)
        held = np.unique(domain[(counts > 0) & (domain >= 0)])
        return np.isin(domain, held)

    def _domain(self, key: str) -> NDArray[np.int64]:
        """For each node the number of its domain, −1 where it lacks the label."""
        if key not in self._domains:
            numbers: dict[str, int] = {}
            values = [node.labels.get(key) for node in self._nodes]
            self._domains[key] = np.array(
                [-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values], np.int64
            )
        return self._domains[key]


def _check_comparisons(num_terms: int, num_labels: int) -> None:
    if num_terms * num_labels > _MAX_COMPARISONS:
        what = f"{num_terms} terms of affinity × {num_labels} kinds of labels"
        raise TooMany("pods", what, _MAX_COMPARISONS, _REMEDY)


def _labelled(pod: Pod) -> _Labelled:
    return pod.namespace, tuple(sorted(pod.labels.items()))


def _selects(term: PodAffinityTerm, pod: Pod) -> bool:
    in_namespace = term.namespaces is None or pod.namespace in term.namespaces
    return in_namespace and term.requirements is not None and labels_match(term.requirements, pod.labels)
