"""Which request is being worked on: its id, and its place in a trace, for logs, answers, exemplars and spans.

A caller may send both: ``x-request-id``, and ``traceparent`` as https://www.w3.org/TR/trace-context/ has it. What is not of the
expected form is passed over and made anew: it ends in logs, headers and exemplars, and must not be able to forge any of them.
"""

import os
import re
from collections.abc import Iterable
from contextvars import ContextVar
from random import Random
from typing import Any, Final

REQUEST_ID: Final = "x-request-id"
TRACEPARENT: Final = "traceparent"

_ID: Final = re.compile(r"[A-Za-z0-9._~:@/+=-]{1,128}")
#: Version, trace, the caller's span, flags. Later versions may add to the end, after another dash.
_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.{0,256})?")
_SAMPLED: Final = 1
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16

#: Told apart, not kept secret: an identifier from the operating system each time would cost a system call.
_random_bits: Final = Random(os.urandom(32)).getrandbits


class RequestContext:
    """One request. Where its caller sent neither id, the request and the trace have the same one: one number to look for.

    Args:
        request_id: as the caller sent it; None where it sent none, or none of the expected form.
        traceparent: likewise.
    """

    __slots__ = ("_span_id", "_trace_id", "is_sampled", "parent_id", "request_id", "span")

    def __init__(self, request_id: str | None = None, traceparent: str | None = None) -> None:
        self.span: Any = None  # the span that is being recorded, where one is
        self._span_id: str | None = None
        self._trace_id, self.parent_id, self.is_sampled = _trace_of(traceparent)
        if request_id is not None and _ID.fullmatch(request_id):
            self.request_id = request_id
        else:
            self.request_id = made = f"{_random_bits(128) | 1:032x}"
            self._trace_id = self._trace_id or made

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        if self._trace_id is None:
            self._trace_id = f"{_random_bits(128) | 1:032x}"
        return self._trace_id

    @property
    def span_id(self) -> str:
        """16 hexadecimal digits: of the part of the trace that is this request."""
        if self._span_id is None:
            self._span_id = f"{_random_bits(64) | 1:016x}"
        return self._span_id

    def recorded_by(self, span: Any, span_id: str, *, is_sampled: bool) -> None:
        """From now on a span records the request, under an id of its own."""
        self.span, self._span_id, self.is_sampled = span, span_id, is_sampled


def _trace_of(traceparent: str | None) -> tuple[str | None, str | None, bool]:
    """The trace, the caller's span in it, and whether the trace is kept; none where the header is not as it should be."""
    found = None if traceparent is None else _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None, None, False
    version, trace_id, parent_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace_id == _NO_TRACE or parent_id == _NO_SPAN:
        return None, None, False
    return trace_id, parent_id, bool(int(flags, 16) & _SAMPLED)


#: The request that is being worked on; None between requests.
CURRENT: Final[ContextVar[RequestContext | None]] = ContextVar("request", default=None)


def current_id() -> str | None:
    """The id of the request that is being worked on."""
    request = CURRENT.get()
    return None if request is None else request.request_id


def request_of(headers: Iterable[tuple[str, object]]) -> RequestContext:
    """The request with these headers or this metadata, names in lower case. A ``traceparent`` given twice is none."""
    request_id, parents = None, []
    for name, value in headers:
        if name == REQUEST_ID:
            request_id = request_id or str(value)
        elif name == TRACEPARENT:
            parents.append(str(value))
    return RequestContext(request_id, parents[0] if len(parents) == 1 else None)
