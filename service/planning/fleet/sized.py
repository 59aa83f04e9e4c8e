"""An option as a fleet: whole replicas, nodes and devices for one of the three demands, and what they cost and draw."""

from msgspec import Struct

from service.formulas.cost import tokens_per_joule
from service.planning.fleet.costing import Costing
from service.planning.fleet.demand import MID, Mix
from service.planning.fleet.options import Option
from service.planning.fleet.pools import MOST_REPLICAS, Pool, num_units, work_seconds
from service.planning.fleet.results import FleetPlan, FleetPool, PoolRole
from service.planning.fleet.sizing import seen_at
from service.planning.price_choice import NoPrice
from service.planning.serving.results import EstimateBasis
from service.planning.token_costs import TokenRates


class Sized(Struct, frozen=True):
    """An option in whole replicas. ``per_hour`` and ``facility_watts`` are None where they are not known."""

    option: Option
    at: int
    replicas: tuple[int, ...]
    nodes: int
    devices: int
    per_hour: float | None
    facility_watts: float | None


def sized(option: Option, at: int, costing: Costing, headroom: float, redundant: int) -> Sized | None:
    """The option for one of the three demands; None where it takes more replicas than a plan may have."""
    hardware = option.hardware
    taken = num_units(option.way, hardware, at, headroom, redundant)
    if max(taken.replicas) > MOST_REPLICAS:
        return None
    cost, power = costing.unit_cost(hardware), costing.unit_power(hardware)
    per_hour = None if isinstance(cost, NoPrice) else cost.per_hour * taken.units
    facility = power.facility_watts * taken.units if power else None
    return Sized(option, at, taken.replicas, taken.nodes, taken.devices, per_hour, facility)


def as_plan(fleet: Sized, costing: Costing, mix: Mix, headroom: float, redundant: int, rank: int) -> FleetPlan:
    """The fleet as it is answered."""
    option, way = fleet.option, fleet.option.way
    hardware, deployed = option.hardware, option.deployed
    assert deployed.generation is not None  # what is not calibrated is no option
    pools = tuple(_pool(pool, count, fleet.at) for pool, count in zip(way.pools, fleet.replicas, strict=True))
    fullest = max(pools, key=lambda pool: pool.utilization_ratio)
    units = fleet.devices if hardware.by_device else fleet.nodes
    power, cost = costing.unit_power(hardware), costing.unit_cost(hardware)
    rates = token_rates(way.pools, mix, fleet.at)
    facility = fleet.facility_watts
    return FleetPlan(
        rank=rank,
        node_type=hardware.node_type,
        accelerator=hardware.accelerator,
        engine=deployed.calibration.name,
        engine_version=option.engine.version or "",
        is_disaggregated=way.is_disaggregated,
        is_mixed=way.is_mixed,
        pools=pools,
        num_nodes=fleet.nodes,
        num_redundant_nodes=redundant * len(pools),
        num_devices=fleet.devices,
        sized_for_requests_per_second=mix.rates[fleet.at] * (1 + headroom),
        max_requests_per_second=mix.rates[fleet.at] * way.capacity_ratio(fleet.replicas, fleet.at),
        cost=None if isinstance(cost, NoPrice) else costing.fleet_cost(cost, units, rates),
        watts=power.watts * units if power else None,
        facility_watts=facility,
        output_tokens_per_joule=None
        if facility is None
        else tokens_per_joule(watts=facility, tokens_per_second=rates.output_tokens_per_second),
        utilization_ratio=fullest.utilization_ratio,
        binding_limit=fullest.binding_limit,
        calibration=f"{deployed.calibration.name}-{deployed.generation.generation}",
        calibration_basis=EstimateBasis(deployed.generation.basis.value),
        is_familiar=option.is_familiar,
    )


def _pool(pool: Pool, count: int, at: int) -> FleetPool:
    each = pool.mix.rates[at] / count
    seen = seen_at(pool.capability, each) if pool.capability else None
    first = seen.ttft_seconds if seen and pool.role is PoolRole.AGGREGATED else pool.ttft_seconds
    return FleetPool(
        role=pool.role,
        workloads=tuple(kind.name for kind in pool.mix.kinds),
        parallelism=pool.shape,
        num_devices_per_replica=pool.shape.num_devices,
        num_replicas=count,
        max_requests_per_second_per_replica=pool.rate,
        utilization_ratio=each / pool.rate,
        binding_limit=pool.limit,
        effective_batch_size=seen.decoding if seen else 1.0,
        ttft_seconds=first,
        tpot_seconds=seen.tpot_seconds if seen else None,
        end_to_end_seconds=seen.end_to_end_seconds if seen and pool.role is PoolRole.AGGREGATED else None,
    )


def token_rates(pools: tuple[Pool, ...], mix: Mix, at: int) -> TokenRates:
    """Tokens per second under the demand, and the device seconds that prompts and answers take of it."""
    prefill = decode = 0.0
    for pool in pools:
        prompt, answer = work_seconds(pool)
        prefill += prompt * pool.mix.rates[MID] * pool.shape.num_devices
        decode += answer * pool.mix.rates[MID] * pool.shape.num_devices
    return TokenRates(
        input_tokens_per_second=sum(kind.rates[at] * kind.input_tokens for kind in mix.kinds),
        output_tokens_per_second=sum(kind.rates[at] * kind.output_tokens for kind in mix.kinds),
        prefill_seconds=prefill,
        decode_seconds=decode,
    )
