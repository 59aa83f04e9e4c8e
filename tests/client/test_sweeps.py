"""Sweeps through the client and on the command line, against the real service."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from tests.client.conftest import Run, ScriptedServer, fails, made_status
from tests.service_process import RunningService
from tonnage import AsyncClient, Client, InvalidRequest, NotFound, Overloaded, tables
from tonnage.cli.exits import Exit
from tonnage.errors import TonnageError
from tonnage.sweep_requests import run_sweep
from tonnage.v1.model_pb2 import Parallelism, Precision
from tonnage.v1.sweep_service_pb2 import RequestLength, RunSweepRequest

GRID: dict[str, Any] = {
    "models": ["llama-3.1-8b", "llama-3.1-70b"],
    "accelerators": ["h100-sxm"],
    "shapes": [1, 3, {"tensor": 4, "pipeline": 2}],
    "batch_sizes": range(1, 4),
    "context_tokens": [1024, 4096],
}
LARGE: dict[str, Any] = {
    "models": ["llama-3.1-8b"],
    "accelerators": ["h100-sxm"],
    "batch_sizes": range(1, 1001),
    "context_tokens": range(1, 10_001),
}
OPTIONS = (
    *("--model", "llama-3.1-8b,llama-3.1-70b", "--accelerator", "h100-sxm", "--shape", "1,tp3", "--shape", "tp4-pp2"),
    *("--batch-size", "1:3", "--context-tokens", "1024,4096"),
)


def test_requests_are_built_from_what_people_write() -> None:
    asked = run_sweep(
        models=["llama-3.1-8b"],
        accelerators=["h100-sxm"],
        shapes=[8, {"pipeline": 2}, Parallelism(expert=4)],
        precisions=["fp8", {"kv_cache": "fp8"}, Precision()],
        engines=["vllm==0.19"],
        concurrencies=(1, 64),
        lengths=[(1024, 256), RequestLength(input_tokens=1, output_tokens=2)],
        time_limit_seconds=5,
    )
    assert RunSweepRequest.SERVING == asked.kind
    assert [Parallelism(tensor=8), Parallelism(pipeline=2), Parallelism(expert=4)] == list(asked.shapes)
    assert [Precision(weights="fp8"), Precision(kv_cache="fp8"), Precision()] == list(asked.precisions)
    assert ("vllm", "0.19") == (asked.engines[0].name, asked.engines[0].version)
    assert [(1024, 256), (1, 2)] == [(each.input_tokens, each.output_tokens) for each in asked.lengths]
    assert RunSweepRequest.DECODE == run_sweep(context_tokens=[1]).kind


def test_a_ready_request_is_taken_as_it_is() -> None:
    ready = RunSweepRequest(kind=RunSweepRequest.SERVING)
    assert ready is run_sweep(ready)
    with pytest.raises(TypeError, match="not both"):
        run_sweep(ready, models=["llama-3.1-8b"])


@pytest.mark.parametrize("length", [5, (1, 2, 3), "1024"])
def test_a_length_that_is_no_pair_is_refused(length: object) -> None:
    with pytest.raises(InvalidRequest, match="lengths"):
        run_sweep(lengths=[length])  # type: ignore[list-item]


def test_rows_have_the_values_of_the_axes(service: RunningService) -> None:
    with Client(service.grpc) as client:
        sweep = client.run_sweep(**GRID)
        rows = list(sweep.rows())
        point = client.estimate_decode(
            model="llama-3.1-70b", accelerator="h100-sxm", tensor=4, pipeline=2, batch_size=2, context_tokens=4096
        )
    (row,) = (
        row
        for row in rows
        if ("llama-3.1-70b", "TP4 PP2", 2, 4096) == (row["model"], row["shape"], row["batch_size"], row["context_tokens"])
    )
    assert point.bound.tokens_per_second == pytest.approx(row["tokens_per_second"], rel=1e-12)
    assert (8, "MEMORY_BANDWIDTH", True) == (row["num_devices"], row["binding_limit"], row["fits"])
    assert sweep.end is not None
    assert (True, 24, 12) == (sweep.end.is_complete, len(rows), sum(each.num_points for each in sweep.skipped))
    assert 1 == sweep.progress_ratio


def test_columns_are_numpy_arrays_of_the_same(service: RunningService) -> None:
    with Client(service.grpc) as client:
        rows = list(client.run_sweep(**GRID).rows())
        (columns,) = client.run_sweep(**GRID).columns()
    assert set(rows[0]) == set(columns)
    for name, column in columns.items():
        assert [row[name] for row in rows] == column.tolist()
    assert (np.float64, np.int32, np.bool_) == tuple(
        columns[name].dtype.type for name in ("step_seconds", "batch_size", "fits")
    )


async def test_the_asyncio_client_does_the_same(service: RunningService) -> None:
    with Client(service.grpc) as client:
        rows = list(client.run_sweep(**GRID).rows())
    async with AsyncClient(service.grpc) as client:
        sweep = client.run_sweep(**GRID)
        assert rows == [row async for row in sweep.rows()]
        assert sweep.end is not None
        assert 24 == sum([len(columns["fits"]) async for columns in client.run_sweep(**GRID).columns()])
        with pytest.raises(NotFound) as unknown:
            async for _ in client.run_sweep(**GRID | {"models": ["lama"]}):
                pass
        assert unknown.value.nearest


def test_refusals_come_as_exceptions_when_one_iterates(service: RunningService) -> None:
    with Client(service.grpc) as client:
        with pytest.raises(InvalidRequest) as refused:
            next(client.run_sweep(**GRID | {"batch_sizes": [0]}))
        assert ["batch_sizes[0]"] == [violation.field for violation in refused.value.violations]
        with pytest.raises(Overloaded, match="10000000"):
            list(client.run_sweep(**LARGE | {"models": ["llama-3.1-8b"] * 2}))
        with pytest.raises(RuntimeError, match="not begun"):
            client.run_sweep(**GRID).table  # noqa: B018 - raises


def test_the_timeout_ends_a_sweep_with_what_is_done(service: RunningService) -> None:
    with Client(service.grpc, timeout=0.8) as client:
        sweep = client.run_sweep(**LARGE)
        points = sum(len(chunk.decode.step_seconds) for chunk in sweep.chunks())
    assert sweep.end is not None
    assert not sweep.end.is_complete
    assert 0 < points == sweep.end.num_answered


def test_a_cancelled_sweep_ends(service: RunningService) -> None:
    with Client(service.grpc) as client:
        sweep = client.run_sweep(**LARGE)
        next(sweep)
        sweep.cancel()
        with pytest.raises(TonnageError) as ended:
            list(sweep)
    assert grpc.StatusCode.CANCELLED == ended.value.code


def test_csv_on_the_command_line(run_for_real: Run) -> None:
    code, out, err = run_for_real("sweep", *OPTIONS)

    assert Exit.ANSWERED == code
    assert out.startswith(f"{tables.BYTE_ORDER_MARK}model,accelerator,shape,precision,batch_size,context_tokens,")
    rows = list(csv.DictReader(io.StringIO(out.removeprefix(tables.BYTE_ORDER_MARK))))
    assert (24, 2) == (sum(row["note"] == "" for row in rows), sum(row["note"] != "" for row in rows))
    assert "24 of 36 points" in err
    assert "12 skipped" in err
    assert "ILLEGAL: 3 ranks do not divide" in err


def test_json_on_the_command_line(run_for_real: Run, service: RunningService) -> None:
    code, out, _ = run_for_real("sweep", *OPTIONS, "--json")

    assert Exit.ANSWERED == code
    with Client(service.grpc) as client:
        assert list(client.run_sweep(**GRID).rows()) == [json.loads(line) for line in out.splitlines()]


def test_estimates_go_to_a_file(run_for_real: Run, tmp_path: Path) -> None:
    target = tmp_path / "sweep.csv"
    asked = ("--engine", "vllm==0.19", "--concurrency", "1:64:9", "--length", "1024+256", "--precision", "fp8/fp8,-")
    plans = ("--model", "llama-3.1-8b", "--accelerator", "h100-sxm")
    code, out, _ = run_for_real("sweep", *plans, *asked, "--output", str(target))

    assert (Exit.ANSWERED, "") == (code, out)
    content = target.read_bytes()
    assert content.startswith(b"\xef\xbb\xbfmodel,")
    assert b"\r\n" in content
    assert b"\r\r\n" not in content
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    assert (16, {"weights fp8, kv_cache fp8", "checkpoint"}) == (len(rows), {row["precision"] for row in rows})


def test_answers_of_one_token_have_no_time_between_tokens(run_for_real: Run) -> None:
    plan = ("--model", "llama-3.1-8b", "--accelerator", "h100-sxm", "--engine", "vllm==0.19", "--concurrency", "4")
    lengths = ("--length", "1024+1,1024+2")
    code, out, _ = run_for_real("sweep", *plan, *lengths)
    rows = list(csv.DictReader(io.StringIO(out.removeprefix(tables.BYTE_ORDER_MARK))))
    assert (Exit.ANSWERED, 2) == (code, len(rows))
    between = ("tpot_seconds", "tpot_p10_seconds", "tpot_p90_seconds", "output_tokens_per_second_per_user")
    assert [True] * 4 == ["" == rows[0][name] for name in between]
    assert all(float(rows[1][name]) > 0 for name in between)
    assert float(rows[0]["ttft_seconds"]) == float(rows[0]["end_to_end_seconds"]) > 0


@pytest.mark.parametrize(
    ("option", "value"), [("--shape", "xp4"), ("--shape", "tp"), ("--batch-size", "1:2:0"), ("--length", "5"), ("--model", "")]
)
def test_what_is_not_understood_is_a_usage_error(run: Run, option: str, value: str) -> None:
    code, _, err = run("sweep", option, value)
    assert Exit.BAD_REQUEST == code
    assert f"Invalid value for '{option}'" in err
    assert "give " in err


def test_a_refusal_names_the_option(run_for_real: Run) -> None:
    code, _, err = run_for_real("sweep", "--model", "llama-3.1-8b", "--accelerator", "h100-sxm", "--context-tokens", "0")
    assert Exit.BAD_REQUEST == code
    assert "context_tokens[0] (--context-tokens): 0 is out of range" in err


def test_a_file_that_cannot_be_written_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    code, _, err = run("sweep", *OPTIONS, "--output", str(tmp_path / "no" / "such" / "folder.csv"))
    assert Exit.BAD_REQUEST == code
    assert "cannot be written" in err


def test_a_sweep_whose_time_is_up_says_so(run_for_real: Run, tmp_path: Path) -> None:
    target = tmp_path / "sweep.csv"
    grid = ("--model", "llama-3.1-8b", "--accelerator", "h100-sxm", "--batch-size", "1:1000", "--context-tokens", "1:10000")
    code, _, err = run_for_real("sweep", *grid, "--timeout", "0.3", "--output", str(target))

    assert Exit.UNREACHABLE == code
    assert "the time was up" in err
    assert "incomplete: " in target.read_text(encoding="utf-8").splitlines()[-1]


def test_a_failure_half_way_is_told(run: Run, scripted: ScriptedServer) -> None:
    scripted.script["RunSweep"] = fails(made_status(grpc.StatusCode.INTERNAL, "the service failed on this request"))
    code, _, err = run("sweep", *OPTIONS)
    assert Exit.SERVICE_FAILED == code
    assert "the service failed" in err


def test_a_bar_is_drawn_on_a_terminal(run_for_real: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = run_for_real("sweep", *OPTIONS)
    assert Exit.ANSWERED == code
    assert out.count("\n") == 27
    assert "sweep" in err


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", "\tx", "\rx"])
def test_what_begins_like_a_formula_becomes_text(text: str) -> None:
    (cell,) = next(csv.reader(io.StringIO(tables.csv_text([[text]]), newline="")))
    assert f"'{text}" == cell


def test_numbers_are_no_formulas() -> None:
    assert "-1.5,true,\r\n" == tables.csv_text([[-1.5], [True], [None]])
