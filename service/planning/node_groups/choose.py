"""The choice: which node group grows for the pods that wait."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from service.catalogue.entries import Catalogue
from service.placement.scoring import ScoringPolicy
from service.placement.state import ClusterState
from service.planning.errors import Undecided
from service.planning.node_groups.devices import Cost, NodeDevices, num_devices
from service.planning.node_groups.memory import ModelMemory
from service.planning.node_groups.options import NO_GANG, Choice, Indices, NodeGroup, Standing, WaitingPods, Weights
from service.planning.node_groups.ranking import best_of
from service.planning.node_groups.served import Served
from service.planning.resolve import Resolver

_Fits = NDArray[np.bool_]
_NO_MODEL = -1
_MOST_REASONS = 3


def always_in_time() -> None:
    """Where no deadline is kept."""


class NodeGroupChooser:
    """Chooses against one catalogue. Keeps nothing of a question but what models need on devices."""

    def __init__(self, catalogue: Catalogue, resolver: Resolver, weights: Weights | None = None) -> None:
        self._memory = ModelMemory(resolver)
        self._devices = NodeDevices(catalogue)
        self._weights = weights or Weights()

    def choose(
        self, groups: Sequence[NodeGroup], waiting: WaitingPods, check_time: Callable[[], None] = always_in_time
    ) -> Choice:
        """The best options: those that tie, in the order of their ids, whatever the order they are given in.

        Args:
            groups: the options. Ids are unique.
            waiting: the pods that the options speak of.
            check_time: raises where the answer would come too late; called often.

        Raises:
            Undecided: there is no option, or none that a pod fits.
        """
        if not groups:
            raise Undecided("there are no options")
        if len({group.id for group in groups}) < len(groups):
            raise Undecided("two options have one id")
        fits, obstacles, unknown = self._fits(groups, waiting, check_time)
        per_gang = _needed(waiting)
        # Sums of what anybody may ask for are beyond 64-bit integers.
        requests = np.array([num_devices(kind.pod.requests) for kind in waiting.kinds], np.float64)
        standings = []
        for place, group in enumerate(groups):
            check_time()
            cost = self._devices.cost(group.node)
            standings.append(_standing(group, fits[:, place], obstacles.get(place, ""), waiting, per_gang, requests, cost))
        able = [each for each in standings if each.num_fitting]
        if not able:
            raise Undecided(f"no pod fits any option: {_reasons(standings)}")
        return Choice(best_of(able, self._weights), unknown)

    # ------------------------------------------------------------------------------------------------------------ fits

    def _fits(
        self, groups: Sequence[NodeGroup], waiting: WaitingPods, check_time: Callable[[], None]
    ) -> tuple[_Fits, dict[int, str], Counter[str]]:
        """Which kinds fit a node of which group, why one does not, and what could not be judged."""
        kinds = waiting.kinds
        # Templates of several groups may have one name, and a pod that is pinned to a node by its name waits for no group.
        nodes = [replace(group.node, name=str(place)) for place, group in enumerate(groups)]
        state = ClusterState(nodes, [kind.pod for kind in kinds], ScoringPolicy())
        columns = np.array([state.index[node.name] for node in nodes], np.intp)
        fits = np.zeros((len(kinds), len(groups)), np.bool_)
        for row, kind in enumerate(kinds):
            check_time()
            fits[row] = (state.room(state.kind(kind.pod)) > 0)[columns]
        obstacles, unknown = self._refuse_by_memory(fits, groups, waiting, check_time)
        return fits, obstacles, unknown

    def _refuse_by_memory(
        self, fits: _Fits, groups: Sequence[NodeGroup], waiting: WaitingPods, check_time: Callable[[], None]
    ) -> tuple[dict[int, str], Counter[str]]:
        """Takes out of ``fits`` the kinds whose model is too large for a group's devices. What cannot be judged stays."""
        serving = _Serving.of(waiting)
        obstacles: dict[int, str] = {}
        unknown: Counter[str] = Counter()
        unjudged: dict[int, str] = {}
        for place, group in enumerate(groups if serving.models else ()):
            check_time()
            present = np.unique(serving.model_of[waiting.kind_of[group.pods]])
            present = present[present != _NO_MODEL]
            device = self._devices.device(group.node)
            if device is None:
                unknown["device"] += bool(present.size)
                continue
            for model in present.tolist():
                check_time()
                verdict = self._memory.verdict(serving.models[model][0], device, serving.models[model][1])
                if verdict.unknown:
                    unjudged[model] = verdict.unknown
                elif not verdict.fits:
                    fits[serving.model_of == model, place] = False
                    obstacles.setdefault(place, verdict.reason)
        unknown.update(unjudged.values())
        return obstacles, unknown


