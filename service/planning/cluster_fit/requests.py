"""What can be asked. Field for field the request messages of cluster_fit.proto, whose comments are the glossary.

As in ``service.planning.requests``: ``None`` and empty texts mean "not given", and planning states the default that it takes.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from service.planning.placement.requests import Cluster, PodToleration
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision


class ManifestScaling(Struct, frozen=True):
    """What KEDA's trigger says to the external scaler."""

    input_tokens: float
    output_tokens: float
    scaler_address: str = ""
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    requests_per_second: float | None = None
    prometheus_server: str = ""
    query: str = ""
    min_replicas: int | None = None
    max_replicas: int | None = None


class ManifestOptions(Struct, frozen=True):
    """Which manifests are rendered, and what stands in them."""

    kinds: tuple[str, ...] = ()
    name: str = ""
    namespace: str = ""
    image: str = ""
    model_path: str = ""
    gang_scheduler: str = ""
    provisioning_class: str = ""
    num_buffer_replicas: int | None = None
    scaling: ManifestScaling | None = None


class FitClusterRequest(Struct, frozen=True):
    """A cluster as it stands, and a model whose replicas are to find a place in it."""

    cluster: Cluster
    model: ModelSpec
    context_tokens: int
    precision: Precision = Precision()
    parallelism: Parallelism | None = None
    concurrency: int | None = None
    memory_utilization_ratio: float | None = None
    engine: EngineSpec | None = None
    num_replicas: int | None = None
    accelerator: AcceleratorSpec | None = None
    max_num_nodes: int | None = None
    cpus_per_device: float | None = None
    memory_bytes_per_device: float | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[PodToleration, ...] = ()
    manifests: ManifestOptions | None = None
