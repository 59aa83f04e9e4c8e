"""What a node costs per hour when one buys it, and what it draws; field for field the messages PurchaseModel and Power.

What a model leaves out costs nothing and is said to be left out: a default that guesses maintenance, rent or interest would
look like knowledge. Only the price of electricity has to be given, since it differs tenfold between places.
"""

from typing import Final

from msgspec import Struct

from service.catalogue import entries
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import node_type as find_node_type
from service.formulas.cost import (
    capital_recovery_per_year,
    depreciation_per_year,
    device_watts_per_node,
    electricity_cost_per_hour,
    facility_watts_per_node,
    hosting_cost_per_hour,
    maintenance_per_year,
    owned_cost_per_hour,
    price_per_device_hour,
)
from service.planning.errors import InvalidRequest, NotFound, Unanswerable, Violation
from service.planning.explain import Apply, plainly
from service.planning.money import is_currency, is_date

#: What Amazon writes a part of its servers off over from 2025 on, instead of six years before (annual report of 2024).
DEFAULT_DEPRECIATION_YEARS: Final = 5.0
#: Average of the Uptime Institute's global survey of data centres of 2023.
DEFAULT_POWER_USAGE_EFFECTIVENESS: Final = 1.58
#: The most is what must be cooled and let; less only where the caller says so.
DEFAULT_POWER_UTILIZATION_RATIO: Final = 1.0
#: Below this much interest over the whole life, the annuity differs from straight-line depreciation by less than it can be
#: computed exactly.
_NO_INTEREST: Final = 1e-7


class Power(Struct, frozen=True):
    """What a node draws, and what that costs. ``None`` is the default, or unknown for the price."""

    watts_per_node: float | None = None
    power_utilization_ratio: float | None = None
    power_usage_effectiveness: float | None = None
    electricity_price_per_kwh: float | None = None


class PurchaseModel(Struct, frozen=True):
    """A node that one buys. ``None`` is the default."""

    node_type: str
    purchase_price: float
    currency: str
    power: Power
    depreciation_years: float | None = None
    residual_value_ratio: float | None = None
    financing_rate: float | None = None
    maintenance_ratio: float | None = None
    hosting_price_per_kw_month: float | None = None
    date: str = ""
    source: str = ""


class NodePower(Struct, frozen=True):
    """What a node draws at most, and what the building draws for it on average, in watts; ``notes`` say what was assumed."""

    watts_per_node: float
    facility_watts_per_node: float
    notes: tuple[str, ...]


class OwnedCost(Struct, frozen=True):
    """What an owned node costs per hour, and every part of it, all in ``currency``."""

    node_type: str
    num_devices: int
    currency: str
    capital_cost_per_year: float
    maintenance_cost_per_year: float
    electricity_cost_per_hour: float
    hosting_cost_per_hour: float
    cost_per_node_hour: float
    cost_per_device_hour: float
    power: NodePower
    date: str
    source: str
    notes: tuple[str, ...]


def node_power(
    catalogue: entries.Catalogue, node_type: str, power: Power, apply: Apply = plainly, field: str = "power"
) -> NodePower:
    """What a node of the type draws.

    Raises NotFound for an unknown node type, Unanswerable where neither the caller nor the catalogue knows its power, and
    InvalidRequest for a figure that is out of range. ``field`` is where ``power`` stands in the request.
    """
    node = _node(catalogue, node_type, "node_type")
    _check(_power_faults(power, field))
    watts, notes = _most_watts(catalogue, node, power, apply, field)
    utilization = power.power_utilization_ratio
    if utilization is None:
        utilization = DEFAULT_POWER_UTILIZATION_RATIO
        notes = (*notes, "the node is taken to draw its most all the time")
    effectiveness = power.power_usage_effectiveness
    if effectiveness is None:
        effectiveness = DEFAULT_POWER_USAGE_EFFECTIVENESS
        notes = (*notes, f"the facility is taken to draw {effectiveness:g} times that: the average of a survey of 2023")
    facility = apply(
        facility_watts_per_node,
        watts_per_node=watts,
        power_utilization_ratio=utilization,
        power_usage_effectiveness=effectiveness,
    )
    return NodePower(watts, facility, notes)


def owned_cost(
    catalogue: entries.Catalogue, model: PurchaseModel, apply: Apply = plainly, field: str = "purchase"
) -> OwnedCost:
    """What a bought node costs per hour that it is owned, busy or idle. Raises as ``node_power`` does."""
    node = _node(catalogue, model.node_type, f"{field}.node_type")
    _check([*_faults(model, field), *_power_faults(model.power, f"{field}.power")])
    price_per_kwh = model.power.electricity_price_per_kwh
    if price_per_kwh is None:
        at = f"{field}.power.electricity_price_per_kwh"
        raise InvalidRequest(Violation(at, "the price of electricity is not given", "give it, or 0 where the rent includes it"))
    power = node_power(catalogue, node.name, model.power, apply, f"{field}.power")
    capital = _capital(model, apply)
    maintenance = apply(
        maintenance_per_year, purchase_price=model.purchase_price, maintenance_ratio=model.maintenance_ratio or 0.0
    )
    electricity = apply(
        electricity_cost_per_hour,
        facility_watts_per_node=power.facility_watts_per_node,
        electricity_price_per_kwh=price_per_kwh,
    )
    hosting = apply(
        hosting_cost_per_hour,
        watts_per_node=power.watts_per_node,
        hosting_price_per_kw_month=model.hosting_price_per_kw_month or 0.0,
    )
    total = apply(
        owned_cost_per_hour,
        capital_cost_per_year=capital,
        maintenance_cost_per_year=maintenance,
        electricity_cost_per_hour=electricity,
        hosting_cost_per_hour=hosting,
    )
    return OwnedCost(
        node_type=node.name,
        num_devices=node.num_devices,
        currency=model.currency,
        capital_cost_per_year=capital,
        maintenance_cost_per_year=maintenance,
        electricity_cost_per_hour=electricity,
        hosting_cost_per_hour=hosting,
        cost_per_node_hour=total,
        cost_per_device_hour=apply(price_per_device_hour, price_per_node_hour=total, num_devices=node.num_devices),
        power=power,
        date=model.date,
        source=model.source,
        notes=(*power.notes, *_left_out(model)),
    )


