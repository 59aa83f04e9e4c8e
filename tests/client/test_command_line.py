"""The command line: what it asks, how it prints an answer, and how it ends, against a server that answers as told."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2

from tests.client.conftest import ScriptedServer, answers, fails
from tonnage import cli
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
    GetAcceleratorResponse,
    ListAcceleratorsRequest,
    ListAcceleratorsResponse,
)
from tonnage.v1.explanation_pb2 import Shortfall

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``tonnage`` in this process: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv("TONNAGE_SERVER", scripted.target)
        monkeypatch.setattr(sys, "argv", ["tonnage", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def asked(server: ScriptedServer) -> object:
    return json_format.MessageToDict(server.requests[-1], preserving_proto_field_name=True)


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


# ------------------------------------------------------------------------------------------------------- what is asked


def test_names_in_order_and_short_options(run: Run, scripted: ScriptedServer) -> None:
    run("decode", "llama-3.1-70b", "h100-sxm", "--tp", "8", "--pp", "2", "--ep", "4", "--dp", "1", "--weights", "fp8")

    expected = {
        "model": {"name": "llama-3.1-70b"},
        "accelerator": {"name": "h100-sxm"},
        "parallelism": {"tensor": 8, "pipeline": 2, "expert": 4, "attention_data": 1},
        "precision": {"weights": "fp8"},
    }
    assert expected == asked(scripted)


def test_options_in_place_of_names(run: Run, scripted: ScriptedServer) -> None:
    run("kv", "--model", "m", "--accelerator", "a", "--context-tokens", "4096", "--batch-size", "2", "--kv-cache", "fp8")

    expected = {
        "model": {"name": "m"},
        "accelerator": {"name": "a"},
        "precision": {"kv_cache": "fp8"},
        "batch_size": 2,
        "context_tokens": 4096,
    }
    assert expected == asked(scripted)


def test_a_config_json_leaves_the_first_name_to_the_accelerator(run: Run, scripted: ScriptedServer, tmp_path: Path) -> None:
    config, quantization = tmp_path / "config.json", tmp_path / "hf_quant_config.json"
    config.write_text('{"num_hidden_layers": 32}')
    quantization.write_text('{"quant_algo": "FP8"}')

    run("decode", "h100-sxm", "--config", str(config), "--quantization", str(quantization), "--multi-token-prediction")

    expected = {
        "model": {
            "hf_config": {"num_hidden_layers": 32.0},
            "hf_quantization": {"quant_algo": "FP8"},
            "multi_token_prediction": True,
        },
        "accelerator": {"name": "h100-sxm"},
    }
    assert expected == asked(scripted)


def test_figures_in_place_of_names(run: Run, scripted: ScriptedServer, tmp_path: Path) -> None:
    accelerator = tmp_path / "mine.json"
    accelerator.write_text('{"title": "Mine", "memory_bandwidth_bytes_per_second": 1e12}')

    run("decode", "--num-parameters", "7e9", "--num-layers", "32", "--accelerator-file", str(accelerator), "--explain")

    expected = {
        "model": {"dense": {"num_parameters": 7e9, "num_layers": 32}},
        "accelerator": {"inline": {"title": "Mine", "memory_bandwidth_bytes_per_second": 1e12}},
        "explain": True,
    }
    assert expected == asked(scripted)


def test_a_node_by_name_or_by_accelerator(run: Run, scripted: ScriptedServer) -> None:
    run("fit", "m", "dgx-h100", "--context-tokens", "4096", "--concurrency", "2", "--max-num-nodes", "4")
    assert {"name": "dgx-h100"} == scripted_field(scripted, "node")

    run("fit", "m", "--accelerator", "h100-sxm", "--devices-per-node", "8", "--context-tokens", "4096")
    assert {"name": "h100-sxm"} == scripted_field(scripted, "accelerator")
    assert 8 == scripted_field(scripted, "devices_per_node")


def scripted_field(server: ScriptedServer, name: str) -> object:
    request = asked(server)
    assert isinstance(request, dict)
    return request[name]


def test_what_a_run_did(run: Run, scripted: ScriptedServer) -> None:
    run(
        *("mfu", "m", "a", "--num-devices", "8", "--phase", "training", "--tokens-per-second", "72018"),
        *("--peak-precision", "bf16", "--sequence-tokens", "4096", "--no-padding"),
    )

    expected = {
        "model": {"name": "m"},
        "accelerator": {"name": "a"},
        "num_devices": 8,
        "peak_precision": "bf16",
        "phase": "TRAINING",
        "tokens_per_second": 72018.0,
        "sequence_tokens": 4096,
        "tokens_include_padding": False,
    }
    assert expected == asked(scripted)


# ------------------------------------------------------------------------------------------------- how answers are shown


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
    assert "needs 77.0 GiB, may use 71.7 GiB, short of 5.36 GiB" in shown
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


def test_shapes_and_the_smallest(run: Run, scripted: ScriptedServer) -> None:
    answer = FitNodeResponse(fits=True, accelerator="h100-sxm", devices_per_node=8, summary="Two devices hold 8 sequences.")
    answer.candidates.add(num_devices=1, num_nodes=1, headroom_bytes_per_device=-60e9)
    smallest = answer.candidates.add(num_devices=2, num_nodes=1, fits=True, max_sequences=8)
    smallest.parallelism.tensor = 2
    for tensor in range(3, 40):
        answer.candidates.add(num_devices=tensor, num_nodes=1, uneven_pipeline=True).parallelism.tensor = tensor
    answer.smallest.CopyFrom(smallest)
    scripted.script["FitNode"] = answers(answer)

    _, shown, _ = run("fit", "m", "dgx-h100", "--context-tokens", "4096")
    _, all_shown, _ = run("fit", "m", "dgx-h100", "--context-tokens", "4096", "--all")

    assert "Two devices hold 8 sequences." in shown
    assert re.search(r"TP 2 +2 +1 +yes +8 .*smallest", shown)
    assert "one device" in shown
    assert "23 more with --all." in shown
    assert "TP 39" not in shown
    assert re.search(r"TP 39 .*uneven stages", all_shown)


def test_a_wrong_utilisation_is_marked_wrong(run: Run, scripted: ScriptedServer) -> None:
    answer = ComputeUtilizationResponse(
        recommended_basis=Utilization.MFU_6N_ATTENTION_CAUSAL, statement="MFU 41.2 %, with attention.", num_active_parameters=7e9
    )
    answer.utilizations.add(basis=Utilization.MFU_6N_ATTENTION_CAUSAL, ratio=0.4115, valid=True, achieved_per_second=3.2e15)
    answer.utilizations.add(basis=Utilization.MFU_6N_SPARSE_PEAK, ratio=0.1911, warning="A dense model has no such peak.")
    scripted.script["ComputeUtilization"] = answers(answer)

    _, shown, _ = run(
        *("mfu", "m", "a", "--num-devices", "8", "--phase", "training", "--tokens-per-second", "72018"),
        *("--peak-precision", "bf16"),
    )

    assert "MFU 41.2 %, with attention." in shown
    assert re.search(r"MFU_6N_ATTENTION_CAUSAL +41\.15 % +← quote +3\.20 PFLOP/s", shown)
    assert re.search(r"MFU_6N_SPARSE_PEAK +19\.11 % +wrong", shown)
    assert "MFU_6N_SPARSE_PEAK: A dense model has no such peak." in shown
    assert "7.00 billion parameters" in shown


def test_the_formulas_are_shown_where_asked(run: Run, scripted: ScriptedServer) -> None:
    answer = EstimateDecodeResponse(**DECODE)
    step = answer.explanation.steps.add(
        name="kv_cache_bytes_per_token", expression="2 · L · H_kv · d_head · b", value=131072, source="Pope 2022"
    )
    step.inputs["num_layers"] = 32
    answer.explanation.figures.add(name="memory_bandwidth", value=3.352e12, unit="B/s", basis="datasheet", sources=["H100 sheet"])
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
    peak.figure.value, peak.figure.unit, peak.figure.printed_value, peak.figure.printed_unit = 989.4e12, "FLOP/s", 989.4, "TFLOPS"
    peak.figure.basis = "whitepaper"
    peak.figure.sources.add(**source)
    entry.usable_memory.value, entry.usable_memory.unit = 81559 * 2**20, "B"
    entry.usable_memory.printed_value, entry.usable_memory.printed_unit = 81559, "MiB"
    entry.usable_memory.sources.add(**source)
    entry.conflicts.add(field="memory_bandwidth", figures=["3.35 TB/s", "3.352 TB/s"], chosen="3.352 TB/s", reason="Finer.")
    scripted.script["GetAccelerator"] = answers(GetAcceleratorResponse(accelerator=entry))

    for arguments in (("show", "h100-sxm"), ("h100-sxm",)):
        _, shown, _ = run("accelerators", *arguments)

        assert {"name": "h100-sxm"} == asked(scripted)
        assert "NVIDIA H100 SXM · h100-sxm" in shown
        assert re.search(r"peak bf16, dense +989 TFLOP/s +989\.4 TFLOPS +whitepaper +\[1\]", shown)
        assert re.search(r"memory, usable +79\.6 GiB +81,559 MiB", shown)
        assert re.search(r"\[1\] NVIDIA, H100 data sheet", shown)
        assert 1 == shown.count("https://example.com/h100")
        assert re.search(r"3\.35 TB/s; 3\.352 TB/s\. Used: 3\.352 TB/s\. Finer\.", re.sub(r"\s+", " ", shown))


def test_names_are_text_not_markup(run: Run, scripted: ScriptedServer) -> None:
    code, shown, _ = run("decode", "[red]:smile:[/nonsense]", "a")

    assert 0 == code
    assert "[red]:smile:[/nonsense]" in shown


def test_no_colour_where_there_is_no_terminal(run: Run, scripted: ScriptedServer) -> None:
    scripted.script["EstimateDecode"] = answers(EstimateDecodeResponse(**DECODE))

    assert "\x1b" not in run("decode", "m", "a")[1]


# ------------------------------------------------------------------------------------------------------ how it ends


def complaint(code: grpc.StatusCode, message: str, *details: Any) -> status_pb2.Status:
    made = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        made.details.add().Pack(detail)
    return made


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, Exit.BAD_REQUEST),
        (grpc.StatusCode.NOT_FOUND, Exit.NOT_FOUND),
        (grpc.StatusCode.FAILED_PRECONDITION, Exit.UNANSWERABLE),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Exit.OVERLOADED),
        (grpc.StatusCode.UNAVAILABLE, Exit.UNREACHABLE),
        (grpc.StatusCode.INTERNAL, Exit.SERVICE_FAILED),
    ],
    ids=lambda value: value.name,
)
def test_each_failure_has_its_exit_code(run: Run, scripted: ScriptedServer, status: grpc.StatusCode, expected: Exit) -> None:
    scripted.script["GetModel"] = fails(complaint(status, "what happened"))

    code, shown, said = run("models", "show", "m")

    assert (expected, "") == (code, shown)
    assert said.startswith("tonnage: ")
    assert "Traceback" not in said


def test_violations_name_their_options(run: Run, scripted: ScriptedServer) -> None:
    fault = error_details_pb2.BadRequest()
    fault.field_violations.add(field="parallelism.tensor", description="9 does not divide 64 query heads.")
    fault.field_violations.add(field="model.hf_config.num_hidden_layers", description="is missing.")
    scripted.script["EstimateDecode"] = fails(complaint(grpc.StatusCode.INVALID_ARGUMENT, "2 fields", fault))

    _, _, said = run("decode", "m", "a", "--tp", "9")

    assert "parallelism.tensor (--tensor): 9 does not divide 64 query heads." in said
    assert "model.hf_config.num_hidden_layers (--config): is missing." in said


def test_a_failure_as_json_is_the_status(run: Run, scripted: ScriptedServer) -> None:
    info = error_details_pb2.ErrorInfo(reason="MODEL_NOT_FOUND", domain="tonnage")
    scripted.script["GetModel"] = fails(complaint(grpc.StatusCode.NOT_FOUND, "no such model", info))

    code, shown, said = run("models", "show", "m", "--json")

    assert (Exit.NOT_FOUND, "") == (code, shown)
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "MODEL_NOT_FOUND", "domain": "tonnage"}
    assert {"code": 5, "message": "no such model", "details": [detail]} == json.loads(said)


def test_what_never_reaches_the_service_is_refused_alike(run: Run, scripted: ScriptedServer) -> None:
    code, _, said = run("decode", "m", "a", "--tp", str(2**40))

    assert Exit.BAD_REQUEST == code
    assert "parallelism.tensor (--tensor)" in said
    assert [] == scripted.requests


@pytest.mark.parametrize(
    "arguments",
    [
        ("decode",),
        ("decode", "m"),
        ("decode", "m", "a", "b"),
        ("decode", "m", "a", "--num-parameters", "7e9"),
        ("decode", "a", "--num-layers", "3"),
        ("decode", "a", "--num-parameters", "7e9", "--num-layers", str(2**40)),
        ("decode", "a", "--model", "m", "--config", "{json}"),
        ("decode", "m", "a", "--quantization", "{json}"),
        ("decode", "a", "--config", "{broken}"),
        ("decode", "a", "--config", "{list}"),
        ("decode", "a", "--config", "{deep}"),
        ("decode", "a", "--config", "no-such-file"),
        ("decode", "m", "--accelerator-file", "{json}"),
        ("decode", "m", "--accelerator", "a", "--accelerator-file", "{json}"),
        ("decode", "m", "a", "--tp", "two"),
        ("decode", "m", "a", "--timeout", "0"),
        ("decode", "m", "a", "--no-such-option"),
        ("kv", "m", "a"),
        ("fit", "m", "--context-tokens", "1"),
        ("fit", "m", "n", "--accelerator", "a", "--context-tokens", "1"),
        ("mfu", "m", "a"),
        ("models", "show"),
        ("models", "show", "m", "n"),
        ("no-such-command",),
        (),
    ],
    ids=" ".join,
)
def test_misuse_is_told_and_ends_with_2(run: Run, scripted: ScriptedServer, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    contents = {"json": '{"figures": 1}', "broken": "{", "list": "[]", "deep": '{"a":' * 300 + "1" + "}" * 300}
    files = {name: tmp_path / f"{name}.json" for name in contents}
    for name, content in contents.items():
        files[name].write_text(content)

    code, shown, said = run(*(argument.format(**files) for argument in arguments))

    assert (Exit.BAD_REQUEST, "") == (code, shown)
    assert "Usage:" in said
    assert [] == scripted.requests


def test_an_unreachable_service_is_one_line_that_says_what_to_run(run: Run, down: ScriptedServer) -> None:
    code, shown, said = run("decode", "m", "a", "--server", down.target)

    assert (Exit.UNREACHABLE, "") == (code, shown)
    assert 1 == len(said.splitlines())
    assert down.target in said
    assert "`make serve`" in said
    assert "`tonnage-service`" in said


def test_an_address_that_does_not_resolve_is_told_apart(run: Run) -> None:
    code, _, said = run("models", "--server", "no-such-host.invalid:50051")

    assert Exit.UNREACHABLE == code
    assert "has no address" in said


def test_a_slow_service_is_told_apart(run: Run, scripted: ScriptedServer) -> None:
    def slow(request: object, context: grpc.ServicerContext) -> EstimateDecodeResponse:
        while context.is_active():
            pass
        return EstimateDecodeResponse()

    scripted.script["EstimateDecode"] = slow

    code, _, said = run("decode", "m", "a", "--timeout", "0.2")

    assert Exit.UNREACHABLE == code
    assert "within 0.2 s" in said


def test_a_defect_of_ours_is_a_line_and_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: object) -> str:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("tonnage.cli.session.as_json", defect)

    code, shown, said = run("models", "--json")

    assert (Exit.SERVICE_FAILED, "") == (code, shown)
    assert "tonnage: unexpected ZeroDivisionError: of ours\n" == said


@pytest.mark.parametrize("command", ["decode", "kv", "fit", "mfu", "accelerators", "models", "nodes"])
def test_every_command_has_help_with_an_example(run: Run, command: str) -> None:
    code, shown, _ = run(command, "--help")

    assert 0 == code
    assert f"  tonnage {command}" in shown
    assert "TONNAGE_SERVER" in shown


def test_exit_codes_are_documented(run: Run) -> None:
    _, shown, _ = run("--help")

    assert [str(int(code)) for code in Exit] == re.findall(r"^    (\d)  ", shown, re.MULTILINE)


def test_as_a_program(scripted: ScriptedServer) -> None:
    """In a process of its own, with an output that holds ASCII only: nothing but the answer, and no exception."""
    scripted.script["EstimateDecode"] = answers(EstimateDecodeResponse(**DECODE))
    command = [sys.executable, "-m", "tonnage", "decode", "m", "a", "--server", scripted.target]

    done = subprocess.run(command, capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)})

    assert b"" == done.stderr
    assert b"? 14.4 ms" in done.stdout
