"""The tool that says how fast a model decodes: the bound, and what an engine will really serve where that is known."""

from typing import Annotated, Any

from pydantic import Field

from service.api.errors import FieldViolation, MalformedRequest
from service.api.mcp.answers import Answer
from service.api.mcp.arguments import PerSecond, Whole, precision
from service.api.mcp.names import Hardware as NamedHardware
from service.api.mcp.names import NamedModel
from service.api.mcp.prose import gigabytes, number, seconds, sentence, spread
from service.api.mcp.tools import Desk, Explain, Model, Tool, given

_COMPARED_TOKENS = (1024, 256)
_COMPARED_BATCH = 16
_CONTEXT_TOKENS = 4096


def how_fast(desk: Desk) -> Tool:
    """The tool, asking at this desk."""

    async def tool(
        model: Model,
        hardware: Annotated[str, Field(description="'H100', '8x H100'; several ('H100, MI300X') are compared")],
        batch_size: Annotated[Whole | None, Field(description="sequences decoded at once (default 1)")] = None,
        context_tokens: Annotated[Whole | None, Field(description="tokens that each sequence holds")] = None,
        input_tokens: Annotated[
            Whole | None, Field(description="with output_tokens: also what an engine really serves")
        ] = None,
        output_tokens: Whole | None = None,
        requests_per_second: Annotated[PerSecond | None, Field(description="in place of batch_size, for the estimate")] = None,
        engine: Annotated[str | None, Field(description="vllm (default), sglang, tensorrt-llm")] = None,
        weights_precision: str | None = None,
        kv_cache_precision: str | None = None,
        num_layers: Whole | None = None,
        num_query_heads: Whole | None = None,
        num_kv_heads: Whole | None = None,
        head_dim: Whole | None = None,
        explain: Explain = False,
    ) -> Answer:
        """How many tokens per second does a model decode on so many GPUs, what limits it, and from which batch?

        Gives the bound (physics, never beaten); with input_tokens and output_tokens also the estimate of a serving engine, with
        its range. All devices form one tensor-parallel replica. A model given by its size counts its weights alone, unless
        num_layers … head_dim are given. Not for how many replicas a load needs (plan_fleet).
        """
        shape = {
            "num_layers": num_layers,
            "num_query_heads": num_query_heads,
            "num_kv_heads": num_kv_heads,
            "head_dim": head_dim,
        }
        named, places = desk.names.model(model, shape), desk.names.several(hardware)
        formats = given(weights=precision(weights_precision), kv_cache=precision(kv_cache_precision))
        load = _Load(
            batch_size, context_tokens, input_tokens, output_tokens, requests_per_second, engine, is_compared=len(places) > 1
        )
        if len(places) > 1:
            return await _compared(desk, named, places, formats, load)
        return await _of_one(desk, named, places[0], formats, load, explain)

    return tool


class _Load:
    """What is asked of the hardware, with what is taken where it is not said."""

    def __init__(
        self,
        batch_size: int | None,
        context_tokens: int | None,
        input_tokens: int | None,
        output_tokens: int | None,
        requests_per_second: float | None,
        engine: str | None,
        *,
        is_compared: bool,
    ) -> None:
        if (input_tokens is None) != (output_tokens is None):
            missing = "input_tokens" if input_tokens is None else "output_tokens"
            raise MalformedRequest([FieldViolation(missing, "give input_tokens and output_tokens together, or neither")])
        if requests_per_second is not None and batch_size is not None:
            problem = "it and batch_size are two ways to say the load; leave one out"
            raise MalformedRequest([FieldViolation("requests_per_second", problem)])
        if input_tokens is None and not is_compared:
            for name, value in (("engine", engine), ("requests_per_second", requests_per_second)):
                if value is not None:
                    problem = "it is for the estimate: give input_tokens and output_tokens too, or leave it out for the bound"
                    raise MalformedRequest([FieldViolation(name, problem)])
        if requests_per_second is not None and is_compared:
            problem = "accelerators are compared at a batch_size; plan_fleet compares what a rate costs on each"
            raise MalformedRequest([FieldViolation("requests_per_second", problem)])
        self.batch_size = batch_size
        self.input_tokens, self.output_tokens = input_tokens, output_tokens
        self.requests_per_second = requests_per_second
        self.engine = engine
        # While it decodes a sequence holds its prompt at least: no step is faster than with that.
        self.context_tokens = input_tokens if context_tokens is None else context_tokens


async def _of_one(
    desk: Desk, named: NamedModel, on: NamedHardware, formats: dict[str, Any] | None, load: _Load, explain: bool
) -> Answer:
    shared = {
        "model": named.spec,
        "accelerator": {"name": on.accelerator},
        "parallelism": {"tensor": on.num_devices or 1},
        "precision": formats,
    }
    serving = None if load.input_tokens is None else await desk.ask("EstimateServing", shared | _serving(load))
    batch = _batch_of(serving) if load.batch_size is None else load.batch_size
    context = load.context_tokens
    if context is None and "dense" not in named.spec:
        context = _CONTEXT_TOKENS
    reply = await desk.ask("EstimateDecode", shared | {"batch_size": batch, "context_tokens": context, "explain": True})
    notes = [named.note, on.note, *_taken(load, batch, context, serving), *(() if serving is None else serving["assumptions"])]
    where = f"{named.title} on {reply['num_devices']} × {on.accelerator} at batch {number(batch)}"
    where += f", context {number(context)}" if context is not None else ", weights alone"
    return desk.answer(
        reply,
        " ".join(filter(None, (_bound(reply, where), _limits(reply), _estimate(serving), _fit(reply)))),
        figures=_figures(reply, serving),
        rows=reply["limits"],
        explained=explain,
        assumptions=notes,
        hints=_hints(reply, serving),
    )


