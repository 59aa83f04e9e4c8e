"""The Cluster Autoscaler's gRPC expander (``--expander=grpc``): which node group shall grow for the pending pods.

An error passes every option on to the Cluster Autoscaler's next expander, and an empty answer would grow nothing at all. So
whatever cannot be decided with good reason is an error, and an answer has at least one option, always one of those asked about.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final

import numpy as np

from service.api.autoscalers.compat import grpcplugin_pb2 as pb
from service.api.autoscalers.kubernetes_reading import PodReader, parsed, read_node
from service.api.autoscalers.metrics import AutoscalerMetrics
from service.api.autoscalers.server import Method, UnaryMethod
from service.api.errors import Unreadable, shortened
from service.api.grpc_port import Context
from service.placement import errors as placement_errors
from service.placement.cluster import Gang
from service.planning.errors import OutOfTime
from service.planning.node_groups.choose import NodeGroupChooser
from service.planning.node_groups.options import NO_GANG, Choice, Indices, NodeGroup, WaitingPods, Weights
from service.planning.planner import Planner
from service.settings import Settings
from service.telemetry import RpcName

RPCS: Final = (RpcName("grpcplugin.Expander", "BestOptions"),)
#: One Cluster Autoscaler asks one question at a time; each holds its request, and while it is read four times as much.
MAX_CONCURRENT_REQUESTS: Final = 4
#: How long the Cluster Autoscaler waits; taken where a caller does not say how long it will.
_PATIENCE_SECONDS: Final = 5.0
#: Of that, what is kept for the way back.
_RESERVED_RATIO: Final = 0.1
_RESERVED_SECONDS: Final = 0.5
_PODS_BETWEEN_CHECKS: Final = 512
_LONGEST_DEBUG: Final = 200


def methods(planner: Planner, settings: Settings, metrics: AutoscalerMetrics, executor: Executor) -> Sequence[Method]:
    """What the door serves."""
    weights = Weights(
        settings.expander_fit_weight,
        settings.expander_gang_weight,
        settings.expander_waste_weight,
        settings.expander_cost_weight,
    )
    chooser = NodeGroupChooser(planner.catalogue, planner.resolver, weights)

    async def best_options(request: bytes, context: Context) -> bytes:
        seconds = _usable_seconds(context.time_remaining())
        deadline = time.monotonic() + seconds

        def work() -> tuple[bytes, Choice]:
            return answer(chooser, request, lambda: _check(deadline))

        loop = asyncio.get_running_loop()
        try:
            answered, choice = await asyncio.wait_for(loop.run_in_executor(executor, work), seconds)
        except TimeoutError:
            raise _too_late() from None
        metrics.expander_unjudged(choice.unknown)
        return answered

    return (UnaryMethod(RPCS[0], best_options),)


def answer(chooser: NodeGroupChooser, request: bytes, check_time: Callable[[], None]) -> tuple[bytes, Choice]:
    """The serialized answer, and the choice that it tells.

    Args:
        chooser: chooses.
        request: a serialized ``grpcplugin.BestOptionsRequest``.
        check_time: raises where the answer would come too late; called often.

    Raises:
        Unreadable: something in the request cannot be read.
        Undecided: no option can be chosen with good reason.
    """
    groups, waiting = read_question(request, check_time)
    try:
        choice = chooser.choose(groups, waiting, check_time)
    except placement_errors.Unreadable as error:
        raise Unreadable(f"the options cannot be read: {error}") from None
    best = [pb.Option(nodeGroupId=each.group.id, debug=shortened(each.reason, _LONGEST_DEBUG)) for each in choice.best]
    return pb.BestOptionsResponse(options=best).SerializeToString(), choice


def read_question(request: bytes, check_time: Callable[[], None]) -> tuple[list[NodeGroup], WaitingPods]:
    """The options and the pods that they speak of. Unreadable where any of it cannot be read."""
    asked = parsed(pb.BestOptionsRequest, request, "the request")
    check_time()
    templates = asked.nodeBytesMap or asked.nodeMap
    pods = _Pods(check_time)
    groups = []
    for option in asked.options:
        check_time()
        if option.nodeGroupId not in templates:
            raise Unreadable(f"option {shortened(option.nodeGroupId)!r} comes without its template node")
        node = read_node(templates[option.nodeGroupId], f"the template node of {shortened(option.nodeGroupId)!r}")
        groups.append(NodeGroup(option.nodeGroupId, node, option.nodeCount, pods.places(option.podBytes or option.pod)))
    return groups, pods.waiting()


class _Pods(dict[bytes, int]):
    """The place of each pod by its bytes: every option repeats the pods that it would help."""

    def __init__(self, check_time: Callable[[], None]) -> None:
        self._check_time = check_time
        self._reader = PodReader()
        self._kinds: list[int] = []
        self._gangs: list[int] = []
        self._gang_places: dict[str, int] = {}
        self._known_gangs: list[Gang] = []

    def __missing__(self, data: bytes) -> int:
        place = len(self._kinds)
        if place % _PODS_BETWEEN_CHECKS == 0:
            self._check_time()
        pod = self._reader.read(data)
        self._kinds.append(pod.kind)
        self._gangs.append(NO_GANG if pod.gang is None else self._gang_place(pod.gang))
        self[data] = place
        return place

    def _gang_place(self, gang: Gang) -> int:
        place = self._gang_places.setdefault(gang.key, len(self._known_gangs))
        if place == len(self._known_gangs):
            self._known_gangs.append(gang)
        elif self._known_gangs[place].min_count is None:  # not every pod of a gang need say how many there are
            self._known_gangs[place] = gang
        return place

    def places(self, pods: Sequence[bytes]) -> Indices:
        """The places of an option's pods."""
        return np.fromiter(map(self.__getitem__, pods), np.intp, len(pods))

    def waiting(self) -> WaitingPods:
        """All pods that were read."""
        kinds, gangs = np.array(self._kinds, np.intp), np.array(self._gangs, np.intp)
        return WaitingPods(tuple(self._reader.kinds), tuple(self._known_gangs), kinds, gangs)


def _usable_seconds(remaining_seconds: float | None) -> float:
    """How long the work may take, so that the answer still arrives in time. OutOfTime where nothing is left."""
    remaining = _PATIENCE_SECONDS if remaining_seconds is None else remaining_seconds
    usable = remaining - min(_RESERVED_SECONDS, _RESERVED_RATIO * remaining)
    if usable <= 0:
        raise _too_late()
    return usable


def _check(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise _too_late()


def _too_late() -> OutOfTime:
    return OutOfTime("the answer would come after the caller's deadline; fewer or smaller options take less time")
