"""Which accelerator a node's labels mean, how much memory one device of it has, and what the node costs."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from service.catalogue.entries import Catalogue
from service.placement.cluster import DEVICE_RESOURCES, Node
from service.placement.node_labels import MEMORY_MIB, PRODUCT, num_shares_per_device, partition
from service.planning.errors import InvalidRequest, NotFound
from service.planning.money import PriceTerm
from service.planning.price_choice import Quote
from service.planning.prices import PriceBook
from service.planning.requests import AcceleratorSpec, InlineAccelerator

_INSTANCE_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_REGIONS: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
#: Labels that name the device, the most exact first: GPU feature discovery, AMD's labeller, GKE, Karpenter, EKS.
_DEVICE_LABELS: Final = (
    PRODUCT,
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
)
#: Labels and values by which providers mark what can be taken away at any time.
_SPOT: Final = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)
_SLICES: Final = "nvidia.com/mig-"
_LONGEST_MIB: Final = 9  # digits
_CACHED: Final = 4096


class Cost(Struct, frozen=True):
    """What one node costs per hour, in the currency that the price is in."""

    amount_per_hour: float
    currency: str


class Device(Struct, frozen=True):
    """One device: of the catalogue, by its name; else what its label calls it, and its memory."""

    name: str = ""
    label: str = ""
    usable_memory_bytes: float = 0.0

    @property
    def spec(self) -> AcceleratorSpec:
        """The device as planning takes it, which is not hashable where it is not of the catalogue."""
        if self.name:
            return AcceleratorSpec(name=self.name)
        return AcceleratorSpec(inline=InlineAccelerator(self.label, usable_memory_bytes=self.usable_memory_bytes))


def is_device(resource: str) -> bool:
    """Whether a resource counts devices or slices of them."""
    return resource in DEVICE_RESOURCES or resource.startswith(_SLICES)


def num_devices(amounts: Mapping[str, int]) -> int:
    """Devices, and slices of them, among amounts by resource."""
    return sum(count for resource, count in amounts.items() if is_device(resource))


class NodeDevices:
    """Reads labels of nodes against one catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._prices = PriceBook(catalogue)
        self._cost_of = lru_cache(maxsize=_CACHED)(self._priced)

    def device(self, node: Node) -> Device | None:
        """One whole device of the node, or one slice where all are sliced alike; None where its memory is not known."""
        labels = node.labels
        if num_shares_per_device(labels) > 1:  # several pods share its memory, nobody knows in which parts
            return None
        if not partition(labels):
            name = self._by_device_label(labels) or self._by_instance_type(labels)
            if name is not None:
                return Device(name)
        memory = labels.get(MEMORY_MIB, "")
        if memory.isascii() and memory.isdigit() and 0 < len(memory) <= _LONGEST_MIB and int(memory):
            return Device(label=labels.get(PRODUCT, "GPU"), usable_memory_bytes=int(memory) * 2.0**20)
        return None

    # Names are looked up as they are: the nearest ones to an unknown name take milliseconds to find, for each node group.

    def _by_device_label(self, labels: Mapping[str, str]) -> str | None:
        known = self._catalogue
        for label in _DEVICE_LABELS:
            value = labels.get(label, "").casefold()
            name = known.accelerator_names.get(value) or known.accelerators_by_label.get(value)
            if name is not None:
                return name
        return None

    def _by_instance_type(self, labels: Mapping[str, str]) -> str | None:
        name = self._node_type(labels)
        return None if name is None else self._catalogue.node_types[name].accelerator

    def _node_type(self, labels: Mapping[str, str]) -> str | None:
        names = (self._catalogue.node_type_names.get(labels.get(label, "").casefold()) for label in _INSTANCE_TYPES)
        return next((name for name in names if name is not None), None)

    def cost(self, node: Node) -> Cost | None:
        """The catalogue's price of the node's instance type: of its region, else of any; None where there is none."""
        name = self._node_type(node.labels)
        if name is None:
            return None
        term = PriceTerm.SPOT if any(node.labels.get(label) == value for label, value in _SPOT) else PriceTerm.ON_DEMAND
        region = next((node.labels[label] for label in _REGIONS if node.labels.get(label)), "")
        return self._cost_of(name, term, region) or self._cost_of(name, term, "")

    def _priced(self, name: str, term: PriceTerm, region: str) -> Cost | None:
        try:
            quote = self._prices.node_price(name, term=term, region=region)
        except (NotFound, InvalidRequest):
            return None
        if not isinstance(quote, Quote) or quote.amount_per_node_hour is None:
            return None
        return Cost(quote.amount_per_node_hour, quote.currency)
