"""What can be asked about serving. Field for field the messages of protos/tonnage/v1/serving_service.proto."""

from collections.abc import Mapping

from msgspec import Struct, field

from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision


class SpeculativeDecoding(Struct, frozen=True):
    """Tokens that a request gains in a step, tokens verified besides, and the drafter's time as a part of the step."""

    accepted_tokens_per_step: float
    drafted_tokens_per_step: int
    drafter_step_ratio: float | None = None


class Disaggregation(Struct, frozen=True):
    """Replicas for prompts and for answers; the load is that of all of them."""

    prefill_replicas: int
    decode_replicas: int
    transfer_bytes_per_second: float | None = None


class Workload(Struct, frozen=True):
    """Requests of one kind: exactly one of ``concurrency`` and ``requests_per_second``."""

    input_tokens: int
    output_tokens: int
    concurrency: float | None = None
    requests_per_second: float | None = None
    prefix_cache_hit_ratio: float | None = None
    speculative_decoding: SpeculativeDecoding | None = None
    disaggregation: Disaggregation | None = None


class ServingObservation(Struct, frozen=True):
    """What was measured of this deployment under this load: means over so many requests."""

    num_requests: int
    tpot_seconds: float | None = None
    ttft_seconds: float | None = None
    running_requests: float | None = None


class PrometheusObservation(Struct, frozen=True):
    """Where an observation can be read. Planning reads nothing: a door does, and asks with what it has read."""

    prometheus_url: str
    labels: Mapping[str, str] = field(default_factory=dict)
    window_seconds: int | None = None
    metric_prefix: str = ""


class EstimateServingRequest(Struct, frozen=True):
    """A deployment and its load."""

    model: ModelSpec
    accelerator: AcceleratorSpec
    engine: EngineSpec
    workload: Workload
    parallelism: Parallelism = field(default_factory=Parallelism)
    precision: Precision = field(default_factory=Precision)
    observation: ServingObservation | None = None
    memory_utilization_ratio: float | None = None
    explain: bool = False
    observe: PrometheusObservation | None = None
