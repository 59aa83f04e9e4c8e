"""The tool that looks something up: a product, a model, a node type, a formula, a word. Two products are set side by side."""

import difflib
import re
from typing import Annotated, Any

from pydantic import Field

from service.api.errors import shortened
from service.api.mcp.answers import Answer
from service.api.mcp.names import Hardware
from service.api.mcp.prose import counted, gibibytes, number, sentence
from service.api.mcp.terms import TERMS, term
from service.api.mcp.tools import Desk, Tool
from service.formulas import REGISTRY
from service.planning.claims.shown import shown
from service.planning.errors import NotFound

#: Products are compared by what they are, but the question wants a model: this one weighs on no figure that is shown.
_ANY_MODEL = {"dense": {"num_parameters": 1e9}}
_MAX_PRICES = 6


def look_up(desk: Desk) -> Tool:
    """The tool, asking at this desk."""

    async def tool(
        name: Annotated[
            str, Field(description="'H100', 'V100 vs GB300', 'Llama 70B', 'p5.48xlarge', 'KV cache bytes per token', 'MFU'")
        ],
    ) -> Answer:
        """What is known of an accelerator, a node type, a model, a formula or a word of the field? How do two products compare?

        Gives figures with sources, conflicts between sources, and list prices; of several accelerators the ratios of peak,
        bandwidth and memory. Not for whether somebody's figure is right (check_claim).
        """
        for text in dict.fromkeys((name, _about(name))):
            known = term(text)
            if known is not None:
                hints = (known.ask, "give a product, a model or a formula by name for its figures")
                return desk.answer({}, known.meaning, sources=(known.source,), hints=hints)
            if text.strip() in REGISTRY:
                return _formula(desk, text.strip())
            several = _several(desk, text)
            if several is not None:
                return await _side_by_side(desk, several)
            place = _hardware(desk, text)
            if place is not None:
                return await (_accelerator(desk, place) if place.node_type is None else _node_type(desk, place))
        formula = _formula_like(name)
        if formula is not None:
            return _formula(desk, formula)
        return await _model(desk, name)

    return tool


def _several(desk: Desk, name: str) -> list[Hardware] | None:
    try:
        places = desk.names.several(name)
    except NotFound:
        return None
    return places if len(places) > 1 else None


def _hardware(desk: Desk, name: str) -> Hardware | None:
    try:
        return desk.names.hardware(name)
    except NotFound:
        return None


def _about(name: str) -> str:
    """What a phrase is about: "price of an H100" is about an H100, whose answer says all of it. A number alone is nothing."""
    words = [word for word in re.findall(r"[^\s?:]+", name[:200]) if word.casefold() not in _ASKED_OF_HARDWARE]
    return " ".join(words) if any(any(map(str.isalpha, word)) for word in words) else name


_ASKED_OF_HARDWARE = frozenset(
    {
        *("a", "an", "the", "of", "for", "in", "what", "is", "are", "how", "much", "does", "per", "hour"),
        *("price", "prices", "pricing", "cost", "costs", "spot", "on", "demand"),
        *("spec", "specs", "specification", "specifications"),
        *("memory", "bandwidth", "peak", "flops", "tflops", "power", "tdp"),
    }
)


def _formula_like(name: str) -> str | None:
    """The formula that a phrase means: "KV cache bytes per token", "ridge point"."""
    wanted = frozenset(re.findall(r"[a-z]+", name.casefold())) - {"formula", "the", "of", "for"}
    found = [each for each in REGISTRY if wanted and wanted <= frozenset(each.split("_"))]
    return min(found, key=len, default=None)


def _formula(desk: Desk, name: str) -> Answer:
    formula = REGISTRY[name]
    summary = f"{name} = {formula.expression}. {sentence(formula.meaning)} Reads {', '.join(formula.parameters)}."
    hints = ("how_fast, will_it_fit and explain_mfu with explain=true show it with its inputs",)
    return desk.answer({}, summary, sources=(formula.source,), hints=hints)


