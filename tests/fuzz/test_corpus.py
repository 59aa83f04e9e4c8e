"""What fuzzing found worth keeping is read again with every `make test`, and so is what it starts from."""

import pytest

from tests.fuzz.__main__ import BYTES, CORPUS
from tests.fuzz.targets import TARGETS, seeds

MOST_KEPT_BYTES = 500_000


@pytest.mark.parametrize("name", BYTES)
def test_nothing_kept_breaks_anything(name: str) -> None:
    target = TARGETS[name]()
    kept = sorted((CORPUS / name).iterdir())
    assert len(kept) > 50
    for data in (*seeds(name), *(path.read_bytes() for path in kept)):
        target(data)


def test_a_target_does_raise_for_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("tests.fuzz.targets.read", broken)
    with pytest.raises(KeyError):
        TARGETS["configs"]()(b"{}")


def test_what_is_kept_is_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < MOST_KEPT_BYTES
