"""Where do replicas of a model fit a cluster as it stands, how many, on which nodes, and what would make room for more?"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.placement.affinity import Mask
from service.placement.cluster import Pod
from service.placement.errors import TooMany, Unreadable
from service.placement.replica_fit import MAX_LISTED, Replica, ReplicaRoom
from service.placement.scoring import Scoring, ScoringPolicy
from service.placement.simulate import check_size
from service.placement.state import ClusterState
from service.planning.cluster_fit.device_groups import DeviceGroup, device_groups
from service.planning.cluster_fit.layouts import Layout, NoLayout
from service.planning.cluster_fit.manifests.checks import check_manifests
from service.planning.cluster_fit.manifests.rendering import Rendering, rendered
from service.planning.cluster_fit.names import object_name
from service.planning.cluster_fit.pods import amounts_note, check_tolerations, lying_pods, replica_pod
from service.planning.cluster_fit.remedies import Standing, obstacles, remedies
from service.planning.cluster_fit.requests import FitClusterRequest, ManifestOptions
from service.planning.cluster_fit.results import ClusterFitOption, FitClusterResponse
from service.planning.cluster_fit.shapes import Shapes
from service.planning.errors import InvalidRequest, OutOfTime, TooLarge, Unanswerable, Violation
from service.planning.placement.cluster import ReadCluster, read_cluster
from service.planning.resolve import Resolver
from service.planning.shape_search import describe
from service.planning.streams import NEVER, Stop

_WAITING: Final = "pods that wait already are placed first, whole gangs only, as kube-scheduler ranks nodes out of the box"
_METHOD: Final = (
    "moves: as few pods as make room for one replica more, one node after the other, to nodes that have room for them; pods of "
    "gangs and pods bound to their node stay"
)
_NOT_READ: Final = (
    "PodDisruptionBudgets, pods without a controller and volumes bound to a node are not seen: look at them before pods are "
    "moved"
)


class _Chosen(Struct, frozen=True):
    """A group's layout with room for it; or why there is none."""

    group: DeviceGroup
    reason: str = ""
    layout: Layout | None = None
    room: ReplicaRoom | None = None


def fit_cluster(resolver: Resolver, request: FitClusterRequest, stop: Stop = NEVER) -> FitClusterResponse:
    """What each accelerator of the cluster offers, that with the best answer first, and manifests where they are asked for.

    Raises:
        InvalidRequest: the request contradicts itself, or lacks something.
        NotFound: the catalogue has no such model, engine, accelerator or node type.
        Unanswerable: a figure that is needed is not known of any accelerator of the cluster.
        TooLarge: nodes, pods or shapes are more than are looked at.
        OutOfTime: it was stopped before its end.
    """

    def check_time() -> None:
        if stop.look():
            raise OutOfTime("whoever asked waits no longer")

    try:
        return _Fitting(resolver, request, check_time).answer()
    except TooMany as many:
        raise TooLarge(many.path, many.what, many.limit, many.remedy) from None
    except Unreadable as unreadable:
        raise InvalidRequest(Violation(f"cluster ({unreadable.path})", unreadable.reason, unreadable.remedy)) from None


