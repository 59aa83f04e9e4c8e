"""Random demands, the fleets that are planned for them, and what a simulation of one replica says of each."""

from dataclasses import dataclass
from random import Random

from service.planning.fleet.demand import asked
from service.planning.fleet.options import Options
from service.planning.fleet.plan import plan_fleet
from service.planning.fleet.requests import Demand, FleetWorkload, Percentile, PlanFleetRequest, ServiceLevel
from service.planning.fleet.results import FleetPlan
from service.planning.fleet.sizing import Capability
from service.planning.planner import Planner
from service.planning.requests import EngineSpec, ModelSpec
from tests.simulation.engine import Engine, percentile

RATIOS = {Percentile.P50: 0.5, Percentile.P90: 0.9, Percentile.P99: 0.99}
_SUBJECTS = (
    ("llama-3.1-8b", "aws-p5.48xlarge"),
    ("llama-3.1-8b", "aws-g6e.12xlarge"),
    ("llama-3.1-8b", "aws-p4d.24xlarge"),
    ("llama-3.1-70b", "aws-p5.48xlarge"),
    ("llama-3.1-70b", "aws-p6-b200.48xlarge"),
    ("gpt-oss-120b", "aws-p5en.48xlarge"),
    ("deepseek-v3", "aws-p5en.48xlarge"),
)


@dataclass(frozen=True, slots=True)
class Attained:
    """A planned fleet and what its requests saw: the parts of them within each limit, and the part that was promised."""

    request: PlanFleetRequest
    plan: FleetPlan
    promised: float
    ttft: float
    tpot: float
    utilization: float

    @property
    def shortfall(self) -> float:
        """By how much the worse of the two falls short of the promise; below 0 where it does not."""
        return self.promised - min(self.ttft, self.tpot)


def random_request(random: Random) -> PlanFleetRequest:
    """Any model on any hardware under any load; the service level may be out of reach."""
    model, node = random.choice(_SUBJECTS)
    inputs, outputs = round(10 ** random.uniform(2, 4.2)), round(10 ** random.uniform(1.5, 3.2))
    level = ServiceLevel(
        ttft_seconds=round(10 ** random.uniform(-0.8, 0.9), 3),
        tpot_seconds=round(10 ** random.uniform(-1.9, -0.9), 4),
        percentile=random.choice(list(Percentile)),
    )
    return PlanFleetRequest(
        model=ModelSpec(model),
        workloads=(FleetWorkload(inputs, outputs, Demand(round(10 ** random.uniform(0.5, 2.5), 2))),),
        service_level=level,
        node_types=(node,),
        engines=(EngineSpec(random.choice(("vllm", "sglang"))),),
    )


def attained(planner: Planner, request: PlanFleetRequest, random: Random, num_requests: int) -> Attained | None:
    """The best fleet for the request, simulated; None where there is none."""
    answer = plan_fleet(planner.serving, request)
    if not answer.plans:
        return None
    plan = answer.plans[0]
    (pool,) = plan.pools
    found = _capability(planner, request, plan)
    level = request.workloads[0].service_level or request.service_level
    assert level is not None
    curve = found.curve
    engine = Engine(curve.work, curve.by, [curve.traffic], curve.held.most)
    each = request.workloads[0].requests_per_second.mid / pool.num_replicas
    (served,) = engine.serve(each, max(num_requests, round(6 * curve.held.most)), random, warm_up=0.4)
    return Attained(
        request,
        plan,
        RATIOS[level.percentile or Percentile.P90],
        _within(served.ttft_seconds, level.ttft_seconds),
        _within(served.tpot_seconds, level.tpot_seconds),
        pool.utilization_ratio,
    )


def _within(seconds: tuple[float, ...], limit: float | None) -> float:
    return 1.0 if limit is None else sum(each <= limit for each in seconds) / len(seconds)


def _capability(planner: Planner, request: PlanFleetRequest, plan: FleetPlan) -> Capability:
    options = Options(planner.serving, request, asked(request)).try_all()
    (option,) = (o for o in options.found if o.way.pools[0].shape == plan.pools[0].parallelism)
    found = option.way.pools[0].capability
    assert found is not None
    return found


def told(result: Attained) -> str:
    """One line on a fleet, for the benchmark and for a failing test."""
    load, level = result.request.workloads[0], result.request.service_level
    assert level is not None
    pool = result.plan.pools[0]
    asked = f"{load.input_tokens}+{load.output_tokens} TTFT {level.ttft_seconds} TPOT {level.tpot_seconds} {level.percentile}"
    planned = f"{pool.num_replicas} replicas, utilisation {result.utilization:.2f}, {result.plan.binding_limit}"
    seen = f"within TTFT {result.ttft:.3f}, TPOT {result.tpot:.3f}"
    return f"{result.request.model.name} {result.plan.node_type} {result.plan.engine} {asked}: {planned}; {seen}"


__all__ = ["Attained", "attained", "percentile", "random_request", "told"]
