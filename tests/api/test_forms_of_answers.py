"""Answers as CSV and workbooks: how they are asked for, what is in them, and that they are the API's figures."""

import csv
import io
import re
import subprocess
import sys
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from service.api.examples import REQUESTS
from service.api.openapi import document
from tests.api.asking import BY_NAME, Doors, message_of, refusal_in
from tests.programs import program
from tonnage.tabular import fleets, prices, quotes
from tonnage.tabular.catalogue import ACCELERATORS, MODELS, NODE_TYPES, PRECISIONS, UNITS, figures_of
from tonnage.tabular.columns import Layout
from tonnage.tabular.forms import csv_of
from tonnage.v1 import catalogue_service_pb2 as catalogue

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
LISTS = ["ListAccelerators", "ListModels", "ListNodeTypes", "ListPrices"]
TABULAR = ["PlanFleet", "CompareAccelerators", "AuditQuote", *LISTS]
SUFFIX = {"B": "bytes", "B/s": "bytes_per_second", "W": "watts", "Hz": "hertz", "1": ""}


def sent(doors: Doors, rpc: str, form: str = "", accept: str = "", **more: Any) -> Any:
    """The response to the example of an RPC, in the form that is asked for."""
    rule = BY_NAME[rpc].http
    query = f"?format={form}" if form else ""
    headers = {"accept": accept} if accept else {}
    if rule.has_body:
        return doors.http.post(rule.template + query, json=REQUESTS[rpc] | more, headers=headers)
    joined = "&".join([query.lstrip("?"), *(f"{name}={value}" for name, value in more.items())]).strip("&")
    return doors.http.get(f"{rule.template}?{joined}", headers=headers)


def rows_of(response: Any) -> list[dict[str, str]]:
    assert 200 == response.status_code, response.text
    assert response.content.startswith(b"\xef\xbb\xbf")
    return list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))


def book_of(response: Any) -> Any:
    assert 200 == response.status_code, response.text
    return openpyxl.load_workbook(io.BytesIO(response.content))


# -- asking ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rpc", TABULAR)
def test_the_url_or_the_header_asks(doors: Doors, rpc: str) -> None:
    for form, media_type, ending in (("csv", "text/csv; charset=utf-8; header=present", "csv"), ("xlsx", XLSX, "xlsx")):
        by_url = sent(doors, rpc, form)
        by_header = sent(doors, rpc, accept=media_type.partition(";")[0])
        assert (200, media_type) == (by_url.status_code, by_url.headers["content-type"])
        assert by_url.content == by_header.content == sent(doors, rpc, form).content
        assert re.fullmatch(rf'attachment; filename="tonnage-[a-z-]+\.{ending}"', by_url.headers["content-disposition"])
        assert "accept" == by_url.headers["vary"] == sent(doors, rpc).headers["vary"]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("*/*", "application/json"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json"),
        ("text/csv, */*", "text/csv"),
        ("text/csv;q=0.4, application/json;q=0.5", "application/json"),
        ("application/json;q=0.4, text/csv;q=0.5", "text/csv"),
        ("text/csv, application/json", "text/csv"),
        ("text/*", "text/csv"),
        ("application/json;q=0, */*", "text/csv"),
        (f"text/csv;q=0.2, {XLSX}", XLSX),
        ("TEXT/CSV; q=1.0", "text/csv"),
        (", ,", "application/json"),
    ],
)
def test_qualities(doors: Doors, accept: str, content_type: str) -> None:
    assert content_type == sent(doors, "ListPrices", accept=accept).headers["content-type"].partition(";")[0]


@pytest.mark.parametrize("accept", ["text/html", "application/pdf, image/*", "*/*;q=0", "text/csv;q=nonsense"])
@pytest.mark.parametrize("rpc", ["ListPrices", "PlanFleet", "RunSweep"])
def test_what_there_is_not_is_406_with_what_there_is(doors: Doors, rpc: str, accept: str) -> None:
    refusal = refusal_in(sent(doors, rpc, accept=accept))
    assert (406, "NOT_ACCEPTABLE") == (refusal.http_status, refusal.reason)
    assert {"text/csv", XLSX} <= set(refusal.metadata["supported"].split(", "))


