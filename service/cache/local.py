"""The in-process tier: least recently used answers go first, within a budget of bytes and of entries."""

import threading
from collections import OrderedDict

#: What one entry takes beside its key and value, in bytes: two object headers and a slot in the ordered dictionary.
#: Measured with tracemalloc on CPython 3.11 between 10^3 and 2·10^5 entries: 140 to 175.
ENTRY_OVERHEAD_BYTES = 192


class LocalTier:
    """A bounded map from bytes to bytes that forgets the least recently used entry first. Every operation is O(1).

    Meant for one event loop, where nothing ever waits. A call from a worker thread is safe too: ``put`` and ``clear``
    take a lock, and ``get`` relies on single dictionary operations being atomic, so that at worst it misses an
    entry that is being evicted at that moment.

    Args:
        max_bytes: budget for keys, values and ``ENTRY_OVERHEAD_BYTES`` each; never exceeded.
        max_entries: most entries held at once.
        max_entry_ratio: largest share of ``max_bytes`` that one entry may take, so that a single large answer cannot
            push out all the small ones; larger entries are not inserted.

    Raises:
        ValueError: a budget that is negative, or a ratio that is not within 0 and 1.
    """

    __slots__ = ("_entries", "_lock", "_max_bytes", "_max_entries", "_size_bytes", "max_entry_bytes")

    def __init__(self, *, max_bytes: int, max_entries: int, max_entry_ratio: float = 1 / 16) -> None:
        if max_bytes < 0 or max_entries < 0 or not 0 <= max_entry_ratio <= 1:
            raise ValueError("max_bytes and max_entries must not be negative, and max_entry_ratio must be within 0 and 1")
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._size_bytes = 0
        #: Largest entry that is inserted: key, value and overhead, in bytes.
        self.max_entry_bytes = int(max_bytes * max_entry_ratio)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """What all entries take: keys, values and the overhead of each."""
        return self._size_bytes

    def get(self, key: bytes) -> bytes | None:
        """The value last put under this key, or None."""
        value = self._entries.get(key)
        if value is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:  # another thread evicted it in between
                return None
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Keep the value, forgetting the least recently used entries for it; does nothing if it is too large."""
        entry_bytes = len(key) + len(value) + ENTRY_OVERHEAD_BYTES
        with self._lock:
            replaced = self._entries.pop(key, None)
            if replaced is not None:
                self._size_bytes -= len(key) + len(replaced) + ENTRY_OVERHEAD_BYTES
            if entry_bytes > self.max_entry_bytes or not self._max_entries:
                return
            self._make_room(entry_bytes)
            self._entries[key] = value
            self._size_bytes += entry_bytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._size_bytes = 0

    def _make_room(self, entry_bytes: int) -> None:
        entries = self._entries
        while entries and (self._size_bytes + entry_bytes > self._max_bytes or len(entries) >= self._max_entries):
            key, value = entries.popitem(last=False)
            self._size_bytes -= len(key) + len(value) + ENTRY_OVERHEAD_BYTES
