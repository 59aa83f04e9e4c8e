"""Clusters and questions for tests of FitCluster."""

from typing import Any

from service.planning.cluster_fit.requests import FitClusterRequest, ManifestOptions
from service.planning.cluster_fit.results import ClusterFitOption
from service.planning.placement.requests import Cluster, NodeGroup
from service.planning.requests import ModelSpec
from tests.placement.clusters import listed, node_object

LLAMA_70B = ModelSpec(name="meta-llama/Llama-3.1-70B")
LLAMA_405B = ModelSpec(name="llama-3.1-405b")
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def h100(name: str, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A node of eight H100 as kubectl prints it."""
    return node_object(name, 8, H100 | (labels or {}), **more)


def tray(rack: int, number: int) -> dict[str, Any]:
    """A tray of four GB200 in a rack of one NVLink domain."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-GB200", "nvidia.com/gpu.clique": f"rack-{rack}.0"}
    return node_object(f"r{rack}-{number}", 4, labels)


def on(*items: dict[str, Any], counted: tuple[NodeGroup, ...] = (), **fields: Any) -> FitClusterRequest:
    """A question about a snapshot of these objects; 8,192 tokens and Llama 3.1 70B where nothing else is said."""
    asked: dict[str, Any] = {"model": LLAMA_70B, "context_tokens": 8192} | fields
    return FitClusterRequest(cluster=Cluster(counted, listed(*items) if items else None), **asked)


def manifests(**fields: Any) -> ManifestOptions:
    """What is to be rendered."""
    return ManifestOptions(**fields)


def shown(option: ClusterFitOption) -> list[dict[str, int]]:
    """The devices that each replica takes of each node."""
    return [{each.node: each.num_devices for each in one.placements} for one in option.replicas]
