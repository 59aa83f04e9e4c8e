"""From an answer to the manifests that start it: what is rendered, what is refused, what is only said."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

import yaml
from msgspec import Struct

from service.catalogue.lookup import engine as look_up_engine
from service.placement.cluster import Node, Pod
from service.planning import defaults
from service.planning.cluster_fit.device_groups import DeviceGroup
from service.planning.cluster_fit.layouts import Layout
from service.planning.cluster_fit.manifests import objects
from service.planning.cluster_fit.manifests.checks import model_path, serving_engine
from service.planning.cluster_fit.manifests.commands import PORTS, VLLM, NotStarted, Serving, image_of, start_of
from service.planning.cluster_fit.manifests.objects import Object, Parts
from service.planning.cluster_fit.manifests.selection import Selection, selection
from service.planning.cluster_fit.manifests.trigger import trigger_metadata, why_no_trigger
from service.planning.cluster_fit.requests import FitClusterRequest, ManifestOptions
from service.planning.cluster_fit.results import ClusterFitOption, Manifest
from service.planning.requests import EngineSpec
from service.planning.resolve import Resolver

_PROVISIONING_CLASS: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
_NVIDIA: Final = "NVIDIA"
_GANG: Final = (
    "the PodGroup starts all replicas together or none, and its pods are scheduled by {}, which must be installed; "
    "LeaderWorkerSet can make a PodGroup for each group itself (its setting gangSchedulingManagement)"
)
_DOMAIN: Final = (
    "pods of a group are kept in one NVLink domain by an affinity to each other over nvidia.com/gpu.clique; a scheduler that "
    "places one pod at a time may begin in a domain that has no room for all"
)
_CONSUME: Final = (
    "pods use what the ProvisioningRequest brings if they carry the annotation "
    "autoscaling.x-k8s.io/consume-provisioning-request: {}"
)
_BUFFER: Final = "the CapacityBuffer is of v1beta1: Cluster Autoscaler 1.35 and later, Karpenter 1.14"


class Rendering(Struct, frozen=True):
    """Manifests, and what is to be said about them."""

    manifests: tuple[Manifest, ...] = ()
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


def rendered(
    resolver: Resolver,
    request: FitClusterRequest,
    option: ClusterFitOption,
    group: DeviceGroup,
    layout: Layout,
    pod: Pod,
    nodes: Sequence[Node],
) -> Rendering:
    """The manifests that the request asks for.

    Args:
        resolver: knows the catalogue.
        request: asks for manifests, and has been checked.
        option: whose replicas they start.
        group: its nodes.
        layout: its replicas.
        pod: one pod of these.
        nodes: all of the cluster.
    """
    asked = request.manifests or ManifestOptions()
    serving = _serving(resolver, request, layout)
    image = asked.image
    if not image and group.device.vendor not in ("", _NVIDIA):
        return Rendering(notes=(f"no manifests: no image of {serving.engine} for {group.device.vendor} is known: give image",))
    try:
        start = start_of(serving)
    except NotStarted as reason:
        return Rendering(notes=(f"no manifests: {reason}",))
    wanted = _Wanted(asked, layout)
    parts = Parts(
        name=pod.name,
        namespace=pod.namespace,
        image=image or image_of(serving.engine, _version(resolver, serving)),
        port=PORTS[serving.engine],
        pod=pod,
        start=start,
        names_its_address=serving.engine == VLLM,
        selection=selection(group.nodes, nodes, group.resource),
        num_replicas=max(1, request.num_replicas or option.num_replicas_now),
        num_pods=layout.num_pods,
        needs_one_link_domain=layout.needs_one_link_domain,
        gang_scheduler=(asked.gang_scheduler or objects.SCHEDULER_PLUGINS) if wanted.pod_group else "",
    )
    why_not = why_no_trigger(request, group)
    made = tuple(_objects(request, option, parts, wanted, group, serving, why_not))
    return Rendering(
        manifests=tuple(map(_manifest, made)),
        notes=(*_beyond(parts, option), *_notes(resolver, request, parts, wanted, serving, why_not)),
        assumptions=() if request.engine else ("manifests start vLLM, since no engine is given",),
    )


class _Wanted:
    """Which kinds are rendered. A PodGroup, where no kinds are named, only for replicas of several pods."""

    def __init__(self, asked: ManifestOptions, layout: Layout) -> None:
        named = frozenset(asked.kinds)
        self.workload = not named or bool(named & {objects.DEPLOYMENT, objects.LEADER_WORKER_SET})
        self.pod_group = objects.POD_GROUP in named or (not named and layout.num_pods > 1)
        self.scaled_object = not named or objects.SCALED_OBJECT in named
        self.provisioning_request = not named or objects.PROVISIONING_REQUEST in named
        self.capacity_buffer = not named or objects.CAPACITY_BUFFER in named


def _objects(
    request: FitClusterRequest,
    option: ClusterFitOption,
    parts: Parts,
    wanted: _Wanted,
    group: DeviceGroup,
    serving: Serving,
    why_not: str,
) -> Iterator[Object]:
    asked = request.manifests or ManifestOptions()
    if wanted.workload:
        yield objects.workload(parts)
    if wanted.pod_group:
        yield objects.pod_group(parts)
    if wanted.scaled_object and not why_not and asked.scaling is not None:
        least = asked.scaling.min_replicas or 1
        most = max(least, asked.scaling.max_replicas or parts.num_replicas)
        yield objects.scaled_object(parts, trigger_metadata(request, asked.scaling, group, serving, most), least, most)
    if wanted.provisioning_request or wanted.capacity_buffer:
        yield objects.pod_template(parts)
    if wanted.provisioning_request:
        missing = max(1, (request.num_replicas or 0) - option.num_replicas_now)
        provisioning_class = asked.provisioning_class or _PROVISIONING_CLASS
        yield objects.provisioning_request(parts, provisioning_class, missing * parts.num_pods)
    if wanted.capacity_buffer:
        yield objects.capacity_buffer(parts, (asked.num_buffer_replicas or 1) * parts.num_pods)


def _beyond(parts: Parts, option: ClusterFitOption) -> Iterator[str]:
    if parts.num_replicas > option.num_replicas_now:
        replicas = "1 replica" if parts.num_replicas == 1 else f"{parts.num_replicas} replicas"
        yield f"the manifests ask for {replicas}, of which {option.num_replicas_now} fit now"


def _notes(
    resolver: Resolver, request: FitClusterRequest, parts: Parts, wanted: _Wanted, serving: Serving, why_not: str
) -> Iterator[str]:
    if wanted.pod_group:
        yield _GANG.format(objects.SCHEDULERS[parts.gang_scheduler])
    if parts.needs_one_link_domain and wanted.workload:
        yield _DOMAIN
    if wanted.scaled_object and why_not:
        yield f"no ScaledObject: {why_not}"
    if wanted.provisioning_request:
        yield _CONSUME.format(parts.name)
    if wanted.capacity_buffer:
        yield _BUFFER
    if parts.selection == Selection():
        yield "no label tells these nodes from others with such devices: pods may go to others, too"
    weights, stored = request.precision.weights, resolver.architecture(request.model).checkpoint_precision
    if weights not in (None, stored) and not serving.quantizes:
        stays = f"the manifest loads {serving.model_path} as it is stored"
        yield f"{stays}; for weights in {weights} name such a checkpoint in model_path"


def _serving(resolver: Resolver, request: FitClusterRequest, layout: Layout) -> Serving:
    engine = serving_engine(resolver.catalogue, request)
    stored = resolver.architecture(request.model).checkpoint_precision
    ratio = None
    if request.engine is None:
        ratio = defaults.memory_ratio(request.memory_utilization_ratio)[0]
    return Serving(
        engine=engine,
        model_path=model_path(resolver.catalogue, request),
        settings=request.engine or EngineSpec(name=engine),
        precision=request.precision,
        context_tokens=request.context_tokens,
        memory_ratio=ratio,
        quantizes=request.precision.weights == "fp8" and stored in ("bf16", "fp16", "fp32"),
        layout=layout,
    )


def _version(resolver: Resolver, serving: Serving) -> str:
    return serving.settings.version or look_up_engine(resolver.catalogue, serving.engine).newest_version


def _manifest(made: Object) -> Manifest:
    # Through JSON, so that nothing is one object twice, which YAML would write as an anchor and its alias. ASCII alone, so that
    # nothing in a name can pass for a line's end or be hidden.
    text = yaml.safe_dump(json.loads(json.dumps(made)), sort_keys=False, allow_unicode=False, width=120)
    return Manifest(made["kind"], made["apiVersion"], made["metadata"]["name"], text)
