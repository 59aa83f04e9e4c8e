"""Nothing in the whole space of candidates is cheaper than the plan: 100 small problems, each tried point by point.

The search here knows nothing of curves or grids: it asks for every shape and every number of replicas whether arrivals at that
rate keep the service level, by the same estimate that the service answers with, and multiplies by the price as it is listed.
"""

from random import Random

import pytest

from service.catalogue.calibrations import Spread
from service.planning.fleet.curve import _MARGIN
from service.planning.fleet.requests import Demand, FleetWorkload, PlanFleetRequest, ServiceLevel
from service.planning.planner import Planner
from service.planning.price_choice import Quote
from service.planning.prices import PriceBook
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.serving.load import arrivals
from service.planning.serving.places import asked_places
from service.planning.serving.ranges import tpot_over_requests, ttft_over_requests
from service.planning.serving.steady import Traffic
from service.planning.shape import is_legal

_NODES = ("aws-p5.48xlarge", "aws-p4d.24xlarge", "aws-g6e.12xlarge", "aws-g6e.xlarge", "aws-p6-b200.48xlarge")
_SURE = Spread(1.0, 1.0)
_MOST_REPLICAS = 40
#: The plan walks a grid: a rate between two of its points is found a little too low.
_GRID = 1.004


def _problem(random: Random) -> PlanFleetRequest:
    load = FleetWorkload(
        round(10 ** random.uniform(2, 3.9)), round(10 ** random.uniform(1.5, 3)), Demand(10 ** random.uniform(-0.5, 1.2))
    )
    level = ServiceLevel(ttft_seconds=10 ** random.uniform(-0.7, 0.7), tpot_seconds=10 ** random.uniform(-1.8, -1))
    nodes = tuple(random.sample(_NODES, 2))
    return PlanFleetRequest(ModelSpec(random.choice(("llama-3.1-8b", "qwen2.5-32b", "llama-3.1-70b"))), (load,), level, nodes)


def _keeps(planner: Planner, request: PlanFleetRequest, accelerator: str, shape: Parallelism, rate: float) -> bool:
    load, level, engine = request.workloads[0], request.service_level, EngineSpec("vllm")
    assert level is not None
    deployed = planner.serving.deployment(request.model, AcceleratorSpec(accelerator), engine, Precision(), shape)
    assert deployed.generation is not None
    held, _ = asked_places(deployed.split, deployed.plan, engine, None, load.input_tokens + load.output_tokens / 2)
    if held.most < 1:
        return False
    by = planner.serving.parameters(deployed.generation, deployed.calibration, None)
    loaded = arrivals(deployed.work, by, Traffic(float(load.input_tokens), float(load.output_tokens)), rate, held.most)
    if not loaded.is_stable:
        return False
    first = ttft_over_requests(loaded, 1.0, _SURE).p90.p50
    between = tpot_over_requests(loaded, load.output_tokens, 1.0, _SURE).p90.p50
    return first <= (level.ttft_seconds or 0.0) and between * _MARGIN <= (level.tpot_seconds or 0.0)


def _cheapest(planner: Planner, request: PlanFleetRequest, slack: float) -> float:
    """The least that any shape, any number of replicas and any of the nodes costs per hour; ``slack``: times the demand."""
    book, best = PriceBook(planner.catalogue), float("inf")
    builder, _ = planner.resolver.builder(request.model, Precision())
    demand = request.workloads[0].requests_per_second.mid * slack
    for name in request.node_types:
        node = planner.catalogue.node_types[name]
        price = book.node_price(name, currency="USD")
        assert isinstance(price, Quote)
        for tensor in range(1, node.num_devices + 1):
            shape = Parallelism(tensor=tensor)
            if not is_legal(builder.architecture, shape, builder.quantized_cuts):
                continue
            for replicas in range(1, _MOST_REPLICAS + 1):
                nodes = -(-replicas // (node.num_devices // tensor))
                cost = nodes * (price.amount_per_node_hour or 0.0)
                if cost < best and _keeps(planner, request, node.accelerator, shape, demand / replicas):
                    best = cost
    return best


@pytest.mark.parametrize("seed", range(100))
def test_nothing_is_cheaper_than_the_plan(planner: Planner, seed: int) -> None:
    request = _problem(Random(seed))
    answer = planner.plan_fleet(request)
    best = answer.plans[0] if answer.plans else None
    planned = best.cost.cost_per_hour if best and best.cost else float("inf")
    assert planned <= _cheapest(planner, request, _GRID) * (1 + 1e-9)
    if best is None or best.pools[0].num_replicas <= _MOST_REPLICAS:
        assert planned >= _cheapest(planner, request, 1 / _GRID) * (1 - 1e-9)  # and what is planned does carry the demand