class _Serving(Struct, frozen=True, eq=False):
    """What the waiting pods serve, each thing once with the devices that a pod has for it; and which one each kind serves."""

    models: tuple[tuple[Served, int], ...]
    model_of: Indices

    @classmethod
    def of(cls, waiting: WaitingPods) -> "_Serving":
        """Of kinds that ask for devices: what asks for none is a router, or counts its devices otherwise."""
        places: dict[tuple[Served, int], int] = {}
        model_of = np.full(len(waiting.kinds), _NO_MODEL, np.intp)
        for row, kind in enumerate(waiting.kinds):
            devices = num_devices(kind.pod.requests)
            if kind.served is not None and devices:
                model_of[row] = places.setdefault((kind.served, devices), len(places))
        return cls(tuple(places), model_of)


def _needed(waiting: WaitingPods) -> NDArray[np.int64]:
    """For each gang, how many of its pods make it whole. What does not wait runs already, or waits for something else."""
    members = waiting.gang_of[waiting.gang_of != NO_GANG]
    waits = np.bincount(members, minlength=len(waiting.gangs))
    needed = [min(gang.needed(int(known)), int(known)) for gang, known in zip(waiting.gangs, waits, strict=True)]
    return np.array(needed, np.int64)


def _standing(
    group: NodeGroup,
    fits: _Fits,
    obstacle: str,
    waiting: WaitingPods,
    needed: NDArray[np.int64],
    devices_of_kind: NDArray[np.float64],
    cost: Cost | None,
) -> Standing:
    kinds = waiting.kind_of[group.pods]
    gangs = waiting.gang_of[group.pods]
    fitting = fits[kinds]
    placed = np.bincount(gangs[fitting] + 1, minlength=len(waiting.gangs) + 1)[1:]
    whole = (placed >= needed) & (placed > 0)
    runs = fitting & ((gangs == NO_GANG) | np.append(whole, False)[gangs])
    num_running, in_gangs, in_whole = int(runs.sum()), int(placed.sum()), int(placed[whole].sum())
    num_fitting = int(fitting.sum())
    at_work = runs if num_running else fitting  # where there are only parts, the fuller part is the better one
    bought = max(group.num_nodes, 1) * num_devices(group.node.allocatable)
    used = int(devices_of_kind[kinds[at_work]].sum())
    per_pod = None
    if cost is not None and num_fitting:
        per_pod = cost.amount_per_hour * max(group.num_nodes, 1) / int(at_work.sum())
    return Standing(
        group=group,
        num_pods=len(kinds),
        num_fitting=num_fitting,
        num_running=num_running,
        num_gangs=int((placed > 0).sum()),
        num_whole_gangs=int(whole.sum()),
        gang_ratio=in_whole / in_gangs if in_gangs else 1.0,
        num_devices=bought,
        num_idle_devices=max(bought - used, 0),
        cost_per_pod=per_pod,
        currency=cost.currency if cost else "",
        obstacle=obstacle,
    )


def _reasons(standings: Iterable[Standing]) -> str:
    listed = sorted(standings, key=lambda each: each.group.id)
    told = [f"{each.group.id}: {each.obstacle or 'too small, or kept apart by labels or taints'}" for each in listed]
    more = f" (and {len(told) - _MOST_REASONS} more)" if len(told) > _MOST_REASONS else ""
    return "; ".join(told[:_MOST_REASONS]) + more