class _Fitting:
    """One question on its way to its answer."""

    def __init__(self, resolver: Resolver, request: FitClusterRequest, check_time: Callable[[], None]) -> None:
        self._resolver, self._request, self._check_time = resolver, request, check_time
        check_tolerations(request)
        check_manifests(resolver.catalogue, request)
        self._shapes = Shapes(resolver, request)
        self._cluster: ReadCluster = read_cluster(resolver.catalogue, request.cluster)
        check_size(len(self._cluster.nodes), len(self._cluster.pods))
        self._found = device_groups(resolver, request.cluster, self._cluster, request.accelerator)
        options = request.manifests or ManifestOptions()
        self._name = options.name or object_name(request.model)
        self._namespace = options.namespace or "default"

    def answer(self) -> FitClusterResponse:
        """The whole answer."""
        request = self._request
        lying, came = lying_pods(
            self._cluster.nodes, self._cluster.pods, not request.cluster.without_waiting_pods, self._check_time
        )
        chosen = self._chosen(lying)
        options = [(self._option(each, lying), each) for each in chosen]
        options.sort(key=lambda each: _rank(each[0], request.num_replicas))
        rendering = self._rendered(options)
        found = tuple(option for option, _ in options)
        return FitClusterResponse(
            options=found,
            summary=_summary(found, request.num_replicas),
            manifests=rendering.manifests,
            notes=(*self._cluster.notes, *self._found.notes, *self._notes(found), *rendering.notes),
            assumptions=tuple(dict.fromkeys((*self._assumptions(chosen, came), *rendering.assumptions))),
            catalogue_revision=self._resolver.revision,
        )

    def _chosen(self, lying: Sequence[Pod]) -> list[_Chosen]:
        """For each group the layout of which most replicas fit; of several one that fills nodes, then the smallest."""
        laid = []
        for group in self._found.groups:
            self._check_time()
            laid.append((group, self._shapes.of(group)))
        if laid and all(isinstance(each, Unanswerable) for _, each in laid):
            raise next(each for _, each in laid if isinstance(each, Unanswerable))
        replicas = {
            (place, layout): self._replica(group, layout)
            for place, (group, layouts) in enumerate(laid)
            if isinstance(layouts, tuple)
            for layout in layouts
        }
        state = self._state([each.pod for each in replicas.values()], lying)
        chosen = []
        for place, (group, layouts) in enumerate(laid):
            if not isinstance(layouts, tuple):
                chosen.append(_Chosen(group, layouts.reason if isinstance(layouts, NoLayout) else layouts.missing))
                continue
            names = {node.name for node in group.nodes}
            within: Mask = np.array([node.name in names for node in state.nodes], np.bool_)
            rooms = [(layout, ReplicaRoom(state, replicas[place, layout], within)) for layout in layouts]
            layout, room = min(rooms, key=lambda each: self._preference(*each))
            chosen.append(_Chosen(group, "", layout, room))
        return chosen

    def _preference(self, layout: Layout, room: ReplicaRoom) -> tuple[int, bool, int, int]:
        fitting = room.num_replicas()
        wanted = self._request.num_replicas
        count = fitting if wanted is None else min(fitting, wanted)
        return -count, not layout.fills_nodes, layout.num_devices, layout.num_pods

    def _replica(self, group: DeviceGroup, layout: Layout) -> Replica:
        pod = replica_pod(self._request, group, layout, self._namespace, self._name)
        return Replica(pod, layout.num_pods, group.resource, layout.needs_one_link_domain)

    def _state(self, pods: Sequence[Pod], lying: Sequence[Pod]) -> ClusterState:
        packing = ScoringPolicy(Scoring.MOST_ALLOCATED, {self._cluster.device_resource: 1})
        state = ClusterState(self._cluster.nodes, pods, packing, lying)
        for pod in lying:
            if pod.node_name in state.index:
                state.place(state.kind(pod), pod, state.index[pod.node_name])
        return state

    def _option(self, chosen: _Chosen, lying: Sequence[Pod]) -> ClusterFitOption:
        group, layout, room = chosen.group, chosen.layout, chosen.room
        option = ClusterFitOption(
            accelerator=group.device.title,
            device_resource=group.resource,
            num_nodes=len(group.nodes),
            num_devices=group.num_devices,
            num_devices_free=self._num_free(group, lying),
            reason=chosen.reason,
        )
        if layout is None or room is None:
            return option
        wanted = self._request.num_replicas
        now = room.num_replicas()
        taken = room.take(wanted)
        standing = Standing(self._cluster.nodes, lying, room, room.within, taken.num_replicas)
        is_short = wanted is None or now < wanted
        told = obstacles(standing) if is_short else ()
        return replace(
            option,
            fits=now >= (wanted or 1),
            parallelism=layout.parallelism,
            num_devices_per_replica=layout.num_devices,
            num_pods_per_replica=layout.num_pods,
            num_devices_per_pod=layout.devices_per_pod,
            needs_one_link_domain=layout.needs_one_link_domain,
            max_sequences=layout.max_sequences,
            headroom_bytes_per_device=layout.headroom_bytes_per_device,
            num_replicas_now=now,
            replicas=taken.replicas,
            reason=_reason(now, told) if is_short else "",
            obstacles=told,
            remedies=remedies(standing, wanted, self._check_time) if is_short else (),
        )

    def _num_free(self, group: DeviceGroup, lying: Sequence[Pod]) -> int:
        free = {node.name: group.devices_of(node) for node in group.nodes}
        for pod in lying:
            if pod.node_name in free:
                free[pod.node_name] -= pod.requests.get(group.resource, 0)
        return sum(max(each, 0) for each in free.values())

    # ------------------------------------------------------------------------------------------------------ the rest

    def _rendered(self, options: Sequence[tuple[ClusterFitOption, _Chosen]]) -> Rendering:
        first = next(iter(options), None)
        if self._request.manifests is None or first is None:
            return Rendering()
        option, chosen = first
        if chosen.layout is None or chosen.room is None:
            return Rendering(notes=("no manifests: no shape of the model will do",))
        pod = chosen.room.replica.pod
        return rendered(self._resolver, self._request, option, chosen.group, chosen.layout, pod, self._cluster.nodes)

    def _notes(self, options: Sequence[ClusterFitOption]) -> Iterator[str]:
        if any(
            min(each.num_replicas_now, self._request.num_replicas or each.num_replicas_now) > MAX_LISTED for each in options
        ):
            yield f"the first {MAX_LISTED} replicas of each accelerator are listed"
        if any(_exchanges_between_nodes(each) for each in options):
            yield "experts are spread over nodes that no NVLink domain need join: their exchange goes over the network"
        if any(remedy.moves for each in options for remedy in each.remedies):
            yield _METHOD
            yield _NOT_READ

    def _assumptions(self, chosen: Sequence[_Chosen], came: int) -> Iterator[str]:
        yield from self._cluster.assumptions
        yield from self._shapes.assumptions
        for each in chosen:
            yield from each.group.device.notes
            if each.layout is not None:
                yield from amounts_note(self._request, each.group)
        for resource in dict.fromkeys(each.group.resource for each in chosen):
            yield f"pods tolerate taints with the key {resource}"
        if came:
            yield f"{_WAITING}: {came} of them find a node"


