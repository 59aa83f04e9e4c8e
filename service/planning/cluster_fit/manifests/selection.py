"""By which label pods find the nodes of an accelerator, and no others."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from service.placement.cluster import Node, Toleration
from service.placement.node_labels import GROUP_LABELS, PRODUCT

#: Labels that tell nodes apart by their devices, then by their kind.
_LABELS: Final = (
    PRODUCT,
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
    "node.kubernetes.io/instance-type",
    *GROUP_LABELS,
)
_MOST_VALUES: Final = 20


class Selection(Struct, frozen=True):
    """A label and the values of it that nodes of an accelerator carry; no label where none tells them apart."""

    label: str = ""
    values: tuple[str, ...] = ()

    def of_pod(self, selector: dict[str, str], tolerations: Iterable[Toleration]) -> dict[str, Any]:
        """The fields of a pod's spec that lead it there; ``selector`` comes on top."""
        labels = dict(selector)
        spec: dict[str, Any] = {}
        if len(self.values) == 1:
            labels.setdefault(self.label, self.values[0])
        if labels:
            spec["nodeSelector"] = labels
        if len(self.values) > 1:
            expression = {"key": self.label, "operator": "In", "values": list(self.values)}
            terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        spec["tolerations"] = [_toleration(each) for each in tolerations]
        return spec


def selection(own: Sequence[Node], every: Iterable[Node], resource: str) -> Selection:
    """The first label that all nodes of an accelerator carry with values that no other node with such devices carries."""
    names = {node.name for node in own}
    others = [node for node in every if node.name not in names and node.allocatable.get(resource)]
    for label in dict.fromkeys(_LABELS):
        values = {node.labels.get(label, "") for node in own}
        theirs = {node.labels.get(label, "") for node in others}
        if "" not in values and not values & theirs and len(values) <= _MOST_VALUES:
            return Selection(label, tuple(sorted(values)))
    return Selection()


def _toleration(toleration: Toleration) -> dict[str, str]:
    fields = {"key": toleration.key, "operator": toleration.operator, "value": toleration.value, "effect": toleration.effect}
    return {name: value for name, value in fields.items() if value}
