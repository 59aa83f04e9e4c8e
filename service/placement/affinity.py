"""Required affinity and anti-affinity between pods, counted per topology as pods come and go.

Source: kubernetes/kubernetes ``pkg/scheduler/framework/plugins/interpodaffinity``.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from service.placement.cluster import Node, Pod, PodAffinityTerm
from service.placement.constraints import labels_match

Mask = NDArray[np.bool_]


class PodAffinities:
    """Knows for each term that any pod carries where the pods that it selects, and those that carry it, lie."""

    def __init__(self, nodes: Sequence[Node], pods: Iterable[Pod]) -> None:
        self._nodes = nodes
        self._terms = {term for pod in pods for term in (*pod.pod_affinity, *pod.pod_anti_affinity)}
        self._domains: dict[str, NDArray[np.int64]] = {}
        self._selected = {term: np.zeros(len(nodes), np.int64) for term in self._terms}
        self._avoiding = {term: np.zeros(len(nodes), np.int64) for term in self._terms}

    def __bool__(self) -> bool:
        """Whether there is any term at all."""
        return bool(self._terms)

    def count(self, pod: Pod, node: int, change: int) -> None:
        """A pod came to (1) or left (−1) a node."""
        for term, counts in self._selected.items():
            if _selects(term, pod):
                counts[node] += change
        for term in pod.pod_anti_affinity:
            self._avoiding[term][node] += change

    def allowed(self, pod: Pod) -> Mask:
        """On which nodes the pod may lie beside those that are there."""
        mask = np.ones(len(self._nodes), np.bool_)
        for term in pod.pod_affinity:
            mask &= self._beside(term, pod)
        for term in pod.pod_anti_affinity:
            mask &= ~self._holding(term, self._selected[term])
        for term, counts in self._avoiding.items():  # those that are there may object as well
            if counts.any() and _selects(term, pod):
                mask &= ~self._holding(term, counts)
        return mask

    def _beside(self, term: PodAffinityTerm, pod: Pod) -> Mask:
        counts = self._selected[term]
        if not counts.any() and _selects(term, pod):  # the first of those that want to be together may go anywhere
            return self._domain(term.topology_key) >= 0
        return self._holding(term, counts)

    def _holding(self, term: PodAffinityTerm, counts: NDArray[np.int64]) -> Mask:
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


def _selects(term: PodAffinityTerm, pod: Pod) -> bool:
    in_namespace = term.namespaces is None or pod.namespace in term.namespaces
    return in_namespace and term.requirements is not None and labels_match(term.requirements, pod.labels)
