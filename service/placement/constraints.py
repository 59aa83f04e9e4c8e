"""May this pod go to this node, resources aside? And what does a pod ask for?

Source: kubernetes/kubernetes ``pkg/scheduler/framework/plugins`` (nodeunschedulable, tainttoleration, nodeaffinity) and
``component-helpers``, ``resource/helpers``.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from service.placement.cluster import (
    CPU,
    MEMORY,
    Effect,
    Node,
    NodeSelectorTerm,
    Pod,
    Requirement,
    Taint,
    Toleration,
)

#: What scores count for a container that says nothing: 100 millicores and 200 MiB.
DEFAULT_SCORED_REQUESTS: Final[Mapping[str, int]] = {CPU: 100, MEMORY: 200 * 2**20}
_BLOCKING: Final = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)
_UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)
_LARGEST_INTEGER: Final = 2**63 - 1


class ObstacleKind(StrEnum):
    """What keeps a pod from a node, resources aside."""

    UNSCHEDULABLE = "unschedulable"
    NOT_READY = "not ready"
    TAINT = "taint"
    NODE_SELECTOR = "node selector"
    NODE_AFFINITY = "node affinity"
    NO_WHOLE_DEVICES = "no whole devices"


class Obstacle(Struct, frozen=True):
    """One thing that keeps a pod from a node, with the reason as half a sentence."""

    kind: ObstacleKind
    reason: str

    @classmethod
    def shared(cls, node: Node) -> "Obstacle":
        """That the node's devices are slices or partitions, for pods that want whole ones."""
        what = f"MIG {node.partition}" if node.partition else f"shared by {node.num_shares_per_device}"
        return cls(ObstacleKind.NO_WHOLE_DEVICES, f"its devices are no whole ones: {what}")


def obstacle(pod: Pod, node: Node) -> Obstacle | None:
    """The first thing that keeps ``pod`` from ``node``, resources and other pods aside; None where nothing does."""
    if node.unschedulable and not _tolerated(_UNSCHEDULABLE, pod.tolerations):
        return Obstacle(ObstacleKind.UNSCHEDULABLE, "cordoned (unschedulable)")
    if not node.ready:
        return Obstacle(ObstacleKind.NOT_READY, "not ready")
    taint = untolerated_taint(node.taints, pod.tolerations)
    if taint is not None:
        return Obstacle(ObstacleKind.TAINT, f"taint {_shown(taint)} is not tolerated")
    for key, value in pod.node_selector.items():
        if node.labels.get(key) != value:
            return Obstacle(ObstacleKind.NODE_SELECTOR, f"label {key}={value} of the node selector is missing")
    if pod.required_node_terms is not None and not any(_matches(term, node) for term in pod.required_node_terms):
        return Obstacle(ObstacleKind.NODE_AFFINITY, "no term of the required node affinity matches")
    return None


def untolerated_taint(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """The first NoSchedule or NoExecute taint that none of the tolerations passes."""
    blocking = (taint for taint in taints if taint.effect in _BLOCKING)
    return next((taint for taint in blocking if not _tolerated(taint, tolerations)), None)


def constraint_key(pod: Pod) -> tuple[object, ...]:
    """What ``obstacle`` reads of a pod, hashable: pods of one key may go to the same nodes."""
    return pod.tolerations, tuple(sorted(pod.node_selector.items())), pod.required_node_terms


def labels_match(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether every expression holds for the labels."""
    return all(_holds(requirement, labels) for requirement in requirements)


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # An empty key with Equal is refused by the API server; it must not pass every taint here.
    if toleration.operator in ("", "Equal"):
        return bool(toleration.key) and toleration.value == taint.value
    if toleration.operator in ("Gt", "Lt"):
        return _beyond(taint.value, toleration.operator, toleration.value)
    return False


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    name = {"metadata.name": node.name}
    return labels_match(term.match_expressions, node.labels) and labels_match(term.match_fields, name)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return (
                value is not None
                and len(requirement.values) == 1
                and _beyond(value, requirement.operator, requirement.values[0])
            )
    return False  # an operator that is unknown here matches nothing, rather than everything


def _beyond(value: str, operator: str, bound: str) -> bool:
    left, right = _integer(value), _integer(bound)
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _integer(text: str) -> int | None:
    """The text as the 64-bit number that Go's ParseInt would read; None where it reads none."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 40):
        return None
    number = int(text)
    return number if -_LARGEST_INTEGER - 1 <= number <= _LARGEST_INTEGER else None


def _shown(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


# ------------------------------------------------------------------------------------------------------------- requests


class Container(Struct, frozen=True):
    """What a container asks for. ``restartable``: an init container that stays (restartPolicy Always), a sidecar."""

    requests: Mapping[str, int]
    restartable: bool = False


def effective_requests(
    containers: Iterable[Container],
    init_containers: Iterable[Container] = (),
    overhead: Mapping[str, int] | None = None,
    pod_level: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """What a pod takes of a node: the larger of what runs at once and what each init stage needs, and the overhead.

    Sidecars run beside all that comes after them, so they count in every later stage and in the sum. ``pod_level`` is what the
    pod as a whole asks for (spec.resources), which replaces what its containers say.
    """
    running: dict[str, int] = {}
    for container in containers:
        _add(running, container.requests)
    sidecars: dict[str, int] = {}
    largest_stage: dict[str, int] = {}
    for container in init_containers:
        stage = dict(sidecars)
        _add(stage, container.requests)
        if container.restartable:
            sidecars = stage
        _raise_to(largest_stage, stage)
    _add(running, sidecars)
    _raise_to(running, largest_stage)
    running.update(pod_level or {})
    _add(running, overhead or {})
    return running


def scored_requests(
    containers: Iterable[Container],
    init_containers: Iterable[Container] = (),
    overhead: Mapping[str, int] | None = None,
    pod_level: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """The same with CPU and memory of containers that say nothing of them counted as ``DEFAULT_SCORED_REQUESTS``."""
    spoken = [Container({**DEFAULT_SCORED_REQUESTS, **each.requests}, each.restartable) for each in containers]
    stages = [Container({**DEFAULT_SCORED_REQUESTS, **each.requests}, each.restartable) for each in init_containers]
    return effective_requests(spoken, stages, overhead, pod_level)


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, quantity in more.items():
        total[resource] = total.get(resource, 0) + quantity


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for resource, quantity in floor.items():
        total[resource] = max(total.get(resource, 0), quantity)