async def _accelerator(desk: Desk, place: Hardware) -> Answer:
    reply = await desk.ask("GetAccelerator", {"name": place.accelerator})
    prices = await desk.ask("ListPrices", {"accelerator": place.accelerator, "page_size": 50})
    found = reply["accelerator"]
    dense = [peak for peak in found["peaks"] if peak["sparsity"] == "dense"]
    figures = {unit_name: found[name]["value"] for name, unit_name in _ACCELERATOR_FIGURES.items() if name in found}
    used = [found[name] for name in _ACCELERATOR_FIGURES if name in found] + [peak["figure"] for peak in found["peaks"]]
    memory = f"{_printed(found['marketed_memory'])} as marketed"
    if "usable_memory" in found:
        memory += f" ({gibibytes(found['usable_memory']['value'])} usable)"
    parts = [memory]
    if "memory_bandwidth" in found:
        parts.insert(0, f"{shown(found['memory_bandwidth']['value'], 'B/s')}")
    summary = (
        f"{found['title']} ({found['name']}, {found['status']}); figures are for {found['counted_unit']}: "
        f"{'; '.join(_peak(found, peak) for peak in sorted(dense, key=_interest)[:4])}; {'; '.join(parts)}.{_listed(prices)}"
    )
    return desk.answer(
        reply,
        summary,
        figures=figures
        | {f"{peak['sparsity']}_peak_{peak['precision']}_flops_per_second": peak["figure"]["value"] for peak in found["peaks"]},
        rows=_prices(prices),
        notes=[*map(_conflict, found["conflicts"]), *found["notes"]],
        assumptions=(place.note,),
        sources=[source["id"] for figure in used for source in figure["sources"]],
        hints=("check_claim checks what somebody says of it", "will_it_fit and how_fast take it as hardware"),
    )


_ACCELERATOR_FIGURES = {
    "memory_bandwidth": "memory_bandwidth_bytes_per_second",
    "marketed_memory": "marketed_memory_bytes",
    "usable_memory": "usable_memory_bytes",
    "max_power": "max_power_watts",
    "num_compute_units": "num_compute_units",
    "l2_cache": "l2_cache_bytes",
}


def _printed(figure: dict[str, Any]) -> str:
    return f"{figure['printed_value']:g} {figure['printed_unit']}"


def _interest(peak: dict[str, Any]) -> int:
    """The formats of models before those of other work."""
    return _FORMATS.index(peak["precision"]) if peak["precision"] in _FORMATS else len(_FORMATS)


_FORMATS = ("bf16", "fp16", "fp8", "fp4", "int8")


def _peak(found: dict[str, Any], dense: dict[str, Any]) -> str:
    text = f"{shown(dense['figure']['value'], 'FLOP/s')} {dense['precision']} dense"
    sparse = [each for each in found["peaks"] if each["precision"] == dense["precision"] and each["sparsity"] != "dense"]
    if not sparse:
        return text
    return f"{text} ({shown(sparse[0]['figure']['value'], 'FLOP/s')} with 2:4 sparsity, which a dense model does not get)"


def _conflict(conflict: dict[str, Any]) -> str:
    figures = "; ".join(conflict["figures"])
    return f"sources disagree ({conflict['status']}) on {conflict['field']}: {figures}. {conflict['reason']}"


def _listed(prices: dict[str, Any]) -> str:
    """A sentence on what is asked for a device on demand, in dollars; empty where no such price is known."""
    listed = [each for each in prices["prices"] if each.get("term") == "ON_DEMAND" and each["currency"] == "USD"]
    newest: dict[str, str] = {}
    for each in listed:
        newest[each["provider"]] = max(newest.get(each["provider"], ""), each["date"])
    asked = [each for each in listed if each["date"] == newest[each["provider"]]]
    amounts = sorted(each["amount_per_hour"] / devices for each in asked if (devices := _num_devices(each)))
    if not amounts:
        return ""
    dates = sorted(each["date"] for each in asked if each["date"])
    dated = f", {' to '.join(dict.fromkeys((dates[0], dates[-1])))}" if dates else ""
    span = f"{amounts[0]:,.2f}" if amounts[0] == amounts[-1] else f"{amounts[0]:,.2f} to {amounts[-1]:,.2f}"
    return f" Listed on demand at {span} USD per device-hour ({counted(len(amounts), 'price')}{dated})."


def _num_devices(price: dict[str, Any]) -> int:
    """Devices that a price pays for; 0 where that is not known, or it is paid on top of something."""
    return {"PER_DEVICE": 1, "PER_NODE": price.get("num_devices") or 0}.get(price.get("basis", ""), 0)


def _prices(prices: dict[str, Any]) -> list[dict[str, Any]]:
    names = ("provider", "node_type", "amount_per_hour", "currency", "basis", "num_devices", "term", "region", "date")
    return [{name: price[name] for name in names if price.get(name)} for price in prices["prices"][:_MAX_PRICES]]


