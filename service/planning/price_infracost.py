"""The caller's prices from Infracost: what ``infracost breakdown --format json`` writes.

Fields, by their names in Infracost's ``internal/output/output.go``: ``currency``, ``timeGenerated``,
``projects[].breakdown.resources[]`` with ``name``, ``costComponents[]`` and ``subresources[]``; of a component ``name``,
``unit``, ``price``, ``hourlyQuantity``, ``hourlyCost``, ``monthlyQuantity``, ``monthlyCost``. Figures are decimals in quotes,
or null where they depend on usage.

A machine is the component "Instance usage (Linux/UNIX, on-demand, p4d.24xlarge)": system, purchase option, type. On Google
Cloud its accelerators are components beside it ("NVIDIA Tesla A100 (on-demand)"), whose cost belongs to the machine and is
added. Disks, monitoring and the like are left out, and listed. "Reserved" does not say for how long: such a price has no term.
"""

import json
import re
from types import MappingProxyType
from typing import Any, Final

from service.formulas.cost import HOURS_PER_MONTH
from service.planning.money import Price, PriceBasis, PriceTerm
from service.planning.price_rows import MAX_ROWS, PriceRows, shown

_MAX_DEPTH: Final = 16
_MAX_COMPONENTS: Final = 100  # a machine has about ten
_MACHINE: Final = re.compile(r"Instance usage \((?P<system>[^,()]+), (?P<option>[^,()]+), (?P<type>[^,()]+)\)")
_DEVICE: Final = re.compile(r"(NVIDIA|AMD|Intel|TPU)\b.*")
_TERMS: Final = MappingProxyType(
    {
        "on-demand": PriceTerm.ON_DEMAND,
        "pay as you go": PriceTerm.ON_DEMAND,
        "spot": PriceTerm.SPOT,
        "preemptible": PriceTerm.SPOT,
        "reserved": None,
    }
)


def read_infracost_json(document: str, defaults: dict[str, str], rows: PriceRows) -> None:
    """Reads the document into ``rows``; ``defaults`` are the request's currency, date, region and source."""
    try:
        root = json.loads(document, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        rows.refuse("", "", f"no valid JSON: {shown(reason)}")
        return
    projects = root.get("projects") if isinstance(root, dict) else None
    if not isinstance(projects, list):
        rows.refuse("", "projects", "must be a list", "send the output of infracost breakdown --format json")
        return
    shared = {
        "currency": rows.currency("", "currency", root.get("currency") or defaults["currency"]),
        "date": defaults["date"] or _date(root.get("timeGenerated")),
        "region": defaults["region"],
        "source": defaults["source"] or "Infracost breakdown",
    }
    for number, project in enumerate(projects):
        breakdown = project.get("breakdown") if isinstance(project, dict) else None
        path = f"projects[{number}].breakdown"
        if isinstance(breakdown, dict):
            _read_resources(breakdown.get("resources"), f"{path}.resources", shared, rows, 0)
        elif breakdown is not None or not isinstance(project, dict):
            rows.refuse(path, "", f"must be an object, not {shown(breakdown)}")


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _date(time: object) -> str:
    """The day out of ``timeGenerated``; "" where it is not given, which Infracost writes as the year 1."""
    found = re.match(r"(?!0001)\d{4}-\d{2}-\d{2}(?=T)", time) if isinstance(time, str) else None
    return found[0] if found else ""


def _read_resources(resources: object, path: str, shared: dict[str, str], rows: PriceRows, depth: int) -> None:
    if resources is None:
        return
    if not isinstance(resources, list) or depth > _MAX_DEPTH:
        rows.refuse(path, "", "nested too deep" if isinstance(resources, list) else "must be a list")
        return
    for number, resource in enumerate(resources):
        place = f"{path}[{number}]"
        if len(rows.prices) + len(rows.unread) > MAX_ROWS:
            rows.refuse("", "", f"more than {MAX_ROWS} cost components")
            return
        if not isinstance(resource, dict):
            rows.refuse(place, "", "must be an object")
            continue
        _read_components(resource, place, shared, rows)
        _read_resources(resource.get("subresources"), f"{place}.subresources", shared, rows, depth + 1)


def _read_components(resource: dict[str, Any], place: str, shared: dict[str, str], rows: PriceRows) -> None:
    """The machines of a resource, with the accelerators beside them."""
    listed = resource.get("costComponents") or []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed) or len(listed) > _MAX_COMPONENTS:
        rows.refuse(place, "costComponents", f"must be a list of at most {_MAX_COMPONENTS} objects")
        return
    named = [
        (f"{place}.costComponents[{n}]", rows.text(place, "name", each.get("name")), each) for n, each in enumerate(listed)
    ]
    machines = [each for each in named if _MACHINE.fullmatch(each[1])]
    devices = [each for each in named if _DEVICE.fullmatch(each[1]) and each[2].get("unit") == "hours"]
    for at, name, component in named:
        if (at, name, component) in machines:
            # Whose the accelerators are cannot be told where a resource has several machines.
            _read_machine((at, name, component), devices, shared, rows, is_only=len(machines) == 1)
        elif not (machines and (at, name, component) in devices):
            rows.leave_out(at, name, "not a machine")


