"""The tool that says how many devices a load needs, of which kind, at what cost."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from service.api.errors import FieldViolation, MalformedRequest
from service.api.mcp.answers import Answer
from service.api.mcp.arguments import DollarsPerHour, PerSecond, Seconds, Whole, precision
from service.api.mcp.names import Hardware
from service.api.mcp.prose import counted, number, percent, seconds, sentence
from service.api.mcp.tools import Desk, Model, Tool, given

#: Taken where a chatbot's user says no service level: an answer that begins within two seconds and reads faster than people do.
_TTFT_SECONDS = 2.0
_TPOT_SECONDS = 0.1
#: A question with some context, and an answer of a paragraph or two.
_INPUT_TOKENS, _OUTPUT_TOKENS = 1024, 256
_SHOWN_PLANS = 6
#: Fleets that the summary names, and reasons for others that the notes give.
_TOLD_PLANS, _SHOWN_EXCUSES = 3, 5


def plan_fleet(desk: Desk) -> Tool:
    """The tool, asking at this desk."""

    async def tool(
        model: Model,
        requests_per_second: PerSecond,
        input_tokens: Annotated[Whole | None, Field(description="default 1024")] = None,
        output_tokens: Annotated[Whole | None, Field(description="default 256")] = None,
        hardware: Annotated[str, Field(description="'H100, MI300X' or node types; empty: every node type with a price")] = "",
        ttft_seconds: Annotated[Seconds | None, Field(description="to the first token (2 s if no time is given)")] = None,
        tpot_seconds: Annotated[Seconds | None, Field(description="between tokens (0.1 s if no time is given)")] = None,
        engine: Annotated[str | None, Field(description="vllm (default), sglang, tensorrt-llm")] = None,
        weights_precision: str | None = None,
        kv_cache_precision: str | None = None,
        term: Annotated[str | None, Field(description="on demand (default), spot, reserved 1y or 3y")] = None,
        headroom_ratio: Annotated[float | None, Field(description="0.2 keeps a fifth in reserve")] = None,
        redundant_nodes: Whole | None = None,
        usd_per_device_hour: Annotated[
            DollarsPerHour | None, Field(description="a price of your own; name one hardware")
        ] = None,
    ) -> Answer:
        """How many GPUs of which kind carry a load within a service level, and what do they cost? Which is cheaper?

        For every question about cost, fleet size or replicas. Plans are ranked by cost; each price has its provider and date.
        Sizes rest on estimates of a calibrated engine; what has none is left out, with the reason.
        """
        named, places = desk.names.model(model), desk.names.several(hardware)
        load = _Load(requests_per_second, input_tokens, output_tokens, ttft_seconds, tpot_seconds)
        nodes, accelerators, notes = _places(places)
        question = {
            "model": named.spec,
            "workloads": [load.workload],
            "service_level": load.service_level,
            "node_types": nodes or None,
            "accelerators": accelerators or None,
            "engines": None if engine is None else [{"name": engine}],
            "precision": given(weights=precision(weights_precision), kv_cache=precision(kv_cache_precision)),
            "price_list": _own_price(places, usd_per_device_hour),
            "term": _term(term),
            "headroom_ratio": headroom_ratio,
            "redundant_nodes": redundant_nodes,
            "max_plans": _SHOWN_PLANS,
        }
        reply = await desk.ask("PlanFleet", question)
        taken = [named.note, *notes, *load.taken]
        return _answer(desk, reply, f"{named.title}, {load}", taken, is_narrow=bool(places))

    return tool


class _Load:
    """What is to be carried and how quickly, with what is taken where it is not said."""

    def __init__(
        self,
        requests_per_second: float,
        input_tokens: int | None,
        output_tokens: int | None,
        ttft_seconds: float | None,
        tpot_seconds: float | None,
    ) -> None:
        self.taken = []
        if ttft_seconds is None and tpot_seconds is None:
            ttft_seconds, tpot_seconds = _TTFT_SECONDS, _TPOT_SECONDS
            self.taken.append(f"service level: first token in {_TTFT_SECONDS:g} s, {_TPOT_SECONDS:g} s a token (not given)")
        if input_tokens is None:
            input_tokens = _INPUT_TOKENS
            self.taken.append(f"input_tokens {input_tokens} (not given)")
        if output_tokens is None:
            output_tokens = _OUTPUT_TOKENS
            self.taken.append(f"output_tokens {output_tokens} (not given)")
        lengths = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        self.workload = {**lengths, "requests_per_second": {"mid": requests_per_second}}
        self.service_level = given(ttft_seconds=ttft_seconds, tpot_seconds=tpot_seconds)
        self._text = f"{number(requests_per_second)} requests/s of {input_tokens:,} + {output_tokens:,} tokens"

    def __str__(self) -> str:
        return self._text


def _places(places: list[Hardware]) -> tuple[list[str], list[str], list[str]]:
    """Node types, accelerators, and what is to be said of how they were named."""
    nodes, accelerators, notes = [], [], []
    for place in places:
        notes.append(place.note)
        if place.node_type is not None:
            nodes.append(place.node_type)
            continue
        accelerators.append(place.accelerator)
        if place.num_devices is not None:
            notes.append(f"the count of {place.accelerator} is not used: how many there must be is the answer")
    return nodes, accelerators, notes


def _own_price(places: list[Hardware], usd_per_device_hour: float | None) -> dict[str, Any] | None:
    if usd_per_device_hour is None:
        return None
    if len(places) != 1:
        problem = "it is the price of one kind of hardware: name one in hardware, and ask about each by itself"
        raise MalformedRequest([FieldViolation("usd_per_device_hour", problem)])
    [place] = places
    price = {"accelerator": place.accelerator, "amount_per_hour": usd_per_device_hour, "basis": "PER_DEVICE"}
    if place.node_type is not None:
        amount = usd_per_device_hour * (place.num_devices or 1)
        price = {"node_type": place.node_type, "amount_per_hour": amount, "basis": "PER_NODE"}
    return {"prices": [price | {"currency": "USD"}]}


def _term(text: str | None) -> str | None:
    if text is None:
        return None
    letters = re.sub(r"[^a-z0-9]", "", text.lower())
    if letters in _TERMS:
        return _TERMS[letters]
    problem = f"{text[:40]!r} is no term of a price; it is one of on demand, spot, reserved 1y, reserved 3y"
    raise MalformedRequest([FieldViolation("term", problem)])


_TERMS = {
    "ondemand": "ON_DEMAND",
    "spot": "SPOT",
    "reserved1y": "ONE_YEAR",
    "reserved1year": "ONE_YEAR",
    "reserved3y": "THREE_YEARS",
    "reserved3years": "THREE_YEARS",
}


def _answer(desk: Desk, reply: dict[str, Any], load: str, notes: list[str], *, is_narrow: bool) -> Answer:
    plans = reply["plans"]
    if not plans:
        return _none(desk, reply, load, notes)
    by = {"COST": "cheapest first", "POWER": "least power first", "DEVICES": "fewest devices first"}[reply["ranking"]]
    first, *others = plans
    summary = f"For {load} ({by}): {_said(first)}, {_load(first)}."
    if others:
        summary += f" Next: {'; '.join(map(_said, others[: _TOLD_PLANS - 1]))}."
    own = any(_price(plan).get("is_own") for plan in plans)
    summary += f" Sizes are estimates, prices {'as given' if own else 'list prices of their date'}."
    return desk.answer(
        reply,
        summary,
        figures=_figures(first),
        rows=map(_row, plans),
        notes=[*_priced(plans), *_excused(reply["excuses"])[:_SHOWN_EXCUSES]],
        assumptions=notes,
        sources=[_price(each)["source"] for each in plans if _price(each)],
        hints=(
            "" if is_narrow else "hardware narrows the choice",
            "how_fast shows the speed of one replica",
            "headroom_ratio and redundant_nodes add reserve",
            "usd_per_device_hour takes a price of your own",
        ),
    )


def _load(plan: dict[str, Any]) -> str:
    """How near to its limit the estimate sees the fleet."""
    return f"at {percent(round(plan['utilization_ratio'], 2))} of what they carry"


def _priced(plans: list[dict[str, Any]]) -> Iterator[str]:
    """What to know of the prices of the fleets that the summary names, and what of the hour an output token's price holds."""
    for plan in plans[:_TOLD_PLANS]:
        for note in (plan.get("cost") or {}).get("notes", ()):
            yield f"{plan['node_type'] or plan['accelerator']}: {note}"
    if any("cost" in plan for plan in plans):
        yield "input and output tokens share the cost of an hour by the time that devices spend on each"


