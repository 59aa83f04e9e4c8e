"""``tonnage sweep --format xlsx``: the workbook that REST sends, kept off terminals, whole or not at all."""

import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from openpyxl import load_workbook

from tests.client.conftest import Run, ScriptedServer
from tests.client.test_terminals import on_a_terminal
from tests.service_process import RunningService
from tonnage.cli.exits import Exit
from tonnage.tabular import sweep_workbook

PLANS = ("--model", "llama-3.1-8b,llama-3.1-70b", "--accelerator", "h100-sxm", "--shape", "1,tp3", "--precision", "fp8/fp8,-")
KINDS = {
    "DECODE": ("--batch-size", "1:3", "--context-tokens", "1024,4096"),
    "SERVING": ("--engine", "vllm==0.19", "--concurrency", "1,64", "--length", "1024+1,1024+256"),
}
BODY: dict[str, Any] = {
    "models": [{"name": "llama-3.1-8b"}, {"name": "llama-3.1-70b"}],
    "accelerators": [{"name": "h100-sxm"}],
    "shapes": [{"tensor": 1}, {"tensor": 3}],
    "precisions": [{"weights": "fp8", "kv_cache": "fp8"}, {}],
}
LOADS: dict[str, dict[str, Any]] = {
    "DECODE": {"batch_sizes": [1, 2, 3], "context_tokens": [1024, 4096]},
    "SERVING": {
        "engines": [{"name": "vllm", "version": "0.19"}],
        "concurrencies": [1, 64],
        "lengths": [{"input_tokens": 1024, "output_tokens": 1}, {"input_tokens": 1024, "output_tokens": 256}],
    },
}


def sheets(file: Path) -> dict[str, list[tuple[object, ...]]]:
    return {sheet.title: sorted(sheet.values, key=str) for sheet in load_workbook(file)}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_workbook_of_the_rest_door(run_for_real: Run, service: RunningService, tmp_path: Path, kind: str) -> None:
    ours, theirs = tmp_path / "ours.xlsx", tmp_path / "theirs.xlsx"
    code, out, err = run_for_real("sweep", *PLANS, *KINDS[kind], "--timeout", "30", "--format", "xlsx", "--output", str(ours))
    asked = {"kind": kind, **BODY, **LOADS[kind], "time_limit_seconds": 30}
    theirs.write_bytes(httpx.post(f"{service.http}/v1/sweeps:run?format=xlsx", json=asked).raise_for_status().content)

    assert (Exit.ANSWERED, "") == (code, out)
    assert "skipped" in err
    assert ["Inputs", "Results", "Sources", "Assumptions"] == load_workbook(ours).sheetnames
    assert sheets(theirs) == sheets(ours)


def test_a_pipe_gets_it_and_a_terminal_does_not(
    run_for_real: Run, service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("sweep", *PLANS, *KINDS["DECODE"], "--format", "xlsx")
    with (tmp_path / "piped.xlsx").open("w+") as piped, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", piped)
        assert Exit.ANSWERED == run_for_real(*asked)[0]
    assert 3 < len(sheets(tmp_path / "piped.xlsx")["Results"])

    shown = on_a_terminal(service, *asked)

    assert "--format xlsx is no text: send it to a file, with --output sweep.xlsx" in shown
    assert "PK" not in shown


def test_progress_is_shown_as_it_is_for_other_forms(service: RunningService, tmp_path: Path) -> None:
    loads = ("--batch-size", "1:200", "--context-tokens", "128:8000:128")
    target = str(tmp_path / "sweep.xlsx")
    shown = on_a_terminal(service, "sweep", *PLANS[:4], *loads, "--format", "xlsx", "--output", target)

    assert "━" in shown
    assert "of 24,800 points" in shown
    assert os.path.getsize(target) > 100_000


def test_a_grid_that_no_sheet_holds(run_for_real: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_workbook, "MAX_POINTS", 47)
    target = tmp_path / "sweep.xlsx"
    code, _, err = run_for_real("sweep", *PLANS, *KINDS["DECODE"], "--format", "xlsx", "--output", str(target))

    assert Exit.BAD_REQUEST == code
    assert "--format xlsx: 48 points in one sheet, and it holds " in err
    assert not target.exists()  # an empty file would pass for a workbook


def test_what_it_needs_is_named(run: Run, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    code, _, err = run("sweep", *PLANS, *KINDS["DECODE"], "--format", "xlsx", "--output", str(tmp_path / "sweep.xlsx"))

    assert Exit.BAD_REQUEST == code
    assert "pip install openpyxl" in err