def _capital(model: PurchaseModel, apply: Apply) -> float:
    years = _or(model.depreciation_years, DEFAULT_DEPRECIATION_YEARS)
    rate = model.financing_rate or 0.0
    residual = model.purchase_price * (model.residual_value_ratio or 0.0)
    if rate * years < _NO_INTEREST:
        return apply(
            depreciation_per_year,
            purchase_price=model.purchase_price,
            residual_value=residual,
            depreciation_years=years,
        )
    return apply(
        capital_recovery_per_year,
        purchase_price=model.purchase_price,
        residual_value=residual,
        financing_rate=rate,
        depreciation_years=years,
    )


def _left_out(model: PurchaseModel) -> list[str]:
    parts = {
        "interest": model.financing_rate,
        "maintenance": model.maintenance_ratio,
        "rent of its place": model.hosting_price_per_kw_month,
    }
    notes = []
    if model.depreciation_years is None:
        notes.append(f"written off over {DEFAULT_DEPRECIATION_YEARS:g} years")
    if model.residual_value_ratio is None:
        notes.append("taken to be worth nothing then")
    if missing := [name for name, value in parts.items() if value is None]:
        notes.append(f"left out, since not given: {', '.join(missing)}")
    return notes


def _most_watts(
    catalogue: entries.Catalogue, node: entries.NodeType, power: Power, apply: Apply, field: str
) -> tuple[float, tuple[str, ...]]:
    if power.watts_per_node is not None:
        return power.watts_per_node, ()
    if node.max_power is not None:
        return node.max_power.value, ()
    per_device = catalogue.accelerators[node.accelerator].max_power
    if per_device is None:
        missing = f"neither the power of {node.name} nor that of {node.accelerator} is known"
        raise Unanswerable(f"{field}.watts_per_node", missing, "give what a node draws at most, in watts")
    watts = apply(device_watts_per_node, num_devices=node.num_devices, max_watts_per_device=per_device.value)
    return watts, (f"the power of {node.name} is not known: its {node.accelerator} alone are counted, and not their host",)


def _node(catalogue: entries.Catalogue, name: str, field: str) -> entries.NodeType:
    try:
        return find_node_type(catalogue, name)
    except UnknownName as unknown:
        raise NotFound(field, "node type", name, unknown.nearest) from None


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _check(faults: list[Violation]) -> None:
    if faults:
        raise InvalidRequest(*faults)


def _outside(field: str, name: str, value: float | None, low: float, high: float) -> list[Violation]:
    """A fault where the value is given and not from low to high; NaN is in no range."""
    if value is None or low <= value <= high:
        return []
    return [Violation(f"{field}.{name}", f"{value:g} is not from {low:g} to {high:g}")]


def _power_faults(power: Power, field: str) -> list[Violation]:
    return [
        *_outside(field, "watts_per_node", power.watts_per_node, 1e-3, 1e7),
        *_outside(field, "power_utilization_ratio", power.power_utilization_ratio, 1e-6, 1.0),
        *_outside(field, "power_usage_effectiveness", power.power_usage_effectiveness, 1.0, 10.0),
        *_outside(field, "electricity_price_per_kwh", power.electricity_price_per_kwh, 0.0, 1000.0),
    ]


def _faults(model: PurchaseModel, field: str) -> list[Violation]:
    faults = [
        *_outside(field, "purchase_price", model.purchase_price, 1e-3, 1e10),
        *_outside(field, "depreciation_years", model.depreciation_years, 0.1, 50.0),
        *_outside(field, "residual_value_ratio", model.residual_value_ratio, 0.0, 1.0),
        *_outside(field, "financing_rate", model.financing_rate, 0.0, 1.0),
        *_outside(field, "maintenance_ratio", model.maintenance_ratio, 0.0, 1.0),
        *_outside(field, "hosting_price_per_kw_month", model.hosting_price_per_kw_month, 0.0, 1e5),
    ]
    if not is_currency(model.currency):
        faults.append(Violation(f"{field}.currency", f"{model.currency!r} is no ISO 4217 code", "give one, such as USD"))
    if model.date and not is_date(model.date):
        faults.append(Violation(f"{field}.date", f"{model.date!r} does not read like 2026-07-20, 2026-07 or 2026"))
    return faults