def _batch_of(serving: dict[str, Any] | None) -> int:
    """The batch to bound where it is not given: the one that the estimate comes to, or a single sequence."""
    estimate = (serving or {}).get("estimate") or {}
    batch: float = estimate.get("effective_batch_size", 1)
    return max(1, round(batch))


def _taken(load: _Load, batch: int, context: int | None, serving: dict[str, Any] | None) -> list[str]:
    """What was taken where it was not said."""
    notes = []
    if load.batch_size is None:
        notes.append(
            f"batch_size {batch} for the bound (not given{'' if load.requests_per_second is None else '; of the estimate'})"
        )
    if context is not None and load.context_tokens is None:
        notes.append(f"context_tokens {context} (not given)")
    if serving is not None and load.engine is None:
        notes.append("engine vllm (not given)")
    if context is not None and context == load.input_tokens:
        notes.append("the bound is at a context of input_tokens, the least that a sequence holds while it decodes")
    return notes


def _serving(load: _Load) -> dict[str, Any]:
    arrivals = load.requests_per_second
    workload: dict[str, Any] = {"input_tokens": load.input_tokens, "output_tokens": load.output_tokens}
    workload |= (
        {"concurrency": 1 if load.batch_size is None else load.batch_size}
        if arrivals is None
        else {"requests_per_second": arrivals}
    )
    return {"engine": {"name": load.engine or "vllm"}, "workload": workload}


def _bound(reply: dict[str, Any], where: str) -> str:
    bound = reply["bound"]
    binding = sentence(_words(bound["binding_limit"]))[:-1]
    attention = bound.get("attention_intensity_flops_per_byte")
    alone = f", attention alone {number(attention)} at any batch" if attention is not None else ""
    users = (
        ""
        if bound["tokens_per_second"] == bound["tokens_per_second_per_user"]
        else (f" ({number(bound['tokens_per_second_per_user'])} per user)")
    )
    return (
        f"Bound, not an estimate: {where} decodes at most {number(bound['tokens_per_second'])} tokens/s{users}; a step reads "
        f"{gigabytes(bound['bytes_per_device'])} on each device and takes at least {seconds(bound['step_seconds'])} (memory "
        f"{seconds(bound['memory_seconds'])}, arithmetic {seconds(bound['compute_seconds'])}). {binding} binds: "
        f"intensity {number(bound['arithmetic_intensity_flops_per_byte'])} FLOP/byte{alone}, against a ridge point of "
        f"{number(bound['ridge_point_flops_per_byte'])} (dense peak over bandwidth)."
    )


def _words(limit: str) -> str:
    return limit.replace("_", " ").lower().replace("kv", "KV")


def _limits(reply: dict[str, Any]) -> str:
    words = []
    for each in reply["limits"]:
        name, onset = _words(each["limit"]), each.get("binds_from_batch_size")
        below = each.get("binds_only_below_context_tokens")
        if onset is not None and onset > 1:
            words.append(f"{name} from batch {number(onset)}")
        elif below is not None:
            words.append(f"{name} never at this context (only below some {number(below)} tokens)")
    return sentence(f"Limits by batch: {'; '.join(words)}") if words else ""


def _estimate(serving: dict[str, Any] | None) -> str:
    if serving is None:
        return ""
    estimate = serving.get("estimate")
    if estimate is None:
        return f"No estimate: {sentence(serving['no_estimate_reason'])}"
    times = [
        f"{word} {spread(estimate[name], 's')}"
        for word, name in (("TPOT", "tpot_seconds"), ("TTFT", "ttft_seconds"))
        if name in estimate
    ]
    said = ", ".join([f"{spread(estimate['output_tokens_per_second'], 'output tokens/s')}", *times])
    saturated = f" {sentence(serving['saturation'])}" if serving["saturated"] else ""
    basis = estimate["calibration_basis"].lower()
    return f"Estimate (calibration {estimate['calibration']}, {basis}): the engine really serves {said}.{saturated}"


def _fit(reply: dict[str, Any]) -> str:
    if reply.get("fits") is False:
        return f"It does not fit: {reply['shortfall']['description']}."
    return "It fits." if reply.get("fits") else "Whether it fits is not known."