def _exchanges_between_nodes(option: ClusterFitOption) -> bool:
    shape = option.parallelism
    return (
        shape is not None and shape.attention_data > 1 and option.num_pods_per_replica > 1 and not option.needs_one_link_domain
    )


def _rank(option: ClusterFitOption, wanted: int | None) -> tuple[bool, int, int, str, str]:
    """The best first: what fits, the most replicas, the fewest devices each."""
    count = option.num_replicas_now if wanted is None else min(option.num_replicas_now, wanted)
    return not option.fits, -count, option.num_devices_per_replica, option.accelerator, option.device_resource


def _reason(now: int, told: Sequence[object]) -> str:
    """The first obstacle as the reason."""
    how = f"{now} {'replica fits' if now == 1 else 'replicas fit'} now" if now else "no replica fits now"
    first = next(iter(told), None)
    why = getattr(first, "reason", "")
    nodes, group = getattr(first, "num_nodes", 0), getattr(first, "node_group", "")
    where = f"{nodes} {'node' if nodes == 1 else 'nodes'} of {group}: " if group else ""
    return f"{how}, and no more: {where}{why}" if now and why else f"{how}: {where}{why}" if why else how


def _summary(options: Sequence[ClusterFitOption], wanted: int | None) -> str:
    if not options:
        return "the cluster has no whole devices"
    best = options[0]
    if best.parallelism is None:
        return f"no replica fits: {best.reason}"
    count = best.num_replicas_now if wanted is None else min(best.num_replicas_now, wanted)
    pods = f" in {best.num_pods_per_replica} pods" if best.num_pods_per_replica > 1 else ""
    shape = f"{describe(best.parallelism)}{pods} on {best.accelerator}"
    if wanted is not None and count < wanted:
        return f"{count} of {wanted} replicas {'fits' if count == 1 else 'fit'} now: {shape}"
    return f"{count} {'replica fits' if count == 1 else 'replicas fit'} now: {shape}"