def _excused(excuses: list[dict[str, Any]]) -> list[str]:
    """Why hardware is missing from the plans: one line for each reason, with the first hardware of which it is true."""
    named: dict[str, list[str]] = {}
    for each in excuses:
        if each["reason"] != "COSTS_MORE":
            named.setdefault(each["text"], []).append(_name(each))
    lines = []
    for text, (first, *rest) in named.items():
        others = f" and {counted(len(rest), 'other')}" if rest else ""
        lines.append(f"{first}{others}: {text}")
    return lines


def _none(desk: Desk, reply: dict[str, Any], load: str, notes: list[str]) -> Answer:
    infeasible = reply.get("infeasible")
    reasons = _excused(reply["excuses"])
    summary = (
        f"No fleet carries {load}. {sentence(infeasible['reason']) if infeasible else ' '.join(map(sentence, reasons[:2]))}"
    )
    hints = ["allow more hardware, or a longer ttft_seconds or tpot_seconds"]
    if infeasible and "nearest_plan" in infeasible:
        nearest = infeasible["nearest_service_level"]
        times = ", ".join(f"{name} {seconds(value)}" for name, value in nearest.items() if name.endswith("_seconds"))
        summary += f" The nearest that something meets is {times}: {_said(infeasible['nearest_plan'])}."
    return desk.answer(reply, summary, figures={"num_plans": 0}, notes=reasons, assumptions=notes, hints=hints)


