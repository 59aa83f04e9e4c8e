"""Fleets and comparisons as tables: an option a row."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tonnage.tables import Cell
from tonnage.tabular.catalogue import PRECISIONS
from tonnage.tabular.columns import Column, Layout, joined
from tonnage.tabular.prices import categories, of_price
from tonnage.v1.fleet_service_pb2 import (
    ComparedAccelerator,
    FleetExcuse,
    FleetPlan,
    FleetPool,
    FrontPoint,
    GenerationStep,
    PlanFleetResponse,
)
from tonnage.v1.model_pb2 import Parallelism
from tonnage.v1.price_pb2 import Price

PLAN, LEAST_REGRET, NEAREST, REJECTED = "PLAN", "LEAST_REGRET", "NEAREST", "REJECTED"


def split_text(shape: Parallelism) -> str:
    """How a replica is split: "TP 8", "TP 8 PP 2"."""
    ways = {"TP": shape.tensor, "PP": shape.pipeline, "EP": shape.expert, "DP": shape.attention_data}
    return " ".join(f"{name} {size}" for name, size in ways.items() if size > 1) or "TP 1"


def _pool(pool: FleetPool) -> str:
    told = "" if pool.role == FleetPool.AGGREGATED else f" {FleetPool.Role.Name(pool.role)}"
    named = f" ({', '.join(pool.workloads)})" if any(pool.workloads) else ""
    return f"{pool.num_replicas} × {split_text(pool.parallelism)}{told}{named}"


def _longest(name: str) -> Callable[[FleetPlan], Cell]:
    """The time of the pool that sees the most."""

    def read(plan: FleetPlan) -> Cell:
        return max((getattr(pool, name) for pool in plan.pools if pool.HasField(name)), default=None)  # type: ignore[arg-type]

    return read


def _plan_price(plan: FleetPlan) -> Price | None:
    return plan.cost.price if plan.HasField("cost") and plan.cost.HasField("price") else None


def _unit_price(*, is_own: bool) -> Callable[[FleetPlan], Cell]:
    """The price of a unit in the currency of the answer, where it is of that kind."""

    def read(plan: FleetPlan) -> Cell:
        price = _plan_price(plan)
        return plan.cost.cost_per_unit_hour if price is not None and price.is_own is is_own else None

    return read


_COST = {
    "cost.currency": "BillingCurrency",
    **of_price("cost.price."),
    **{f"cost.{name}": f"x_{name}" for name in ("cost_per_hour", "cost_per_year", "cost_per_unit_hour")},
    **{f"cost.{name}": f"x_{name}" for name in ("input_cost_per_million_tokens", "output_cost_per_million_tokens")},
    **{f"cost.{name}": f"x_{name}" for name in ("purchase_date", "exchange_rate_date")},
    "cost.notes": "x_price_notes",
    **{
        f"cost.price.{name}": f"x_price_{name}"
        for name in ("amount_per_hour", "currency", "basis", "term", "date", "source", "note", "source_url", "is_own")
    },
}
PLANS = Layout(
    FleetPlan.DESCRIPTOR,
    names=_COST,
    left_out=frozenset(
        {
            "pools",  # a text and figures over all of them, and a sheet of their own
            *("cost.price.node_type", "cost.price.accelerator", "cost.price.num_devices"),  # those of the plan
        }
    ),
    first=(
        *("x_rank", "x_node_type", "x_accelerator", "x_engine", "x_pools", "x_num_replicas", "x_num_nodes", "x_num_devices"),
        *("x_cost_per_hour", "x_cost_per_year", "x_input_cost_per_million_tokens", "x_output_cost_per_million_tokens"),
        *("BillingCurrency", "ListUnitPrice", "ContractedUnitPrice", "PricingUnit", "PricingCategory", "ServiceCategory"),
        *("ProviderName", "RegionId", "x_price_date", "x_price_source", "x_price_source_url"),
        *("x_ttft_seconds", "x_tpot_seconds", "x_end_to_end_seconds"),
    ),
    further=(
        Column("x_pools", lambda plan: joined(map(_pool, plan.pools))),
        Column("x_num_replicas", lambda plan: sum(pool.num_replicas for pool in plan.pools)),
        *(Column(f"x_{name}", _longest(name)) for name in ("ttft_seconds", "tpot_seconds", "end_to_end_seconds")),
        Column("ListUnitPrice", _unit_price(is_own=False)),
        Column("ContractedUnitPrice", _unit_price(is_own=True)),
        *categories(_plan_price),
    ),
)
_SPLIT = {"Parallelism": split_text}
POOLS = Layout(FleetPool.DESCRIPTOR, texts=_SPLIT)
EXCUSES = Layout(FleetExcuse.DESCRIPTOR, texts=_SPLIT)
FRONT = Layout(FrontPoint.DESCRIPTOR, texts=_SPLIT)


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the whole table: a plan, or why there is none."""

    outcome: str
    plan: FleetPlan | None = None
    excuse: FleetExcuse | None = None


