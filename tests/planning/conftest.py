"""The real catalogue and a planner over it."""

from pathlib import Path

import pytest

from service.catalogue.entries import Catalogue
from service.catalogue.loader import load
from service.planning.planner import Planner

SPECS = Path(__file__).parents[2] / "specs"


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return load(SPECS)


@pytest.fixture(scope="session")
def planner(catalogue: Catalogue) -> Planner:
    return Planner(catalogue)
