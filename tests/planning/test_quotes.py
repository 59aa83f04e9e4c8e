"""Vendors' offers: read as they come, each line audited, normalised and added up; what is hostile or broken is said."""

import time

import pytest

from service.planning.errors import InvalidRequest, TooLarge
from service.planning.money import ExchangeRate, Price, PriceList, PriceTerm
from service.planning.planner import Planner
from service.planning.quotes.document import MAX_LINES
from service.planning.quotes.headings import headings_of
from service.planning.quotes.requests import PriceUnit
from service.planning.quotes.results import LineVerdict, Meaning, Severity
from tests.planning.offers import audited, only, told

EUROS = PriceList(exchange_rates=(ExchangeRate("USD", "EUR", 0.9, "2026-07-01"),))
GERMAN = """ACME GmbH;;;;;
Angebot 4711;;;;;

Pos;Artikel;Menge;Einzelpreis;Gesamt;Speicher;Bandbreite (TB/s);FP8 TFLOPS;Rabatt %
1;HGX H100 8-GPU;4;"250.000,00 €";"950.000,00 €";640 GB;3,35;1.979;5
2;H100 NVL 94GB;8;"25.000,00 €";"200.000,00 €";94 GB;3,9;1.671;
3;Quantum-2 Switch;2;"20.000,00 €";"41.000,00 €";;;;
;Zwischensumme;;;"1.191.000,00 €";;;;
;MwSt 19 %;;;"226.290,00 €";;;;
;Gesamtsumme;;;"1.417.290,00 €";;;;
"""


def test_a_german_offer_with_letterhead_points_for_thousands_discount_and_sums(planner: Planner) -> None:
    answer = audited(planner, GERMAN, price_unit=PriceUnit.ONCE, price_list=EUROS)

    reading = answer.reading
    assert (";", ",", 4) == (reading.delimiter, reading.decimal_mark, reading.header_line)
    assert [each.meaning for each in reading.columns] == [
        *(Meaning.NOT_READ, Meaning.PRODUCT, Meaning.QUANTITY, Meaning.UNIT_PRICE, Meaning.TOTAL_PRICE, Meaning.MEMORY),
        *(Meaning.MEMORY_BANDWIDTH, Meaning.PEAK, Meaning.DISCOUNT),
    ]
    board, card, switch = answer.lines
    assert ("h100-sxm", 8, 32.0, 5) == (board.accelerator, board.num_devices_per_unit, board.num_devices, board.line)
    assert (LineVerdict.HOLDS, LineVerdict.HOLDS, LineVerdict.WRONG_FIGURES) == tuple(each.verdict for each in answer.lines)
    assert 950_000 == board.computed_total == board.stated_total
    # 250,000 less 5 %, over 8 devices; then over five years of 8,760 hours, and over 0.9894 dense PFLOPS, 3,352 GB/s and 80 GB.
    assert 29_687.5 == board.price_per_device
    assert 29_687.5 / 43_800 == pytest.approx(board.price_per_device_hour or 0)
    assert 29_687.5 / 0.9894 == pytest.approx(board.price_per_dense_petaflops or 0)
    assert 29_687.5 / 3352 == pytest.approx(board.price_per_gigabyte_per_second or 0)
    assert 29_687.5 / 80 == pytest.approx(board.price_per_gigabyte or 0)
    assert board.list_price_ratio is None  # a purchase holds no power and no hosting
    assert "H100" in card.product
    assert "40,000.00" in told(switch, Severity.WRONG)
    # They add up as printed, and are wrong all the same: 40,000 for the switches make 1,190,000, with 19 % 1,416,100.
    assert [(each.stated_total, each.computed_total) for each in answer.totals] == [
        (1_191_000, 1_190_000),
        (1_417_290, pytest.approx(1_416_100)),
    ]
    assert not any(each.agrees for each in answer.totals)


def test_a_total_of_one_unit_is_a_price(planner: Planner) -> None:
    columns = audited(planner, "Item,Qty,Total per GPU\nH200 SXM,8,3.80\n").reading.columns
    assert Meaning.TOTAL_PRICE not in [each.meaning for each in columns]


