"""Files that somebody else renews while the service runs: keys, certificates."""

from pathlib import Path
from time import monotonic
from typing import Final

#: How often a file is looked at, at most: one stat a second costs nothing beside the requests that it is looked at for.
_LOOK_SECONDS: Final = 1.0
#: No file of keys or certificates is near this; a wrong path to something endless must not fill the memory.
_MAX_BYTES: Final = 4 * 2**20


class WatchedFile:
    """A file and whether it has changed since it was read. A link that is switched, as Kubernetes does it, is a change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._look_at = 0.0

    def read(self) -> str:
        """The text. OSError where it cannot be read; ValueError where it is no UTF-8 or too long."""
        self._seen = self._state()
        with self.path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"{self.path}: longer than {_MAX_BYTES} bytes")
        return content.decode()

    def has_changed(self) -> bool:
        """Whether it differs from what was read last; looks at most once a second. A file that is gone has not changed."""
        now = monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_SECONDS
        state = self._state()
        return state is not None and state != self._seen

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
