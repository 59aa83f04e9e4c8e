"""Checked by axe in both schemes, on a wide screen and a phone, with everything open, and with refusals shown."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

from tests.explorer.conftest import Opened
from tests.explorer.driving import Explorer

OPTIONS = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}

#: Everything open; of rows that are alike the first three, which is what axe takes its time by.
OPEN_ALL = """() => {
    document.querySelectorAll("tbody tr, .steps > li, #others-list > label, optgroup, optgroup > option")
        .forEach(each => { if (each.matches(":nth-child(n+4)")) each.dataset.isAlike = "yes"; });
    document.querySelectorAll("[data-is-alike]").forEach(each => each.remove());
    document.querySelectorAll("details").forEach(each => { each.open = true });
}"""


def violations(explorer: Explorer) -> list[str]:
    found = Axe().run(explorer.page, options=OPTIONS).response["violations"]
    return [f"{each['id']}: {node['html'][:200]} {node['failureSummary']}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize(
    ("scheme", "width", "ground"), [("light", 1280, "rgb(255, 255, 255)"), ("dark", 360, "rgb(16, 20, 26)")]
)
def test_axe_finds_nothing(opened: Opened, tmp_path: Path, scheme: str, width: int, ground: str) -> None:
    explorer = opened(scheme=scheme, width=width)
    explorer.open("?observed_tpot_seconds=0.02&observed_requests=100")
    assert ground == explorer.page.evaluate("getComputedStyle(document.body).backgroundColor")
    # For whoever wants to look: pytest keeps it for a while.
    assert len(explorer.page.screenshot(path=tmp_path / f"{scheme}-{width}.png", full_page=True)) > 100_000
    explorer.page.evaluate(OPEN_ALL)
    assert [] == violations(explorer)


def test_axe_finds_nothing_where_something_is_wrong(opened: Opened) -> None:
    explorer = opened(scheme="dark")
    explorer.expected_statuses = {400, 404}
    for model in ("model=lama", "model=&hf_config={}"):
        explorer.page.goto(f"{explorer.address}/?{model}&accelerator=h100-sxm")
        explorer.settled("failed")
        assert [] == violations(explorer)


def test_axe_can_find_something(opened: Opened) -> None:
    explorer = opened()
    explorer.expected_statuses = {400, 404}
    explorer.page.goto(f"{explorer.address}/?model=lama")
    explorer.settled("failed")
    explorer.page.evaluate(
        "document.querySelector('[name=tensor]').closest('label').replaceWith(document.querySelector('[name=tensor]'))"
    )
    assert any(each.startswith("label: ") for each in violations(explorer))
