"""How a fleet came about: what one replica carries, how many replicas and nodes that takes, what they cost and draw.

Each step is applied once more, with what the plan itself computed from, so that it shows what was done and not a retelling.
"""

from msgspec import Struct

from service.formulas.cost import tokens_per_joule
from service.formulas.fleet import (
    num_nodes,
    num_pool_devices,
    num_replicas,
    num_shared_nodes,
    prompt_requests_per_second,
    replica_requests_per_second,
    replicas_per_node,
)
from service.planning.decode import bound_figures
from service.planning.explain import Recorder
from service.planning.fleet.costing import Costing
from service.planning.fleet.curve import Curve
from service.planning.fleet.demand import Mix
from service.planning.fleet.pools import Pool, share_nodes
from service.planning.fleet.sized import Sized, token_rates
from service.planning.price_choice import NoPrice
from service.planning.results import Explanation, UsedFigure
from service.planning.serving.load import as_met
from service.planning.serving.step import prefill

_CALLER = "caller"


class Asked(Struct, frozen=True):
    """What a plan was sized for."""

    mix: Mix
    headroom: float
    redundant: int


def explained(fleet: Sized, costing: Costing, asked: Asked) -> Explanation:
    """Every formula from the load of a replica to the cost of a token, and the figures that went in."""
    noted = Recorder()
    hardware, pools = fleet.option.hardware, fleet.option.way.pools
    devices = 0.0
    for pool in pools:
        _carried(pool, noted)
        devices += _sized(pool, fleet, asked, noted)
    if share_nodes([pool.shape.num_devices for pool in pools], hardware.devices_per_node, asked.redundant):
        noted(num_shared_nodes, num_devices=devices, devices_per_node=float(hardware.devices_per_node))
    figures = [*_demanded(fleet, asked), *bound_figures(fleet.option.deployed.plan)]
    figures += costing.explain_unit(hardware, noted)
    rates, cost = token_rates(pools, asked.mix, fleet.at), costing.unit_cost(hardware)
    if not isinstance(cost, NoPrice):
        costing.fleet_cost(cost, fleet.devices if hardware.by_device else fleet.nodes, rates, noted)
    if fleet.facility_watts is not None:
        noted(tokens_per_joule, watts=fleet.facility_watts, tokens_per_second=rates.output_tokens_per_second)
    return noted.explanation(figures)


def _carried(pool: Pool, noted: Recorder) -> None:
    """What one replica carries at most."""
    if pool.capability is None:
        assert pool.prompts is not None  # replicas without a curve of their own compute prompts
        _prompts(pool.prompts, noted)
        busy = pool.rate * pool.prompts.mean_prompt_seconds
        noted(prompt_requests_per_second, utilization_ratio=busy, prompt_seconds=pool.prompts.mean_prompt_seconds)
        return
    curve, decoding = pool.capability.curve, pool.capability.decoding
    state = as_met(curve.work, curve.by, curve.traffic, decoding, apply=noted)
    noted(replica_requests_per_second, num_decoding=decoding, decode_seconds=state.decode_seconds)


def _prompts(curve: Curve, noted: Recorder) -> None:
    """Seconds of each kind's prompt, computed alone."""
    for kind in curve.mix.kinds:
        prefill(
            curve.work,
            curve.by,
            new_tokens=kind.input_tokens * (1 - kind.cached_ratio),
            cached_tokens=kind.input_tokens * kind.cached_ratio,
            tokens_per_pass=curve.tokens_per_pass,
            apply=noted,
        )


def _sized(pool: Pool, fleet: Sized, asked: Asked, noted: Recorder) -> float:
    """Replicas and nodes of one pool; its devices."""
    size, per_node = float(pool.shape.num_devices), float(fleet.option.hardware.devices_per_node)
    count = noted(
        num_replicas,
        requests_per_second=pool.mix.rates[fleet.at],
        headroom_ratio=asked.headroom,
        replica_requests_per_second=pool.rate,
    )
    each = noted(replicas_per_node, devices_per_node=per_node, num_devices_per_replica=size)
    sizes = [other.shape.num_devices for other in fleet.option.way.pools]
    if not share_nodes(sizes, round(per_node), asked.redundant):
        noted(num_nodes, num_replicas=count, replicas_per_node=each, redundant_nodes=float(asked.redundant))
    return noted(
        num_pool_devices,
        num_devices_per_replica=size,
        num_replicas=count,
        redundant_nodes=float(asked.redundant),
        replicas_per_node=each,
    )


def _demanded(fleet: Sized, asked: Asked) -> list[UsedFigure]:
    """The caller's demand, a figure a workload."""
    return [
        UsedFigure(
            "requests_per_second",
            kind.rates[fleet.at],
            "1/s",
            _CALLER,
            note=f"workload {kind.name}: {kind.input_tokens:g} tokens in, {kind.output_tokens:g} out",
        )
        for kind in asked.mix.kinds
    ]
