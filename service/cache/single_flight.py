"""Concurrent callers with the same key share one computation."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable


class _Flight:
    """One computation under way, and those who wait for it."""

    __slots__ = ("_waiters", "error", "result")

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []
        self.result: bytes | None = None
        self.error: Exception | None = None

    async def landed(self) -> None:
        # A future each, not one for all: cancelling a task cancels the future it waits for.
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def land(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class SingleFlight:
    """Runs work once for all who ask for the same key while it runs. For one event loop.

    The first caller does the work in its own task, so that its deadline and context hold for it, and the others wait.
    No task is created, and a caller who is alone pays for two dictionary operations.

    - If the work raises, everyone gets that exception. Nothing is remembered: the next caller tries again.
    - If the first caller is cancelled, the others are neither cancelled nor left hanging: one of them takes over with
      its own work.
    - If a waiting caller is cancelled, nobody else notices.
    """

    __slots__ = ("_flights",)

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    async def run(self, key: Hashable, work: Callable[[], Awaitable[bytes]]) -> bytes:
        """What the work returned, be it this caller's or another's under the same key.

        The work must not ask for its own key: it would wait for itself.

        Raises:
            Exception: whatever the work raised.
        """
        while (flight := self._flights.get(key)) is not None:
            await flight.landed()
            if flight.error is not None:
                raise flight.error
            if flight.result is not None:
                return flight.result
            # The one in front was cancelled. Whoever of the others gets here first leads the next flight.
        flight = self._flights[key] = _Flight()
        try:
            flight.result = result = await work()
        except Exception as error:
            flight.error = error
            raise
        finally:
            del self._flights[key]
            flight.land()
        return result
