"""What of a cluster's snapshot a scheduler reads: the rest, secrets included, never leaves the machine that has it."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

_Kept: TypeAlias = "Mapping[str, _Kept] | bool"

_NAMED: Final[_Kept] = {"name": True, "namespace": True}
_RESOURCES: Final[_Kept] = {"requests": True, "limits": True}
_REQUIRED: Final[_Kept] = {"requiredDuringSchedulingIgnoredDuringExecution": True}
_ANNOTATIONS: Final = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "kueue.x-k8s.io/pod-group-total-count",
    "leaderworkerset.sigs.k8s.io/size",
)
_GROUP: Final[_Kept] = {"name": True, "policy": True, "schedulingPolicy": True}
_OF_GROUPS: Final[_Kept] = {
    "metadata": _NAMED,
    "spec": {
        "minMember": True,
        "policy": True,
        "schedulingPolicy": True,
        "podGroups": _GROUP,
        "podGroupTemplates": _GROUP,
        "leaderWorkerTemplate": {"size": True},
    },
}
_BY_KIND: Final[Mapping[str, _Kept]] = {
    "Node": {
        "metadata": {"name": True, "labels": True},
        "spec": {"unschedulable": True, "taints": True},
        "status": {"allocatable": True, "conditions": {"type": True, "status": True}},
    },
    "Pod": {
        "metadata": {
            "name": True,
            "namespace": True,
            "labels": True,
            "creationTimestamp": True,
            "annotations": dict.fromkeys(_ANNOTATIONS, True),
        },
        "spec": {
            "nodeName": True,
            "priority": True,
            "tolerations": True,
            "nodeSelector": True,
            "affinity": {"nodeAffinity": _REQUIRED, "podAffinity": _REQUIRED, "podAntiAffinity": _REQUIRED},
            "schedulingGates": True,
            "overhead": True,
            "resources": _RESOURCES,
            "workloadRef": True,
            "schedulingGroup": True,
            "topologySpreadConstraints": {"whenUnsatisfiable": True},
            "resourceClaims": {"name": True},
            "containers": {"resources": _RESOURCES, "ports": {"hostPort": True}},
            "initContainers": {"resources": _RESOURCES, "restartPolicy": True},
        },
        "status": {"phase": True},
    },
    "PodGroup": _OF_GROUPS,
    "Workload": _OF_GROUPS,
    "LeaderWorkerSet": _OF_GROUPS,
}
_KINDS_OF_LISTS: Final = {"NodeList": "Node", "PodList": "Pod"}
_OVER: Final = ("Succeeded", "Failed")


def trimmed(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """What ``kubectl get nodes,pods -A -o json`` prints, less what no scheduler reads. What is odd is left to the service.

    Every item keeps its place, so that what the service says of ``items[3]`` is true of the original.
    """
    items = snapshot.get("items")
    if not isinstance(items, list):
        return {"kind": snapshot["kind"]} if "kind" in snapshot else {}
    kind = _KINDS_OF_LISTS.get(str(snapshot.get("kind")), "")
    return {**({"kind": snapshot["kind"]} if "kind" in snapshot else {}), "items": [_item(item, kind) for item in items]}


def _item(item: Any, kind_of_list: str) -> Any:
    if not isinstance(item, Mapping):
        return None
    kind = str(item.get("kind") or kind_of_list)
    head = {key: item[key] for key in ("apiVersion", "kind") if isinstance(item.get(key), str)}
    if kind not in _BY_KIND or (kind == "Pod" and _phase(item) in _OVER):
        kept: _Kept = {"metadata": _NAMED, "status": {"phase": True}} if kind == "Pod" else {}
    else:
        kept = _BY_KIND[kind]
    return {**head, **_of(item, kept)}


def _phase(item: Mapping[str, Any]) -> object:
    status = item.get("status")
    return status.get("phase") if isinstance(status, Mapping) else None


def _of(value: Any, kept: _Kept) -> Any:
    if isinstance(kept, bool):
        return value
    if isinstance(value, list):
        return [_of(each, kept) for each in value]
    if isinstance(value, Mapping):
        return {key: _of(value[key], inner) for key, inner in kept.items() if value.get(key) is not None}
    return None if value is None or isinstance(value, str) else value  # a text where an object should be may be anything