def test_a_sparse_peak_is_named_and_not_called_wrong(planner: Planner) -> None:
    line = only(planner, "Product,Price per hour (USD),FP8 TFLOPS", "H100 SXM,2.5,3958")
    assert line.verdict is LineVerdict.TO_CHECK
    assert "2:4" in told(line, Severity.CHECK)
    assert "dense is 1,979 TFLOPS" in told(line, Severity.CHECK)


@pytest.mark.parametrize(
    ("header", "cells", "part"),
    [
        ("SKU,GPU Memory,Price ($/h)", "H100 SXM,80 GiB,2", "the unit is not"),
        ("SKU,Memory (GB),Price ($/h)", "H100 SXM,640,2", "8 GPUs"),
        ("SKU,Bandwidth (TB/s),Price ($/h)", "H100 NVL,3.35,2", "NVIDIA H100 SXM5"),
        ("SKU,BF16 TFLOPS,Price ($/h)", "H100 PCIe,989.4,2", "NVIDIA H100 SXM5"),
        ("SKU,BF16 TFLOPS,Price ($/h)", "H100 SXM,1000,2", "preliminary"),
    ],
)
def test_figures_of_something_else_are_to_be_asked_about(planner: Planner, header: str, cells: str, part: str) -> None:
    line = only(planner, header, cells)
    assert LineVerdict.TO_CHECK is line.verdict
    assert part in told(line, Severity.CHECK)


@pytest.mark.parametrize("cells", ["MI300X,192 GB,6", "8x MI300X,1536 GB,48", "H100 SXM,80 GB,3"])
def test_the_number_of_a_product_s_memory_in_gb_is_nothing_to_ask_about(planner: Planner, cells: str) -> None:
    line = only(planner, "SKU,Memory,Price ($/h)", cells)
    assert LineVerdict.HOLDS is line.verdict
    assert ("192 GiB is the name of the product" in told(line, Severity.NOTE)) == ("MI300X" in cells)


def test_a_figure_of_another_product_is_told_with_its_name(planner: Planner) -> None:
    line = only(planner, "Product,FP4 PFLOPS,Price ($/h)", "B200,20,5.5")
    assert LineVerdict.WRONG_FIGURES is line.verdict
    assert "20 PFLOPS is the FP4 peak with 2:4 sparsity of the NVIDIA GB200 (NVL72)" in told(line, Severity.WRONG)


def test_a_figure_that_the_catalogue_contradicts_is_wrong(planner: Planner) -> None:
    line = only(planner, "Product,Memory,Price per hour (USD)", "H200,180 GB,3")
    assert line.verdict is LineVerdict.WRONG_FIGURES
    assert "141 GB" in told(line, Severity.WRONG)


def test_figures_in_the_words_of_a_product_are_audited(planner: Planner) -> None:
    line = only(planner, "Product;Price (USD/h)", '"H100 SXM5 80GB, 2.0 TB/s HBM3";2,5')
    assert line.verdict is LineVerdict.TO_CHECK
    assert any("2" in each.reading.printed for each in line.claims)


def test_a_name_of_several_products_is_settled_by_its_figures_or_left_open(planner: Planner) -> None:
    settled = only(planner, "SKU,Memory,Price ($/h)", "H100,94 GB,2")
    assert "h100-nvl" == settled.accelerator
    left_open = only(planner, "SKU,Price ($/h)", "H100,2")
    assert "" == left_open.accelerator
    assert {"h100-nvl", "h100-pcie", "h100-sxm"} <= set(left_open.candidates)
    assert "ask which" in told(left_open, Severity.CHECK)


def test_rent_is_held_against_a_dated_list_price_in_the_same_currency(planner: Planner) -> None:
    line = only(planner, "Instance,Price (EUR/h)", "p5.48xlarge,60", price_list=EUROS)
    assert ("aws-p5.48xlarge", "h100-sxm", 8) == (line.node_type, line.accelerator, line.num_devices_per_unit)
    assert line.list_price is not None
    assert (55.04, "USD", "2026-07-20") == (line.list_price.amount_per_hour, line.list_price.currency, line.list_price.date)
    assert 55.04 * 0.9 / 8 == pytest.approx(line.list_price_per_device_hour or 0)
    assert 60 / (55.04 * 0.9) == pytest.approx(line.list_price_ratio or 0)
    assert "21% more than the list price of 2026-07-20 (AWS)" in told(line, Severity.CHECK)


