"""Kernels through the clients and the command line: the document's figures, and the same answers whichever way."""

import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.client.conftest import Run, ScriptedServer
from tests.client.test_questions import asked
from tests.service_process import RunningService
from tests.worked_figures import ACCESS, FIGURES, FUSION, OCCUPANCY, Figure, at
from tonnage import AsyncClient, Client, Elementwise, Gemm, InlineAccelerator, Operator, OwnPoints, StructureLayout
from tonnage.cli.exits import Exit
from tonnage.kernel_requests import analyze_fusion

PTXAS = """\
ptxas info    : Compiling entry function '_Z3addPf' for 'sm_90'
ptxas info    : Used 64 registers, used 1 barriers, 1024 bytes smem, 376 bytes cmem[0]
ptxas info    : Compiling entry function '_Z3mulPf' for 'sm_80'
ptxas info    : Used 12 registers, 376 bytes cmem[0]
"""
OPERATORS = [Operator(name="matmul", gemm=Gemm(m=8, n=64, k=64)), Operator(name="relu", elementwise=Elementwise())]


def command(figure: Figure, folder: Path) -> list[str]:
    """The command line that asks a worked figure's question."""
    question = dict(figure.question)
    if figure.rpc == FUSION:
        accelerator, operators = folder / "accelerator.json", folder / "operators.json"
        accelerator.write_text(json.dumps(question["accelerator"]["inline"]))
        operators.write_text(json.dumps(question["operators"]))
        named = ["--precision", question["precision"], "--accelerator-file", str(accelerator)]
        return ["fusion", *named, "--operators", str(operators)]
    words = ["occupancy", question.pop("compute_capability")] if figure.rpc == OCCUPANCY else ["memory-access"]
    return words + [word for name, value in question.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.parametrize(
    "figure",
    [each for each in FIGURES if each.rpc in {OCCUPANCY, ACCESS, FUSION}],
    ids=lambda figure: f"{figure.row}-{figure.path}",
)
def test_worked_figure(run_for_real: Run, tmp_path: Path, figure: Figure) -> None:
    code, out, _ = run_for_real(*command(figure, tmp_path), "--json")
    assert Exit.ANSWERED == code
    actual = at(json.loads(out), figure.path)
    if isinstance(figure.value, float | int):
        assert actual == pytest.approx(figure.value, rel=figure.tolerance)
    else:
        assert actual == figure.value


def test_d5_rows_of_nvidias_calculator(run_for_real: Run) -> None:
    table = (Path(__file__).parents[1] / "data" / "occupancy_vectors.csv").read_text(encoding="utf-8")
    for row in list(csv.DictReader(table.splitlines()))[::20]:
        sizes = ("--threads", row["threads_per_block"], "--registers", row["registers_per_thread"])
        _, out, _ = run_for_real(
            "occupancy", row["compute_capability"], *sizes, "--shared-memory", row["shared_memory_bytes"], "--json"
        )
        answer = json.loads(out)
        assert (answer["active_blocks_per_sm"], answer["active_warps_per_sm"]) == (
            int(row["active_blocks"]),
            int(row["active_warps"]),
        )


def test_the_compiler_s_lines_from_a_file(run_for_real: Run, tmp_path: Path) -> None:
    file = tmp_path / "ptxas.txt"
    file.write_text(PTXAS)
    code, out, _ = run_for_real("occupancy", "--threads-per-block", "256", "--resource-usage", str(file), "--explain")
    assert Exit.ANSWERED == code
    for part in (
        "_Z3addPf",
        "_Z3mulPf",
        "4 blocks on an SM, 32 of 64 warps: 50.00 %, limited by registers",
        "occupancy_ratio = ",
    ):
        assert part in out


def test_a_kernel_that_cannot_be_launched_is_an_answer(run_for_real: Run) -> None:
    code, out, _ = run_for_real("occupancy", "9.0", "--threads", "2048", "--registers", "32", "--blocks-per-cluster", "2")
    assert Exit.ANSWERED == code
    assert "It cannot be launched" in out
    assert "at most 1024 threads" in out
    assert "Clusters of 2 blocks" in out


def test_a_refusal_names_the_option(run_for_real: Run) -> None:
    code, _, err = run_for_real("memory-access", "--struct-bytes", "6")
    assert Exit.BAD_REQUEST == code
    assert "(--struct-bytes)" in err
    code, _, err = run_for_real("occupancy", "6.1", "--threads", "32", "--registers", "8")
    assert Exit.NOT_FOUND == code
    assert "6.1" in err


def test_accesses_are_drawn(run_for_real: Run) -> None:
    _, out, _ = run_for_real("memory-access", "--base-alignment-bytes", "4", "--explain")
    for part in ("5 sectors", "80.00 %", "from the best start of the array", "9/10", "sectors_per_group = 5"):
        assert part in out


def test_operators_are_drawn_and_their_picture_written(run_for_real: Run, tmp_path: Path) -> None:
    picture = tmp_path / "roofline.svg"
    words = ("gemm:8x4096x4096", "add", "relu", "softmax", "reduction:8x4096")
    code, out, _ = run_for_real("fusion", "h100-sxm", *words, "--svg", str(picture), "--explain")
    assert Exit.ANSWERED == code
    for part in ("gemm_1 → add → relu → softmax_4 → reduction_5", "gemm epilogue", "epilogue fused", "CUDA Graph", "guards"):
        assert part in out
    assert ElementTree.fromstring(picture.read_text(encoding="utf-8")).tag.endswith("svg")


@pytest.mark.parametrize("words", [["gemm:8x8"], ["gemm"], ["a-b"], [], ["relu:99999999999"]])
def test_words_that_are_no_operators_are_refused_before_asking(run: Run, scripted: ScriptedServer, words: list[str]) -> None:
    code, _, err = run("fusion", "h100-sxm", *words)
    assert Exit.BAD_REQUEST == code
    assert err
    assert scripted.requests == []


def test_words_become_operators(run: Run, scripted: ScriptedServer) -> None:
    run("fusion", "h100-sxm", "gemm:2x8x16x32", "add:8x16", "softmax", "--launch-seconds", "1e-5")
    assert asked(scripted) == {
        "operators": [
            {"gemm": {"num_matrices": 2, "m": 8, "n": 16, "k": 32}},
            {"name": "add", "elementwise": {"shape": [8, 16]}},
            {"softmax": {}},
        ],
        "accelerator": {"name": "h100-sxm"},
        "launch_seconds": 1e-5,
    }


def test_a_file_that_holds_no_operators_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "operators.json"
    for content in ("no json", '[{"gem": {}}]', '{"gemm": {}}'):
        file.write_text(content)
        code, _, err = run("fusion", "h100-sxm", "--operators", str(file))
        assert Exit.BAD_REQUEST == code
        assert "holds no list of operators" in err


async def test_both_clients_get_the_same_answers(service: RunningService) -> None:
    launch: dict[str, Any] = {"threads_per_block": 256, "resource_usage_text": PTXAS}
    access: dict[str, Any] = {"structure": StructureLayout(struct_bytes=12), "element_bytes": 4}
    teaching = InlineAccelerator(peak_dense_flops_per_second={"bf16": 5e14}, memory_bandwidth_bytes_per_second=2e12)
    own = OwnPoints(points=[OwnPoints.OwnPoint(arithmetic_intensity_flops_per_byte=2.0)])
    own.accelerator.name = "h100-sxm"
    with Client(service.grpc) as client:
        occupancy = client.compute_occupancy(**launch)
        sectors = client.analyze_memory_access(**access)
        fusion = client.analyze_fusion(operators=OPERATORS, accelerator=teaching)
        drawn = client.draw_roofline(fusion=analyze_fusion(operators=OPERATORS, accelerator=teaching))
        mine = client.draw_roofline(own=own, precisions=["bf16", "fp8"])
        listed = client.analyze_memory_access(addresses_bytes=range(0, 128, 4))

    assert [kernel.name for kernel in occupancy.kernels] == ["_Z3addPf", "_Z3mulPf"]
    assert sectors.sectors_per_request == 12
    assert listed.efficiency_ratio == 1
    assert [roof.precision for roof in mine.roofs] == ["fp8", "bf16"]
    assert drawn.points[0].label == "matmul"
    async with AsyncClient(service.grpc) as asynchronous:
        assert occupancy == await asynchronous.compute_occupancy(**launch)
        assert sectors == await asynchronous.analyze_memory_access(**access)
        assert fusion == await asynchronous.analyze_fusion(operators=OPERATORS, accelerator=teaching)
        assert mine == await asynchronous.draw_roofline(own=own, precisions=["bf16", "fp8"])
