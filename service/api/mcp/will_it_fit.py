"""The tool that says whether a model fits, and on how many devices."""

from typing import Annotated, Any

from pydantic import Field

from service.api.mcp.answers import Answer
from service.api.mcp.arguments import Ratio, Whole, precision
from service.api.mcp.names import Hardware as NamedHardware
from service.api.mcp.names import NamedModel
from service.api.mcp.prose import gibibytes, number, sentence
from service.api.mcp.tools import Desk, Explain, Hardware, Model, Tool, given

_CONTEXT_TOKENS = 4096
_DEVICES_PER_NODE = 8
_KIND = "by arithmetic: weights and cache are exact, the engine's own memory is left to the reserve"
_KIND_OF_ENGINE = "as the engine would allot it: weights are exact, its own memory is from start-up logs"
_TOLD_CURES = 3


def will_it_fit(desk: Desk) -> Tool:
    """The tool, asking at this desk."""

    async def tool(
        model: Model,
        hardware: Hardware,
        context_tokens: Annotated[Whole | None, Field(description="default 4096")] = None,
        batch_size: Annotated[Whole | None, Field(description="sequences held at once, default 1")] = None,
        weights_precision: str | None = None,
        kv_cache_precision: str | None = None,
        engine: Annotated[str | None, Field(description="vllm, sglang or tensorrt-llm: does it start?")] = None,
        memory_utilization_ratio: Ratio | None = None,
        num_layers: Whole | None = None,
        num_query_heads: Whole | None = None,
        num_kv_heads: Whole | None = None,
        head_dim: Whole | None = None,
        explain: Explain = False,
    ) -> Answer:
        """Does a model fit in the memory of some GPUs or of a node, and if not, what is short and what would cure it?

        Give a count ("1x H100") to ask about exactly so many; without one, the answer says how many are needed. A model given
        by its size needs num_layers … head_dim for its KV cache. Not for speed (how_fast) or cost (plan_fleet).
        """
        shape = {
            "num_layers": num_layers,
            "num_query_heads": num_query_heads,
            "num_kv_heads": num_kv_heads,
            "head_dim": head_dim,
        }
        named, on = desk.names.model(model, shape), desk.names.hardware(hardware)
        load = _Load(context_tokens, batch_size)
        question = {
            "model": named.spec,
            "context_tokens": load.context_tokens,
            "precision": given(weights=precision(weights_precision), kv_cache=precision(kv_cache_precision)),
            "memory_utilization_ratio": memory_utilization_ratio,
            "engine": given(name=engine),
            "explain": True,
        }
        if on.num_devices == 1 and on.node_type is None:
            return await _on_one(desk, named, on, question | {"batch_size": load.batch_size}, load, explain)
        return await _on_several(desk, named, on, question | {"concurrency": load.batch_size}, load, explain)

    return tool


class _Load:
    """What is to be held, with what is taken where it is not said."""

    def __init__(self, context_tokens: int | None, batch_size: int | None) -> None:
        self.context_tokens = _CONTEXT_TOKENS if context_tokens is None else context_tokens
        self.batch_size = 1 if batch_size is None else batch_size
        self.taken = (
            f"context_tokens {_CONTEXT_TOKENS} (not given)" if context_tokens is None else "",
            "batch_size 1 (not given)" if batch_size is None else "",
        )

    def __str__(self) -> str:
        return f"{self.batch_size} {'sequence' if self.batch_size == 1 else 'sequences'} of {self.context_tokens:,} tokens"


async def _on_one(
    desk: Desk, named: NamedModel, on: NamedHardware, question: dict[str, Any], load: _Load, explain: bool
) -> Answer:
    reply = await desk.ask("EstimateKvMemory", question | {"accelerator": {"name": on.accelerator}})
    shortfall, engine = reply.get("shortfall"), reply.get("engine_memory")
    what = f"{named.title} with {load} on 1 × {on.accelerator} ({_kind(engine)})"
    if reply.get("fits") is None:
        summary = f"Unknown for {what}: no usable memory of it is known."
    elif shortfall is not None:
        summary = f"No: {what}. {sentence(shortfall['description'])} {_cures(shortfall)}".strip()
    elif engine is not None:
        summary = f"Yes, it fits: {what}. {sentence(engine['statement'])}"
    else:
        summary = f"Yes, it fits: {what}. Weights take {gibibytes(reply['weight_bytes_per_device'])}, {_cache(reply)}."
    figures = {
        "fits": reply.get("fits"),
        **{name: reply.get(name) for name in _KV_FIGURES},
        **_short(shortfall),
        "engine_outcome": None if engine is None else engine["outcome"],
    }
    return desk.answer(
        reply,
        summary,
        figures=figures,
        rows=(shortfall or {}).get("cures", ()) or reply["budget"],
        explained=explain,
        assumptions=(named.note, on.note, *load.taken),
        hints=("how_fast says how fast it decodes there",)
        if reply.get("fits")
        else ("leave the count out to hear how many fit",),
    )


def _kind(engine: Any) -> str:
    return _KIND if engine is None else _KIND_OF_ENGINE


def _cache(reply: dict[str, Any]) -> str:
    if reply.get("max_sequences") is None:  # its layers and heads are not known
        return "which is all that is counted: give num_layers, num_query_heads, num_kv_heads and head_dim for its cache"
    most = number(reply["max_sequences"])
    return f"the cache {gibibytes(reply['kv_cache_bytes'])}; {most} such sequences would fit"


