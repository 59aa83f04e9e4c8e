"""What is installed is what was locked, and what the audit could not look up it does not pass."""

import re
from pathlib import Path

import pytest

from tests.deploy.audit import LOCKS, problems_of, report_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("lock", ["requirements.lock", *LOCKS])
def test_every_package_is_pinned_with_hashes(lock: str) -> None:
    lines = (ROOT / lock).read_text().replace("\\\n", " ").splitlines()
    packages = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert len(packages) > 20
    for package in packages:
        assert re.match(r"[a-z0-9._-]+==\S+ ", package), package
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", package), package


@pytest.mark.parametrize("path", ["Makefile", "deploy/Dockerfile"])
def test_whatever_is_installed_from_a_lock_has_its_hashes_checked(path: str) -> None:
    commands = [line for line in (ROOT / path).read_text().splitlines() if re.search(r"install.*\.lock", line)]
    assert commands
    assert all("--require-hashes" in command for command in commands)


def test_a_vulnerability_is_named_with_its_remedy() -> None:
    found = {"id": "PYSEC-2026-1", "fix_versions": ["2.1"], "aliases": [], "description": ""}
    report = {"dependencies": [{"name": "a", "version": "2.0", "vulns": [found]}, {"name": "b", "version": "1", "vulns": []}]}
    assert ["a 2.0: PYSEC-2026-1, mended in 2.1"] == problems_of(report)


def test_what_could_not_be_looked_up_does_not_pass() -> None:
    known = {"name": "a", "version": "1", "vulns": []}
    unknown = {"name": "b", "skip_reason": "Dependency not found on PyPI and could not be audited: b (1)"}
    assert [] == problems_of({"dependencies": [known]})
    (problem,) = problems_of({"dependencies": [known, unknown]})
    assert "not audited: 1 of 2 packages (b…)" in problem
    assert ["not audited: the lock names no package"] == problems_of({"dependencies": []})


def test_an_audit_that_cannot_begin_says_so() -> None:
    with pytest.raises(RuntimeError, match="pip-audit gave no report"):
        report_of("no-such.lock", [])
