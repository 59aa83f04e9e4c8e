"""The nouns of the choice: what waits, where it could go, how criteria are weighed, and what was chosen."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from service.placement.cluster import Gang, Node, Pod
from service.planning.node_groups.served import Served

Indices = NDArray[np.intp]
#: The gang of a pod that has none.
NO_GANG = -1


class PodKind(Struct, frozen=True):
    """Pods that ask for the same, may go to the same nodes and serve the same. ``pod`` is one of them."""

    pod: Pod
    served: Served | None = None


class WaitingPods(Struct, frozen=True, eq=False):
    """The pods that wait: for each its kind, and its gang (``NO_GANG`` where it has none), as places in the two lists."""

    kinds: tuple[PodKind, ...]
    gangs: tuple[Gang, ...]
    kind_of: Indices
    gang_of: Indices


class NodeGroup(Struct, frozen=True, eq=False):
    """A node group that could grow by ``num_nodes`` nodes like ``node``, and the waiting pods that would go there."""

    id: str
    node: Node
    num_nodes: int
    pods: Indices


class Weights(Struct, frozen=True):
    """How much each criterion counts. All None: in the order in which they stand here, the next only among equals.

    With weights, each option gets a score: the sum of weight × ratio, where the ratios are from 0 to 1 and 1 is best:

    - fit: pods that can run, over those of the option with the most;
    - gangs: pods in whole gangs, over all pods in gangs; 1 where there are none;
    - waste: devices in use over devices bought; 1 where no devices are bought;
    - cost: the lowest cost of a pod over that of the option; 0 for all where a cost is unknown or currencies differ.

    A weight that is not given is then 0. Equal scores are decided in the order above.
    """

    fit: float | None = None
    gangs: float | None = None
    waste: float | None = None
    cost: float | None = None

    @property
    def are_given(self) -> bool:
        """Whether any is."""
        return any(each is not None for each in (self.fit, self.gangs, self.waste, self.cost))


class Standing(Struct, frozen=True):
    """How an option does by each criterion."""

    group: NodeGroup
    num_pods: int  # that it was offered for
    num_fitting: int
    num_running: int  # of the fitting, those that are alone or whose gang is whole
    num_gangs: int
    num_whole_gangs: int
    gang_ratio: float
    num_devices: int  # bought
    num_idle_devices: int
    cost_per_pod: float | None
    currency: str
    obstacle: str  # why some pod does not fit; empty where all do

    @property
    def waste_ratio(self) -> float:
        """Devices without work over devices bought; 0 where none are."""
        return self.num_idle_devices / self.num_devices if self.num_devices else 0.0

    @property
    def reason(self) -> str:
        """The standing in a few words."""
        words = [f"{self.num_fitting} of {self.num_pods} pods fit"]
        if self.num_gangs:
            words.append(f"{self.num_whole_gangs} of {self.num_gangs} gangs whole")
        if self.num_devices:
            words.append(f"{self.num_idle_devices} of {self.num_devices} devices idle")
        if self.cost_per_pod is not None:
            words.append(f"{self.cost_per_pod:.2f} {self.currency}/h a pod")
        return ", ".join(words)


class Choice(Struct, frozen=True):
    """The best options, by id in order: one, or several that tie. ``unknown`` counts what kept pods from being judged."""

    best: tuple[Standing, ...]
    unknown: Mapping[str, int] = field(default_factory=Counter)
