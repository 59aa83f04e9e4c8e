"""Nodes and pods as Kubernetes serializes them → what placement and planning take. Whatever is not needed is dropped here.

Environment and arguments may hold secrets: they are looked through for what a pod serves, and nothing else of them is kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message
from msgspec import Struct

from service.api.autoscalers.compat import kubernetes_pb2 as pb
from service.api.errors import Unreadable
from service.placement import errors as placement_errors
from service.placement import gangs
from service.placement.cluster import Gang, Node, NodeSelectorTerm, Pod, Requirement, Taint, Toleration
from service.placement.constraints import Container, effective_requests
from service.placement.node_labels import node_group, num_shares_per_device, partition
from service.placement.quantities import amount
from service.planning.node_groups.command_lines import CommandLine
from service.planning.node_groups.devices import num_devices
from service.planning.node_groups.options import PodKind
from service.planning.node_groups.served import ANNOTATIONS, served_by

_ALWAYS: Final = "Always"
_M = TypeVar("_M", bound=Message)


class ReadPod(Struct, frozen=True):
    """One pod: its kind, by its place in the list of kinds, and its gang."""

    kind: int
    gang: Gang | None


def parsed(message: type[_M], data: bytes, what: str) -> _M:
    """The message; Unreadable where the bytes are none."""
    try:
        return message.FromString(data)
    except DecodeError as error:
        raise Unreadable(f"{what} cannot be read: {error}") from None


def read_node(data: bytes, what: str) -> Node:
    """A template of nodes to come, which are ready by then."""
    node = parsed(pb.Node, data, what)
    labels = dict(node.metadata.labels)
    taints = tuple(Taint(each.key, each.value, each.effect) for each in node.spec.taints)
    return Node(
        name=node.metadata.name,
        labels=labels,
        taints=taints,
        unschedulable=node.spec.unschedulable,
        allocatable=_amounts(node.status.allocatable or node.status.capacity, what),
        num_shares_per_device=num_shares_per_device(labels),
        partition=partition(labels),
        group=node_group(labels),
    )


class PodReader:
    """Reads pods one after the other. What pods have in common is read once: those of one template differ in name alone."""

    def __init__(self) -> None:
        self.kinds: list[PodKind] = []
        self._by_spec: dict[tuple[bytes, tuple[str, ...]], int] = {}
        self._groups: dict[bytes, gangs.PodFields] = {}

    def read(self, data: bytes) -> ReadPod:
        """One pod. Unreadable where the bytes are none, or say something that no pod can."""
        pod = parsed(pb.Pod, data, "a pod")
        metadata = pod.metadata
        labels, annotations = dict(metadata.labels), dict(metadata.annotations)
        key = (pod.spec, tuple(annotations.get(each, "") for each in ANNOTATIONS))
        kind = self._by_spec.get(key)
        if kind is None:
            kind = self._by_spec[key] = self._add(pod.spec, annotations)
        gang = gangs.gang_of(metadata.namespace, labels, annotations, self._groups[pod.spec])
        return ReadPod(kind, gang)

    def _add(self, data: bytes, annotations: Mapping[str, str]) -> int:
        spec = parsed(pb.PodSpec, data, "the spec of a pod")
        if not spec.containers:  # no pod is so: something was lost on the way
            raise Unreadable("a pod has no containers")
        self._groups[data] = gangs.PodFields(
            workload=spec.workloadRef.name,
            workload_group=spec.workloadRef.podGroup,
            workload_replica=spec.workloadRef.podGroupReplicaKey,
            scheduling_group=spec.schedulingGroup.podGroupName,
        )
        self.kinds.append(PodKind(_pod(spec), served_by(annotations, tuple(_command_lines(spec)))))
        return len(self.kinds) - 1


def _pod(spec: pb.PodSpec) -> Pod:
    required = spec.affinity.nodeAffinity
    pod_level = _amounts(spec.resources.limits) | _amounts(spec.resources.requests)
    return Pod(
        namespace="",
        name="",
        requests=effective_requests(
            map(_container, spec.containers), map(_container, spec.initContainers), _amounts(spec.overhead), pod_level
        ),
        tolerations=tuple(Toleration(each.key, each.operator, each.value, each.effect) for each in spec.tolerations),
        node_selector=dict(spec.nodeSelector),
        required_node_terms=tuple(map(_term, required.required.terms)) if required.HasField("required") else None,
    )


def _container(container: pb.Container) -> Container:
    resources = container.resources
    requests = _amounts(resources.limits) | _amounts(resources.requests)  # a limit alone is a request too
    return Container(requests, restartable=container.restartPolicy == _ALWAYS)


def _term(term: pb.NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(_requirements(term.matchExpressions), _requirements(term.matchFields))


def _requirements(expressions: Iterable[pb.NodeSelectorRequirement]) -> tuple[Requirement, ...]:
    return tuple(Requirement(each.key, each.operator, tuple(each.values)) for each in expressions)


def _amounts(quantities: Mapping[str, Any], what: str = "a pod") -> dict[str, int]:
    amounts = {}
    for resource, quantity in quantities.items():
        try:
            amounts[resource] = amount(resource, quantity.string)
        except placement_errors.Unreadable as error:
            raise Unreadable(f"{what} cannot be read: {error.under(resource[:80])}") from None
    return amounts


def _command_lines(spec: pb.PodSpec) -> Iterator[CommandLine]:
    """How the containers that hold devices are started; all containers where none does."""
    holding = [each for each in spec.containers if num_devices(_container(each).requests)]
    for each in holding or spec.containers:
        environment = {variable.name: variable.value for variable in each.env}
        yield CommandLine(each.image, (*each.command, *each.args), environment)
