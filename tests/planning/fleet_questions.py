"""Questions about fleets for the tests."""

from typing import Any

from service.planning.fleet.requests import Demand, FleetWorkload, PlanFleetRequest, ServiceLevel
from service.planning.money import Price, PriceList
from service.planning.requests import ModelSpec

LEVEL = ServiceLevel(ttft_seconds=1.0, tpot_seconds=0.05)


def workload(per_second: float = 10.0, input_tokens: int = 2000, output_tokens: int = 500, **rest: Any) -> FleetWorkload:
    return FleetWorkload(input_tokens, output_tokens, Demand(per_second), **rest)


def fleet(
    model: str = "llama-3.1-70b",
    *workloads: FleetWorkload,
    nodes: tuple[str, ...] = ("aws-p5.48xlarge", "aws-p4d.24xlarge"),
    level: ServiceLevel | None = LEVEL,
    **rest: Any,
) -> PlanFleetRequest:
    return PlanFleetRequest(ModelSpec(model), workloads or (workload(),), level, nodes, **rest)


def own_prices(**per_node_hour: float) -> PriceList:
    """Prices of nodes, spelled with _ for - and __ for a dot."""
    named = {name.replace("__", ".").replace("_", "-"): amount for name, amount in per_node_hour.items()}
    return PriceList(tuple(Price(amount, "USD", node_type=name) for name, amount in named.items()))
