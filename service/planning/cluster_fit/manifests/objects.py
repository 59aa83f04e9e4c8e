"""The objects themselves, as plain dictionaries in the order in which people read them."""

from typing import Any, Final

from msgspec import Struct

from service.placement.cluster import CPU, MEMORY, Pod
from service.placement.node_labels import CLIQUE
from service.planning.cluster_fit.manifests.commands import Start
from service.planning.cluster_fit.manifests.selection import Selection
from service.planning.cluster_fit.pods import NAME_LABEL, in_binary_units

Object = dict[str, Any]

DEPLOYMENT: Final = "Deployment"
LEADER_WORKER_SET: Final = "LeaderWorkerSet"
POD_GROUP: Final = "PodGroup"
SCALED_OBJECT: Final = "ScaledObject"
PROVISIONING_REQUEST: Final = "ProvisioningRequest"
CAPACITY_BUFFER: Final = "CapacityBuffer"
KINDS: Final = (DEPLOYMENT, LEADER_WORKER_SET, POD_GROUP, SCALED_OBJECT, PROVISIONING_REQUEST, CAPACITY_BUFFER)
SCHEDULER_PLUGINS: Final = "scheduler-plugins"
VOLCANO: Final = "volcano"
#: Who schedules pods of a PodGroup, under the name that its own installation gives it.
SCHEDULERS: Final = {SCHEDULER_PLUGINS: "scheduler-plugins-scheduler", VOLCANO: "volcano"}
LWS_API: Final = "leaderworkerset.x-k8s.io/v1"
_LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
_LWS_GROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
#: How long a model may take to load: 10 s × 360.
_STARTUP_PROBES: Final = 360
_CONTAINER: Final = "engine"


class Parts(Struct, frozen=True):
    """What the objects are made of."""

    name: str
    namespace: str
    image: str
    port: int
    pod: Pod  # what it asks for, whom it tolerates
    start: Start
    names_its_address: bool  # whether each pod of a group is told its own address
    selection: Selection
    num_replicas: int
    num_pods: int  # of a replica
    needs_one_link_domain: bool
    gang_scheduler: str  # empty where pods belong to no PodGroup

    @property
    def labels(self) -> dict[str, str]:
        """By which everything that belongs together is found."""
        return {NAME_LABEL: self.name}

    @property
    def is_group(self) -> bool:
        """Whether a replica is a group of pods."""
        return self.num_pods > 1

    @property
    def workload(self) -> str:
        """The kind that runs the replicas."""
        return LEADER_WORKER_SET if self.is_group else DEPLOYMENT

    def metadata(self, suffix: str = "") -> Object:
        """Name, namespace and labels of an object."""
        return {"name": f"{self.name}{suffix}", "namespace": self.namespace, "labels": self.labels}


def workload(parts: Parts) -> Object:
    """The Deployment, or for replicas of several pods the LeaderWorkerSet."""
    return _leader_worker_set(parts) if parts.is_group else _deployment(parts)


def _deployment(parts: Parts) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": DEPLOYMENT,
        "metadata": parts.metadata(),
        "spec": {
            "replicas": parts.num_replicas,
            "selector": {"matchLabels": parts.labels},
            # A new pod needs the devices of an old one.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": _template(parts, parts.start.command, parts.start.arguments, serves=True),
        },
    }


def _leader_worker_set(parts: Parts) -> Object:
    start = parts.start
    return {
        "apiVersion": LWS_API,
        "kind": LEADER_WORKER_SET,
        "metadata": parts.metadata(),
        "spec": {
            "replicas": parts.num_replicas,
            "leaderWorkerTemplate": {
                "size": parts.num_pods,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": _template(parts, start.command, start.arguments, serves=True),
                "workerTemplate": _template(parts, start.worker_command, start.worker_arguments, serves=False),
            },
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "startupPolicy": "LeaderCreated",
        },
    }


def pod_template(parts: Parts) -> Object:
    """A pod as autoscalers are to make room for it. Whom it needs beside it is left out: they could not know them."""
    metadata = {"labels": parts.labels}
    spec = _pod_spec(parts, parts.start.command, parts.start.arguments, serves=False)
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": parts.metadata("-template"),
        "template": {"metadata": metadata, "spec": spec},
    }


def pod_group(parts: Parts) -> Object:
    """All replicas as one gang."""
    api = "scheduling.x-k8s.io/v1alpha1" if parts.gang_scheduler == SCHEDULER_PLUGINS else "scheduling.volcano.sh/v1beta1"
    spec: Object = {"minMember": parts.num_replicas * parts.num_pods}
    if parts.gang_scheduler == SCHEDULER_PLUGINS:
        spec["scheduleTimeoutSeconds"] = 60
    return {"apiVersion": api, "kind": POD_GROUP, "metadata": parts.metadata(), "spec": spec}


