"""What resellers write: totals of an hour, taxes, memories in names, headings that say the basis."""

import pytest

from service.planning.planner import Planner
from service.planning.quotes.requests import PriceUnit
from service.planning.quotes.results import LineVerdict, Severity
from tests.planning.offers import audited, only, told


@pytest.mark.parametrize(
    "heading",
    [
        *("Total per hour (USD)", "Total (USD/h)", "Total USD/h", "Line total (USD/h)", "Line total per hour (USD)"),
        *("Total price per hour", "Hourly total", "Gesamt pro Stunde"),
    ],
)
def test_a_total_of_an_hour_is_a_total(planner: Planner, heading: str) -> None:
    header = f"Product,Qty,Price per server per hour (USD),{heading}"
    answer = audited(planner, f"{header}\nHGX H100 8-GPU server,4,31.92,999.99\nGrand total,,,555.55\n")
    (line,) = answer.lines
    assert 127.68 == pytest.approx(line.computed_total or 0)
    assert LineVerdict.WRONG_FIGURES is line.verdict
    (total,) = answer.totals
    assert 555.55 == total.stated_total
    assert 127.68 == pytest.approx(total.computed_total or 0)


def test_a_total_of_an_hour_of_a_monthly_price_is_held_against_an_hour(planner: Planner) -> None:
    line = only(planner, "Product,Qty,Price per month (USD),Total per hour (USD)", "H200 SXM,8,2920,32.00")
    assert 32.0 == pytest.approx(line.computed_total or 0)  # 8 × 2,920 / 730
    assert LineVerdict.WRONG_FIGURES is not line.verdict


@pytest.mark.parametrize(
    ("tax", "due"),
    [("VAT 19%,,,19048.70", 17048.70), ("VAT 19%,,,17048.70", None), ("VAT,,,19048.70", None), ("Discount 5%,,,-100", None)],
)
def test_a_tax_is_held_against_its_rate(planner: Planner, tax: str, due: float | None) -> None:
    # 3 × 29,910 = 89,730, of which 19 % are 17,048.70.
    document = f"Product,Qty,Unit price (USD),Total\nHGX H100 8-GPU,3,29910.00,89730.00\n{tax}\nGrand total,,,106778.70\n"
    wrong = [each for each in audited(planner, document, price_unit=PriceUnit.ONCE).totals if not each.agrees]
    assert ([] if due is None else [due]) == [
        pytest.approx(each.computed_total) for each in wrong if not each.label.startswith("Grand")
    ]


def test_a_column_says_that_the_price_is_of_a_device(planner: Planner) -> None:
    header = "Description,Qty,Per,Price USD/h"
    of_device, of_server = (only(planner, header, f"HGX H200 8-GPU server,2,{each},3.20") for each in ("GPU", "server"))
    assert (3.20, 0.40) == (of_device.price_per_device_hour, of_server.price_per_device_hour)


@pytest.mark.parametrize(
    "name",
    [
        *("HGX H100 8-GPU server (H100 SXM5 80GB)", "HGX H100 8-GPU 80GB", "4x H100 SXM5 80GB", "HGX H100 8x80GB"),
        *("HGX H100 8-GPU server 8x 80GB HBM3", "8x H200 SXM 141GB"),
    ],
)
def test_the_memory_in_a_name_is_that_of_a_device(planner: Planner, name: str) -> None:
    line = only(planner, "Product,Qty,Price (USD/h)", f"{name},1,30")
    assert "GB" not in told(line, Severity.CHECK)
    assert "GB" not in told(line, Severity.WRONG)


def test_another_memory_in_a_name_is_asked_about(planner: Planner) -> None:
    line = only(planner, "Product,Qty,Price (USD/h)", "HGX H100 8-GPU 96GB,1,30")
    assert LineVerdict.HOLDS is not line.verdict


def test_devices_are_counted_before_their_maker(planner: Planner) -> None:
    line = only(planner, "Product,Qty,Price (USD/h)", "Server with 8 NVIDIA H100 SXM5 80GB GPUs,1,31.92")
    assert 8 == line.num_devices_per_unit
    assert 3.99 == pytest.approx(line.price_per_device_hour or 0)


def test_a_sparse_peak_under_a_heading_that_says_dense_is_wrong(planner: Planner) -> None:
    header = "Product,Qty,Price (USD/h),FP8 TFLOPS{}"
    said, silent = (only(planner, header.format(each), "H200 SXM,8,3.80,3958") for each in (" (dense)", ""))
    assert (LineVerdict.WRONG_FIGURES, LineVerdict.TO_CHECK) == (said.verdict, silent.verdict)


def test_what_has_no_list_price_is_counted(planner: Planner) -> None:
    answer = audited(planner, "Product,Qty,Price (USD/h)\nDGX H100,1,4000\nH200 SXM,8,3.80\n")
    assert "no list price is known for 1 line" in answer.summary


@pytest.mark.parametrize(
    "heading", ["Monthly total", "Total per month", "Total/month", "Summe pro Monat", "Monatssumme", "Gesamtpreis pro Monat"]
)
def test_a_total_over_a_month_of_an_hourly_price_is_held_against_that_month(planner: Planner, heading: str) -> None:
    header = f"Item;Quantity;Price per GPU hour;{heading}"
    right, wrong, long = (
        only(planner, header, f"NVIDIA H200 SXM;{cells}") for cells in ("32;$3.80;88,768", "32;$3.80;88,900", "8;$5.50;32,736")
    )
    assert [88_768.0, 88_768.0, 32_736.0] == [each.computed_total for each in (right, wrong, long)]  # 730, 730 and 744 hours
    assert "The total is right, for a month of 730 hours." in told(right, Severity.NOTE)
    assert "88,768.00 for a month of 730 hours; 88,900.00 stands there, +132.00" in told(wrong, Severity.WRONG)
    assert "for 31 days" in told(long, Severity.NOTE)


def test_a_sum_in_another_currency_cannot_be_checked(planner: Planner) -> None:
    document = "Product,Qty,Price per hour,Total\nH200 SXM,1,$100,$100\nH200 SXM,1,$100,$100\nTotal,,,€200\n"
    (total,) = audited(planner, document).totals
    assert (None, False) == (total.computed_total, total.agrees)


@pytest.mark.parametrize("name", ["8xMI300X", "8xH100", "8x MI300X"])
def test_a_count_may_touch_the_name(planner: Planner, name: str) -> None:
    assert 8 == only(planner, "Product,Qty,Price (USD/h)", f"{name},1,30").num_devices_per_unit
