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

    Give either ``concurrency`` (so many requests in flight, a closed loop) or ``requests_per_second`` (arrivals at random).

    Args:
        request: A ready request, in place of all that follows.
        model: A name ("llama-3.1-70b"), a config.json as a dict, a DenseModel or a ModelSpec.
        accelerator: A name ("h200-sxm"), an InlineAccelerator or an AcceleratorSpec.
        engine: "vllm", "vllm==0.19", or an EngineSpec with its flags.
        tensor: Tensor-parallel ranks. Default 1.
        pipeline: Pipeline stages. Default 1.
        expert: Expert-parallel groups. Default 1.
        attention_data: Data-parallel attention groups. Default 1.
        weights: Number format of the weights. Default: the checkpoint's own.
        kv_cache: Number format of the KV cache. Default: as the calibrated runs are taken to have kept it.
        compute: Number format that the matrix units multiply in. Default: by the weights' format.
        input_tokens: Tokens of a prompt.
        output_tokens: Tokens of an answer.
        concurrency: Requests kept in flight on one replica.
        requests_per_second: Requests that arrive at one replica, at random.
        prefix_cache_hit_ratio: The part of a prompt that the prefix cache holds already, 0 to 0.999. Default 0.
        speculative_decoding: Tokens drafted and accepted, where the engine speculates.
        disaggregation: Replicas for prompts and replicas for answers, where they are apart.
        observation: What was measured of this deployment under this load: the estimate is corrected by it.
        observe: A Prometheus server to read that from; the operator has to allow it.
        memory_utilization_ratio: Share of the memory that the engine may take, 0 to 1. Default: its flag's, else 0.9.
        explain: Whether the answer carries every formula applied.

    Raises:
        InvalidRequest: Something in the request is malformed or contradictory.
        NotFound: The catalogue knows no such model, accelerator or calibrated engine.
        Unanswerable: A figure that the answer needs does not exist, or the Prometheus server cannot be read.
        TonnageError: Any other failure; see ``tonnage.errors``.
    """
    load: dict[str, object] = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "concurrency": concurrency,
        "requests_per_second": requests_per_second,
        "prefix_cache_hit_ratio": prefix_cache_hit_ratio,
        "speculative_decoding": speculative_decoding,
        "disaggregation": disaggregation,
    }
    asked = _message(
        EstimateServingRequest,
        model=_model(model),
        accelerator=_accelerator(accelerator),
        engine=_engine(engine),
        parallelism=_parallelism(tensor, pipeline, expert, attention_data),
        precision=_precision(weights, kv_cache, compute),
        workload=None if all(each is None for each in load.values()) else _message(Workload, "workload", **load),
        observation=observation,
        observe=observe,
        memory_utilization_ratio=memory_utilization_ratio,
        explain=explain,
    )
    return _either(request, asked)
