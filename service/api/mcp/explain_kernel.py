"""The tool for questions about one GPU kernel: occupancy, memory access, fusion."""

import re
from typing import Annotated, Any

from pydantic import Field

from service.api.errors import FieldViolation, MalformedRequest
from service.api.mcp.answers import Answer
from service.api.mcp.arguments import Bandwidth, Peak, SharedMemory, Whole, precision
from service.api.mcp.prose import listed, mebibytes, number, percent, seconds, sentence
from service.api.mcp.tools import Desk, Tool, given

_TAKES = (
    "give threads_per_block for occupancy, stride_elements or offset_elements for memory access, or m, n and k for a matrix "
    "product and the operators after it"
)
#: Every SM has 32 registers, or more, for each thread that it can hold.
_NEVER_LIMITING_REGISTERS = 32


def explain_kernel(desk: Desk) -> Tool:
    """The tool, asking at this desk."""

    async def tool(
        hardware: Annotated[str, Field(description="'H100'; for fusion also bandwidth and peak instead")] = "",
        threads_per_block: Whole | None = None,
        registers_per_thread: Whole | None = None,
        shared_memory_per_block: SharedMemory | None = None,
        stride_elements: Annotated[
            Whole | None, Field(description="between neighbouring threads; row length for a column")
        ] = None,
        offset_elements: Annotated[Whole | None, Field(description="of the first element from an aligned address")] = None,
        element_bytes: Whole | None = None,
        m: Annotated[Whole | None, Field(description="rows of x in x @ w, w being k × n")] = None,
        n: Whole | None = None,
        k: Whole | None = None,
        operators: Annotated[str, Field(description="after the product: 'add, relu'")] = "add, relu",
        data_type: str = "bf16",
        memory_bandwidth: Bandwidth | None = None,
        peak_flops: Peak | None = None,
    ) -> Answer:
        """Why is a GPU kernel slow? Occupancy, coalescing of memory access, or what fusing operators (torch.compile) saves.

        One question a call: threads_per_block with registers or shared memory for occupancy; stride_elements or
        offset_elements for what a warp's load moves; m, n and k for relu(x @ w + b) and the like, eager against fused.
        """
        occupancy = (threads_per_block, registers_per_thread, shared_memory_per_block)
        access, product = (stride_elements, offset_elements, element_bytes), (m, n, k)
        if sum(any(each is not None for each in group) for group in (occupancy, access, product)) > 1:
            raise MalformedRequest([FieldViolation("", f"one question a call: {_TAKES}")])
        if threads_per_block is not None:
            return await _occupancy(desk, hardware, threads_per_block, registers_per_thread, shared_memory_per_block)
        if any(each is not None for each in access):
            return await _memory_access(desk, stride_elements, offset_elements, element_bytes)
        if m is None or n is None or k is None:
            lacking = [name for name, value in (("m", m), ("n", n), ("k", k)) if value is None]
            asked = lacking if len(lacking) < 3 else ["threads_per_block"]
            raise MalformedRequest([FieldViolation(name, f"it is missing: {_TAKES}") for name in asked])
        own = given(memory_bandwidth_bytes_per_second=memory_bandwidth, peak=peak_flops)
        return await _fusion(desk, hardware, own, precision(data_type) or "bf16", (m, n, k), operators)

    return tool