def provisioning_request(parts: Parts, provisioning_class: str, num_pods: int) -> Object:
    """Asks for room for so many pods, all or none."""
    pods = {"podTemplateRef": {"name": f"{parts.name}-template"}, "count": num_pods}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": PROVISIONING_REQUEST,
        "metadata": parts.metadata(),
        "spec": {"provisioningClassName": provisioning_class, "podSets": [pods]},
    }


def capacity_buffer(parts: Parts, num_pods: int) -> Object:
    """Keeps room for so many pods."""
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": CAPACITY_BUFFER,
        "metadata": parts.metadata(),
        "spec": {
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            "podTemplateRef": {"name": f"{parts.name}-template"},
            "replicas": num_pods,
        },
    }


def scaled_object(parts: Parts, trigger: dict[str, str], least: int, most: int) -> Object:
    """KEDA's ScaledObject over the external scaler, as safe as deploy/autoscalers/README.md says."""
    target = {"name": parts.name}
    if parts.is_group:
        target = {"apiVersion": LWS_API, "kind": LEADER_WORKER_SET, **target}
    never_missed = {"tolerance": "0"}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": SCALED_OBJECT,
        "metadata": parts.metadata(),
        "spec": {
            "scaleTargetRef": target,
            "pollingInterval": 15,
            "minReplicaCount": least,
            "maxReplicaCount": most,
            "fallback": {"failureThreshold": 3, "replicas": least, "behavior": "currentReplicasIfHigher"},
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {
                        "scaleUp": {**never_missed, "stabilizationWindowSeconds": 0},
                        "scaleDown": {**never_missed, "stabilizationWindowSeconds": 300},
                    }
                }
            },
            "triggers": [
                {
                    "type": "external",
                    "metricType": "AverageValue",
                    "authenticationRef": {"name": "tonnage"},
                    "metadata": trigger,
                }
            ],
        },
    }


# --------------------------------------------------------------------------------------------------------------- pods


def _template(parts: Parts, command: tuple[str, ...], arguments: tuple[str, ...], *, serves: bool) -> Object:
    metadata: Object = {"labels": dict(parts.labels)}
    spec = _pod_spec(parts, command, arguments, serves=serves)
    if parts.gang_scheduler == SCHEDULER_PLUGINS:
        metadata["labels"]["scheduling.x-k8s.io/pod-group"] = parts.name
    elif parts.gang_scheduler == VOLCANO:
        metadata["annotations"] = {"scheduling.k8s.io/group-name": parts.name}
    if parts.gang_scheduler:
        spec = {"schedulerName": SCHEDULERS[parts.gang_scheduler], **spec}
    if parts.needs_one_link_domain:
        spec["affinity"] = {**spec.get("affinity", {}), "podAffinity": _beside_its_group(parts)}
    return {"metadata": metadata, "spec": spec}


def _beside_its_group(parts: Parts) -> Object:
    """Only where pods of the same group lie in the same NVLink domain; the first of them goes where it likes."""
    term = {
        "labelSelector": {"matchLabels": {_LWS_NAME: parts.name}},
        "matchLabelKeys": [_LWS_GROUP_KEY],
        "topologyKey": CLIQUE,
    }
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _pod_spec(parts: Parts, command: tuple[str, ...], arguments: tuple[str, ...], *, serves: bool) -> Object:
    container: Object = {
        "name": _CONTAINER,
        "image": parts.image,
        "command": list(command),
        "args": list(arguments),
        "resources": _resources(parts.pod),
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    if parts.is_group and parts.names_its_address:
        address = {"fieldRef": {"fieldPath": "status.podIP"}}
        container["env"] = [{"name": "VLLM_HOST_IP", "valueFrom": address}]
    if serves:
        probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10}
        container["ports"] = [{"name": "http", "containerPort": parts.port}]
        container["startupProbe"] = {**probe, "failureThreshold": _STARTUP_PROBES}
        container["readinessProbe"] = probe
    return {
        **parts.selection.of_pod(dict(parts.pod.node_selector), parts.pod.tolerations),
        "containers": [container],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }


def _resources(pod: Pod) -> Object:
    requests = {}
    for resource, amount in pod.requests.items():
        if resource == CPU:
            requests[resource] = f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
        else:
            requests[resource] = in_binary_units(amount) if resource == MEMORY else str(amount)
    # Of devices a limit is needed, and requests must equal it.
    limits = {resource: amount for resource, amount in requests.items() if resource not in (CPU, MEMORY)}
    return {"requests": requests, "limits": limits}
