"""In which of the forms that a call offers it is answered: what ``?format=`` names, or else what the Accept header prefers."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeVar
from urllib.parse import parse_qsl, urlencode

from starlette.types import Scope

from service.api.errors import FieldViolation, MalformedRequest, NotAcceptable

#: The query parameter that asks for a form.
PARAMETER: Final = "format"
_PARAMETER_BYTES: Final = PARAMETER.encode()
_ANYTHING: Final = [b"*/*"]
_QUALITY: Final = re.compile(r"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)")


class Offered(Protocol):
    """A form: its name in the URL, its media type, and the other names and media types that stand for it."""

    @property
    def name(self) -> str:
        """Its name in the URL."""
        ...

    @property
    def media_type(self) -> str:
        """The media type that it is sent as."""
        ...

    @property
    def also(self) -> tuple[str, ...]:
        """What else stands for it."""
        ...


_FormT = TypeVar("_FormT", bound=Offered)


def asked_for(scope: Scope, offered: Sequence[_FormT]) -> _FormT:
    """The form that a request asks for; the first of those offered where it does not say.

    Raises:
        MalformedRequest: the URL asks for a form that is not offered, or for several.
        NotAcceptable: the Accept header allows none.
    """
    if _PARAMETER_BYTES in scope["query_string"] and (named := _named(scope["query_string"], offered)) is not None:
        return named
    return _accepted(scope, offered)


def without_format(query: bytes) -> bytes:
    """The query string without what asks for a form, for whoever reads the rest as fields.

    >>> without_format(b"page_size=2&format=json"), without_format(b"page_size=2")
    (b'page_size=2', b'page_size=2')
    """
    if _PARAMETER_BYTES not in query:
        return query
    kept = [pair for pair in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if pair[0] != PARAMETER]
    return urlencode(kept).encode()


def _named(query: bytes, offered: Sequence[_FormT]) -> _FormT | None:
    names = [value for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if name == PARAMETER]
    if not names:
        return None
    found = [each for each in offered if names[0] in (each.name, *each.also)]
    if len(names) == 1 and found:
        return found[0]
    known = ", ".join(each.name for each in offered)
    reason = "it is given more than once" if len(names) > 1 else f"this call answers in {known}"
    raise MalformedRequest([FieldViolation(PARAMETER, reason)])


def _accepted(scope: Scope, offered: Sequence[_FormT]) -> _FormT:
    values = [value for name, value in scope["headers"] if name == b"accept"]
    if not values or values == _ANYTHING:
        return offered[0]
    header = b",".join(values).decode("latin-1").lower()
    if not header.strip(", \t"):
        return offered[0]
    ranges = list(_ranges(header))
    ranked = [(_rank(each, ranges), each) for each in offered]
    best, form = max(ranked, key=lambda pair: pair[0])
    if best[0] <= 0:
        raise NotAcceptable(header, tuple(_base(each.media_type) for each in offered))
    return form


def _ranges(header: str) -> Iterator[tuple[str, float]]:
    """The media ranges of a header with their qualities; one whose quality is malformed counts as refused."""
    for part in header.split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((each.partition("=")[2].strip() for each in parameters if each.partition("=")[0].strip() == "q"), "1")
        if kind:
            yield kind, float(quality) if _QUALITY.fullmatch(quality) else 0.0


def _rank(form: Offered, ranges: Sequence[tuple[str, float]]) -> tuple[float, int, int]:
    """How much a form is wanted: by the quality of the range that names it most exactly, then by that, then by its place."""
    kinds = {_base(form.media_type), *(each for each in form.also if "/" in each)}
    groups = {f"{kind.partition('/')[0]}/*" for kind in kinds}
    matches = [
        (exactness, -place, quality)
        for place, (kind, quality) in enumerate(ranges)
        for exactness, names in ((2, kinds), (1, groups), (0, {"*/*"}))
        if kind in names
    ]
    if not matches:
        return 0.0, 0, 0
    exactness, place, quality = max(matches)
    return quality, exactness, place


def _base(media_type: str) -> str:
    return media_type.partition(";")[0].strip()
