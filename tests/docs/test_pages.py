"""What the pages say: links lead somewhere, figures are those of the files they name, generated pages are fresh."""

import csv
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from service.formulas import REGISTRY
from tests.docs.guides import PAGES, ROOT, anchors, prose

MODEL = ROOT / "specs" / "guides" / "model.md"
OPERATOR = ROOT / "specs" / "guides" / "operator.md"
CALIBRATIONS = ROOT / "specs" / "calibrations" / "README.md"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_NUMBER = re.compile(r"[+−-]?\d[\d,]*(?:\.\d+)?")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    part = text[text.index(heading) :]
    lines = [line for line in part[part.index("\n|") :].strip().split("\n\n")[0].split("\n") if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def figures(text: str) -> list[str]:
    return [each.replace(",", "") for each in _NUMBER.findall(text)]


def test_figures_of_the_model_page_are_those_of_the_files_it_names() -> None:
    checked = rows(MODEL.read_text(), "## How right")
    for what, claimed, where in checked:
        (link,) = _LINK.findall(where)
        file = (MODEL.parent / link).resolve()
        if file.suffix == ".md":
            known = figures(file.read_text())
        elif file.suffix == ".csv":
            known = [str(len(list(csv.reader(file.read_text().splitlines()))) - 1)]
        else:
            known = [str(len(yaml.safe_load(file.read_text())))]
        assert figures(claimed), what
        assert set(figures(claimed)) <= set(known), what
    assert 7 <= len(checked)


def test_the_accuracy_of_estimates_is_the_calibrations() -> None:
    here = rows(MODEL.read_text(), "The serving estimate, `make accuracy`")

    assert rows(CALIBRATIONS.read_text(), "## How right it is") == here


def test_sizes_of_the_operators_page_are_those_of_the_decision() -> None:
    text = OPERATOR.read_text()
    sizes = re.split(r"\n\n|\n- ", text[text.index("Measured, on one core") :])[0]
    decision = (ROOT / "specs" / "decisions" / "0007-what-an-estimate-costs.md").read_text()

    claimed = figures(_LINK.sub("", sizes))
    assert 6 <= len(claimed)
    assert set(claimed) <= set(figures(decision))


def test_every_topic_of_formulas_is_on_the_model_page() -> None:
    named = set(re.findall(r"formulas\.md#([a-z0-9_]+)", MODEL.read_text()))
    topics = {each.body.__module__ for each in REGISTRY.values()}

    assert named <= set(REGISTRY)
    assert topics - {REGISTRY[name].body.__module__ for name in named} <= {"service.formulas.engine_memory"}  # decision 0006


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "protos" / "reference.py")
    if spec is None or spec.loader is None:
        raise AssertionError
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_fresh() -> None:
    stale = [file.name for file, text in reference().pages().items() if text != file.read_text()]

    assert [] == stale, "make gen"


def test_the_reference_holds_every_call_and_every_field() -> None:
    page = (ROOT / "specs" / "guides" / "api.md").read_text()
    schema = (ROOT / "protos" / "tonnage" / "v1" / "capacity_service.proto").read_text()

    assert set(re.findall(r"^  rpc (\w+)", schema, re.MULTILINE)) <= set(re.findall(r"^### (\w+)$", page, re.MULTILINE))
    assert set(re.findall(r"^  (?:optional |repeated )?[\w.]+ ([a-z_0-9]+) = \d", schema, re.MULTILINE)) <= set(
        re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    )