def test_without_an_exchange_rate_nothing_is_compared(planner: Planner) -> None:
    line = only(planner, "Instance,Price (EUR/h)", "p5.48xlarge,60")
    assert line.list_price is None
    assert "exchange rate" in told(line, Severity.NOTE)


def test_list_prices_of_ones_own_come_first(planner: Planner) -> None:
    own = PriceList(prices=(Price(3.0, "USD", accelerator="h100-nvl", date="2026-11-01"),))
    line = only(planner, "SKU,Price ($/h)", "H100 NVL,3", price_list=own)
    assert line.list_price is not None
    assert line.list_price.is_own
    assert 1 == line.list_price_ratio


@pytest.mark.parametrize(
    ("header", "cells", "per_device_hour"),
    [
        ("Product,Price per GPU-hour ($)", "HGX H100,2.5", 2.5),
        ("Product,Price ($ per node-hour)", "HGX H100,20", 2.5),
        ("Product,Monthly price (USD)", "HGX H100,14600", 2.5),
        ("Product,Unit price (USD),Billing unit", "HGX H100,175200,per year", 2.5),
        ("Product,GPUs per node,Price (USD/h)", "H100 SXM,4,10", 2.5),
        ("Product,Price (USD/h)", "8x H100 SXM,20", 2.5),
        ("Product,Price (USD/h)", "8x AMD MI300X,20", 2.5),
        ("Product,Price (USD/h)", "4 x H200 SXM,10", 2.5),
        ("Product,Price (USD/h)", "4x DGX H100,20", 2.5),
    ],
)
def test_prices_come_down_to_a_device_hour(planner: Planner, header: str, cells: str, per_device_hour: float) -> None:
    assert per_device_hour == pytest.approx(only(planner, header, cells).price_per_device_hour or 0)


def test_what_is_not_said_is_asked_for_and_not_guessed(planner: Planner) -> None:
    line = only(planner, "Product,Unit price", "H100 SXM,30000")
    assert (None, "", None) == (line.price_unit, line.currency, line.price_per_device_hour)
    assert "currency is not said" in told(line, Severity.CHECK)
    assert "price_unit" in told(line, Severity.CHECK)


@pytest.mark.parametrize(
    ("cells", "severity", "part"),
    [
        ("4,2.00,8.00", None, ""),
        ("4,2.00,8.01", None, ""),  # a unit price to the cent may hide half a cent in each
        ("4,2.00,8.50", Severity.WRONG, "8.00; 8.50 stands there, +0.50"),
        ("4,2.00,5840", Severity.NOTE, "a month of 730 hours"),
        ("4,2.00,70080", Severity.NOTE, "a year of 8,760 hours"),
    ],
)
def test_sums_are_checked_within_their_rounding(planner: Planner, cells: str, severity: Severity | None, part: str) -> None:
    line = only(planner, "Product,Qty,Price ($/h),Total", f"H100 SXM,{cells}")
    found = [each for each in line.findings if each.field == "Total"]
    assert (severity is None) == (found == [])
    if severity is not None:
        assert severity is found[0].severity
        assert part in found[0].text


def test_bad_rows_are_told_by_line_and_the_others_answered(planner: Planner) -> None:
    document = (
        "Product,Qty,Price ($/h)\nH100 SXM,two,2\nH100 SXM,1,=2*3\nH100 SXM,0,2\nH100 SXM,1,2,9,9\n,1,2\nH100 SXM,1,-5\n"
        "H100 SXM,8,2.5\n"
    )
    answer = audited(planner, document)
    assert [8] == [each.line for each in answer.lines]
    reasons = {each.line: each.reason for each in answer.unread_lines}
    for line, part in {2: "no number", 3: "formula", 4: "above zero", 5: "headings", 6: "no product", 7: "credit"}.items():
        assert part in reasons.pop(line)
    assert {} == reasons


def test_a_quote_that_is_never_closed_costs_its_line_alone(planner: Planner) -> None:
    answer = audited(planner, 'Product,Qty,Price ($/h)\n"H100 SXM,1,2\nH100 SXM,8,2.5\n')
    assert 3 == answer.lines[-1].line
    assert 2.5 == answer.lines[-1].unit_price