@pytest.mark.parametrize("accept", ["text/csv", "text/html", "application/json;q=0"])
@pytest.mark.parametrize("rpc", ["EstimateDecode", "ComputeUtilization", "GetAccelerator"])
def test_what_is_json_alone_is_not_sent_to_whoever_takes_none(doors: Doors, rpc: str, accept: str) -> None:
    url, asked = BY_NAME[rpc].http.template.replace("{name}", "h100-sxm"), REQUESTS.get(rpc)
    method = "POST" if BY_NAME[rpc].http.has_body else "GET"
    refusal = refusal_in(doors.http.request(method, url, json=asked, headers={"accept": accept}))
    assert (406, "NOT_ACCEPTABLE", "application/json") == (refusal.http_status, refusal.reason, refusal.metadata["supported"])
    assert "application/json" in refusal.message
    for taken in ("", "*/*", "application/*", "text/html, */*;q=0.1", "Application/JSON"):
        assert 200 == doors.http.request(method, url, json=asked, headers={"accept": taken}).status_code


def test_the_url_wins(doors: Doors) -> None:
    assert "application/json" == sent(doors, "ListPrices", "json", accept="text/csv").headers["content-type"]
    assert 200 == sent(doors, "ListPrices", "csv", accept="text/html").status_code


@pytest.mark.parametrize("form", ["pdf", "svg", "csv&format=xlsx"])
def test_an_unknown_name_in_the_url_is_malformed(doors: Doors, form: str) -> None:
    assert ["format"] == list(refusal_in(sent(doors, "ListPrices", form)).violations)


def test_refusals_are_json_whatever_is_asked_for(doors: Doors) -> None:
    assert 404 == refusal_in(sent(doors, "PlanFleet", "xlsx", model={"name": "no-such"})).http_status
    assert 404 == refusal_in(sent(doors, "ListPrices", "csv", node_type="no-such")).http_status


def test_the_document_lists_the_media_types() -> None:
    for rpc in (*TABULAR, "RunSweep"):
        rule = BY_NAME[rpc].http
        operation = document()["paths"][rule.template][rule.method.lower()]
        assert {"text/csv", XLSX} < set(operation["responses"]["200"]["content"])
        assert "406" in operation["responses"]
        assert {"csv", "xlsx", "json"} <= set(operation["parameters"][-1]["schema"]["enum"])


@pytest.mark.parametrize("rpc", LISTS)
def test_lists_hold_all_pages_unless_a_page_is_asked_for(doors: Doors, rpc: str) -> None:
    listed: list[dict[str, Any]] = []
    token = ""
    while token or not listed:
        page = sent(doors, rpc, page_size=50, page_token=token).json()
        listed += next(value for value in page.values() if isinstance(value, list))
        token = page["next_page_token"]
    rows = rows_of(sent(doors, rpc, "csv"))
    assert len(listed) == len(rows)
    assert len(listed) == book_of(sent(doors, rpc, "xlsx"))["Results"].max_row - 1
    assert 2 == len(rows_of(sent(doors, rpc, "csv", page_size=2)))
    if rpc != "ListPrices":
        assert [each["name"] for each in listed] == [row["x_name"] for row in rows]


# -- columns -----------------------------------------------------------------------------------------------------------


LAYOUTS: dict[str, tuple[Layout, set[str]]] = {
    "PlanFleet": (fleets.PLANS, {"pools", "cost.price.node_type", "cost.price.accelerator", "cost.price.num_devices"}),
    "CompareAccelerators": (fleets.COMPARED, {"peaks", "explanation"}),
    "AuditQuote": (quotes.LINES, {"claims", "list_price.node_type", "list_price.accelerator"}),
    "ListAccelerators": (ACCELERATORS, {"peaks"}),
    "ListNodeTypes": (NODE_TYPES, set()),
    "ListModels": (MODELS, set()),
    "ListPrices": (prices.PRICES, {"is_own"}),
}


@pytest.mark.parametrize("rpc", sorted(LAYOUTS))
def test_every_field_is_a_column_or_left_out_on_purpose(rpc: str) -> None:
    layout, left_out = LAYOUTS[rpc]
    assert left_out == layout.left_out
    assert layout.columns()  # TypeError for a field that is neither


FOCUS = {
    *("BillingCurrency", "ListUnitPrice", "ContractedUnitPrice", "PricingUnit", "PricingCategory", "ServiceCategory"),
    *("ProviderName", "RegionId"),
}


