"""What every test gets: an environment without our settings, one Hypothesis profile, and golden files."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.service_process import RunningService, running_service

#: Benchmarks are run by ``make bench``; pytest must not even import them.
collect_ignore_glob = ["benchmarks/*"]

# The same examples in every run, and no failure because a machine was busy. To search further:
# pytest --hypothesis-profile=search
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("search", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files instead of comparing")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own TONNAGE_ variables do not reach a test."""
    for name in [each for each in os.environ if each.startswith("TONNAGE_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def repository_root() -> Path:
    """The top folder of the checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def service() -> Iterator[RunningService]:
    """The real service with its default settings, shared by all tests that do not change it."""
    with running_service() as running:
        yield running


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with the file that holds what it was before, or rewrites that file under ``make golden``."""

    def check(path: Path, actual: str) -> None:
        if request.config.getoption("--rewrite-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.exists() else "(no such file: run make golden)"
        assert expected == actual

    return check
