"""What the labels of a node say about its devices and about the group that it belongs to.

Sources: NVIDIA/k8s-device-plugin (GPU feature discovery: labels of sharing, MIG and NVLink cliques); the node-pool labels of
GKE, EKS, AKS and Karpenter.
"""

from collections.abc import Mapping
from typing import Final

PRODUCT: Final = "nvidia.com/gpu.product"
MEMORY_MIB: Final = "nvidia.com/gpu.memory"
COUNT: Final = "nvidia.com/gpu.count"
REPLICAS: Final = "nvidia.com/gpu.replicas"
CLIQUE: Final = "nvidia.com/gpu.clique"
_SHARED: Final = "-SHARED"
_PARTITIONED: Final = "-MIG-"
#: Labels by which operators name groups of nodes, the most telling first.
GROUP_LABELS: Final = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/instance-type",
    PRODUCT,
)
_UNNAMED: Final = "nodes"
_LONGEST_COUNT: Final = 6  # digits


def num_shares_per_device(labels: Mapping[str, str]) -> int:
    """By how many pods one device is shared (time slices or MPS); 1 where each is a whole one.

    A product that ends in -SHARED is shared also where nothing says by how many: then by 2 at least.
    """
    replicas = _count(labels.get(REPLICAS, ""))
    return max(replicas, 2) if labels.get(PRODUCT, "").endswith(_SHARED) else max(replicas, 1)


def partition(labels: Mapping[str, str]) -> str:
    """The MIG profile that one ``nvidia.com/gpu`` stands for (strategy single); empty for whole devices.

    >>> partition({PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"})
    '1g.5gb'
    """
    return labels.get(PRODUCT, "").removesuffix(_SHARED).partition(_PARTITIONED)[2]


def link_domain(labels: Mapping[str, str]) -> str | None:
    """The NVLink domain, as cluster and clique number; None where the node reports none."""
    return labels.get(CLIQUE) or None


def node_group(labels: Mapping[str, str]) -> str:
    """What the operator calls nodes of this kind."""
    return next((labels[label] for label in GROUP_LABELS if labels.get(label)), _UNNAMED)


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_COUNT else 1
