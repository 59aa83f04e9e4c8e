"""From keyword arguments to request messages, for questions about a model on a cluster."""

from collections.abc import Iterable, Mapping
from typing import TypedDict, Unpack

from tonnage.placement_requests import Fields, cluster_of, message_of
from tonnage.requests import (
    Accelerator,
    Engine,
    Model,
    _accelerator,
    _either,
    _engine,
    _message,
    _model,
    _parallelism,
    _precision,
)
from tonnage.v1.cluster_fit_pb2 import FitClusterRequest, ManifestOptions
from tonnage.v1.placement_pb2 import NodeGroup, PodToleration


class ReplicaOptions(TypedDict, total=False):
    """What else a replica is to be. Fields are those of FitClusterRequest, whose comments say more."""

    tensor: int | None
    pipeline: int | None
    expert: int | None
    attention_data: int | None
    weights: str | None
    kv_cache: str | None
    compute: str | None
    memory_utilization_ratio: float | None
    max_num_nodes: int | None
    cpus_per_device: float | None
    memory_bytes_per_device: float | None


def fit_cluster(
    request: FitClusterRequest | None = None,
    /,
    *,
    nodes: Iterable[NodeGroup | Fields] = (),
    snapshot: Fields | None = None,
    without_waiting_pods: bool = False,
    model: Model | None = None,
    context_tokens: int | None = None,
    concurrency: int | None = None,
    engine: Engine | None = None,
    num_replicas: int | None = None,
    accelerator: Accelerator | None = None,
    node_selector: Mapping[str, str] | None = None,
    tolerations: Iterable[PodToleration | Fields] = (),
    manifests: ManifestOptions | Fields | bool | None = None,
    **rest: Unpack[ReplicaOptions],
) -> FitClusterRequest:
    """Asks where replicas of a model fit a cluster now, how many, on which nodes, what would help, and for manifests.

    Args:
        request: A ready request, in place of all that follows.
        nodes: Counted nodes: {"count": 4, "node_type": "dgx-h100"}, or messages.
        snapshot: What ``kubectl get nodes,pods -A -o json`` prints. Only what a scheduler reads of it is sent.
        without_waiting_pods: Whether pods of the snapshot that wait are left out. Otherwise they are placed first.
        model: A name ("llama-3.1-70b"), a config.json as a dict, a DenseModel or a ModelSpec.
        context_tokens: Tokens that each sequence holds. Needed.
        concurrency: Sequences that a replica holds at once. Default 1.
        engine: The engine whose word on memory goes, and which manifests start: "vllm", "vllm==0.19", or an EngineSpec.
        num_replicas: Replicas that are wanted. Default: as many as fit.
        accelerator: What the devices are of nodes that do not say it themselves.
        node_selector: Labels that nodes must carry.
        tolerations: Taints that pods tolerate: {"key": "team", "value": "serving"}, or messages.
        manifests: True for all that apply, {"kinds": ["Deployment"], "namespace": "serving"}, or the message.
        rest: See ReplicaOptions. Without a shape, the smallest legal one that fits is looked for.

    Raises:
        InvalidRequest: Something in the request is malformed or contradictory.
        NotFound: The catalogue knows no such model, engine, accelerator or node type.
        Unanswerable: A figure that the answer needs does not exist.
        Overloaded: There are more nodes or pods than are looked at.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    asked = _message(
        FitClusterRequest,
        cluster=cluster_of(nodes, snapshot, without_waiting_pods),
        model=_model(model),
        context_tokens=context_tokens,
        concurrency=concurrency,
        engine=_engine(engine),
        num_replicas=num_replicas,
        accelerator=_accelerator(accelerator),
        node_selector=dict(node_selector) if node_selector else None,
        tolerations=[message_of(PodToleration, each, f"tolerations[{place}]") for place, each in enumerate(tolerations)],
        manifests=_manifests(manifests),
        **_of_replica(rest),
    )
    return _either(request, asked)


def _manifests(asked: ManifestOptions | Fields | bool | None) -> ManifestOptions | None:
    if asked is None or isinstance(asked, bool):
        return ManifestOptions() if asked else None
    return message_of(ManifestOptions, asked, "manifests")


def _of_replica(options: ReplicaOptions) -> dict[str, object]:
    """The options as fields of the message."""
    ways = (options.get("tensor"), options.get("pipeline"), options.get("expert"), options.get("attention_data"))
    formats = (options.get("weights"), options.get("kv_cache"), options.get("compute"))
    grouped = {"tensor", "pipeline", "expert", "attention_data", "weights", "kv_cache", "compute"}
    plain = {name: value for name, value in options.items() if name not in grouped}
    return {"parallelism": _parallelism(*ways), "precision": _precision(*formats), **plain}
