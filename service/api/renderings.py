"""Answers in another form than JSON: ``?format=svg``. One table says which form is which field of an answer.

An RPC offers a form where its answer has that field; nothing is registered by hand.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from google.protobuf.descriptor import Descriptor

from service.api.errors import FieldViolation, MalformedRequest

#: The query parameter that asks for a form, and what it says for the usual one.
PARAMETER: Final = "format"
JSON: Final = "json"


@dataclass(frozen=True, slots=True)
class Rendering:
    """A form: its name in the URL, the media type it is sent as, and the field of the answer that holds it as text."""

    name: str
    media_type: str
    field: str

    def body(self, answer: Any) -> bytes:
        """The form of an answer, be it a message or a dataclass."""
        text: str = getattr(answer, self.field)
        return text.encode()


RENDERINGS: Final = MappingProxyType({each.name: each for each in (Rendering("svg", "image/svg+xml", "svg"),)})


def offered_by(answer: Descriptor) -> tuple[Rendering, ...]:
    """The forms besides JSON that answers of this type have."""
    return tuple(each for each in RENDERINGS.values() if each.field in answer.fields_by_name)


def asked_for(query: bytes, offered: tuple[Rendering, ...]) -> Rendering | None:
    """The form that a query string asks for; None for JSON, which is also what it gets that asks for nothing.

    Raises:
        MalformedRequest: the RPC has no such form, or several are asked for.
    """
    if PARAMETER.encode() not in query:
        return None
    names = [value for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if name == PARAMETER]
    found = [each for each in offered if [each.name] == names]
    if found:
        return found[0]
    if names in ([], [JSON]):
        return None
    known = ", ".join((JSON, *(each.name for each in offered)))
    reason = "it is given more than once" if len(names) > 1 else f"this call answers in {known}"
    raise MalformedRequest([FieldViolation(PARAMETER, reason)])


def without_format(query: bytes) -> bytes:
    """The query string without what asks for a form, for whoever reads the rest as fields.

    >>> without_format(b"page_size=2&format=json"), without_format(b"page_size=2")
    (b'page_size=2', b'page_size=2')
    """
    if PARAMETER.encode() not in query:
        return query
    kept = [pair for pair in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if pair[0] != PARAMETER]
    return urlencode(kept).encode()