def _figures(reply: dict[str, Any], serving: dict[str, Any] | None) -> dict[str, Any]:
    bound, expected = reply["bound"], reply["expected"]
    figures = {f"bound_{name}": bound[name] for name in _BOUND_FIGURES}
    figures |= {name: bound.get(name) for name in _WORK_FIGURES}
    figures |= {name: expected[name] for name in ("expected_step_seconds", "expected_tokens_per_second")}
    figures |= {"binding_limit": bound["binding_limit"], "fits": reply.get("fits"), "num_devices": reply["num_devices"]}
    estimate = (serving or {}).get("estimate") or {}
    for name in _ESTIMATE_FIGURES:
        for at, value in (estimate.get(name) or {}).items():
            figures[f"estimate_{at}_{name}"] = value
    return figures


_BOUND_FIGURES = (
    "tokens_per_second",
    "tokens_per_second_per_user",
    "tokens_per_second_per_device",
    "step_seconds",
    "memory_seconds",
    "compute_seconds",
    "interconnect_seconds",
)
_WORK_FIGURES = (
    "weight_bytes",
    "kv_cache_bytes",
    "bytes_per_device",
    "flops",
    "arithmetic_intensity_flops_per_byte",
    "attention_intensity_flops_per_byte",
    "ridge_point_flops_per_byte",
)
_ESTIMATE_FIGURES = ("output_tokens_per_second", "tpot_seconds", "ttft_seconds", "max_requests_per_second")


def _hints(reply: dict[str, Any], serving: dict[str, Any] | None) -> list[str]:
    hints = []
    if serving is None:
        hints.append("give input_tokens, output_tokens and batch_size for what an engine really serves")
    if reply.get("fits") is False:
        hints.append("will_it_fit says how many devices are needed")
        hints += [cure["description"] for cure in reply["shortfall"]["cures"][:3]]
    return [*hints, "plan_fleet says how many a load needs and what they cost"]


async def _compared(
    desk: Desk, named: NamedModel, places: list[NamedHardware], formats: dict[str, Any] | None, load: _Load
) -> Answer:
    tokens = _COMPARED_TOKENS if load.input_tokens is None else (load.input_tokens, load.output_tokens)
    batch = _COMPARED_BATCH if load.batch_size is None else load.batch_size
    devices = {place.num_devices or 1 for place in places}
    if len(devices) > 1:
        problem = "compare equal numbers of devices, such as '8x H100, 8x MI300X'; or ask plan_fleet, which sizes each"
        raise MalformedRequest([FieldViolation("hardware", problem)])
    question = {
        "model": named.spec,
        "accelerators": [place.accelerator for place in places],
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "concurrency": batch,
        "parallelism": {"tensor": devices.pop()},
        "precision": formats,
        "engine": given(name=load.engine),
    }
    reply = await desk.ask("CompareAccelerators", question)
    rows = [_row(each) for each in reply["accelerators"]]
    return desk.answer(
        reply,
        " ".join(sentence(text) for text in [*map(_said, reply["accelerators"]), *(g["text"] for g in reply["generations"])]),
        rows=rows,
        notes=[f"{each['accelerator']}: {note}" for each in reply["accelerators"] for note in each["notes"]],
        assumptions=(
            named.note,
            *(place.note for place in places),
            "" if load.input_tokens is not None else f"input_tokens {tokens[0]}, output_tokens {tokens[1]} (not given)",
            "" if load.batch_size is not None else f"batch_size {batch} (not given)",
        ),
        sources=[each["price"]["source"] for each in reply["accelerators"] if "price" in each],
        hints=("plan_fleet compares what a load costs on each",),
    )


def _said(each: dict[str, Any]) -> str:
    if each.get("decode_tokens_per_second_per_device") is None:
        return f"{each['accelerator']}: no bound ({'; '.join(each['notes'][:1])})"
    text = f"{each['accelerator']}: at most {number(each['decode_tokens_per_second_per_device'])} tokens/s per device (bound)"
    estimate = each.get("output_tokens_per_second_per_device")
    if estimate is not None:
        text += f", estimated {spread(estimate, 'tokens/s')}"
    cost = each.get("estimated_cost_per_million_output_tokens")
    if cost is not None:
        text += f", {spread(cost, each['currency'])} per million output tokens"
    elif each.get("bound_cost_per_million_output_tokens") is not None:
        least = number(each["bound_cost_per_million_output_tokens"])
        text += f", at least {least} {each['currency']} per million output tokens (bound)"
    return text if each.get("fits") is not False else f"{text}; it does not fit"


def _row(each: dict[str, Any]) -> dict[str, Any]:
    row = {name: each.get(name) for name in _COMPARED_FIGURES}
    for name in ("output_tokens_per_second_per_device", "tpot_seconds", "ttft_seconds"):
        row |= {f"estimate_{at}_{name}": value for at, value in (each.get(name) or {}).items() if at == "p50"}
    row["estimate_p50_cost_per_million_output_tokens"] = (each.get("estimated_cost_per_million_output_tokens") or {}).get("p50")
    return {name: value for name, value in row.items() if value is not None}


_COMPARED_FIGURES = (
    "accelerator",
    "counted_unit",
    "memory_bandwidth_bytes_per_second",
    "usable_memory_bytes",
    "decode_step_seconds",
    "decode_tokens_per_second_per_device",
    "fits",
    "cost_per_device_hour",
    "bound_cost_per_million_output_tokens",
    "currency",
)
