"""Offers and tables by the client and the command line, against the real service."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import httpx
import openpyxl
import pytest

from service.api.examples import REQUESTS
from tests.client.conftest import Run
from tests.service_process import RunningService
from tonnage import AsyncClient, Client
from tonnage.cli.exits import Exit
from tonnage.errors import InvalidRequest
from tonnage.quote_requests import audit_quote, decoded
from tonnage.v1.claim_service_pb2 import AuditQuoteRequest, QuoteLine
from tonnage.v1.price_pb2 import Price

OFFER = "Produkt;Menge;Preis (EUR/h);Größe des Speichers\nH100 SXM;8;2,50;80 GB\n"


def offered(tmp_path: Path, content: bytes) -> str:
    file = tmp_path / "offer.csv"
    file.write_bytes(content)
    return str(file)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_an_offer_in_any_usual_encoding(run_for_real: Run, tmp_path: Path, encoding: str) -> None:
    code, out, _ = run_for_real("quote", offered(tmp_path, OFFER.encode(encoding)), "--exchange-rate", "USD:EUR:0.9:2026-07-01")
    assert Exit.ANSWERED == code
    for part in ("Größe des Speichers as memory", "h100-sxm", "2.50 EUR/h", "than the list price of 2026"):
        assert part in " ".join(out.split())


def test_what_the_offer_leaves_open_is_said_by_options(run_for_real: Run, tmp_path: Path) -> None:
    file = offered(tmp_path, b"Item,Quantity,Price\nH100 SXM,16,28000\n")

    _, left_open, _ = run_for_real("quote", file)
    _, said, _ = run_for_real("quote", file, "--currency", "USD", "--price-unit", "once")

    assert "--currency USD says it" in left_open
    assert "--price-unit once|per-hour|per-month|per-year says it" in left_open
    assert "says it" not in said


@pytest.mark.parametrize(
    ("lines", "mark", "code"),
    [
        (b"H200 SXM,8,6.30,50.40\nTotal,,,50.40\n", "· line 3, Total: 50.40 is right", Exit.ANSWERED),
        (b"H200 SXM,8,6.30,50.40\nTotal,,,90.40\n", "✗ line 3, Total: 90.40 is wrong by +40.00", Exit.DOES_NOT_FIT),
        (b"H200 SXM,8,6.30,90.40\nTotal,,,90.40\n", "✗ line 3, Total: 90.40 is wrong by +40.00", Exit.DOES_NOT_FIT),
        (b"H2OO SXM,8,6.30,50.40\n", "? no product of the catalogue is called so", Exit.ANSWERED),
        (b"H200 SXM,,6.30,\nTotal,,,50.40\n", "? line 3, Total: 50.40 cannot be checked", Exit.ANSWERED),
    ],
)
def test_a_wrong_sum_is_marked_and_counts_as_a_wrong_line_does(
    run_for_real: Run, tmp_path: Path, lines: bytes, mark: str, code: Exit
) -> None:
    file = offered(tmp_path, b"Product,Qty,Price ($/h),Total\n" + lines)

    checked, shown, _ = run_for_real("quote", file, "--check")
    answered, unchecked, _ = run_for_real("quote", file)

    assert mark in shown
    assert (code, Exit.ANSWERED, shown) == (checked, answered, unchecked)


def test_the_summary_stands_first_and_in_every_form_in_the_same_words(service: RunningService, tmp_path: Path) -> None:
    file = offered(tmp_path, b"Product,Qty,Price ($/h),Total\nH200 SXM,8,6.30,50.40\nTotal,,,50.40\n")
    summary = "the line holds; the sum is right"

    assert told(service, "quote", file, form="table").decode().startswith(f"{summary}\n")
    assert summary == json.loads(told(service, "quote", file, form="json"))["summary"]
    (row,) = csv.DictReader(io.StringIO(told(service, "quote", file, form="csv").decode("utf-8-sig")))
    assert summary == row["x_summary"]
    book = openpyxl.load_workbook(io.BytesIO(told(service, "quote", file, form="xlsx")))
    assert [("x_summary",), (summary,)] == list(book["Summary"].iter_rows(values_only=True))


def test_what_is_no_offer_is_refused(run_for_real: Run, tmp_path: Path) -> None:
    code, _, told = run_for_real("quote", offered(tmp_path, b"hello\n"))
    assert Exit.BAD_REQUEST == code
    assert "no line of headings" in told
    code, _, told = run_for_real("quote", offered(tmp_path, b"\x81\0\x81"))
    assert Exit.BAD_REQUEST == code
    assert "UTF-8" in told
    code, _, told = run_for_real("quote", str(tmp_path / "no such file"))
    assert Exit.BAD_REQUEST == code


def test_the_request() -> None:
    asked = audit_quote(document=OFFER, currency="EUR", price_unit="per-hour", term="spot", depreciation_years=4)
    expected = AuditQuoteRequest(document=OFFER, currency="EUR", depreciation_years=4)
    expected.price_unit, expected.term = QuoteLine.PER_HOUR, Price.SPOT
    assert expected == asked
    with pytest.raises(InvalidRequest, match="price_unit"):
        audit_quote(document=OFFER, price_unit="by the dozen")
    with pytest.raises(InvalidRequest, match="UTF-16"):
        decoded(b"a\0b\0")


async def test_both_clients(service: RunningService) -> None:
    with Client(service.grpc) as client:
        answer = client.audit_quote(document=OFFER)
    async with AsyncClient(service.grpc) as asynchronous:
        assert answer == await asynchronous.audit_quote(document=OFFER.encode())
    assert [8] == [line.num_devices for line in answer.lines]


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (["accelerators"], "/v1/accelerators"),
        (["models"], "/v1/models"),
        (["nodes"], "/v1/nodes"),
        (["prices", "--accelerator", "h100-sxm", "--term", "spot"], "/v1/prices?accelerator=h100-sxm&term=SPOT"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_lists_are_the_service_s_bytes(service: RunningService, arguments: list[str], path: str, form: str) -> None:
    assert httpx.get(f"{service.http}{path}", headers={"accept": MEDIA[form]}).content == told(service, *arguments, form=form)


MEDIA = {"csv": "text/csv", "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"}
PLAN = ["plan", "llama-3.1-70b", "--rate", "5:10:20", "--isl", "2000", "--osl", "500", "--ttft", "1", "--tpot", "0.05"]
PLAN += ["--percentile", "p90", "--node", "aws-p5.48xlarge", "--node", "aws-p4d.24xlarge", "--redundant-nodes", "1"]
COMPARE = ["compare", "llama-3.1-70b", "h100-sxm", "h200-sxm", "--tensor", "8"]


def told(service: RunningService, *arguments: str, form: str) -> bytes:
    """What the command line writes, in a process of its own: bytes."""
    command = [sys.executable, "-m", "tonnage", *arguments, "--server", service.grpc, "--format", form]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_a_plan_as_csv_is_the_service_s(service: RunningService) -> None:
    response = httpx.post(f"{service.http}/v1/fleets:plan?format=csv", json=REQUESTS["PlanFleet"], timeout=60)
    assert 200 == response.status_code
    assert response.content == told(service, *PLAN, form="csv")


def test_comparisons_and_offers_as_workbooks(service: RunningService, tmp_path: Path) -> None:
    book = openpyxl.load_workbook(io.BytesIO(told(service, *COMPARE, form="xlsx")))
    assert ["Inputs", "Results", "Beside the first", "Sources", "Assumptions"] == book.sheetnames
    file = offered(tmp_path, OFFER.encode())
    book = openpyxl.load_workbook(io.BytesIO(told(service, "quote", file, form="xlsx")))
    assert {"Results", "Claims", "Totals", "Unread lines", "Headings"} <= set(book.sheetnames)


def test_json_by_name_is_json(run_for_real: Run) -> None:
    assert run_for_real("prices", "--json") == run_for_real("prices", "--format", "json")


def test_a_workbook_without_its_writer_says_what_to_install(run_for_real: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    code, _, told = run_for_real("prices", "--format", "xlsx")
    assert Exit.BAD_REQUEST == code
    assert "pip install openpyxl" in told