def _said(plan: dict[str, Any]) -> str:
    pools = " and ".join(
        f"{pool['num_replicas']} {'' if pool['role'] == 'AGGREGATED' else pool['role'].lower() + ' '}replicas of "
        f"{pool['num_devices_per_replica']}"
        for pool in plan["pools"]
    )
    text = f"{plan['num_devices']} × {plan['accelerator']} on {counted(plan['num_nodes'], 'node')}"
    text += f" ({plan['node_type']}; {pools}, {plan['engine']})" if plan["node_type"] else f" ({pools}, {plan['engine']})"
    cost = plan.get("cost")
    if cost is None:
        return f"{text}, price unknown"
    price, unit = _price(plan), cost["currency"]
    offer = f", {_offer(price)}" if price else ""
    return (
        f"{text} at {cost['cost_per_hour']:,.2f} {unit} per hour{_whole_machines(plan)}, "
        f"{cost['input_cost_per_million_tokens']:.3g} per million input and "
        f"{cost['output_cost_per_million_tokens']:.3g} per million output tokens{offer}"
    )


def _whole_machines(plan: dict[str, Any]) -> str:
    """What the fleet costs where its devices are let by the machine and do not fill the last one; empty where they do."""
    each, price = plan["cost"]["cost_per_unit_hour"], _price(plan)
    size = price.get("num_devices") or 1
    if plan["node_type"] or price.get("basis") != "PER_NODE" or not plan["num_devices"] % size:
        return ""
    machines = -(-plan["num_devices"] // size)
    return f" ({machines * size * each:,.2f} as {counted(machines, 'whole machine')} of {size})"


def _offer(price: dict[str, Any]) -> str:
    if price["is_own"]:
        return "at the price given"
    term = price["term"].lower().replace("_", " ")
    date = f"as of {price['date']}" if price["date"] else "of no known date"
    return f"{price['provider']} {term}, {date}"


def _name(excuse: dict[str, Any]) -> str:
    tensor = excuse.get("parallelism", {}).get("tensor")
    return f"{excuse['node_type'] or excuse['accelerator']}{f' at tensor {tensor}' if tensor else ''}"


def _price(plan: dict[str, Any]) -> dict[str, Any]:
    price: dict[str, Any] = (plan.get("cost") or {}).get("price") or {}
    return price


def _figures(plan: dict[str, Any]) -> dict[str, Any]:
    cost, pool = plan.get("cost") or {}, plan["pools"][0]
    return (
        {f"first_{name}": plan.get(name) for name in _PLAN_FIGURES}
        | {f"first_{name}": value for name, value in cost.items() if name in _COST_FIGURES}
        | {f"first_estimate_{name}": pool.get(name) for name in ("ttft_seconds", "tpot_seconds", "end_to_end_seconds")}
    )


_PLAN_FIGURES = (
    "accelerator",
    "node_type",
    "num_devices",
    "num_nodes",
    "max_requests_per_second",
    "utilization_ratio",
    "binding_limit",
    "watts",
    "calibration",
)
_COST_FIGURES = (
    "cost_per_hour",
    "cost_per_year",
    "input_cost_per_million_tokens",
    "output_cost_per_million_tokens",
    "currency",
)


def _row(plan: dict[str, Any]) -> dict[str, Any]:
    cost, price, pool = plan.get("cost") or {}, _price(plan), plan["pools"][0]
    row = {
        "rank": plan["rank"],
        "node_type": plan["node_type"] or None,
        "accelerator": plan["accelerator"],
        "num_devices": plan["num_devices"],
        "num_nodes": plan["num_nodes"],
        "num_replicas": pool["num_replicas"],
        "num_devices_per_replica": pool["num_devices_per_replica"],
        "cost_per_hour": cost.get("cost_per_hour"),
        "output_cost_per_million_tokens": cost.get("output_cost_per_million_tokens"),
        "currency": cost.get("currency"),
        "price_provider": price.get("provider"),
        "price_date": price.get("date"),
        "estimate_ttft_seconds": pool.get("ttft_seconds"),
        "estimate_tpot_seconds": pool.get("tpot_seconds"),
        "binding_limit": plan["binding_limit"],
    }
    return {name: value for name, value in row.items() if value is not None}
