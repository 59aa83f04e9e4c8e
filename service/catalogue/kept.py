"""What was parsed of a folder's files, kept beside them for the next start, as Python keeps ``.pyc`` files.

YAML is slow to parse, and its files rarely change. A document is found by the SHA-256 of the bytes that it was parsed from:
a file that changed is parsed anew whatever its times say, and no file can be taken for another. The whole is dropped where
the code that parses is another, or where what lies there is not exactly what was written. Nothing here can fail: what
cannot be read is parsed, and what cannot be written is not kept.

The digest that seals the file shows damage, but whoever knows this code can make one. So what another user may have written
is dropped as well: Python can be told to keep what it compiles in a folder that several users share.
"""

import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from service.catalogue import documents
from service.catalogue.documents import Located

_NAME: Final = "documents.jsonl"
_MAX_BYTES: Final = 1 << 26
_KEY_LENGTH: Final = 64  # hexadecimal digits of SHA-256
_MODE: Final = 0o644
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class KeptDocuments:
    """The documents of one folder, by the bytes of their files.

    They lie where Python would keep what it compiles of that folder, and like that are not written where it is told to write
    nothing (PYTHONDONTWRITEBYTECODE). Several processes may read and write at once: each reads a whole file or none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = Path(cache_from_source(str(folder / "documents.py"))).with_name(_NAME)
        self._read = _read(self.path, folder)
        self._used: dict[bytes, bytes] = {}
        self._is_new = False

    def document(self, content: bytes) -> Located | None:
        """What these bytes were parsed into; None where that is not kept."""
        key = _key(content)
        try:
            document = _located(orjson.loads(self._read[key]))
        except (KeyError, TypeError, ValueError, RecursionError):
            return None
        self._used[key] = self._read[key]
        return document

    def add(self, content: bytes, document: Located) -> None:
        """Keeps what these bytes were parsed into, unless JSON would not give the same again."""
        pair = _pair(document)
        with suppress(TypeError):  # whole numbers of more than 64 bits; infinities come back as null
            written = orjson.dumps(pair)
            if orjson.loads(written) == pair:
                self._used[_key(content)] = written
                self._is_new = True

    def write(self) -> None:
        """Writes what was asked for and added, if anything was added."""
        if not self._is_new or sys.dont_write_bytecode:
            return
        body = b"\n".join(key + b" " + document for key, document in self._used.items())
        unfinished = self.path.with_name(f"{_NAME}.{secrets.token_hex(8)}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(unfinished, "xb", opener=_to_write) as file:
                file.write(_seal(body) + b"\n" + body)
            os.replace(unfinished, self.path)
        except OSError:
            with suppress(OSError):
                unfinished.unlink()


def _key(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _to_write(path: str, flags: int) -> int:
    """Opens a file to be written that no other user may write, whatever the umask."""
    return os.open(path, flags, _MODE)


def _to_read(path: str, flags: int) -> int:
    """Opens a file to be read, following no link and waiting for nobody who writes into a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _read(path: Path, folder: Path) -> Mapping[bytes, bytes]:
    """The documents in a file, each as JSON; none where it was not written, whole, by this very code for this folder."""
    try:
        with open(path, "rb", opener=_to_read) as file:
            if not _is_believed(os.fstat(file.fileno()), folder):
                return {}
            seal, _, body = file.read(_MAX_BYTES).partition(b"\n")
        lines = body.split(b"\n") if seal == _seal(body) else []
        return {line[:_KEY_LENGTH]: line[_KEY_LENGTH + 1 :] for line in lines}
    except OSError:
        return {}


def _is_believed(about: os.stat_result, folder: Path) -> bool:
    """Whether only who runs this, or who may change the folder's files anyway, can have written a file; not one too large."""
    is_ours = about.st_uid in (os.geteuid(), folder.stat().st_uid) and not about.st_mode & _WRITABLE_BY_OTHERS
    return is_ours and stat.S_ISREG(about.st_mode) and about.st_size <= _MAX_BYTES


def _seal(body: bytes) -> bytes:
    """The first line of a file that holds this body, parsed by this code."""
    digest = hashlib.sha256(yaml.__version__.encode())
    for source in (documents.__file__, __file__):
        digest.update(Path(source).read_bytes())
    digest.update(body)
    return digest.hexdigest().encode()


def _pair(document: Located) -> list[Any]:
    value: Any = document.value
    if isinstance(value, dict):
        value = {key: _pair(item) for key, item in value.items()}
    elif isinstance(value, list):
        value = [_pair(item) for item in value]
    return [value, document.line]


def _located(pair: Any) -> Located:
    value, line = pair
    kind = type(value)
    if kind is dict:
        value = {key: _located(item) for key, item in value.items()}
    elif kind is list:
        value = [_located(item) for item in value]
    return Located(value, line)
