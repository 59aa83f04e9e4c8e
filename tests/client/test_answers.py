"""How the command line shows an answer, to people and to programs."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.client.conftest import Run, ScriptedServer, answers
from tonnage.cli.exits import Exit
from tonnage.v1.capacity_service_pb2 import (
    BudgetLine,
    ComputeUtilizationResponse,
    EstimateDecodeResponse,
    EstimateKvMemoryResponse,
    FitNodeResponse,
    Limit,
    Utilization,
)
from tonnage.v1.catalogue_service_pb2 import (
    Accelerator,
    GetAcceleratorRequest,
    GetAcceleratorResponse,
    ListAcceleratorsRequest,
    ListAcceleratorsResponse,
)
from tonnage.v1.explanation_pb2 import Shortfall

SHORTFALL = Shortfall(
    resource="DEVICE_MEMORY",
    required_bytes_per_device=82.72e9,
    available_bytes_per_device=76.97e9,
    short_bytes_per_device=5.75e9,
    description="Weights and cache of 128 sequences need more memory than the ratio allows.",
    cures=[Shortfall.Cure(field="memory_utilization_ratio", value="1", description="Nothing else on the GPU.")],
)
DECODE: dict[str, Any] = {
    "bound": {
        "step_seconds": 0.014427,
        "tokens_per_second": 4436.1,
        "tokens_per_second_per_user": 69.31,
        "tokens_per_second_per_device": 4436.1,
        "weight_bytes": 1.4e10,
        "kv_cache_bytes": 3.436e10,
        "bytes_per_device": 4.836e10,
        "flops": 1.03e12,
        "memory_seconds": 0.014427,
        "compute_seconds": 0.00104,
        "arithmetic_intensity_flops_per_byte": 21.3,
        "attention_intensity_flops_per_byte": 4.0,
        "ridge_point_flops_per_byte": 295.17,
        "binding_limit": Limit.MEMORY_BANDWIDTH,
    },
    "expected": {"expected_step_seconds": 0.0155, "expected_tokens_per_second": 4129.0},
    "limits": [
        {"limit": Limit.KV_BANDWIDTH, "binds_from_batch_size": 27.0, "description": "The cache outweighs the weights."},
        {"limit": Limit.COMPUTE, "binds_only_below_context_tokens": 370.2},
        {"limit": Limit.INTERCONNECT},
    ],
    "fits": True,
    "num_devices": 1,
    "assumptions": ["KV cache in bf16."],
    "catalogue_revision": "abc123",
}


def test_bound_and_expected_stand_apart(run: Run, scripted: ScriptedServer) -> None:
    scripted.script["EstimateDecode"] = answers(EstimateDecodeResponse(**DECODE))

    code, shown, complaint = run("decode", "m", "h100-sxm", "--batch-size", "64", "--context-tokens", "4096")

    assert (0, "") == (code, complaint)
    assert "m · 1 × h100-sxm · batch 64 at 4,096 tokens" in shown
    assert "(nothing can beat it)" in shown
    assert "(arithmetic, not a measurement)" in shown
    assert re.search(r"time +≥ 14\.4 ms +15\.5 ms", shown)
    assert re.search(r"memory  ← binds +14\.4 ms", shown)
    assert re.search(r"tokens/s +≤ 4,436 +4,129", shown)
    assert re.search(r"weights read +13\.0 GiB", shown)
    assert re.search(r"KV bandwidth +27 +The cache outweighs the weights\.", shown)
    assert re.search(r"compute +never \(could below", shown)
    assert re.search(r"interconnect +never", shown)
    assert "It fits." in shown
    assert "KV cache in bf16." in shown
    assert "abc123" in shown


def test_what_is_short_is_told_with_its_cure(run: Run, scripted: ScriptedServer) -> None:
    short = EstimateDecodeResponse(**DECODE | {"fits": False, "shortfall": SHORTFALL})
    scripted.script["EstimateDecode"] = answers(short)

    code, shown, _ = run("decode", "m", "a")

    assert 0 == code  # "does not fit" is an answer
    assert "It does not fit." in shown
    assert "Weights and cache of 128 sequences need more memory than the ratio allows." in shown
    assert "→ --memory-utilization-ratio 1   Nothing else on the GPU." in shown


def test_unknown_memory_is_no_verdict(run: Run, scripted: ScriptedServer) -> None:
    scripted.script["EstimateDecode"] = answers(EstimateDecodeResponse(**DECODE | {"fits": None}))

    _, shown, _ = run("decode", "m", "a")

    assert "not known" in shown
    assert "It fits." not in shown


@pytest.mark.parametrize(("fits", "code"), [(True, Exit.ANSWERED), (False, Exit.DOES_NOT_FIT), (None, Exit.DOES_NOT_FIT)])
def test_check_ends_by_whether_it_fits(run: Run, scripted: ScriptedServer, fits: bool | None, code: Exit) -> None:
    scripted.script["EstimateDecode"] = answers(EstimateDecodeResponse(fits=fits))
    scripted.script["EstimateKvMemory"] = answers(EstimateKvMemoryResponse(fits=fits))
    scripted.script["FitNode"] = answers(FitNodeResponse(fits=bool(fits)))

    assert code == run("decode", "m", "a", "--check")[0]
    assert code == run("kv", "m", "a", "--context-tokens", "1", "--check", "--json")[0]
    assert code == run("fit", "m", "n", "--context-tokens", "1", "--check")[0]


def test_the_budget_line_by_line(run: Run, scripted: ScriptedServer) -> None:
    answer = EstimateKvMemoryResponse(
        kv_bytes_per_token=131072,
        weight_bytes=14e9,
        total_parameters=46.7e9,
        active_parameters=12.9e9,
        max_tokens=421888,
        max_sequences=103,
        fits=False,
        num_devices=2,
        shortfall=SHORTFALL,
    )
    answer.budget.add(item=BudgetLine.USABLE_MEMORY, bytes_per_device=81559 * 2**20, basis=BudgetLine.MEASURED)
    answer.budget.add(item=BudgetLine.HEADROOM, bytes_per_device=-5.36 * 2**30, basis=BudgetLine.EXACT)
    scripted.script["EstimateKvMemory"] = answers(answer)

    _, shown, _ = run("kv", "m", "a", "--tp", "2", "--context-tokens", "4096")

    assert "m · 2 × a · TP 2 · batch 1 at 4,096 tokens" in shown
    assert re.search(r"KV cache per token +128 KiB", shown)
    assert re.search(r"usable memory +79\.6 GiB +measured", shown)
    assert re.search(r"headroom +−5\.36 GiB", shown)
    assert re.search(r"active per token +12\.9 billion", shown)
    assert "Holds 103 sequences of this length, 421,888 tokens in all." in shown


def shapes() -> FitNodeResponse:
    answer = FitNodeResponse(fits=True, accelerator="h100-sxm", devices_per_node=8, summary="Two devices hold 8 sequences.")
    alone = answer.candidates.add(num_devices=1, num_nodes=1, headroom_bytes_per_device=-60e9)
    alone.shortfall.CopyFrom(SHORTFALL)
    smallest = answer.candidates.add(num_devices=2, num_nodes=1, fits=True, max_sequences=8)
    smallest.parallelism.tensor = 2
    answer.smallest.CopyFrom(smallest)
    for tensor in range(3, 40):
        uneven = answer.candidates.add(num_devices=tensor, num_nodes=1, fits=True, uneven_pipeline=True)
        uneven.parallelism.tensor = tensor
    return answer


def test_shapes_that_fit_and_the_smallest(run: Run, scripted: ScriptedServer) -> None:
    scripted.script["FitNode"] = answers(shapes())

    _, shown, _ = run("fit", "m", "dgx-h100", "--context-tokens", "4096")

    assert "m · dgx-h100 · 1 sequence at 4,096 tokens" in shown
    assert "Two devices hold 8 sequences." in shown
    assert re.search(r"TP 2 +2 +1 +yes +8 .*smallest", shown)
    assert re.search(r"TP 3 .*uneven", shown)
    assert "16 of 39 shapes; the others with --all." in shown
    assert "one device" not in shown


def test_every_shape_where_asked(run: Run, scripted: ScriptedServer) -> None:
    scripted.script["FitNode"] = answers(shapes())

    _, shown, _ = run("fit", "m", "dgx-h100", "--context-tokens", "4096", "--all")

    assert re.search(r"one device +1 +1 +no +0 .*−55\.9 GiB", shown)
    assert "TP 39" in shown
    assert "--all" not in shown


def test_where_no_shape_fits_the_closest_says_what_would_cure_it(run: Run, scripted: ScriptedServer) -> None:
    none = FitNodeResponse(fits=False, candidates=shapes().candidates[:1], summary="Nothing fits.")
    scripted.script["FitNode"] = answers(none)

    code, shown, _ = run("fit", "m", "dgx-h100", "--context-tokens", "4096")

    assert 0 == code
    assert "Closest: one device" in shown
    assert "→ --memory-utilization-ratio 1" in shown


def test_where_one_node_does_not_do_it_is_said_why(run: Run, scripted: ScriptedServer) -> None:
    answer = shapes()
    answer.smallest.num_nodes = 2
    scripted.script["FitNode"] = answers(answer)

    _, shown, _ = run("fit", "m", "dgx-h100", "--context-tokens", "4096")

    assert "On one node, closest: one device" in shown
    assert "→ --memory-utilization-ratio 1" in shown


def test_a_wrong_utilisation_is_marked_wrong(run: Run, scripted: ScriptedServer) -> None:
    answer = ComputeUtilizationResponse(
        recommended_basis=Utilization.MFU_6N_ATTENTION_CAUSAL,
        statement="MFU 41.2 %, with attention.",
        num_active_parameters=7e9,
    )
    answer.utilizations.add(
        basis=Utilization.MFU_6N_ATTENTION_CAUSAL,
        ratio=0.4115,
        valid=True,
        achieved_per_second=3.2e15,
        peak_per_second=7.915e15,
    )
    answer.utilizations.add(basis=Utilization.MFU_6N_SPARSE_PEAK, ratio=0.1911, warning="A dense model has no such peak.")
    scripted.script["ComputeUtilization"] = answers(answer)

    _, shown, _ = run(
        *("mfu", "m", "a", "--num-devices", "8", "--phase", "training", "--tokens-per-second", "72018"),
        *("--peak-precision", "bf16"),
    )

    assert "MFU 41.2 %, with attention." in shown
    assert re.search(r"MFU_6N_ATTENTION_CAUSAL +41\.15 % +← quote", shown)
    assert "3.20 PFLOP/s of 7.92 PFLOP/s" in shown
    assert re.search(r"MFU_6N_SPARSE_PEAK +19\.11 % +wrong", shown)
    assert "MFU_6N_SPARSE_PEAK: A dense model has no such peak." in shown
    assert "7.00 billion parameters" in shown


def test_the_formulas_are_shown_where_asked(run: Run, scripted: ScriptedServer) -> None:
    answer = EstimateDecodeResponse(**DECODE)
    step = answer.explanation.steps.add(
        name="kv_cache_bytes_per_token", expression="2 · L · H_kv · d_head · b", value=131072, source="Pope 2022"
    )
    step.inputs["num_layers"] = 32
    answer.explanation.figures.add(
        name="memory_bandwidth", value=3.352e12, unit="B/s", basis="datasheet", sources=["H100 sheet"]
    )
    scripted.script["EstimateDecode"] = answers(answer)

    _, shown, _ = run("decode", "m", "a", "--explain")

    assert "kv_cache_bytes_per_token = 131072" in shown
    assert "2 · L · H_kv · d_head · b" in shown
    assert "num_layers = 32" in shown
    assert "source: Pope 2022" in shown
    assert re.search(r"memory_bandwidth +3\.352e\+12 +B/s +datasheet +H100 sheet", shown)


def page(*names: str, following: str = "") -> ListAcceleratorsResponse:
    entries = [Accelerator(name=name, title=name.upper()) for name in names]
    return ListAcceleratorsResponse(accelerators=entries, next_page_token=following, catalogue_revision="abc123")


def test_a_list_holds_all_pages(run: Run, scripted: ScriptedServer) -> None:
    def paged(request: Any, context: object) -> ListAcceleratorsResponse:
        assert isinstance(request, ListAcceleratorsRequest)
        return page("c") if request.page_token == "two" else page("a", "b", following="two")

    scripted.script["ListAccelerators"] = paged

    _, shown, _ = run("accelerators", "--json")

    body = json.loads(shown)
    assert ["a", "b", "c"] == [entry["name"] for entry in body["accelerators"]]
    assert "" == body["next_page_token"]
    assert "abc123" == body["catalogue_revision"]


def test_a_data_sheet_has_figures_sources_and_conflicts(run: Run, scripted: ScriptedServer) -> None:
    entry = Accelerator(name="h100-sxm", title="NVIDIA H100 SXM", vendor="NVIDIA", counted_unit="GPU", status="final")
    source = {"id": "nvidia-h100", "title": "H100 data sheet", "publisher": "NVIDIA", "url": "https://example.com/h100"}
    peak = entry.peaks.add(precision="bf16", sparsity="dense")
    peak.figure.value, peak.figure.unit, peak.figure.printed_value, peak.figure.printed_unit = (
        989.4e12,
        "FLOP/s",
        989.4,
        "TFLOPS",
    )
    peak.figure.basis = "whitepaper"
    peak.figure.sources.add(**source)
    entry.usable_memory.value, entry.usable_memory.unit = 81559 * 2**20, "B"
    entry.usable_memory.printed_value, entry.usable_memory.printed_unit = 81559, "MiB"
    entry.usable_memory.sources.add(**source)
    entry.conflicts.add(
        field="memory_bandwidth", figures=["3.35 TB/s", "3.352 TB/s"], chosen="3.352 TB/s", reason="Finer.", status="resolved"
    )
    scripted.script["GetAccelerator"] = answers(GetAcceleratorResponse(accelerator=entry))

    for arguments in (("show", "h100-sxm"), ("h100-sxm",)):
        _, shown, _ = run("accelerators", *arguments)

        assert GetAcceleratorRequest(name="h100-sxm") == scripted.requests[-1]
        assert "NVIDIA H100 SXM · h100-sxm" in shown
        assert re.search(r"peak bf16, dense +989 TFLOP/s +989\.4 TFLOPS +whitepaper +\[1\]", shown)
        assert re.search(r"memory, usable +79\.6 GiB +81,559 MiB", shown)
        assert re.search(r"\[1\] NVIDIA, H100 data sheet", shown)
        assert 1 == shown.count("https://example.com/h100")
        assert "memory_bandwidth, resolved 3.35 TB/s → 3.352 TB/s Finer." in re.sub(r"\s+", " ", shown)


def test_names_are_text_not_markup(run: Run, scripted: ScriptedServer) -> None:
    code, shown, _ = run("decode", "[red]:smile:[/nonsense]", "a")

    assert 0 == code
    assert "[red]:smile:[/nonsense]" in shown


def test_no_colour_where_there_is_no_terminal(run: Run, scripted: ScriptedServer) -> None:
    scripted.script["EstimateDecode"] = answers(EstimateDecodeResponse(**DECODE))

    assert "\x1b" not in run("decode", "m", "a")[1]


def test_as_a_program(scripted: ScriptedServer) -> None:
    """In a process of its own, with an output that holds ASCII only: nothing but the answer, and no exception."""
    scripted.script["EstimateDecode"] = answers(EstimateDecodeResponse(**DECODE))
    command = [sys.executable, "-m", "tonnage", "decode", "m", "a", "--server", scripted.target]

    done = subprocess.run(
        command, capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)}
    )

    assert b"" == done.stderr
    assert b"? 14.4 ms" in done.stdout