@pytest.mark.parametrize("rpc", TABULAR)
def test_headings_are_focus_s_or_our_own_and_the_first_are_pinned(doors: Doors, rpc: str) -> None:
    names = list(rows_of(sent(doors, rpc, "csv"))[0])
    assert len(set(names)) == len(names)
    assert "x_catalogue_revision" == names[-1]
    assert {name for name in names if not name.startswith("x_")} <= FOCUS
    assert names[: len(FIRST[rpc])] == FIRST[rpc]


FIRST = {
    "PlanFleet": [
        *("x_outcome", "x_rank", "x_node_type", "x_accelerator", "x_engine", "x_pools", "x_num_replicas", "x_num_nodes"),
        *("x_num_devices", "x_cost_per_hour", "x_cost_per_year", "x_input_cost_per_million_tokens"),
        *("x_output_cost_per_million_tokens", "BillingCurrency", "ListUnitPrice", "ContractedUnitPrice", "PricingUnit"),
        *("PricingCategory", "ServiceCategory", "ProviderName", "RegionId", "x_price_date", "x_price_source"),
        *("x_price_source_url", "x_ttft_seconds", "x_tpot_seconds", "x_end_to_end_seconds"),
    ],
    "CompareAccelerators": [
        *("x_accelerator", "x_counted_unit", "BillingCurrency", "ListUnitPrice", "ContractedUnitPrice", "PricingUnit"),
        *("PricingCategory", "ServiceCategory", "ProviderName", "RegionId", "x_price_date", "x_price_source"),
    ],
    "AuditQuote": [
        *("x_line", "x_product", "x_verdict", "x_findings", "x_accelerator", "x_node_type", "x_candidates", "x_quantity"),
        *("x_num_devices_per_unit", "x_num_devices", "x_unit_price", "BillingCurrency", "x_price_unit", "x_term"),
        *("x_discount_ratio", "x_stated_total", "x_computed_total", "x_price_per_device", "x_price_per_device_hour"),
        *("x_list_price_per_device_hour", "x_list_price_ratio", "x_list_price_date", "ProviderName", "RegionId"),
    ],
    "ListAccelerators": ["x_name", "x_title", "x_vendor", "x_counted_unit", "x_status"],
    "ListNodeTypes": ["x_name", "x_title", "ProviderName", "x_accelerator", "x_num_devices"],
    "ListModels": ["x_name", "x_title", "x_publisher"],
    "ListPrices": [
        *("x_node_type", "x_accelerator", "ListUnitPrice", "BillingCurrency", "PricingUnit", "x_basis", "x_term"),
        *("PricingCategory", "ProviderName", "RegionId", "x_date", "x_num_devices", "ServiceCategory"),
    ],
}


def test_headings_of_figures_end_in_their_units(doors: Doors) -> None:
    for rpc, kind in (
        ("ListAccelerators", catalogue.ListAcceleratorsResponse),
        ("ListNodeTypes", catalogue.ListNodeTypesResponse),
        ("ListModels", catalogue.ListModelsResponse),
    ):
        answer = kind.FromString(doors.call_bytes(rpc, BY_NAME[rpc].request(page_size=500).SerializeToString()))
        entries = [entry for field, value in answer.ListFields() if field.is_repeated for entry in value]
        found = [figure for entry in entries for figure in figures_of(entry)]
        assert found
        for _, path, figure in found:
            if path.startswith("peaks."):
                assert "FLOP/s" == figure.unit
                assert path.split(".")[1] in PRECISIONS
            elif not path.startswith("links."):
                assert UNITS[path] == SUFFIX[figure.unit], path


# -- content -----------------------------------------------------------------------------------------------------------


def test_plans_are_the_answer_s(doors: Doors) -> None:
    answer = doors.post("PlanFleet", REQUESTS["PlanFleet"]).json()
    rows = rows_of(sent(doors, "PlanFleet", "csv"))
    planned = [row for row in rows if row["x_outcome"] == "PLAN"]
    assert len(answer["plans"]) == len(planned)
    for plan, row in zip(answer["plans"], planned, strict=True):
        assert plan["cost"]["cost_per_hour"] == float(row["x_cost_per_hour"])
        assert plan["num_nodes"] == int(row["x_num_nodes"])
        assert plan["cost"]["price"]["date"] == row["x_price_date"]
        assert plan["cost"]["cost_per_unit_hour"] == float(row["ListUnitPrice"])
        assert ("Hours", "Standard", "Compute", "") == (
            *(row[name] for name in ("PricingUnit", "PricingCategory", "ServiceCategory", "ContractedUnitPrice")),
        )
        assert max(pool["ttft_seconds"] for pool in plan["pools"]) == float(row["x_ttft_seconds"])
    rejected = [row for row in rows if row["x_outcome"] == "REJECTED"]
    assert [each["text"] for each in answer["excuses"]] == [row["x_text"] for row in rejected]
    assert ["LEAST_REGRET"] == [row["x_outcome"] for row in rows if row["x_outcome"] not in {"PLAN", "REJECTED"}]


