"""What KEDA's trigger says to the external scaler of this service, in the keys of deploy/autoscalers/README.md."""

from collections.abc import Iterator
from typing import Final

from service.planning.cluster_fit.device_groups import DeviceGroup
from service.planning.cluster_fit.manifests.commands import Serving
from service.planning.cluster_fit.requests import FitClusterRequest, ManifestOptions, ManifestScaling

_SCALER: Final = "tonnage-keda.tonnage.svc.cluster.local:50062"


def why_no_trigger(request: FitClusterRequest, group: DeviceGroup) -> str:
    """Why the external scaler cannot be asked about this; empty where it can."""
    asked = request.manifests or ManifestOptions()
    if asked.scaling is None:
        return "give scaling, which says what to scale by"
    if request.model.name is None:
        return "the scaler knows models by their names in the catalogue"
    if not group.device.name:
        return "the scaler knows accelerators by their names in the catalogue"
    return ""


def trigger_metadata(
    request: FitClusterRequest, scaling: ManifestScaling, group: DeviceGroup, serving: Serving, most: int
) -> dict[str, str]:
    """The trigger's metadata, all of it text; what the scaler takes by itself is left out."""
    return dict(_pairs(request, scaling, group, serving, most))


def _pairs(
    request: FitClusterRequest, scaling: ManifestScaling, group: DeviceGroup, serving: Serving, most: int
) -> Iterator[tuple[str, str]]:
    shape, settings = serving.layout.parallelism, serving.settings
    yield "scalerAddress", scaling.scaler_address or _SCALER
    yield "model", request.model.name or ""
    yield "accelerator", group.device.name
    yield "engine", serving.engine
    for key, value, default in (
        ("engineVersion", settings.version, None),
        ("tensor", shape.tensor, 1),
        ("pipeline", shape.pipeline, 1),
        ("expert", shape.expert, 1),
        ("attentionData", shape.attention_data, 1),
        ("weights", request.precision.weights, None),
        ("kvCache", request.precision.kv_cache, None),
        ("compute", request.precision.compute, None),
        ("maxNumSeqs", settings.max_num_seqs, None),
        ("maxNumBatchedTokens", settings.max_num_batched_tokens, None),
        ("memoryUtilizationRatio", settings.gpu_memory_utilization or serving.memory_ratio, None),
        ("ttftSeconds", scaling.ttft_seconds, None),
        ("tpotSeconds", scaling.tpot_seconds, None),
        ("requestsPerSecond", scaling.requests_per_second, None),
        ("prometheusServer", scaling.prometheus_server, ""),
        ("query", scaling.query, ""),
        ("inputTokens", scaling.input_tokens, None),
        ("outputTokens", scaling.output_tokens, None),
        ("minReplicas", scaling.min_replicas, None),
        ("maxReplicas", most, None),
    ):
        if value is not None and value != default:
            yield key, f"{value:.12g}" if isinstance(value, float) else str(value)