def test_what_a_spreadsheet_would_run_is_text_and_said(planner: Planner) -> None:
    line = only(planner, "Product,Qty,Price ($/h)", '"=HYPERLINK(""http://x"")",1,2')
    assert LineVerdict.NOT_JUDGED is line.verdict
    assert "formula" in told(line, Severity.CHECK)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", ["\ufeff", "", "sep"])
def test_delimiters_and_marks(planner: Planner, delimiter: str, mark: str) -> None:
    head = f"sep={delimiter}\r\n" if mark == "sep" else mark
    rows = [["Product", "Qty", "Price ($/h)"], ["H100 SXM", "8", "2.5"]]
    document = head + "\r\n".join(delimiter.join(row) for row in rows)
    answer = audited(planner, document)
    assert 2.5 == answer.lines[0].unit_price
    assert {"\t": "tab"}.get(delimiter, delimiter) == answer.reading.delimiter


@pytest.mark.parametrize(
    ("document", "part"),
    [
        ("hello\nworld\n", "no line of headings"),
        (" \n", "no line of headings"),
        ("P\0r\0o\0d\0", "NUL"),
        ("Prod\ufffd,Qty\nx,1", "wrong encoding"),
        ("Product,Gr\u0081\u0090sse\nH100,1", "control characters"),
    ],
)
def test_what_is_no_offer_is_refused_with_what_to_do(planner: Planner, document: str, part: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        audited(planner, document)
    assert part in refused.value.violations[0].reason
    assert refused.value.violations[0].remedy


@pytest.mark.parametrize("options", [{"precision": "half a float"}, {"currency": "euro"}])
def test_options_that_mean_nothing_are_refused(planner: Planner, options: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        audited(planner, "Product,Price\nH100 SXM,2\n", **options)
    assert [*options] == [each.field for each in refused.value.violations]


def test_large_offers_are_bounded_and_quick(planner: Planner) -> None:
    header = "Product,Qty,Price ($/h),Memory (GB),FP8 TFLOPS,BF16 TFLOPS,Power (W)\n"
    with pytest.raises(TooLarge, match="200"):
        audited(planner, header + (MAX_LINES + 1) * "H100 SXM,8,2.5,80,1979,989.4,700\n")
    distinct = "".join(f"H100 SXM,8,2.5,{n + 1},{n + 1},{n + 1},{n + 1}\n" for n in range(MAX_LINES))
    with pytest.raises(TooLarge, match="600"):
        audited(planner, header + distinct)
    begun = time.perf_counter()
    with pytest.raises(InvalidRequest):
        audited(planner, "," * 500_000)
    with pytest.raises((InvalidRequest, TooLarge)):
        audited(planner, '"' * 999_999)
    with pytest.raises((InvalidRequest, TooLarge)):
        audited(planner, "1.2,3.4;5\n" * 90_000)
    assert time.perf_counter() - begun < 10


MIXED = """Product,Qty,Price ($/h),FP8 TFLOPS,FP4 PFLOPS,Total
H100 SXM,8,3.99,3958,,31.92
H200 SXM,8,6.30,1979,,50.40
B200,8,6.69,4500,20,53.52
Quantum-2 Switch,1,2,,,2
"""


@pytest.mark.parametrize(
    ("lines", "summary"),
    [
        (
            f"{MIXED}Total,,,,,1337.84\n",
            "1 of 4 lines holds, 1 is wrong, 1 leaves something to ask, 1 is not in the catalogue; "
            'the column "FP8 TFLOPS" mixes dense and sparse FP8 peaks; the sum "Total" on line 6 is wrong by +1,200.00 USD',
        ),
        ("Product,Qty,Price ($/h),Total\nH200 SXM,8,6.30,50.40\nTotal,,,50.40\n", "the line holds; the sum is right"),
        ("Product,Qty,Price ($/h)\nH200 SXM,8,6.30\nH200 SXM,two,6.30\n", "the line holds; 1 line cannot be read"),
        ("Product,Qty,Price ($/h),Total\nH200 SXM,,6.30,\nTotal,,,50.40\n", "the line holds; 1 sum cannot be checked"),
        ("Product,Qty,Price ($/h),Total\nH200 SXM,8,6.30,1\n", "the line is wrong"),
        ("Product,Qty,Price ($/h)\nswitch,1,2\nswitch,1,2\n", "0 of 2 lines hold, 2 are not in the catalogue"),
        ("Product,Qty,Price ($/h)\nH200 SXM,two,6.30\n", "no line of a product is read; 1 line cannot be read"),
    ],
)
def test_an_offer_is_summed_up_in_a_sentence(planner: Planner, lines: str, summary: str) -> None:
    assert summary == audited(planner, lines).summary


@pytest.mark.parametrize(
    ("lines", "is_mixed"),
    [
        ("H100 SXM,3958,\nH200 SXM,1979,\n", True),
        ("H100 SXM,3958 sparse,\nH200 SXM,1979,\n", True),
        ("H100 SXM,3958,\nH200 SXM,3958,\n", False),
        ("H100 SXM,3958,\nH200 SXM,,989\n", False),  # each heading by itself
        ("H100 SXM,1979,\nB200,4321,\n", False),  # what contradicts the catalogue is on no basis
    ],
)
def test_a_column_of_dense_and_of_sparse_peaks_is_named(planner: Planner, lines: str, is_mixed: bool) -> None:
    summary = audited(planner, f"Product,FP8 TFLOPS,BF16 TFLOPS\n{lines}").summary
    assert is_mixed == ('the column "FP8 TFLOPS" mixes dense and sparse FP8 peaks' in summary)
    assert "BF16" not in summary


@pytest.mark.parametrize(
    "document",
    [
        "Product,FP4 PFLOPS\nB200,20\nB200,9\n",  # 20 is a GB200's with sparsity, and no figure of this product
        'Product,Qty\n"H100 SXM, FP8: 1,979 TFLOPS dense, 3,958 TFLOPS sparse",8\n"H200 SXM",8\n',  # both bases, each said
    ],
)
def test_what_mixes_no_bases_is_not_said_to(planner: Planner, document: str) -> None:
    answer = audited(planner, document)
    assert 2 <= sum(len(line.claims) for line in answer.lines)
    assert "mixes" not in answer.summary


def test_of_many_wrong_sums_the_first_are_named(planner: Planner) -> None:
    lines = "".join(f"H200 SXM,1,6.30,6.30\nSubtotal {n},,,{n}\n" for n in range(1, 4))
    summary = audited(planner, f"Product,Qty,Price ($/h),Total\n{lines}").summary
    assert '"Subtotal 1" on line 3 is wrong by -5.30 USD; the sum "Subtotal 2" on line 5 is wrong by -4.30 USD; ' in summary
    assert summary.endswith("3 sums are wrong in all")


def test_a_term_chooses_the_list_price(planner: Planner) -> None:
    spot = only(planner, "Instance,Price ($/h),Term", "p5.48xlarge,30,spot")
    assert PriceTerm.SPOT is spot.term
    assert spot.list_price is None or spot.list_price.term is PriceTerm.SPOT


@pytest.mark.parametrize(
    ("heading", "meaning"),
    [
        ("SKU", Meaning.PRODUCT),
        ("Item", Meaning.PRODUCT),
        ("Item #", Meaning.NOT_READ),
        ("Qty.", Meaning.QUANTITY),
        ("# GPUs", Meaning.DEVICES_PER_UNIT),
        ("GPUs/node", Meaning.DEVICES_PER_UNIT),
        ("Price/GPU/h", Meaning.UNIT_PRICE),
        ("Net unit price", Meaning.UNIT_PRICE),
        ("Extended price", Meaning.TOTAL_PRICE),
        ("Line total (EUR)", Meaning.TOTAL_PRICE),
        ("HBM3e", Meaning.MEMORY),
        ("Mem BW", Meaning.MEMORY_BANDWIDTH),
        ("NVLink GB/s", Meaning.LINK_BANDWIDTH),
        ("Peak FP8 (sparse)", Meaning.PEAK),
        ("TDP (W)", Meaning.POWER),
        ("Commitment", Meaning.TERM),
        ("System memory", Meaning.NOT_READ),
        ("Lead time", Meaning.NOT_READ),
    ],
)
def test_headings(heading: str, meaning: Meaning) -> None:
    (found,), _ = headings_of([heading])
    assert meaning is found.meaning
