"""From keyword arguments to request messages, for what engines really serve."""

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
from tonnage.v1.serving_service_pb2 import (
    Disaggregation,
    EstimateServingRequest,
    PrometheusObservation,
    ServingObservation,
    SpeculativeDecoding,
    Workload,
)


def estimate_serving(
    request: EstimateServingRequest | None = None,
    /,
    *,
    model: Model | None = None,
    accelerator: Accelerator | None = None,
    engine: Engine | None = None,
    tensor: int | None = None,
    pipeline: int | None = None,
    expert: int | None = None,
    attention_data: int | None = None,
    weights: str | None = None,
    kv_cache: str | None = None,
    compute: str | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    concurrency: float | None = None,
    requests_per_second: float | None = None,
    prefix_cache_hit_ratio: float | None = None,
    speculative_decoding: SpeculativeDecoding | None = None,
    disaggregation: Disaggregation | None = None,
    observation: ServingObservation | None = None,
    observe: PrometheusObservation | None = None,
    memory_utilization_ratio: float | None = None,
    explain: bool = False,
) -> EstimateServingRequest:
    """Asks what an engine really serves: times to and between tokens, throughput, batch and queue, each a range, and the bound.

    What is not listed is as in ``estimate_decode``, the exceptions too.

    Args:
        request: A ready request, in place of all that follows.
        engine: "vllm", "vllm==0.19", or an EngineSpec with its flags.
        kv_cache: Number format of the KV cache. Default: as the calibrated runs are taken to have kept it.
        input_tokens, output_tokens: Tokens of a prompt, and of an answer.
        concurrency, requests_per_second: Requests kept in flight on one replica, or arriving there at random: one of the two.
        prefix_cache_hit_ratio: The part of a prompt that the prefix cache holds already, 0 to 0.999. Default 0.
        speculative_decoding: Tokens drafted and accepted, where the engine speculates.
        disaggregation: Replicas for prompts and replicas for answers, where they are apart.
        observation: What was measured of this deployment under this load: the estimate is corrected by it.
        observe: A Prometheus server to read that from. Unanswerable unless the operator allows it.
        memory_utilization_ratio: Share of the memory that the engine may take, 0 to 1. Default: its flag's, else 0.9.
    """
    split, formats = (tensor, pipeline, expert, attention_data), (weights, kv_cache, compute)
    lengths = (input_tokens, output_tokens)
    load = (concurrency, requests_per_second, prefix_cache_hit_ratio, speculative_decoding, disaggregation)
    asked = _message(
        EstimateServingRequest,
        **_deployment(model, accelerator, engine, split, formats),
        workload=_workload(*lengths, *load),
        observation=observation,
        observe=observe,
        memory_utilization_ratio=memory_utilization_ratio,
        explain=explain,
    )
    return _either(request, asked)


def _deployment(
    model: Model | None,
    accelerator: Accelerator | None,
    engine: Engine | None,
    split: tuple[int | None, int | None, int | None, int | None],
    formats: tuple[str | None, str | None, str | None],
) -> dict[str, object]:
    return {
        "model": _model(model),
        "accelerator": _accelerator(accelerator),
        "engine": _engine(engine),
        "parallelism": _parallelism(*split),
        "precision": _precision(*formats),
    }


def _workload(*values: object) -> Workload | None:
    """The values in the order of the message's fields; None where none is given."""
    fields = dict(zip((field.name for field in Workload.DESCRIPTOR.fields), values, strict=True))
    return None if all(each is None for each in values) else _message(Workload, "workload", **fields)
