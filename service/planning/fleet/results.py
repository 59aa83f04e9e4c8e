"""What is answered about fleets. Field for field the messages of protos/tonnage/v1/fleet_service.proto."""

from enum import StrEnum

from msgspec import Struct

from service.planning.fleet.requests import ServiceLevel
from service.planning.money import Price, UnreadPrice
from service.planning.requests import Parallelism
from service.planning.results import Explanation
from service.planning.serving.results import EstimateBasis, Interval


class FleetLimit(StrEnum):
    """What decides how much one replica carries."""

    TTFT = "TTFT"
    TPOT = "TPOT"
    END_TO_END = "END_TO_END"
    KV_CAPACITY = "KV_CAPACITY"
    ENGINE_LIMIT = "ENGINE_LIMIT"
    SATURATION = "SATURATION"


class PoolRole(StrEnum):
    """What the replicas of a pool do."""

    AGGREGATED = "AGGREGATED"
    PREFILL = "PREFILL"
    DECODE = "DECODE"


class ExcuseReason(StrEnum):
    """What rejected an option."""

    DOES_NOT_FIT = "DOES_NOT_FIT"
    MISSES_SERVICE_LEVEL = "MISSES_SERVICE_LEVEL"
    NOT_CALIBRATED = "NOT_CALIBRATED"
    NO_PRICE = "NO_PRICE"
    UNANSWERABLE = "UNANSWERABLE"
    TOO_LARGE = "TOO_LARGE"
    COSTS_MORE = "COSTS_MORE"


class Ranking(StrEnum):
    """What plans are ranked by."""

    COST = "COST"
    POWER = "POWER"
    DEVICES = "DEVICES"


class FleetPool(Struct, frozen=True):
    """Replicas that are alike and do the same; times are those at the percentile, under the demand."""

    role: PoolRole
    workloads: tuple[str, ...]
    parallelism: Parallelism
    num_devices_per_replica: int
    num_replicas: int
    max_requests_per_second_per_replica: float
    utilization_ratio: float
    binding_limit: FleetLimit
    effective_batch_size: float
    ttft_seconds: float | None
    tpot_seconds: float | None
    end_to_end_seconds: float | None


class FleetCost(Struct, frozen=True):
    """What a fleet costs, all in ``currency``, and the price that it comes from."""

    cost_per_hour: float
    cost_per_year: float
    input_cost_per_million_tokens: float
    output_cost_per_million_tokens: float
    currency: str
    cost_per_unit_hour: float
    price: Price | None
    purchase_date: str
    exchange_rate_date: str
    notes: tuple[str, ...]


class FleetPlan(Struct, frozen=True):
    """One fleet."""

    rank: int
    node_type: str
    accelerator: str
    engine: str
    engine_version: str
    is_disaggregated: bool
    is_mixed: bool
    pools: tuple[FleetPool, ...]
    num_nodes: int
    num_redundant_nodes: int
    num_devices: int
    sized_for_requests_per_second: float
    max_requests_per_second: float
    cost: FleetCost | None
    watts: float | None
    facility_watts: float | None
    output_tokens_per_joule: float | None
    utilization_ratio: float
    binding_limit: FleetLimit
    calibration: str
    calibration_basis: EstimateBasis
    is_familiar: bool


class LeastRegret(Struct, frozen=True):
    """The fleet to choose where the demand is a range."""

    plan: FleetPlan
    requests_per_second: float
    expected_regret_per_hour: float
    max_regret_per_hour: float
    unit: str
    weights: tuple[float, ...]


class FleetExcuse(Struct, frozen=True):
    """Why an option is not among the plans."""

    node_type: str
    accelerator: str
    engine: str
    parallelism: Parallelism | None
    is_disaggregated: bool
    reason: ExcuseReason
    text: str
    limit: FleetLimit | None = None
    at_least_seconds: float | None = None
    allowed_seconds: float | None = None
    fitting_parallelism: Parallelism | None = None
    fitting_num_nodes: int | None = None


class Infeasible(Struct, frozen=True):
    """A service level that nothing allowed meets, and the nearest that something does."""

    reason: str
    relaxation_ratio: float
    nearest_plan: FleetPlan | None
    nearest_service_level: ServiceLevel | None


class FrontPoint(Struct, frozen=True):
    """A point of a front."""

    node_type: str
    accelerator: str
    engine: str
    parallelism: Parallelism
    requests_per_second_per_replica: float
    output_tokens_per_second_per_user: float
    output_tokens_per_second_per_device: float
    cost_per_million_output_tokens: float | None
    ttft_seconds: float


class PlanFleetResponse(Struct, frozen=True):
    """Fleets, fronts and excuses."""

    plans: tuple[FleetPlan, ...]
    least_regret: LeastRegret | None
    infeasible: Infeasible | None
    excuses: tuple[FleetExcuse, ...]
    pareto_front: tuple[FrontPoint, ...]
    cost_front: tuple[FrontPoint, ...]
    ranking: Ranking
    num_candidates: int
    unread_prices: tuple[UnreadPrice, ...]
    assumptions: tuple[str, ...]
    catalogue_revision: str
    explanation: Explanation | None = None


class DensePeak(Struct, frozen=True):
    """A dense peak of one number format."""

    precision: str
    peak_dense_flops_per_second: float
    ridge_point_flops_per_byte: float | None


class ComparedAccelerator(Struct, frozen=True):
    """One accelerator under the workload; ``None`` is what is not known."""

    accelerator: str
    counted_unit: str
    peaks: tuple[DensePeak, ...]
    memory_bandwidth_bytes_per_second: float | None
    usable_memory_bytes: float
    max_watts: float | None
    decode_step_seconds: float | None
    decode_tokens_per_second_per_device: float | None
    prefill_seconds: float | None
    prefill_tokens_per_second_per_device: float | None
    fits: bool | None
    output_tokens_per_second_per_device: Interval | None
    tpot_seconds: Interval | None
    ttft_seconds: Interval | None
    cost_per_device_hour: float | None
    bound_cost_per_million_output_tokens: float | None
    bound_joules_per_million_output_tokens: float | None
    estimated_cost_per_million_output_tokens: Interval | None
    currency: str
    price: Price | None
    notes: tuple[str, ...]
    estimated_joules_per_million_output_tokens: Interval | None
    explanation: Explanation | None


class GenerationStep(Struct, frozen=True):
    """How one accelerator stands beside the first."""

    from_accelerator: str
    to_accelerator: str
    from_precision: str
    to_precision: str
    peak_ratio: float
    same_precision_peak_ratio: float | None
    precision_peak_ratio: float | None
    bandwidth_ratio: float | None
    memory_ratio: float
    weight_bytes_ratio: float
    decode_speedup_at_most: float | None
    ridge_point_ratio: float | None
    text: str


class CompareAcceleratorsResponse(Struct, frozen=True):
    """Side by side."""

    accelerators: tuple[ComparedAccelerator, ...]
    generations: tuple[GenerationStep, ...]
    unread_prices: tuple[UnreadPrice, ...]
    assumptions: tuple[str, ...]
    catalogue_revision: str