def test_a_price_of_ones_own_is_no_list_price(doors: Doors) -> None:
    own = {"prices": [{"node_type": "aws-p5.48xlarge", "amount_per_hour": 30, "currency": "USD", "date": "2026-11-01"}]}
    rows = rows_of(sent(doors, "PlanFleet", "csv", price_list=own))
    row = next(row for row in rows if row["x_node_type"] == "aws-p5.48xlarge")
    assert ("", "30.0", "2026-11-01") == (row["ListUnitPrice"], row["ContractedUnitPrice"], row["x_price_date"])


def test_what_looks_like_a_formula_is_text_in_both_forms(doors: Doors) -> None:
    offer = 'Product,Qty,Price ($/h)\n"=HYPERLINK(""http://x"")",1,2\n@SUM(A1),1,2\n+1+1 H100 SXM,1,2\n'
    response = sent(doors, "AuditQuote", "csv", document=offer)
    assert ['\'=HYPERLINK("http://x")', "'@SUM(A1)", "'+1+1 H100 SXM"] == [row["x_product"] for row in rows_of(response)]
    sheet = book_of(sent(doors, "AuditQuote", "xlsx", document=offer))["Results"]
    cells = [row[1] for row in sheet.iter_rows(min_row=2)]
    assert ['=HYPERLINK("http://x")', "@SUM(A1)", "+1+1 H100 SXM"] == [cell.value for cell in cells]
    assert {"s"} == {cell.data_type for cell in cells}
    assert all(cell.quotePrefix for cell in cells)


@pytest.mark.parametrize("rpc", [*TABULAR, "RunSweep"])
def test_a_workbook_holds_what_it_rests_on(doors: Doors, rpc: str) -> None:
    book = book_of(sent(doors, rpc, "xlsx"))
    assert {"Inputs", "Results", "Assumptions"} <= set(book.sheetnames)
    assert rpc == "RunSweep" or "Sources" in book.sheetnames
    inputs = dict(book["Inputs"].iter_rows(min_row=2, values_only=True))
    assert rpc == inputs["question"]
    assert {"catalogue_revision", "tonnage_version"} <= inputs.keys()
    for sheet in book:
        assert "A2" == sheet.freeze_panes
        heads = [cell.value for cell in sheet[1]]
        assert all(heads)
        assert all(cell.font.b for cell in sheet[1])
        assert all(sheet.column_dimensions[letter].width >= 8 for letter in "AB")
        assert not [cell for row in sheet.iter_rows() for cell in row if cell.data_type in {"f", "e"}]
    text = " ".join(str(cell) for row in book["Assumptions"].values for cell in row)
    assert "conformance to FOCUS is not claimed" in text


def test_the_inputs_are_the_request(doors: Doors) -> None:
    inputs = dict(book_of(sent(doors, "PlanFleet", "xlsx"))["Inputs"].iter_rows(min_row=2, values_only=True))
    assert 2000 == inputs["request.workloads[0].input_tokens"]
    assert "aws-p5.48xlarge, aws-p4d.24xlarge" == inputs["request.node_types"]
    assert "P90" == inputs["request.service_level.percentile"]


def test_prices_come_with_day_and_address(doors: Doors) -> None:
    sheet = book_of(sent(doors, "PlanFleet", "xlsx"))["Sources"]
    rows = [
        dict(zip([cell.value for cell in sheet[1]], row, strict=True)) for row in sheet.iter_rows(min_row=2, values_only=True)
    ]
    assert {(datetime(2026, 7, 20), "AWS")} == {(row["x_date"], row["x_publisher"]) for row in rows}
    assert all(row["x_url"].startswith("https://") for row in rows)


def test_numbers_are_numbers_with_formats_and_days_are_days(doors: Doors) -> None:
    sheet = book_of(sent(doors, "PlanFleet", "xlsx"))["Results"]
    cells = dict(zip([cell.value for cell in sheet[1]], sheet[2], strict=True))
    assert ("n", "#,##0.00##") == (cells["x_cost_per_hour"].data_type, cells["x_cost_per_hour"].number_format)
    assert "0.0%" == cells["x_utilization_ratio"].number_format
    assert cells["x_price_date"].is_date
    assert "b" == cells["x_is_disaggregated"].data_type


