"""Every way in which pods say that they belong together.

Sources: kubernetes/api ``core/v1`` and ``scheduling``; kubernetes-sigs/scheduler-plugins ``apis/scheduling``; volcano-sh/apis
``pkg/apis/scheduling``; kubernetes-sigs/kueue ``pkg/controller/jobs/pod/constants``; kubernetes-sigs/lws
``api/leaderworkerset/v1``.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from service.placement.cluster import Gang, GangSpelling

SCHEDULER_PLUGINS_LABELS: Final = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
VOLCANO_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
KUEUE_LABEL: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL_ANNOTATION: Final = "kueue.x-k8s.io/pod-group-total-count"
LWS_NAME_LABEL: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP_LABEL: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_SIZE_ANNOTATION: Final = "leaderworkerset.sigs.k8s.io/size"

#: Annotations that decide about gangs: all that a reader need keep.
ANNOTATIONS: Final = (*VOLCANO_ANNOTATIONS, KUEUE_TOTAL_ANNOTATION, LWS_SIZE_ANNOTATION)
#: The same for labels, whose other values selectors may want.
LABELS: Final = (*SCHEDULER_PLUGINS_LABELS, KUEUE_LABEL, LWS_NAME_LABEL, LWS_GROUP_LABEL)

_LARGEST_COUNT: Final = 2**31 - 1


class PodFields(Struct, frozen=True):
    """The fields of a pod's spec that name its group: of 1.35 (workloadRef) and of 1.36 and later (schedulingGroup)."""

    workload: str = ""  # workloadRef.name
    workload_group: str = ""  # workloadRef.podGroup
    workload_replica: str = ""  # workloadRef.podGroupReplicaKey
    scheduling_group: str = ""  # schedulingGroup.podGroupName


#: Minimum counts by spelling and by the group's "namespace/name" (for workloadRef "namespace/workload/pod group").
GroupCounts = Mapping[tuple[GangSpelling, str], int]
_NO_FIELDS: Final = PodFields()


def gang_of(
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    fields: PodFields = _NO_FIELDS,
    groups: GroupCounts | None = None,
) -> Gang | None:
    """The gang that a pod belongs to; None for a pod on its own.

    Where several spellings are given (Kueue over LeaderWorkerSet, say), that which a scheduler itself reads comes first.
    ``groups`` holds what the groups' own objects say (``group_counts``), where they are at hand.
    """
    return next(_gangs(namespace, labels, annotations, fields, groups or {}), None)


def _gangs(
    namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str], fields: PodFields, groups: GroupCounts
) -> Iterator[Gang]:
    if fields.scheduling_group:
        key = f"{namespace}/{fields.scheduling_group}"
        yield _gang(GangSpelling.SCHEDULING_GROUP, key, key, groups)
    if fields.workload:
        group = f"{namespace}/{fields.workload}/{fields.workload_group}"
        key = f"{group}/{fields.workload_replica}" if fields.workload_replica else group
        yield _gang(GangSpelling.WORKLOAD_REF, key, group, groups)
    for label in SCHEDULER_PLUGINS_LABELS:
        if labels.get(label):
            key = f"{namespace}/{labels[label]}"
            yield _gang(GangSpelling.SCHEDULER_PLUGINS, key, key, groups)
    for annotation in VOLCANO_ANNOTATIONS:
        if annotations.get(annotation):
            key = f"{namespace}/{annotations[annotation]}"
            yield _gang(GangSpelling.VOLCANO, key, key, groups)
    if labels.get(KUEUE_LABEL):
        total = _count(annotations.get(KUEUE_TOTAL_ANNOTATION, ""))
        yield Gang(f"{namespace}/{labels[KUEUE_LABEL]}", total, total, GangSpelling.KUEUE)
    if labels.get(LWS_NAME_LABEL) and labels.get(LWS_GROUP_LABEL):
        key = f"{namespace}/{labels[LWS_NAME_LABEL]}/{labels[LWS_GROUP_LABEL]}"
        size = _count(annotations.get(LWS_SIZE_ANNOTATION, "")) or groups.get(
            (GangSpelling.LEADER_WORKER_SET, f"{namespace}/{labels[LWS_NAME_LABEL]}")
        )
        yield Gang(key, size, size, GangSpelling.LEADER_WORKER_SET)


def _gang(spelling: GangSpelling, key: str, group: str, groups: GroupCounts) -> Gang:
    return Gang(key, groups.get((spelling, group)), None, spelling)


def _count(text: str) -> int | None:
    """The count that a label or annotation holds; None where it holds none, and the pods at hand are counted instead."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    number = int(text)
    return number if 1 <= number <= _LARGEST_COUNT else None


# -------------------------------------------------------------------------------------------------- the groups' objects


def group_counts(item: Mapping[str, object]) -> Iterator[tuple[tuple[GangSpelling, str], int]]:
    """What an object of kind PodGroup, Workload or LeaderWorkerSet says about how many pods must be placed at once.

    Nothing for any other object, and for groups that are no gangs (policy ``basic``): pods of a Workload or PodGroup without a
    gang policy count as gangs of one.
    """
    api_group, kind = str(item.get("apiVersion", "")).partition("/")[0], item.get("kind")
    metadata, spec = _object(item.get("metadata")), _object(item.get("spec"))
    name = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    if kind == "PodGroup" and api_group == "scheduling.x-k8s.io":
        yield from _counted(GangSpelling.SCHEDULER_PLUGINS, name, spec.get("minMember"))
    elif kind == "PodGroup" and api_group == "scheduling.volcano.sh":
        yield from _counted(GangSpelling.VOLCANO, name, spec.get("minMember"))
    elif kind == "PodGroup" and api_group == "scheduling.k8s.io":
        yield from _counted(GangSpelling.SCHEDULING_GROUP, name, _gang_minimum(spec))
    elif kind == "Workload" and api_group == "scheduling.k8s.io":
        listed = spec.get("podGroups") or spec.get("podGroupTemplates")
        for each in listed if isinstance(listed, list | tuple) else ():
            group = _object(each)
            yield from _counted(GangSpelling.WORKLOAD_REF, f"{name}/{group.get('name')}", _gang_minimum(group))
    elif kind == "LeaderWorkerSet":
        yield from _counted(GangSpelling.LEADER_WORKER_SET, name, _object(spec.get("leaderWorkerTemplate")).get("size", 1))


def _gang_minimum(group: Mapping[str, object]) -> object:
    """The minimum of ``policy.gang.minCount`` (also spelled schedulingPolicy); 1 where the policy is not a gang's."""
    policy = _object(group.get("policy") or group.get("schedulingPolicy"))
    return _object(policy.get("gang")).get("minCount", 1)


def _counted(spelling: GangSpelling, name: str, count: object) -> Iterator[tuple[tuple[GangSpelling, str], int]]:
    if isinstance(count, int | float) and not isinstance(count, bool) and 1 <= count <= _LARGEST_COUNT:
        yield (spelling, name), int(count)


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
