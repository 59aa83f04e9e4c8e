"""A pod as ``kubectl get pods -o json`` prints it → a ``Pod``.

What is not read here is dropped: env, arguments, volumes, most annotations, status. Secrets sit there.
"""

from collections.abc import Iterator
from typing import Final

from service.placement.cluster import NodeSelectorTerm, Pod, PodAffinityTerm, Requirement, Toleration
from service.placement.constraints import Container, effective_requests, scored_requests
from service.placement.errors import Unreadable
from service.placement.gangs import ANNOTATIONS, GroupCounts, PodFields, gang_of
from service.placement.json_fields import Fields

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def read_pod(item: Fields, groups: GroupCounts) -> Pod:
    """The pod. Unreadable where something that is needed is of the wrong kind."""
    metadata, spec = item.inner("metadata"), item.inner("spec")
    namespace = metadata.text("namespace") or "default"
    labels = metadata.text_map("labels")
    affinity = spec.inner("affinity")
    containers, stages = _containers(spec, "containers"), _containers(spec, "initContainers")
    overhead, pod_level = spec.amounts("overhead"), _requests(spec.inner("resources"))
    return Pod(
        namespace=namespace,
        name=item.name(),
        requests=effective_requests(containers, stages, overhead, pod_level),
        scored_requests=scored_requests(containers, stages, overhead, pod_level),
        node_name=spec.text("nodeName"),
        labels=labels,
        tolerations=tuple(map(_toleration, spec.objects("tolerations"))),
        node_selector=spec.text_map("nodeSelector"),
        required_node_terms=_node_terms(affinity.inner("nodeAffinity")),
        pod_affinity=tuple(_pod_terms(affinity.inner("podAffinity"), namespace)),
        pod_anti_affinity=tuple(_pod_terms(affinity.inner("podAntiAffinity"), namespace)),
        priority=spec.whole("priority"),
        scheduling_gates=tuple(gate.text("name") for gate in spec.objects("schedulingGates")),
        gang=gang_of(namespace, labels, _gang_annotations(metadata), _group_fields(spec), groups),
        created=metadata.text("creationTimestamp"),
        unmodelled=tuple(_unmodelled(spec, affinity)),
    )


def _gang_annotations(metadata: Fields) -> dict[str, str]:
    # One by one: what else stands there is not even looked at.
    annotations = metadata.inner("annotations")
    return {key: annotations.text(key) for key in ANNOTATIONS if annotations.has(key)}


def _group_fields(spec: Fields) -> PodFields:
    reference = spec.inner("workloadRef")
    return PodFields(
        workload=reference.text("name"),
        workload_group=reference.text("podGroup"),
        workload_replica=reference.text("podGroupReplicaKey"),
        scheduling_group=spec.inner("schedulingGroup").text("podGroupName"),
    )


def _containers(spec: Fields, key: str) -> list[Container]:
    return [Container(_requests(each.inner("resources")), each.text("restartPolicy") == "Always") for each in spec.objects(key)]


def _requests(resources: Fields) -> dict[str, int]:
    """What is asked for; where only a limit is given, the limit, as the API server fills it in."""
    return {**resources.amounts("limits"), **resources.amounts("requests")}


def _toleration(fields: Fields) -> Toleration:
    operator = fields.text("operator") or "Equal"
    return Toleration(fields.text("key"), operator, fields.text("value"), fields.text("effect"))


def _node_terms(affinity: Fields) -> tuple[NodeSelectorTerm, ...] | None:
    if not affinity.has(_REQUIRED):
        return None
    terms = affinity.inner(_REQUIRED).objects("nodeSelectorTerms")
    return tuple(
        NodeSelectorTerm(tuple(_requirements(term, "matchExpressions")), tuple(_requirements(term, "matchFields")))
        for term in terms
    )


def _requirements(parent: Fields, key: str) -> Iterator[Requirement]:
    for each in parent.objects(key):
        operator = each.text("operator")
        if operator not in _OPERATORS:
            raise Unreadable(each.at("operator"), f"this should be one of {', '.join(_OPERATORS)}")
        yield Requirement(each.text("key"), operator, each.texts("values"))


def _pod_terms(affinity: Fields, namespace: str) -> Iterator[PodAffinityTerm]:
    for term in affinity.objects(_REQUIRED):
        requirements: tuple[Requirement, ...] | None = None
        if term.has("labelSelector"):
            selector = term.inner("labelSelector")
            equal = (Requirement(key, "In", (value,)) for key, value in sorted(selector.text_map("matchLabels").items()))
            requirements = (*equal, *_requirements(selector, "matchExpressions"))
        namespaces = term.texts("namespaces")
        everywhere = term.has("namespaceSelector")
        yield PodAffinityTerm(term.text("topologyKey"), requirements, None if everywhere else namespaces or (namespace,))


def _unmodelled(spec: Fields, affinity: Fields) -> Iterator[str]:
    if spec.has("resourceClaims"):
        yield "resource claims (DRA)"
    if any(each.text("whenUnsatisfiable") != "ScheduleAnyway" for each in spec.objects("topologySpreadConstraints")):
        yield "topology spread constraints"
    if any(port.has("hostPort") for container in spec.objects("containers") for port in container.objects("ports")):
        yield "host ports"
    terms = [*affinity.inner("podAffinity").objects(_REQUIRED), *affinity.inner("podAntiAffinity").objects(_REQUIRED)]
    if any(term.inner("namespaceSelector").values for term in terms):
        yield "namespace selectors of affinities (taken as all namespaces)"
