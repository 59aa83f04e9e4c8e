"""Answers in parts: made one at a time on the planning thread, sent as they are made, over both doors.

Between two parts the planning thread is free for whatever else is heavy, and no part is made before the last one was taken:
a caller that reads slowly, or went away, holds nothing up.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from service.api.servicers import Servicer

#: Of a call's time, what is kept for sending the last part, at the most so many seconds.
_RESERVED_RATIO: Final = 0.1
_RESERVED_SECONDS: Final = 0.25
#: Between two parts neither thread has anything to do for the stream: what has come in meanwhile goes first.
_PAUSE_SECONDS: Final = 0.002


async def encoded_parts(
    servicer: Servicer, question: Any, encode: Callable[[Any], bytes], seconds: float | None = None
) -> AsyncGenerator[bytes, None]:
    """The parts of the answer, encoded.

    Args:
        servicer: of an RPC that streams.
        question: what is asked.
        encode: makes bytes of a part; runs on the planning thread, in the order of the parts.
        seconds: after so long the answer is rounded off. Default: never.
    """
    stream = await servicer.in_turn(lambda: servicer.plan(question))
    alarm = None if seconds is None else asyncio.get_running_loop().call_later(seconds, stream.stop)

    def following() -> bytes | None:
        part = next(stream, None)
        return None if part is None else encode(part)

    try:
        while (encoded := await servicer.in_turn(following)) is not None:
            yield encoded
            await asyncio.sleep(_PAUSE_SECONDS)
    finally:
        stream.stop()
        if alarm is not None:
            alarm.cancel()


def usable_seconds(remaining_seconds: float | None) -> float | None:
    """How long parts may be made, so that the last one still arrives in time."""
    if remaining_seconds is None:
        return None
    return remaining_seconds - min(_RESERVED_SECONDS, _RESERVED_RATIO * remaining_seconds)