async def _occupancy(desk: Desk, hardware: str, threads: int, registers: int | None, shared_memory: float | None) -> Answer:
    on = desk.names.hardware(hardware or "h100-sxm")
    device = (await desk.ask("GetAccelerator", {"name": on.accelerator}))["accelerator"]
    capability = device.get("compute_capability")
    if capability is None:
        problem = f"{on.accelerator} has no CUDA compute capability; name an NVIDIA GPU"
        raise MalformedRequest([FieldViolation("hardware", problem)])
    assumed = ""
    if registers is None and shared_memory is None:
        problem = "it is missing; nvcc --resource-usage prints it. Or give shared_memory_per_block for what that allows alone"
        raise MalformedRequest([FieldViolation("registers_per_thread", problem)])
    if registers is None:
        registers = _NEVER_LIMITING_REGISTERS
        assumed = f"registers_per_thread {registers} (not given), with which registers limit nothing"
    question = {
        "threads_per_block": threads,
        "compute_capability": capability,
        "registers_per_thread": registers,
        "shared_memory_bytes_per_block": None if shared_memory is None else round(shared_memory),
        "explain": True,
    }
    reply = await desk.ask("ComputeOccupancy", question)
    kernel = reply["kernels"][0]
    limits = (
        listed(factor.replace("_", " ").lower() for factor in reply["limiting_factors"]) if reply["limiting_factors"] else ""
    )
    blocks = reply["active_blocks_per_sm"]
    if reply["can_launch"]:
        summary = (
            f"{percent(reply['occupancy_ratio'])} occupancy on {on.accelerator} (compute capability {capability}): {blocks} "
            f"{'block' if blocks == 1 else 'blocks'}, {reply['active_warps_per_sm']} of "
            f"{kernel['max_warps_per_sm']} warps per SM, "
            f"limited by {limits}. Registers are handed out in units: {kernel['allocated_registers_per_warp']:,} per warp. "
            "Occupancy says how many warps there are to switch between; it is not speed."
        )
    else:
        summary = f"It cannot be launched: {'; '.join(each['description'] for each in kernel['obstacles'])}."
    return desk.answer(
        reply,
        summary,
        figures={name: reply[name] for name in ("occupancy_ratio", "active_blocks_per_sm", "active_warps_per_sm", "can_launch")}
        | {name: kernel.get(name) for name in _KERNEL_FIGURES},
        rows=kernel["next_steps"],
        explained=True,
        notes=[*reply["notes"], *kernel["notes"]],
        assumptions=(on.note, "" if hardware else "hardware h100-sxm (not given)", assumed),
        sources=[step["source"] for step in reply["explanation"]["steps"]],
        hints=[each["description"] for each in kernel["next_steps"]] + ["a profiler shows the achieved occupancy"],
    )


_KERNEL_FIGURES = (
    "max_warps_per_sm",
    "max_blocks_by_warps",
    "max_blocks_by_registers",
    "max_blocks_by_shared_memory",
    "max_blocks_per_sm",
    "allocated_registers_per_warp",
    "allocated_shared_memory_bytes_per_block",
)


async def _memory_access(desk: Desk, stride: int | None, offset: int | None, element_bytes: int | None) -> Answer:
    question = {"stride_elements": stride, "offset_elements": offset, "element_bytes": element_bytes, "explain": True}
    reply = await desk.ask("AnalyzeMemoryAccess", question)
    remedies = " ".join(map(sentence, reply["remedies"][:1]))
    summary = (
        f"One load of a warp touches {reply['sectors_per_request']} sectors of 32 bytes "
        f"(ideal {reply['ideal_sectors_per_request']}): {number(reply['moved_bytes'])} bytes are moved for "
        f"{number(reply['used_bytes'])} used, {percent(reply['efficiency_ratio'])}. "
        f"{' '.join(map(sentence, reply['notes'][:1]))} {remedies}"
    )
    return desk.answer(
        reply,
        summary.strip(),
        figures={name: reply.get(name) for name in _ACCESS_FIGURES},
        explained=True,
        notes=reply["notes"],
        sources=[step["source"] for step in reply["explanation"]["steps"]],
        hints=[*reply["remedies"], "a profiler shows sectors per request"],
    )


_ACCESS_FIGURES = (
    "sectors_per_request",
    "ideal_sectors_per_request",
    "used_bytes",
    "moved_bytes",
    "efficiency_ratio",
    "efficiency_with_reuse_ratio",
    "num_active_lanes",
)


