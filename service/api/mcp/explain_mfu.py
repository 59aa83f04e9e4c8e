"""The tool that says how well hardware was used: MFU and HFU on every basis, and which to quote."""

from typing import Annotated, Any

from pydantic import Field

from service.api.mcp.answers import Answer
from service.api.mcp.arguments import PerSecond, Ratio, Whole, precision
from service.api.mcp.prose import percent
from service.api.mcp.tools import Desk, Explain, Model, Tool


def explain_mfu(desk: Desk) -> Tool:
    """The tool, asking at this desk."""

    async def tool(
        model: Model,
        hardware: Annotated[str, Field(description="with its count: '8x H100'")],
        tokens_per_second: Annotated[PerSecond, Field(description="of the whole run, as measured")],
        phase: Annotated[str, Field(description="training, inference, prefill or decode")] = "training",
        sequence_tokens: Whole | None = None,
        batch_size: Annotated[Whole | None, Field(description="sequences of a decode step")] = None,
        peak_precision: str = "bf16",
        tokens_include_padding: bool | None = None,
        nvidia_smi_utilization_ratio: Annotated[Ratio | None, Field(description="is refused as MFU, with the reason")] = None,
        num_layers: Whole | None = None,
        num_query_heads: Whole | None = None,
        num_kv_heads: Whole | None = None,
        head_dim: Whole | None = None,
        explain: Explain = False,
    ) -> Answer:
        """What is the MFU (or HFU, or MBU) of a measured run, on which basis, and which one may be quoted?

        Gives 6N alone, with attention, HFU with recomputation, and the wrong one against the sparse peak, each named. A model
        given by its size needs num_layers … head_dim for attention. Not a prediction of speed (how_fast).
        """
        shape = {
            "num_layers": num_layers,
            "num_query_heads": num_query_heads,
            "num_kv_heads": num_query_heads if num_kv_heads is None else num_kv_heads,  # it does not enter the operations
            "head_dim": head_dim,
        }
        named, on = desk.names.model(model, shape), desk.names.hardware(hardware)
        question = {
            "model": named.spec,
            "accelerator": {"name": on.accelerator},
            "num_devices": on.num_devices or 1,
            "peak_precision": precision(peak_precision),
            "phase": phase.strip().upper(),
            "tokens_per_second": tokens_per_second,
            "sequence_tokens": sequence_tokens,
            "batch_size": batch_size,
            "tokens_include_padding": tokens_include_padding,
            "nvml_gpu_utilization_ratio": nvidia_smi_utilization_ratio,
            "explain": True,
        }
        reply = await desk.ask("ComputeUtilization", question)
        return _answer(desk, reply, explain, [named.note, on.note, "" if on.num_devices else "1 device (not given)"])

    return tool


def _answer(desk: Desk, reply: dict[str, Any], explain: bool, notes: list[str]) -> Answer:
    bases = reply["utilizations"]
    quoted = reply["recommended_basis"]
    others = "; ".join(_said(each) for each in bases if each["basis"] != quoted and each["valid"])
    wrong = "; ".join(f"{_said(each)}: {each['warning']}" for each in bases if not each["valid"])
    summary = f"{reply['statement']} Exactly {percent(next(each['ratio'] for each in bases if each['basis'] == quoted))}."
    summary += f" On other bases: {others}." if others else ""
    summary += " HFU depends on what an implementation recomputes: it does not compare systems." if "HFU" in others else ""
    summary += f" Not to be quoted: {wrong}." if wrong else ""
    return desk.answer(
        reply,
        summary,
        figures={f"{each['basis'].lower()}_ratio": each["ratio"] for each in bases} | {"recommended_basis": quoted},
        rows=bases,
        explained=explain,
        notes=[each["warning"] for each in bases],
        assumptions=notes,
        hints=("quote the basis with the figure", "look_up 'MFU', 'HFU' or 'nvidia-smi' says what each is"),
    )


def _said(each: dict[str, Any]) -> str:
    return f"{percent(each['ratio'])} {each['basis']} ({each['description'].split(';')[0].split(' (')[0]})"