def test_a_workbook_says_nothing_of_when_it_was_made(doors: Doors) -> None:
    with zipfile.ZipFile(io.BytesIO(sent(doors, "ListPrices", "xlsx").content)) as archive:
        assert {(2000, 1, 1, 0, 0, 0)} == {each.date_time for each in archive.infolist()}
        assert b"2000-01-01T00:00:00" in archive.read("docProps/core.xml")


def test_openpyxl_is_loaded_by_the_first_workbook_only() -> None:
    script = "import sys, service.main; print('openpyxl' in sys.modules)"
    assert "False" == subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("rpc", ["PlanFleet", "CompareAccelerators"])
def test_an_explained_answer_has_its_formulas_and_figures_on_sheets(doors: Doors, rpc: str) -> None:
    plain, explained = (book_of(sent(doors, rpc, "xlsx", explain=asked)) for asked in (False, True))
    assert {"Formulas", "Figures"} == set(explained.sheetnames) - set(plain.sheetnames)
    heads, *rows = explained["Formulas"].iter_rows(values_only=True)
    assert ("x_subject", "x_quantity", "x_formula", "x_inputs", "x_value_in_base_units", "x_meaning", "x_source") == heads
    assert "cost_per_year" in {row[1] for row in rows} or "prefill_bound_seconds" in {row[1] for row in rows}
    assert all(row[6] for row in rows)


# -- in an office program ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def converted(doors: Doors, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every sheet of the workbooks as CSV, by LibreOffice in one start."""
    folder = tmp_path_factory.mktemp("office")
    books = []
    for rpc in ("PlanFleet", "ListPrices", "AuditQuote"):
        books.append(folder / f"{rpc}.xlsx")
        books[-1].write_bytes(sent(doors, rpc, "xlsx").content)
    as_stored = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false,false,false,-1"
    command = [program("soffice"), f"-env:UserInstallation=file://{folder}/profile", "--headless", "--norestore"]
    command += ["--convert-to", as_stored, "--outdir", str(folder), *map(str, books)]
    subprocess.run(command, check=True, capture_output=True, timeout=180)
    return folder


def sheet_rows(folder: Path, rpc: str, sheet: str) -> list[dict[str, str]]:
    with (folder / f"{rpc}-{sheet}.csv").open(encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("rpc", ["PlanFleet", "ListPrices", "AuditQuote"])
def test_libreoffice_opens_every_sheet(doors: Doors, converted: Path, rpc: str) -> None:
    book = book_of(sent(doors, rpc, "xlsx"))
    assert {f"{rpc}-{name}.csv" for name in book.sheetnames} == {path.name for path in converted.glob(f"{rpc}-*.csv")}
    for sheet in book:
        assert sheet.max_row - 1 == len(sheet_rows(converted, rpc, sheet.title))


def test_libreoffice_reads_the_api_s_figures(doors: Doors, converted: Path) -> None:
    plans = doors.post("PlanFleet", REQUESTS["PlanFleet"]).json()["plans"]
    rows = sheet_rows(converted, "PlanFleet", "Results")[: len(plans)]
    for plan, row in zip(plans, rows, strict=True):
        for name in ("cost_per_hour", "output_cost_per_million_tokens"):
            assert plan["cost"][name] == pytest.approx(float(row[f"x_{name}"]), rel=1e-12)
        assert 100 * plan["utilization_ratio"] == pytest.approx(float(row["x_utilization_ratio"].rstrip("%")), rel=1e-12)
        assert plan["cost"]["price"]["date"] == row["x_price_date"]
        assert (plan["node_type"], str(plan["num_devices"])) == (row["x_node_type"], row["x_num_devices"])
    listed = doors.http.get("/v1/prices?page_size=500").json()["prices"]
    rows = sheet_rows(converted, "ListPrices", "Results")
    assert [each["amount_per_hour"] for each in listed] == [float(row["ListUnitPrice"]) for row in rows]
    assert [each["date"] for each in listed] == [row["x_date"] for row in rows]


def test_the_message_alone_makes_the_csv(doors: Doors) -> None:
    answer = doors.call("PlanFleet", message_of("PlanFleet", REQUESTS["PlanFleet"]))
    assert csv_of(answer).encode() == sent(doors, "PlanFleet", "csv").content
