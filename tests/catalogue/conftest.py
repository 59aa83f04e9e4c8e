"""The catalogue that ships, loaded once, and a small one for the rules of the loader."""

from pathlib import Path

import pytest

from service.catalogue.entries import Catalogue
from service.catalogue.loader import load


@pytest.fixture(scope="session")
def catalogue(repository_root: Path) -> Catalogue:
    return load(repository_root / "specs")


@pytest.fixture(scope="session")
def good() -> Path:
    """A folder with one accelerator, one node type and one model, in which nothing is wrong."""
    return Path(__file__).parent / "good"
