"""The nouns of a cluster, as far as a scheduler reads them: nodes, pods, and what keeps one from the other.

All of them are frozen. Amounts are whole numbers in base units: ``cpu`` in millicores, ``memory`` and ``ephemeral-storage`` in
bytes, everything else (``pods``, ``nvidia.com/gpu``, ``nvidia.com/mig-1g.5gb``) in pieces.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
NVIDIA_GPU: Final = "nvidia.com/gpu"
#: What device plugins call one whole device.
DEVICE_RESOURCES: Final = (
    NVIDIA_GPU,
    "amd.com/gpu",
    "gpu.intel.com/xe",
    "gpu.intel.com/i915",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "google.com/tpu",
)


def is_device(resource: str) -> bool:
    """Whether a resource is a device, or a MIG partition of one under a name of its own."""
    return resource in DEVICE_RESOURCES or "/mig-" in resource


class Effect(StrEnum):
    """What a taint does to pods that do not tolerate it, as Kubernetes spells it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(Struct, frozen=True):
    """What a node keeps pods away with. ``effect`` is one of ``Effect``, or a word that Kubernetes may add later."""

    key: str
    value: str = ""
    effect: str = Effect.NO_SCHEDULE


class Toleration(Struct, frozen=True):
    """What lets a pod pass a taint. Empty ``key``: every key. Empty ``effect``: every effect. Empty ``operator``: Equal."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Requirement(Struct, frozen=True):
    """One expression over labels: ``operator`` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    """Expressions that must all hold. A term without any matches no node. ``match_fields`` know ``metadata.name`` alone."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class PodAffinityTerm(Struct, frozen=True):
    """A required term of pod affinity or anti-affinity: which pods, and within which topology (a label of nodes).

    ``requirements`` are the label selector's matchLabels and matchExpressions together; None stands for no selector, which
    matches no pod, and an empty tuple for the empty selector, which matches all. ``namespaces`` None means every namespace.
    """

    topology_key: str
    requirements: tuple[Requirement, ...] | None
    namespaces: tuple[str, ...] | None


class GangSpelling(StrEnum):
    """Who says that pods belong together."""

    WORKLOAD_REF = "core workloadRef (1.35)"
    SCHEDULING_GROUP = "core schedulingGroup (1.36 and later)"
    SCHEDULER_PLUGINS = "scheduler-plugins PodGroup"
    VOLCANO = "Volcano PodGroup"
    KUEUE = "Kueue pod group"
    LEADER_WORKER_SET = "LeaderWorkerSet group"


class Gang(Struct, frozen=True):
    """A group of pods that make sense only together.

    ``key`` is unique among the gangs of a cluster ("namespace/name", with what else tells two groups apart). ``min_count`` pods
    must be placed before any of them is of use; None where nothing at hand says how many. ``total_count`` is how many pods the
    group has in all, where it says so.
    """

    key: str
    min_count: int | None
    total_count: int | None
    spelling: GangSpelling

    def needed(self, num_pods: int) -> int:
        """How many pods must be placed at once, for a group of which ``num_pods`` are known."""
        return self.min_count or self.total_count or num_pods


class Node(Struct, frozen=True):
    """A node: what it is called, what it keeps away, and what it can give to pods.

    ``num_shares_per_device`` above 1: its devices are time-sliced or shared otherwise, and one of its ``nvidia.com/gpu`` is no
    whole GPU. ``partition``: what one of its ``nvidia.com/gpu`` is instead of a whole one (MIG strategy single, "1g.5gb").
    ``link_domain`` names the devices' fast link (NVLink): nodes of one name share it; None where only the devices of the node
    itself are joined, or nothing is said. ``group``: what its operator calls nodes of its kind: a pool, an instance type.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    allocatable: Mapping[str, int] = field(default_factory=dict)
    num_shares_per_device: int = 1
    partition: str = ""
    link_domain: str | None = None
    group: str = "nodes"

    @property
    def has_whole_devices(self) -> bool:
        """Whether one device of its is one physical device, all of it."""
        return self.num_shares_per_device == 1 and not self.partition


class Pod(Struct, frozen=True):
    """A pod: what it asks for, where it may go, and with whom.

    ``requests`` is what fits are judged by; ``scored_requests`` is what scores are computed from, where containers that say
    nothing of CPU or memory count as 100m and 200Mi each (``constraints.scored_requests``). ``node_name`` is empty while it
    waits. ``required_node_terms`` None: no required node affinity; an empty tuple matches no node.
    """

    namespace: str
    name: str
    requests: Mapping[str, int] = field(default_factory=dict)
    scored_requests: Mapping[str, int] = field(default_factory=dict)
    node_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required_node_terms: tuple[NodeSelectorTerm, ...] | None = None
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    priority: int = 0
    scheduling_gates: tuple[str, ...] = ()
    gang: Gang | None = None
    created: str = ""  # when, as an ISO date: pods that wait are taken in this order
    unmodelled: tuple[str, ...] = ()  # what it asks for that nothing here respects, such as resource claims

    @property
    def full_name(self) -> str:
        """Namespace and name, as ``kubectl`` would name it."""
        return f"{self.namespace}/{self.name}"
