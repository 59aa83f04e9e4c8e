"""A sweep as a workbook: its CSV's figures, their sources and what was assumed on sheets of their own."""

from typing import Any

import pytest

from tests.api.asking import Doors, refusal_in
from tests.api.test_forms_of_answers import book_of, rows_of, sent


def test_a_sweep_s_workbook_is_its_csv(doors: Doors) -> None:
    rows = rows_of(sent(doors, "RunSweep", "csv"))
    sheet = book_of(sent(doors, "RunSweep", "xlsx"))["Results"]
    heads = [cell.value for cell in sheet[1]]
    assert list(rows[0]) == heads
    for row, cells in zip(rows, sheet.iter_rows(min_row=2, values_only=True), strict=True):
        for text, cell in zip(row.values(), cells, strict=True):
            if isinstance(cell, bool) or not isinstance(cell, int | float):
                assert {None: "", True: "true", False: "false"}.get(cell, cell) == text
            else:  # a workbook keeps sixteen digits
                assert float(text) == pytest.approx(cell, rel=1e-15)


@pytest.mark.parametrize("kind", ["DECODE", "SERVING"])
def test_a_sweep_s_workbook_names_its_sources_and_what_was_assumed(doors: Doors, kind: str) -> None:
    axes: dict[str, Any] = {
        "models": [{"name": "llama-3.1-8b"}],
        "accelerators": [{"name": "h100-sxm"}, {"name": "a100-sxm-80"}],
    }
    loads: dict[str, Any] = {"batch_sizes": [1, 2], "context_tokens": [100]}
    if kind == "SERVING":
        loads = {"engines": [{"name": "vllm"}], "concurrencies": [1], "lengths": [{"input_tokens": 9, "output_tokens": 9}]}
    book = book_of(doors.http.post("/v1/sweeps:run?format=xlsx", json={"kind": kind, **axes, **loads}))
    assert ["Inputs", "Results", "Sources", "Assumptions"] == book.sheetnames
    heads, *rows = ([cell.value for cell in row] for row in book["Sources"].iter_rows())
    assert ["x_kind", "x_id", "x_title", "x_publisher", "x_date", "x_url"] == heads
    listed = [row[1] for row in rows]
    assert len(set(listed)) == len(listed)
    found = doors.http.get("/v1/accelerators/h100-sxm").json()["accelerator"]
    used = (found["memory_bandwidth"], found["usable_memory"], *(peak["figure"] for peak in found["peaks"]))
    assert {source["id"] for figure in used for source in figure["sources"]} <= set(listed)
    assert all(row[2] and row[3] for row in rows)
    assert [row[0].value for row in book["Assumptions"].iter_rows(min_row=2)].count("assumption") >= 2


def test_a_sweep_that_a_sheet_does_not_hold_is_refused_with_what_to_do(doors: Doors) -> None:
    large = {
        "kind": "DECODE",
        "models": [{"name": "llama-3.1-8b"}],
        "accelerators": [{"name": "h100-sxm"}],
        "batch_sizes": list(range(1, 1050)),
        "context_tokens": list(range(1, 1001)),
    }
    refusal = refusal_in(doors.http.post("/v1/sweeps:run?format=xlsx", json=large))
    assert (429, "TOO_LARGE") == (refusal.http_status, refusal.reason)
    assert "csv or ndjson" in refusal.message