async def _node_type(desk: Desk, place: Hardware) -> Answer:
    reply = await desk.ask("GetNodeType", {"name": place.node_type})
    prices = await desk.ask("ListPrices", {"node_type": place.node_type, "page_size": 50})
    found = reply["node_type"]
    used = [found[name] for name in ("memory", "network_bandwidth_one_way") if name in found]
    summary = f"{found['title']} ({found['name']}, {found['provider']}): {found['num_devices']} × {found['accelerator']}"
    summary += f", {found['num_vcpus']} vCPUs" if found.get("num_vcpus") else ""
    summary += f", {_printed(found['memory'])} of host memory" if "memory" in found else ""
    return desk.answer(
        reply,
        f"{summary}.",
        figures={"num_devices": found["num_devices"], "accelerator": found["accelerator"]}
        | {unit_name: found[name]["value"] for name, unit_name in _NODE_FIGURES.items() if name in found},
        rows=_prices(prices),
        notes=found["notes"],
        assumptions=(place.note,),
        sources=[source["id"] for figure in used for source in figure["sources"]],
        hints=(f"look_up '{found['accelerator']}' for its accelerator", "will_it_fit takes it as hardware"),
    )


_NODE_FIGURES = {
    "memory": "memory_bytes",
    "network_bandwidth_one_way": "network_bandwidth_one_way_bytes_per_second",
}


async def _model(desk: Desk, name: str) -> Answer:
    try:
        named = desk.names.model(name)
    except NotFound as unknown:
        raise NotFound(
            "name", "accelerator, node type, model, formula or word", shortened(name), _nearest(desk, name, unknown)
        ) from None
    if "name" not in named.spec:
        raise NotFound("name", "accelerator, node type, model, formula or word", shortened(name), ())
    reply = await desk.ask("GetModel", {"name": named.spec["name"]})
    found = reply["model"]
    active = found["active_parameters"]
    sparse = f" ({number(active / 1e9)} billion active)" if active != found["total_parameters"] else ""
    summary = (
        f"{found['title']} ({found['name']}, {found['publisher']}): "
        f"{number(found['total_parameters'] / 1e9)} billion parameters{sparse}, "
        f"{found['num_layers']} layers, weights {gibibytes(found['weight_bytes'])} in {found['checkpoint_precision']}, "
        f"KV cache {number(found['kv_bytes_per_token'])} bytes per token in bf16."
    )
    return desk.answer(
        reply,
        summary,
        figures={each: found[each] for each in _MODEL_FIGURES},
        notes=found["notes"],
        assumptions=(named.note,),
        sources=[source["id"] for source in found["declared_parameters"]["sources"]],
        hints=("will_it_fit says where it fits", "how_fast says how fast it decodes"),
    )


_MODEL_FIGURES = (
    "total_parameters",
    "active_parameters",
    "weight_bytes",
    "kv_bytes_per_token",
    "windowed_kv_bytes_per_token",
    "state_bytes_per_sequence",
    "num_layers",
    "checkpoint_precision",
)


def _nearest(desk: Desk, name: str, unknown: NotFound) -> tuple[str, ...]:
    nearest = list(unknown.nearest)
    try:
        desk.names.hardware(name)
    except NotFound as error:
        nearest += error.nearest
    words = [*REGISTRY, *(each for known in TERMS for each in known.names)]
    nearest += difflib.get_close_matches(name[:60].casefold().replace(" ", "_"), words, n=3, cutoff=0.6)
    return tuple(dict.fromkeys(nearest))[:8]


async def _side_by_side(desk: Desk, places: list[Hardware]) -> Answer:
    question = {
        "model": _ANY_MODEL,
        "accelerators": [place.accelerator for place in places],
        "input_tokens": 1,
        "output_tokens": 1,
        "concurrency": 1,
    }
    reply = await desk.ask("CompareAccelerators", question)
    return desk.answer(
        {"catalogue_revision": reply["catalogue_revision"]},
        " ".join(f"{sentence(each['text'])}" for each in reply["generations"]) + " Peaks are dense, figures per counted unit.",
        figures={
            f"{name}_to_{each['to_accelerator']}": each.get(name) for each in reply["generations"] for name in _RATIO_FIGURES
        },
        rows=[_product(each) for each in reply["accelerators"]],
        assumptions=[place.note for place in places],
        sources=[each["price"]["source"] for each in reply["accelerators"] if "price" in each],
        hints=("how_fast with several accelerators compares them under a model",),
    )


_RATIO_FIGURES = ("peak_ratio", "same_precision_peak_ratio", "bandwidth_ratio", "memory_ratio", "ridge_point_ratio")


def _product(each: dict[str, Any]) -> dict[str, Any]:
    names = (
        "accelerator",
        "counted_unit",
        "memory_bandwidth_bytes_per_second",
        "usable_memory_bytes",
        "max_watts",
        "cost_per_device_hour",
    )
    row = {name: each[name] for name in names if each.get(name) is not None}
    for peak in each["peaks"][:3]:
        row[f"peak_dense_{peak['precision']}_flops_per_second"] = peak["peak_dense_flops_per_second"]
    return row
