"""Answers that leave together: what the connections write within one turn of the event loop is sent at its end.

The head of an answer and its body are written one after the other, and under load dozens of answers are made in one turn.
Each write of its own is a system call, a packet, and a caller's processor that is woken up: together a fifth of what an
estimate costs (specs/decisions/0016).
"""

import asyncio
from collections.abc import Sized
from typing import Any, Final

from msgspec import Struct, field

#: Pieces that are held at most: the first caller of a long turn must not wait for all the others.
_MOST_HELD: Final = 32
#: With so few requests at hand nobody's answer waits for another's: the processor has time for the calls.
_FEW_REQUESTS: Final = 4
#: A piece of so many bytes leaves at once, with what was held before it.
_LARGE_BYTES: Final = 16_384
_HEAD: Final = b"HTTP/"


class Departures(Struct):
    """What the connections of one server have written and the kernel has not been given yet."""

    held: list[tuple[asyncio.Transport, bytes]] = field(default_factory=list)

    def leave(self) -> None:
        """Gives the kernel all that is held, the pieces of one connection in one."""
        joined: dict[asyncio.Transport, bytes] = {}
        for transport, data in self.held:
            joined[transport] = joined[transport] + data if transport in joined else data
        self.held.clear()
        for transport, data in joined.items():
            if not transport.is_closing():  # its caller has gone
                transport.write(data)


class GatheringTransport(asyncio.Transport):
    """A connection's transport, whose writes leave with those of others.

    Args:
        transport: the connection.
        departures: where its writes wait.
        requests: all that are being answered by the server at the moment.
    """

    def __init__(self, transport: asyncio.Transport, departures: Departures, requests: Sized) -> None:
        self._transport = transport
        self._departures = departures
        self._held = departures.held
        self._requests = requests

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends the data at the end of the turn. A head that begins an answer waits at least for what is written next."""
        piece = bytes(data)
        held = self._held
        if not held:
            asyncio.get_running_loop().call_soon(self._departures.leave)
        held.append((self._transport, piece))
        if piece.startswith(_HEAD):
            return
        if len(held) >= _MOST_HELD or len(self._requests) <= _FEW_REQUESTS or len(piece) >= _LARGE_BYTES:
            self._departures.leave()

    def close(self) -> None:
        """Sends what is held, and closes."""
        self._departures.leave()
        self._transport.close()

    def abort(self) -> None:
        """Closes at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed or about to be."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Takes nothing from the caller until ``resume_reading``."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Takes from the caller again."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known of the connection: its addresses, its encryption."""
        return self._transport.get_extra_info(name, default)
