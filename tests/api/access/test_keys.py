"""The file of keys: what is read, what is refused and how, and how it changes under a running service."""

import os
from pathlib import Path

import pytest

from service.api.access import files
from service.api.access.callers import Caller
from service.api.access.keys import KeyFile, KeyFileError, hash_of, read_keys

DIGEST = hash_of("correct horse")
ROW = f"{{name: buyer, sha256: {DIGEST}, scopes: [read]}}"


def test_a_key_is_known_by_its_hash() -> None:
    text = (
        f"keys: [{{name: buyer, sha256: {DIGEST}, scopes: [read, plan], requests_per_second: 2.5, max_concurrent_requests: 3}}]"
    )
    assert {DIGEST: Caller("buyer", frozenset({"read", "plan"}), 2.5, 3)} == read_keys(text, "keys.yaml")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("keys: [", "keys.yaml line 1: this is no YAML"),
        ("[]", "keys.yaml: it must have one entry, keys"),
        ("{keys: [], more: 1}", "keys.yaml: it must have one entry, keys"),
        ("keys: [secret]", "keys[0]: not an entry"),
        (f"keys: [{{name: a, sha256: {DIGEST}, scopes: [read], key: secret}}]", "keys[0]: unknown key; known are"),
        (f"keys: [{{name: 'a b', sha256: {DIGEST}, scopes: [read]}}]", "keys[0].name: letters"),
        ("keys: [{name: a, sha256: secret, scopes: [read]}]", "keys[0].sha256: the SHA-256 of the key"),
        (f"keys: [{{name: a, sha256: {DIGEST}, scopes: [write]}}]", "keys[0].scopes: a list out of read, plan, admin"),
        (f"keys: [{{name: a, sha256: {DIGEST}, scopes: []}}]", "keys[0].scopes: a list out of read, plan, admin"),
        (f"keys: [{{name: a, sha256: {DIGEST}, scopes: [read], requests_per_second: 0}}]", "a number above 0"),
        (f"keys: [{{name: a, sha256: {DIGEST}, scopes: [read], requests_per_second: .inf}}]", "a number above 0"),
        (f"keys: [{{name: a, sha256: {DIGEST}, scopes: [read], max_concurrent_requests: 1.5}}]", "a whole number above 0"),
        (f"keys: [{ROW}, {ROW}]", "keys[1]: the same key or name stands there twice"),
    ],
)
def test_what_is_wrong_is_said_without_quoting_it(text: str, reason: str) -> None:
    with pytest.raises(KeyFileError) as refused:
        read_keys(text, "keys.yaml")
    assert reason in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_changed_file_is_read_again_and_a_broken_one_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "_LOOK_SECONDS", 0.0)
    path = tmp_path / "keys.yaml"
    path.write_text(f"keys: [{ROW}]")
    keys = KeyFile(path)
    assert keys.caller("wrong") is None

    path.write_text("keys: nothing of the kind")
    known = keys.caller("correct horse")
    assert known is not None
    assert "buyer" == known.name
    assert "the keys stay as they were" in caplog.text

    (tmp_path / "next").write_text(f"keys: [{{name: second, sha256: {hash_of('another')}, scopes: [plan]}}]")
    os.replace(tmp_path / "next", path)
    assert keys.caller("correct horse") is None
    assert keys.caller("another") == Caller("second", frozenset({"plan"}))

    path.unlink()
    assert keys.caller("another") is not None
