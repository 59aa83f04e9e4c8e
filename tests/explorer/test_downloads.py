"""Every chart and table can be taken along: exact figures as CSV, the picture as SVG and PNG."""

import csv
import io
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.explorer.driving import Explorer, Rest

CHARTS = ("roofline", "memory", "throughput-latency", "cost")
TABLES = ("fleets", "formulas", "sources")
DEPLOYMENT: dict[str, Any] = {
    "model": {"name": "llama-3.1-70b"},
    "accelerator": {"name": "h100-sxm"},
    "parallelism": {"tensor": 8},
    "batch_size": 64,
    "context_tokens": 4096,
}


def download(explorer: Explorer, figure: str, kind: str) -> bytes:
    with explorer.page.expect_download() as waiting:
        explorer.page.locator(f"#figure-{figure}").get_by_role("button", name=f"Download {figure} as {kind}").click()
    taken = waiting.value
    assert f"tonnage-{figure}.{kind.lower()}" == taken.suggested_filename
    return Path(taken.path()).read_bytes()


def table(data: bytes) -> list[dict[str, str]]:
    text = data.decode("utf-8")
    assert "\ufeff" == text[0]
    assert "\r\n" in text
    return list(csv.DictReader(io.StringIO(text[1:], newline="")))


def test_csv_holds_the_figures_of_the_api_to_the_last_digit(explorer: Explorer, rest: Rest) -> None:
    explorer.open()
    roofline = rest.post("/v1/rooflines:draw", {"decode": DEPLOYMENT})
    rows = table(download(explorer, "roofline", "CSV"))
    axes = ("arithmetic_intensity_flops_per_byte", "bound_flops_per_second")
    assert [[point[name] for name in axes] for point in roofline["points"]] == [
        [float(row[name]) for name in axes] for row in rows
    ]
    accelerators = ["h100-sxm", "b200", "h200-sxm", "mi300x"]
    load = {"input_tokens": 1024, "output_tokens": 1024, "concurrency": 64}
    request = {"model": DEPLOYMENT["model"], "parallelism": DEPLOYMENT["parallelism"], "accelerators": accelerators, **load}
    compared = rest.post("/v1/accelerators:compare", request)["accelerators"]
    for row, each in zip(table(download(explorer, "cost", "CSV")), compared, strict=True):
        for part in ("p10", "p50", "p90"):
            assert each["tpot_seconds"][part] == float(row[f"tpot_seconds.{part}"])
    steps = rest.post("/v1/decode:estimate", {**DEPLOYMENT, "explain": True})["explanation"]["steps"]
    formulas = [row for row in table(download(explorer, "formulas", "CSV")) if row["of"] == "bound"]
    assert [(step["name"], step["value"]) for step in steps] == [(row["name"], float(row["value"])) for row in formulas]


def test_every_table_can_be_taken_along_and_no_cell_is_a_formula(explorer: Explorer) -> None:
    explorer.open()
    for figure in (*CHARTS, *TABLES):
        rows = table(download(explorer, figure, "CSV"))
        shown = explorer.rows(figure)
        assert len(shown) == len(rows) > 0, figure
        assert len(shown[0]) <= len(rows[0])  # a range is three columns
        cells = [cell for row in rows for cell in row.values()]
        assert not [cell for cell in cells if cell[:1] in tuple("=+@") or (cell[:1] == "-" and not _is_number(cell))]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_pictures_stand_alone(explorer: Explorer) -> None:
    explorer.open()
    for figure in CHARTS:
        _stands_alone(explorer, figure)


def _stands_alone(explorer: Explorer, figure: str) -> None:
    size = explorer.page.locator(f"#figure-{figure} svg").bounding_box()
    assert size is not None
    picture = ElementTree.fromstring(download(explorer, figure, "SVG"))
    elements = [*picture.iter()]
    assert (str(round(size["width"])), str(round(size["height"]))) == (picture.get("width"), picture.get("height"))
    # What the style sheet says on the page is in the file: no class is left to be explained by anything.
    assert not [each for each in elements if each.get("class") or each.get("tabindex")]
    marks = [each for each in elements if each.tag.rpartition("}")[2] in ("path", "circle", "text", "rect")]
    assert len(marks) > 10
    assert all(each.get("fill") for each in marks)
    assert {"rgb(255, 255, 255)"} == {elements[1].get("fill")}
    png = download(explorer, figure, "PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert (b"\x89PNG\r\n\x1a\n", round(size["width"]) * 2, round(size["height"]) * 2) == (png[:8], width, height)
    assert len(png) > 10_000  # more than an empty ground
