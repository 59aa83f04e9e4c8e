"""In which form an answer in parts is sent over REST: lines of JSON, or what ``?format=`` or the Accept header asks for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.types import Scope

from service.api.errors import FieldViolation, MalformedRequest
from service.api.renderings import PARAMETER
from service.api.sweep_csv import SweepCsv


@dataclass(frozen=True, slots=True)
class Form:
    """A form: its name in the URL, its media type, and what makes the body of one answer."""

    name: str
    media_type: str
    encoder: Callable[[], Any]


def _by_descriptors() -> Any:
    raise TypeError("lines of JSON are made from the descriptors")


NDJSON: Final = Form("ndjson", "application/x-ndjson", _by_descriptors)
#: Further forms by RPC.
FORMS: Final[Mapping[str, tuple[Form, ...]]] = MappingProxyType(
    {"RunSweep": (Form("csv", "text/csv; charset=utf-8; header=present", SweepCsv),)}
)


def offered_by(rpc: str) -> tuple[Form, ...]:
    """The forms of an RPC that streams, the usual one first."""
    return (NDJSON, *FORMS.get(rpc, ()))


def asked_for(scope: Scope, offered: tuple[Form, ...]) -> Form:
    """The form that a request asks for. What the URL says goes before the Accept header, which may name what is not offered.

    Raises:
        MalformedRequest: the URL asks for a form that is not offered.
    """
    names = [value for name, value in parse_qsl(scope["query_string"].decode("latin-1"), True) if name == PARAMETER]
    by_name = {each.name: each for each in offered} | {"json": NDJSON}
    if names:
        if len(names) > 1 or names[0] not in by_name:
            raise MalformedRequest([FieldViolation(PARAMETER, f"this call answers in {', '.join(by_name)}, one of them")])
        return by_name[names[0]]
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept").decode("latin-1").lower()
    wanted = [part.partition(";")[0].strip() for part in accepted.split(",")]
    by_type = {each.media_type.partition(";")[0]: each for each in offered}
    return next((by_type[kind] for kind in wanted if kind in by_type), offered[0])
