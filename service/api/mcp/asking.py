"""Asking the servicers: the way of a request over REST, without HTTP. Same cache, same admission, same planning thread."""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from service.api.json_decoding import filler
from service.api.json_encoding import message_encoder
from service.api.rest import FLAVOUR
from service.api.servicers import Admission, Servicer


class _Way:
    """The way to one RPC and back, in JSON."""

    def __init__(self, servicer: Servicer) -> None:
        self.servicer = servicer
        self.fill = filler(servicer.rpc.request)
        self.encode = message_encoder(servicer.rpc.response)


class Asking:
    """Asks the RPCs by name.

    Args:
        servicers: one per RPC.
        admission: bounds what is worked on at once, over all doors.
    """

    def __init__(self, servicers: Iterable[Servicer], admission: Admission) -> None:
        self._ways: Final = {each.rpc.name: _Way(each) for each in servicers if not each.rpc.is_streaming}
        self._admission = admission

    def knows(self, rpc: str) -> bool:
        """Whether the service has the RPC."""
        return rpc in self._ways

    async def __call__(self, rpc: str, question: dict[str, Any]) -> dict[str, Any]:
        """The answer as REST gives it, parsed. Fields of the question that are None are not given.

        Raises:
            PlanningError, DoorError: why there is no answer, as ``service.api.errors`` lists them.
        """
        way = self._ways[rpc]
        given = {name: value for name, value in question.items() if value is not None}
        request = orjson.dumps(given)
        cache = way.servicer.cache
        answer = cache.peek(rpc, FLAVOUR, request)
        if answer is None:
            with self._admission.place("mcp") as place:
                if way.servicer.is_shared:
                    place.take()
                answer = await _computed(way, given)
            cache.store(rpc, FLAVOUR, request, bytes(memoryview(answer)))
        parsed: dict[str, Any] = orjson.loads(answer)
        return parsed


async def _computed(way: _Way, given: dict[str, Any]) -> bytes:
    servicer = way.servicer
    message, found = way.fill(given)
    question = servicer.question(message, found)
    if servicer.is_shared:
        return way.encode(servicer.rpc.response.FromString(await servicer.shared(message, question)))
    return servicer.codec.write_json(servicer.plan(question))
