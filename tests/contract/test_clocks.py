"""The machine's clock may jump: nothing is timed by it, and the one thing that has to ask it, a token's expiry, bears it."""

import ast
import time
from collections.abc import Iterator
from datetime import datetime, tzinfo
from pathlib import Path

import jwt
import pytest

from service.api.access.tokens import Tokens
from service.api.errors import Unauthenticated
from tests.api.access.test_tokens import AUDIENCE, ISSUER, KEY, PUBLIC, claims

ROOT = Path(__file__).resolve().parents[2]
#: Where the date or the time of day is asked for; whatever waits, counts or expires goes by a clock that only runs on.
WALL_CLOCK = {
    ("time", "time"),
    ("time", "time_ns"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
}
ALLOWED = {
    "service/api/access/tokens.py": "a token's expiry is a time of day",
    "service/counting.py": "an exemplar tells when it was",
    "service/tracing.py": "a span tells when it was",
}


def asked(tree: ast.Module) -> Iterator[str]:
    """The wall clocks that a module reads, by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in WALL_CLOCK:
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"time.{each.name}" for each in node.names if ("time", each.name) in WALL_CLOCK)


def test_nothing_is_timed_by_a_clock_that_jumps() -> None:
    modules = sorted((ROOT / "service").rglob("*.py"))
    assert len(modules) > 100
    found = {str(path.relative_to(ROOT)): list(asked(ast.parse(path.read_text()))) for path in modules}
    assert [] == [f"{path}: {clocks}" for path, clocks in found.items() if clocks and path not in ALLOWED]
    assert found["service/api/access/tokens.py"], "the test finds what there is to find"


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    path = tmp_path / "public.pem"
    path.write_bytes(PUBLIC)
    return Tokens(path, issuer=ISSUER, audience=AUDIENCE)


def test_a_token_expires_by_the_time_of_day_however_that_jumps(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    real, jump = time.time, [0.0]

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Jumping":
            return cls.fromtimestamp(time.time(), tz)

    monkeypatch.setattr(time, "time", lambda: real() + jump[0])
    monkeypatch.setattr("jwt.api_jwt.datetime", Jumping)
    token = jwt.encode(claims(exp=real() + 60), KEY, "ES256")
    for jump[0], is_good in ((0.0, True), (-3600.0, True), (3600.0, False), (0.0, True)):
        if is_good:
            assert "token:buyer" == tokens.caller(token).name
        else:  # although it is remembered
            with pytest.raises(Unauthenticated, match="expired"):
                tokens.caller(token)
