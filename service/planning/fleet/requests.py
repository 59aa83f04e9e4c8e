"""What can be asked about fleets. Field for field the messages of protos/tonnage/v1/fleet_service.proto."""

from enum import StrEnum

from msgspec import Struct, field

from service.planning.money import CostSplit, PriceList, PriceTerm
from service.planning.purchase import Power, PurchaseModel
from service.planning.requests import EngineSpec, ModelSpec, Parallelism, Precision


class Percentile(StrEnum):
    """How many requests a time holds for."""

    P50 = "P50"
    P90 = "P90"
    P99 = "P99"


class Certainty(StrEnum):
    """How sure a plan is to keep its service level."""

    EXPECTED = "EXPECTED"
    CAUTIOUS = "CAUTIOUS"


class Demand(Struct, frozen=True):
    """Requests per second over the whole fleet: a figure, or a range around it that holds with ``confidence``."""

    mid: float
    low: float | None = None
    high: float | None = None
    confidence: float | None = None


class ServiceLevel(Struct, frozen=True):
    """What requests are to see, at the percentile. At least one time is given."""

    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    end_to_end_seconds: float | None = None
    percentile: Percentile | None = None


class FleetWorkload(Struct, frozen=True):
    """Requests of one kind."""

    input_tokens: int
    output_tokens: int
    requests_per_second: Demand
    name: str = ""
    prefix_cache_hit_ratio: float | None = None
    service_level: ServiceLevel | None = None


class PlanFleetRequest(Struct, frozen=True):
    """Which fleets to look for."""

    model: ModelSpec
    workloads: tuple[FleetWorkload, ...]
    service_level: ServiceLevel | None = None
    node_types: tuple[str, ...] = ()
    accelerators: tuple[str, ...] = ()
    devices_per_node: int | None = None
    engines: tuple[EngineSpec, ...] = ()
    precision: Precision = field(default_factory=Precision)
    max_tensor: int | None = None
    headroom_ratio: float | None = None
    redundant_nodes: int | None = None
    certainty: Certainty | None = None
    disaggregated: bool = False
    transfer_bytes_per_second: float | None = None
    price_list: PriceList | None = None
    term: PriceTerm | None = None
    region: str = ""
    currency: str = ""
    purchases: tuple[PurchaseModel, ...] = ()
    power: Power | None = None
    cost_split: CostSplit | None = None
    unserved_cost_ratio: float | None = None
    max_plans: int | None = None
    memory_utilization_ratio: float | None = None
    explain: bool = False


class CompareAcceleratorsRequest(Struct, frozen=True):
    """Accelerators to hold side by side."""

    model: ModelSpec
    accelerators: tuple[str, ...]
    input_tokens: int
    output_tokens: int
    concurrency: int
    parallelism: Parallelism = field(default_factory=Parallelism)
    precision: Precision = field(default_factory=Precision)
    engine: EngineSpec | None = None
    price_list: PriceList | None = None
    term: PriceTerm | None = None
    region: str = ""
    currency: str = ""
    explain: bool = False
