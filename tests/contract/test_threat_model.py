"""The threat model names tests that are there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_line_names_tests_that_are_there() -> None:
    page = (ROOT / "specs/threat-model.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| threat")]
    assert len(rows) > 15
    missing = []
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for path, function in named:
            tree = ast.parse((ROOT / path).read_text())
            if function not in {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}:
                missing.append(f"{path}::{function}")
    assert [] == missing