def options_of(answer: PlanFleetResponse) -> Iterator[Option]:
    """Plans by rank, that of least regret, the nearest where none keeps the service level, then what was rejected."""
    yield from (Option(PLAN, plan) for plan in answer.plans)
    if answer.HasField("least_regret"):
        yield Option(LEAST_REGRET, answer.least_regret.plan)
    if answer.HasField("infeasible") and answer.infeasible.HasField("nearest_plan"):
        yield Option(NEAREST, answer.infeasible.nearest_plan)
    yield from (Option(REJECTED, excuse=excuse) for excuse in answer.excuses)


def _either(name: str, plan: Callable[[Any], Cell] | None, excuse: Callable[[Any], Cell] | None) -> Column:
    def read(option: Option) -> Cell:
        if option.plan is not None:
            return plan(option.plan) if plan else None
        return excuse(option.excuse) if excuse else None

    return Column(name, read)


def option_columns() -> list[Column]:
    """The columns of plans, then those that only what was rejected has."""
    plans, excuses = ({each.name: each.read for each in layout.columns()} for layout in (PLANS, EXCUSES))
    names = [*plans, *(name for name in excuses if name not in plans)]
    return [
        Column("x_outcome", lambda option: option.outcome),
        *(_either(name, plans.get(name), excuses.get(name)) for name in names),
    ]


def pools_of(answer: PlanFleetResponse) -> Iterator[tuple[Option, FleetPool]]:
    """Every pool with its option."""
    for option in options_of(answer):
        if option.plan is not None:
            yield from ((option, pool) for pool in option.plan.pools)


def pool_columns() -> list[Column]:
    """Columns of pools, each with its plan's."""

    def of_plan(name: str) -> Callable[[Any], Cell]:
        return lambda row: getattr(row[0].plan, name) or None

    def of_pool(column: Column) -> Callable[[Any], Cell]:
        return lambda row: column.read(row[1])

    plan = [Column(f"x_{name}", of_plan(name)) for name in ("rank", "node_type", "accelerator", "engine")]
    outcome = Column("x_outcome", lambda row: row[0].outcome)
    return [outcome, *plan, *(Column(each.name, of_pool(each)) for each in POOLS.columns())]


# -- side by side ------------------------------------------------------------------------------------------------------


def _dense(precision: str, field: str) -> Callable[[ComparedAccelerator], Cell]:
    def read(row: ComparedAccelerator) -> Cell:
        found = [each for each in row.peaks if each.precision == precision]
        return getattr(found[0], field) if found and (field in _ALWAYS or found[0].HasField(field)) else None  # type: ignore[arg-type]

    return read


_ALWAYS = {"peak_dense_flops_per_second"}


def _compared_price(row: ComparedAccelerator) -> Price | None:
    return row.price if row.HasField("price") else None


def _device_price(*, is_own: bool) -> Callable[[ComparedAccelerator], Cell]:
    def read(row: ComparedAccelerator) -> Cell:
        price = _compared_price(row)
        return row.cost_per_device_hour if price is not None and price.is_own is is_own else None

    return read


COMPARED = Layout(
    ComparedAccelerator.DESCRIPTOR,
    names={"currency": "BillingCurrency", **of_price("price.")},
    left_out=frozenset({"peaks", "explanation"}),  # a column for each number format; sheets of their own
    first=(
        *("x_accelerator", "x_counted_unit", "BillingCurrency", "ListUnitPrice", "ContractedUnitPrice", "PricingUnit"),
        *("PricingCategory", "ServiceCategory", "ProviderName", "RegionId", "x_price_date", "x_price_source"),
    ),
    further=(
        *(
            Column(f"x_peak_dense_{precision}_flops_per_second", _dense(precision, "peak_dense_flops_per_second"))
            for precision in PRECISIONS
        ),
        Column("ListUnitPrice", _device_price(is_own=False)),
        Column("ContractedUnitPrice", _device_price(is_own=True)),
        *categories(_compared_price),
    ),
)
GENERATIONS = Layout(GenerationStep.DESCRIPTOR)
