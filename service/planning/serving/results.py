"""What is answered about serving. Field for field the messages of protos/tonnage/v1/serving_service.proto."""

from enum import StrEnum

from msgspec import Struct

from service.planning.results import DecodeBound, Explanation
from service.planning.serving.requests import ServingObservation


class EstimateBasis(StrEnum):
    """What a calibration rests on."""

    MEASURED = "MEASURED"
    PRIOR = "PRIOR"


class Interval(Struct, frozen=True):
    """A range: eight runs in ten lie between p10 and p90, and p50 is the estimate."""

    p10: float
    p50: float
    p90: float


class RequestTimes(Struct, frozen=True):
    """One time as requests see it."""

    mean: Interval
    p50: Interval
    p90: Interval
    p99: Interval


class ServingTerms(Struct, frozen=True):
    """Where the time goes. Seconds."""

    decode_step_seconds: float
    weights_seconds: float
    experts_seconds: float
    attention_seconds: float
    collectives_seconds: float
    layers_seconds: float
    host_seconds: float
    prefill_seconds: float
    interference_seconds: float


class ServingCorrection(Struct, frozen=True):
    """How an observation moved the estimate: corrected over calibrated."""

    num_requests: int
    tpot_ratio: float | None
    ttft_ratio: float | None
    observation: ServingObservation


class ServingEstimate(Struct, frozen=True):
    """What will be served. Times are absent where there is no steady state, those between tokens in answers of one token."""

    tpot_seconds: Interval | None
    ttft_seconds: Interval | None
    tpot_over_requests: RequestTimes | None
    ttft_over_requests: RequestTimes | None
    end_to_end_seconds: Interval | None
    output_tokens_per_second: Interval
    output_tokens_per_second_per_user: Interval | None
    output_tokens_per_second_per_device: Interval
    requests_per_second: Interval
    max_requests_per_second: Interval
    effective_batch_size: float
    running_requests: float
    queued_requests: float
    queue_seconds: float
    max_running_requests: float
    kv_pool_occupancy_ratio: float
    utilization_ratio: float
    calibration: str
    calibration_basis: EstimateBasis
    is_familiar: bool
    terms: ServingTerms
    correction: ServingCorrection | None = None


class EstimateServingResponse(Struct, frozen=True):
    """The estimate, or why there is none, and the bound."""

    estimate: ServingEstimate | None
    no_estimate_reason: str
    bound: DecodeBound
    saturated: bool
    saturation: str
    fits: bool | None
    num_devices: int
    assumptions: tuple[str, ...]
    catalogue_revision: str
    explanation: Explanation | None = None