_Component = tuple[str, str, dict[str, Any]]


def _read_machine(
    machine: _Component, devices: list[_Component], shared: dict[str, str], rows: PriceRows, *, is_only: bool
) -> None:
    at, name, component = machine
    found = _MACHINE.fullmatch(name)
    assert found is not None
    if not found["system"].startswith("Linux"):
        rows.leave_out(at, name, f"the price includes a licence of {found['system']}")
    elif found["option"] not in _TERMS:
        rows.leave_out(at, name, f"the purchase option {found['option']!r} is not known")
    elif devices and not is_only:
        rows.leave_out(at, name, "accelerators are priced beside several machines, and whose they are is not said")
    elif (amount := _hourly(at, component, rows)) is not None:
        beside = [_beside(each, component, rows) for each in devices]
        if amount == 0 or 0 in beside or None in beside:
            rows.leave_out(at, name, "its price, or that of its accelerators, is zero or not known")
            return
        total = amount + sum(each for each in beside if each)
        note = f"with {', '.join(each[1] for each in devices)}" if devices else ""
        note = "reserved, without saying for how long" if found["option"] == "reserved" else note
        term = _TERMS[found["option"]]
        price = Price(
            amount_per_hour=total,
            currency=shared["currency"],
            node_type=found["type"],
            basis=PriceBasis.PER_NODE,
            term=term,
            region=shared["region"],
            date=shared["date"],
            source=shared["source"],
            note=note,
        )
        rows.add(at, price)


def _hourly(at: str, component: dict[str, Any], rows: PriceRows) -> float | None:
    """A machine's price per hour: the price per hour that is printed, or else what so many hours cost, divided by them."""
    if component.get("unit") == "hours" and component.get("price") is not None:
        return rows.amount(at, "price", component["price"], may_be_zero=True)
    cost, quantity = _cost_and_hours(at, component, rows)
    return cost / quantity if cost is not None and quantity else None


def _beside(device: _Component, machine: dict[str, Any], rows: PriceRows) -> float | None:
    """What an hour of a machine costs for the accelerators beside it: their cost, divided by the machine's hours."""
    at, _, component = device
    cost, _ = _cost_and_hours(at, component, rows)
    _, hours = _cost_and_hours(at, machine, rows)
    return cost / hours if cost is not None and hours else None


def _cost_and_hours(at: str, component: dict[str, Any], rows: PriceRows) -> tuple[float | None, float | None]:
    """Cost per hour of all machines of a component, and how many they are; None where it depends on usage."""
    for period, hours in (("hourly", 1.0), ("monthly", HOURS_PER_MONTH)):
        cost, quantity = component.get(f"{period}Cost"), component.get(f"{period}Quantity")
        if cost is not None and quantity is not None:
            return (
                rows.amount(at, f"{period}Cost", cost, per_hours=hours, may_be_zero=True),
                rows.amount(at, f"{period}Quantity", quantity, per_hours=hours, may_be_zero=True),
            )
    return None, None