async def _fusion(
    desk: Desk, hardware: str, own: dict[str, Any] | None, data_type: str, sizes: tuple[int, int, int], operators: str
) -> Answer:
    notes = []
    if own is not None:
        if len(own) < 2 or hardware:
            problem = "give memory_bandwidth and peak_flops together, in place of hardware"
            raise MalformedRequest([FieldViolation("memory_bandwidth", problem)])
        bandwidth, peak = own["memory_bandwidth_bytes_per_second"], own["peak"]
        on: dict[str, Any] = {
            "inline": {"memory_bandwidth_bytes_per_second": bandwidth, "peak_dense_flops_per_second": {data_type: peak}}
        }
    else:
        place = desk.names.hardware(hardware or "h100-sxm")
        on = {"name": place.accelerator}
        notes = [place.note, "" if hardware else "hardware h100-sxm (not given)"]
    names = [name for name in re.split(r"[,;+\s]+", operators.strip()) if name][:16]
    question = {
        "accelerator": on,
        "precision": data_type,
        "operators": [{"name": "matmul", "gemm": dict(zip("mnk", sizes, strict=True))}, *map(_operator, names)],
        "explain": True,
    }
    reply = await desk.ask("AnalyzeFusion", question)
    forms = {form["form"]: form for form in reply["forms"]}
    product = next(each for each in reply["operators"] if each["name"] == "matmul")
    summary = (
        f"{_eager(forms['EAGER'], names)} {_fused(forms)} {_product(product)} {sentence(reply['summary'])} All are bounds."
    )
    return desk.answer(
        reply,
        summary,
        figures=_form_figures(forms)
        | {f"gemm_{name}": product.get(name) for name in ("limit", "weight_bytes", "weight_seconds")},
        rows=[{name: each.get(name) for name in _OPERATOR_FIGURES} for each in reply["operators"]],
        notes=[f"{each['text']} ({each['source']})" for each in reply["notes"]],
        assumptions=notes,
        sources=[each["source"] for each in reply["notes"]],
        hints=("look_up 'torch.compile' says how it gets there",),
    )


def _operator(name: str) -> dict[str, Any]:
    kind = "softmax" if "softmax" in name else "normalization" if "norm" in name else "elementwise"
    return {"name": name[:60], kind: {}}


def _eager(eager: dict[str, Any], names: list[str]) -> str:
    ratio = eager.get("other_to_gemm_ratio")
    share = f", {percent(ratio)} of it" if ratio is not None else ""
    return (
        f"Eager, {listed(names) if names else 'nothing'} beside the product move {mebibytes(eager['other_bytes'])} in "
        f"{seconds(eager['other_seconds'])}; the product takes {seconds(eager['gemm_seconds'])}{share}; "
        f"{eager['num_launches']} launches."
    )


def _fused(forms: dict[str, Any]) -> str:
    fused, epilogue = forms["FUSED"], forms["EPILOGUE_FUSED"]
    return (
        f"In one fused kernel they move {mebibytes(fused['other_bytes'])} in {seconds(fused['other_seconds'])} "
        f"({fused['num_launches']} launches); in the product's epilogue {mebibytes(epilogue['other_bytes'])} "
        f"({epilogue['num_launches']} {'launch' if epilogue['num_launches'] == 1 else 'launches'})."
    )


def _product(product: dict[str, Any]) -> str:
    if product["limit"] == "ARITHMETIC" or product.get("weight_bytes") is None:
        return f"The product is bound by {product['limit'].lower()}."
    return (
        f"The product is bound by memory: reading w alone is {mebibytes(product['weight_bytes'])}, "
        f"{seconds(product['weight_seconds'])}."
    )


def _form_figures(forms: dict[str, Any]) -> dict[str, Any]:
    names = ("other_bytes", "other_seconds", "gemm_seconds", "other_to_gemm_ratio", "num_launches", "device_seconds")
    return {f"{kind.lower()}_{name}": form.get(name) for kind, form in forms.items() for name in names}


_OPERATOR_FIGURES = ("name", "num_bytes", "flops", "kernel_seconds", "limit", "place", "arithmetic_intensity_flops_per_byte")
