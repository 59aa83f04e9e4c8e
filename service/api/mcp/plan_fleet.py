"""The tool that says how many devices a load needs, of which kind, at what cost."""

import re
from typing import Annotated, Any

from pydantic import Field

from service.api.errors import FieldViolation, MalformedRequest
from service.api.mcp.answers import Answer
from service.api.mcp.arguments import PerSecond, Seconds, Whole, precision
from service.api.mcp.prose import counted, number, seconds, sentence
from service.api.mcp.tools import Desk, Model, Tool, given

#: Taken where a chatbot's user says no service level: an answer that begins within two seconds and reads faster than people do.
_TTFT_SECONDS = 2.0
_TPOT_SECONDS = 0.1
#: A question with some context, and an answer of a paragraph or two.
_INPUT_TOKENS, _OUTPUT_TOKENS = 1024, 256
_SHOWN_PLANS = 6


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
        term: Annotated[str | None, Field(description="on demand (default), spot, reserved 1y or 3y")] = None,
        headroom_ratio: Annotated[float | None, Field(description="0.2 keeps a fifth in reserve")] = None,
        redundant_nodes: Whole | None = None,
    ) -> Answer:
        """How many GPUs of which kind carry a load within a service level, and what do they cost? Which is cheaper?

        For every question about cost, fleet size or replicas. Plans are ranked by cost; each price has its provider and date.
        Sizes rest on estimates of a calibrated engine; what has none is left out, with the reason.
        """
        named = desk.names.model(model)
        nodes, accelerators, notes = _places(desk, hardware)
        if ttft_seconds is None and tpot_seconds is None:
            ttft_seconds, tpot_seconds = _TTFT_SECONDS, _TPOT_SECONDS
            notes.append(f"service level: first token in {_TTFT_SECONDS:g} s, {_TPOT_SECONDS:g} s a token (not given)")
        if input_tokens is None:
            input_tokens = _INPUT_TOKENS
            notes.append(f"input_tokens {input_tokens} (not given)")
        if output_tokens is None:
            output_tokens = _OUTPUT_TOKENS
            notes.append(f"output_tokens {output_tokens} (not given)")
        question = {
            "model": named.spec,
            "workloads": [
                {
                    "input_tokens": input_tokens,
                    "output_tokens": output_tokens,
                    "requests_per_second": {"mid": requests_per_second},
                }
            ],
            "service_level": given(ttft_seconds=ttft_seconds, tpot_seconds=tpot_seconds),
            "node_types": nodes or None,
            "accelerators": accelerators or None,
            "engines": None if engine is None else [{"name": engine}],
            "precision": given(weights=precision(weights_precision)),
            "term": _term(term),
            "headroom_ratio": headroom_ratio,
            "redundant_nodes": redundant_nodes,
            "max_plans": _SHOWN_PLANS,
        }
        reply = await desk.ask("PlanFleet", question)
        load = f"{named.title}, {number(requests_per_second)} requests/s of {input_tokens:,} + {output_tokens:,} tokens"
        return _answer(desk, reply, load, [named.note, *notes])

    return tool


def _places(desk: Desk, hardware: str) -> tuple[list[str], list[str], list[str]]:
    """Node types, accelerators, and what is to be said of how they were named."""
    nodes, accelerators, notes = [], [], []
    for place in desk.names.several(hardware):
        notes.append(place.note)
        if place.node_type is not None:
            nodes.append(place.node_type)
            continue
        accelerators.append(place.accelerator)
        if place.num_devices is not None:
            notes.append(f"the count of {place.accelerator} is not used: how many there must be is the answer")
    return nodes, accelerators, notes


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


def _answer(desk: Desk, reply: dict[str, Any], load: str, notes: list[str]) -> Answer:
    plans = reply["plans"]
    if not plans:
        return _none(desk, reply, load, notes)
    by = {"COST": "cheapest first", "POWER": "least power first", "DEVICES": "fewest devices first"}[reply["ranking"]]
    first, *others = plans
    summary = f"For {load} ({by}): {_said(first)}."
    if others:
        summary += f" Next: {'; '.join(map(_said, others[:2]))}."
    summary += " Sizes are estimates, prices list prices of their date."
    return desk.answer(
        reply,
        summary,
        figures=_figures(first),
        rows=map(_row, plans),
        notes=[f"{_name(each)}: {each['text']}" for each in reply["excuses"] if each["reason"] not in {"COSTS_MORE"}][:4],
        assumptions=notes,
        sources=[_price(each)["source"] for each in plans if _price(each)],
        hints=(
            "hardware narrows the choice",
            "how_fast shows the speed of one replica",
            "headroom_ratio and redundant_nodes add reserve",
        ),
    )


def _none(desk: Desk, reply: dict[str, Any], load: str, notes: list[str]) -> Answer:
    infeasible = reply.get("infeasible")
    reasons = [f"{_name(each)}: {each['text']}" for each in reply["excuses"]]
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
    dated = f", {price['provider']} {price['term'].lower().replace('_', ' ')}, {price['date'] or 'undated'}" if price else ""
    return (
        f"{text} at {cost['cost_per_hour']:,.2f} {unit} per hour, "
        f"{cost['output_cost_per_million_tokens']:.3g} {unit} per million output tokens{dated}"
    )


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