_KV_FIGURES = (
    "weight_bytes_per_device",
    "kv_cache_bytes",
    "kv_bytes_per_token",
    "cache_bytes_per_sequence",
    "max_sequences",
    "max_tokens",
)


async def _on_several(
    desk: Desk, named: NamedModel, on: NamedHardware, question: dict[str, Any], load: _Load, explain: bool
) -> Answer:
    counted = await desk.ask("FitNode", question | _place(on)) if on.num_devices is not None else None
    reply = counted if counted is not None and counted["fits"] else await desk.ask("FitNode", question | _place(on, free=True))
    what, kind = f"{named.title} with {load}", _kind(question["engine"])
    smallest = reply.get("smallest")
    one = next((each for each in reply["candidates"] if each["num_devices"] == 1), None)
    if counted is not None:
        where = on.node_type or f"{on.num_devices} × {on.accelerator}"
        yes = counted["fits"]
        verdict = f"{'Yes' if yes else 'No'}: {what} {'fits' if yes else 'does not fit'} {where} ({kind})."
        tried = counted["candidates"]
    else:
        alone = one is not None and one["fits"]
        verdict = f"{'Yes, one is enough' if alone else 'Not on one'}: {what}, {on.accelerator} ({kind})."
        tried = [one] if one is not None else []
    nearest = _nearest(tried)
    if nearest is not None and not any(each["fits"] for each in tried):
        split = f", split as {_shape(nearest)}" if nearest["num_devices"] > 1 else ""
        verdict += f" {sentence(nearest['shortfall']['description'] + split)} {_cures(nearest['shortfall'])}".rstrip()
    parts = [verdict, f"{reply['summary'].rstrip('.')}." if smallest is not None or counted is None else ""]
    engine = (smallest or {}).get("engine_memory")
    if engine is not None:
        parts.append(sentence(engine["statement"]))
    fits = counted["fits"] if counted is not None else bool(one and one["fits"])
    return desk.answer(
        reply,
        " ".join(filter(None, parts)),
        figures=_fit_figures(fits, smallest) | _short(None if fits or nearest is None else nearest["shortfall"]),
        rows=_rows(reply),
        explained=explain,
        assumptions=(
            *(named.note, on.note, *load.taken),
            "" if on.node_type or counted else f"nodes of {_DEVICES_PER_NODE} devices",
        ),
        hints=("how_fast says how fast it decodes there", "plan_fleet says how many a load needs and what they cost"),
    )


def _place(on: NamedHardware, *, free: bool = False) -> dict[str, Any]:
    """Where to look: on exactly what was named, or, freely, on as many nodes of it as it takes."""
    if on.node_type is not None:
        return {"node": {"name": on.node_type}, "max_num_nodes": None if free else 1}
    count = on.num_devices or _DEVICES_PER_NODE
    whole_nodes = count % _DEVICES_PER_NODE == 0
    place: dict[str, Any] = {"accelerator": {"name": on.accelerator}, "devices_per_node": _DEVICES_PER_NODE}
    if free:
        return place
    if not whole_nodes:
        place["devices_per_node"] = count
    return place | {"max_num_nodes": count // _DEVICES_PER_NODE if whole_nodes else 1}


def _nearest(candidates: list[dict[str, Any]]) -> dict[str, Any] | None:
    short = [each for each in candidates if "shortfall" in each]
    return min(short, key=lambda each: each["shortfall"]["short_bytes_per_device"], default=None)


def _shape(candidate: dict[str, Any]) -> str:
    split = candidate["parallelism"]
    words = [f"{name.replace('_', ' ')} {split[name]}" for name in ("tensor", "pipeline", "expert", "attention_data")]
    return ", ".join(word for word in words if not word.endswith(" 1")) or "one device"


def _fit_figures(fits: bool, smallest: dict[str, Any] | None) -> dict[str, Any]:
    if smallest is None:
        return {"fits": fits}
    figures = {name: smallest.get(name) for name in _FIT_FIGURES}
    return (
        {"fits": fits} | {f"smallest_{name}": value for name, value in figures.items()} | {"smallest_shape": _shape(smallest)}
    )


_FIT_FIGURES = (
    "num_devices",
    "num_nodes",
    "max_sequences",
    "weight_bytes_per_device",
    "cache_bytes_per_sequence_per_device",
    "headroom_bytes_per_device",
    "longest_context_tokens",
)


def _rows(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """The shapes that fit, or those that were tried; of such as differ in how experts are split alone, the first."""
    fitting = [each for each in reply["candidates"] if each["fits"]]
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for each in fitting or reply["candidates"]:
        split, held = each["parallelism"], each.get("max_sequences")
        alike = (split["tensor"], split["pipeline"], split["attention_data"], held)
        row = {"num_devices": each["num_devices"], "shape": _shape(each), "fits": each["fits"], "max_sequences": held}
        rows.setdefault(alike, row | {"crosses_link_domain": each["crosses_link_domain"]})
    return list(rows.values())


def _short(shortfall: dict[str, Any] | None) -> dict[str, Any]:
    names = ("required_bytes_per_device", "available_bytes_per_device", "short_bytes_per_device")
    return {} if shortfall is None else {name: shortfall[name] for name in names}


def _cures(shortfall: dict[str, Any]) -> str:
    return " ".join(sentence(cure["description"]) for cure in shortfall["cures"][:_TOLD_CURES])
