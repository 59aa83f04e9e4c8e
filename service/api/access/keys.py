"""API keys out of a file that holds only their hashes, read again when it changes.

Keys are random and long, so a plain SHA-256 keeps them: there is nothing to guess by trying words.
"""

import hashlib
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import yaml

from service.api.access.callers import SCOPES, Caller, Scope
from service.api.access.files import WatchedFile
from service.telemetry import SERVER_LOG

_NAME: Final = re.compile(r"[\w.@-]{1,64}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_KEYS: Final = {"name", "sha256", "scopes", "requests_per_second", "max_concurrent_requests"}
_EXAMPLE: Final = "{name: autoscaler, sha256: <hex of the key's SHA-256>, scopes: [read, plan]}"

_logger = logging.getLogger(SERVER_LOG)


class KeyFileError(ValueError):
    """The file of keys is wrong; the text says where, and never quotes a value that could be a key."""


def hash_of(key: str) -> str:
    """What the file holds of a key: its SHA-256 in hex.

    >>> hash_of("abc")
    'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    """
    return hashlib.sha256(key.encode()).hexdigest()


def read_keys(text: str, where: str) -> Mapping[str, Caller]:
    """The callers by the hash of their key.

    Raises:
        KeyFileError: with the path inside the file, what is wrong and what is accepted.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark is not None else ""
        raise KeyFileError(f"{where}{line}: this is no YAML") from None
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list) or set(cast(dict[str, Any], document)) != {"keys"}:
        raise KeyFileError(f"{where}: it must have one entry, keys, with a list of {_EXAMPLE}")
    callers: dict[str, Caller] = {}
    names: set[str] = set()
    for number, row in enumerate(rows):
        digest, caller = _row(row, f"{where} keys[{number}]")
        if digest in callers or caller.name in names:
            raise KeyFileError(f"{where} keys[{number}]: the same key or name stands there twice")
        callers[digest] = caller
        names.add(caller.name)
    return callers


def _row(row: Any, where: str) -> tuple[str, Caller]:
    if not isinstance(row, dict):
        raise KeyFileError(f"{where}: not an entry; write {_EXAMPLE}")
    unknown = sorted(map(str, set(row) - _KEYS))
    if unknown:
        raise KeyFileError(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(sorted(_KEYS))}")
    if not isinstance(row.get("name"), str) or not _NAME.fullmatch(row["name"]):
        raise KeyFileError(f"{where}.name: letters, digits and . @ _ -, at most 64")
    if not isinstance(row.get("sha256"), str) or not _SHA256.fullmatch(row["sha256"]):
        raise KeyFileError(f"{where}.sha256: the SHA-256 of the key, as 64 lower-case hex digits")
    scopes = row.get("scopes")
    if not isinstance(scopes, list) or not scopes or not set(scopes) <= set(SCOPES):
        raise KeyFileError(f"{where}.scopes: a list out of {', '.join(SCOPES)}")
    return row["sha256"], Caller(
        row["name"],
        frozenset(cast(list[Scope], scopes)),
        _limit(row, "requests_per_second", float, where),
        _limit(row, "max_concurrent_requests", int, where),
    )


def _limit(row: dict[str, Any], name: str, kind: type, where: str) -> Any:
    value = row.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < 1e9 or (kind is int and value != int(value)):
        raise KeyFileError(f"{where}.{name}: a {'whole ' if kind is int else ''}number above 0")
    return kind(value)


class KeyFile:
    """The callers of a file, as it is now. A version that is wrong is logged, and the one before it stays."""

    def __init__(self, path: Path) -> None:
        """Reads the file. KeyFileError and OSError where it cannot be used."""
        self._file = WatchedFile(path)
        self._callers = read_keys(self._file.read(), str(path))

    def caller(self, key: str) -> Caller | None:
        """Whose key this is. Hashes are compared, so the time that it takes says nothing about a key."""
        if self._file.has_changed():
            self._read_again()
        return self._callers.get(hash_of(key))

    def _read_again(self) -> None:
        try:
            self._callers = read_keys(self._file.read(), str(self._file.path))
        except (OSError, ValueError) as error:
            _logger.error("the keys stay as they were: %s", error)
        else:
            _logger.info("%d keys read from %s", len(self._callers), self._file.path)
