"""The one table from what went wrong to what either door answers; ``failure_bodies`` writes it out.

Both doors answer with the same ``google.rpc.Status``: ``ErrorInfo`` says what it was for programs, ``BadRequest`` which fields
it was about, ``RetryInfo`` when to come back, ``RequestInfo`` the request's id in the log. Whatever the table does not name is
a bug: its cause goes to the log under an id, and the id is all that the caller sees.
"""

import errno
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import grpc
from msgspec import Struct, field

from service.planning.errors import InvalidRequest, NotFound, OutOfTime, TooLarge, Unanswerable, Undecided
from service.request_context import current_id
from service.telemetry import REQUEST_LOG

DOMAIN: Final = "tonnage"
#: The most violations that an answer lists; the rest is counted.
MAX_VIOLATIONS: Final = 100
_MAX_MESSAGE_CHARACTERS: Final = 512

_logger = logging.getLogger(REQUEST_LOG)


class DoorError(Exception):
    """A request that was refused before planning saw it."""


class Unreadable(DoorError):
    """The body or the message cannot be parsed; the text says where parsing stopped."""


class BodyTooLarge(DoorError):
    """The body is larger than is taken."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"the body is larger than the {limit_bytes} bytes that are taken")
        self.limit_bytes = limit_bytes


class UnsupportedContentType(DoorError):
    """The body is not declared as JSON in UTF-8."""

    def __init__(self, given: str) -> None:
        what = f"is {shortened(given)!r}" if given else "is missing"
        super().__init__(f"the Content-Type {what}; send application/json")


class NotAcceptable(DoorError):
    """The Accept header allows none of the media types that the call answers in."""

    def __init__(self, accept: str, offered: Iterable[str]) -> None:
        self.offered = ", ".join(offered)
        super().__init__(f"the Accept header {shortened(accept)!r} allows none of what there is: {self.offered}")


class UnsupportedContentEncoding(DoorError):
    """The body is compressed, which could make much out of little."""

    def __init__(self, given: str) -> None:
        super().__init__(f"the Content-Encoding is {shortened(given)!r}; send the body as it is")


class TooManyPending(DoorError):
    """The bodies that are on their way hold as much memory as they may."""

    def __init__(self, limit_bytes: int, retry_seconds: int = 1) -> None:
        super().__init__(f"bodies of {limit_bytes} bytes are on their way, which is the limit; try again in {retry_seconds} s")
        self.limit = limit_bytes
        self.retry_seconds = retry_seconds


class UnknownPath(DoorError):
    """Nothing is served at the path; ``why`` where there could be something."""

    def __init__(self, path: str, why: str = "/openapi.json lists what is") -> None:
        super().__init__(f"nothing is served at {shortened(path)!r}; {why}")


class ForeignHost(DoorError):
    """The request is addressed to a name that the service is not known by."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{shortened(host)!r} is no name of this service; TONNAGE_MCP_ALLOWED_HOSTS lists those that are")


class ForeignOrigin(DoorError):
    """The request comes out of a web page of somebody else's."""

    def __init__(self, origin: str) -> None:
        super().__init__(f"pages of {shortened(origin)!r} may not ask; TONNAGE_MCP_ALLOWED_HOSTS lists whose may")


class WrongMethod(DoorError):
    """The path is served, but not by this HTTP method."""

    def __init__(self, method: str, path: str, allowed: Iterable[str]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        super().__init__(f"{shortened(path)!r} does not take {shortened(method)}; it takes {self.allowed}")


class TooManyInFlight(DoorError):
    """The process already works on as many requests as it may."""

    def __init__(self, limit: int, retry_seconds: int = 1) -> None:
        super().__init__(f"{limit} requests are being worked on, which is the limit; try again in {retry_seconds} s")
        self.limit = limit
        self.retry_seconds = retry_seconds


class Unauthenticated(DoorError):
    """No credentials, or none that are known."""


class PermissionDenied(DoorError):
    """The caller is known and may not ask this."""

    def __init__(self, caller: str, scope: str, held: Iterable[str]) -> None:
        have = ", ".join(sorted(held)) or "none"
        super().__init__(f"this needs the scope {scope}; {caller} has {have}. The service's operator grants scopes")
        self.scope = scope


class CallerLimited(DoorError):
    """The caller asks more than its share."""

    def __init__(self, reason: str, retry_seconds: int) -> None:
        super().__init__(f"{reason}; try again in {retry_seconds} s")
        self.retry_seconds = retry_seconds


class Unavailable(DoorError):
    """There is an answer to the question, but what it rests on is not at hand now: leave everything as it is."""

    def __init__(self, reason: str, retry_seconds: int = 1) -> None:
        super().__init__(reason)
        self.retry_seconds = retry_seconds


class FieldViolation(Struct, frozen=True):
    """One thing wrong with one field, as ``google.rpc.BadRequest.FieldViolation`` has it."""

    field: str
    description: str
    reason: str = "INVALID_VALUE"


class MalformedRequest(DoorError):
    """Fields that the schema refuses; carries all of them."""

    def __init__(self, violations: Iterable[FieldViolation]) -> None:
        self.violations = tuple(violations)
        super().__init__(_summary(self.violations))


class _About(Struct, frozen=True):
    """What an error says besides its text."""

    violations: tuple[FieldViolation, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_seconds: int | None = None


class Row(Struct, frozen=True):
    """One row of the table."""

    kind: type[Exception]
    code: grpc.StatusCode
    http_status: int
    reason: str  # of ErrorInfo
    about: Callable[[Any], _About] = lambda _: _About()


class Failure(Struct, frozen=True):
    """What a door answers in place of an answer."""

    code: grpc.StatusCode
    http_status: int
    message: str
    reason: str
    violations: tuple[FieldViolation, ...]
    metadata: Mapping[str, str]
    headers: Mapping[str, str]  # of HTTP
    retry_seconds: int | None
    request_id: str | None = None


def _about_invalid(error: InvalidRequest) -> _About:
    found = (
        FieldViolation(each.field, f"{each.reason}; {each.remedy}" if each.remedy else each.reason) for each in error.violations
    )
    return _About(tuple(found))


def _about_not_found(error: NotFound) -> _About:
    nearest = ", ".join(error.nearest)
    metadata = {"field": error.field, "kind": error.kind, "name": shortened(error.name), "nearest": nearest}
    return _About(tuple(map(_name_not_found, (error, *error.others))), metadata)


def _name_not_found(error: NotFound) -> FieldViolation:
    description = f"the catalogue has no {error.kind} called {shortened(error.name)!r}"
    description += f"; the nearest are {', '.join(error.nearest)}" if error.nearest else ""
    return FieldViolation(error.field, description, "NAME_NOT_FOUND")


def _about_unanswerable(error: Unanswerable) -> _About:
    metadata = {"field": error.field, "missing": error.missing, "remedy": error.remedy}
    return _About((FieldViolation(error.field, f"{error.missing}; {error.remedy}", "FIGURE_MISSING"),), metadata)


def _about_too_many(error: TooManyInFlight | TooManyPending) -> _About:
    return _About(
        metadata={"limit": str(error.limit)},
        headers={"retry-after": str(error.retry_seconds)},
        retry_seconds=error.retry_seconds,
    )


def _about_limited(error: CallerLimited | Unavailable) -> _About:
    return _About(headers={"retry-after": str(error.retry_seconds)}, retry_seconds=error.retry_seconds)


def _about_too_large(error: TooLarge) -> _About:
    metadata = {"field": error.field, "limit": str(error.limit), "remedy": error.remedy}
    return _About((FieldViolation(error.field, str(error), "TOO_LARGE"),), metadata)


_C = grpc.StatusCode

TABLE: Final = (
    Row(InvalidRequest, _C.INVALID_ARGUMENT, 400, "INVALID_REQUEST", _about_invalid),
    Row(MalformedRequest, _C.INVALID_ARGUMENT, 400, "INVALID_REQUEST", lambda error: _About(error.violations)),
    Row(Unreadable, _C.INVALID_ARGUMENT, 400, "UNREADABLE_REQUEST"),
    Row(NotFound, _C.NOT_FOUND, 404, "NAME_NOT_FOUND", _about_not_found),
    Row(Unanswerable, _C.FAILED_PRECONDITION, 400, "FIGURE_MISSING", _about_unanswerable),
    Row(Undecided, _C.FAILED_PRECONDITION, 400, "UNDECIDED"),
    Row(OutOfTime, _C.DEADLINE_EXCEEDED, 504, "OUT_OF_TIME"),
    Row(TooLarge, _C.RESOURCE_EXHAUSTED, 429, "TOO_LARGE", _about_too_large),
    Row(TooManyInFlight, _C.RESOURCE_EXHAUSTED, 429, "TOO_MANY_REQUESTS", _about_too_many),
    Row(Unavailable, _C.UNAVAILABLE, 503, "UNAVAILABLE", _about_limited),
    Row(TooManyPending, _C.RESOURCE_EXHAUSTED, 429, "TOO_MANY_PENDING_BODIES", _about_too_many),
    Row(CallerLimited, _C.RESOURCE_EXHAUSTED, 429, "CALLER_LIMITED", _about_limited),
    Row(
        Unauthenticated,
        _C.UNAUTHENTICATED,
        401,
        "UNAUTHENTICATED",
        lambda _: _About(headers={"www-authenticate": 'Bearer realm="tonnage"'}),
    ),
    Row(
        PermissionDenied, _C.PERMISSION_DENIED, 403, "PERMISSION_DENIED", lambda error: _About(metadata={"scope": error.scope})
    ),
    Row(
        BodyTooLarge,
        _C.RESOURCE_EXHAUSTED,
        413,
        "BODY_TOO_LARGE",
        lambda error: _About(metadata={"limit_bytes": str(error.limit_bytes)}),
    ),
    Row(
        UnsupportedContentType,
        _C.INVALID_ARGUMENT,
        415,
        "UNSUPPORTED_CONTENT_TYPE",
        lambda _: _About(metadata={"supported": "application/json"}, headers={"accept": "application/json"}),
    ),
    Row(
        NotAcceptable,
        _C.INVALID_ARGUMENT,
        406,
        "NOT_ACCEPTABLE",
        lambda error: _About(metadata={"supported": error.offered}),
    ),
    Row(
        UnsupportedContentEncoding,
        _C.INVALID_ARGUMENT,
        415,
        "UNSUPPORTED_CONTENT_ENCODING",
        lambda _: _About(headers={"accept-encoding": "identity"}),
    ),
    Row(UnknownPath, _C.UNIMPLEMENTED, 404, "UNKNOWN_PATH"),
    Row(ForeignHost, _C.PERMISSION_DENIED, 421, "FOREIGN_HOST"),
    Row(ForeignOrigin, _C.PERMISSION_DENIED, 403, "FOREIGN_ORIGIN"),
    Row(
        WrongMethod,
        _C.UNIMPLEMENTED,
        405,
        "METHOD_NOT_ALLOWED",
        lambda error: _About(metadata={"allowed": error.allowed}, headers={"allow": error.allowed}),
    ),
)

_ROWS: Final = {row.kind: row for row in TABLE}
#: What a disk says that takes no more: nothing that a bug could cause. Only workbooks are written to one.
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def failure_of(error: Exception, asked: str) -> Failure:
    """What either door answers to the error; logs it under an id where it is a bug.

    Args:
        error: what the request ended in.
        asked: the RPC or route, for the log.
    """
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        _logger.error("%s: no room on the disk for temporary files: %s", asked, error)
        error = Unavailable(
            "the service's disk is full, and this form of answer needs room on it; ask for JSON or CSV meanwhile", 60
        )
    row = _ROWS.get(type(error))
    if row is None:
        return _bug(error, asked)
    about = row.about(error)
    text = _summary(about.violations) if row.reason == "INVALID_REQUEST" else str(error)
    return Failure(
        code=row.code,
        http_status=row.http_status,
        message=shortened(text, _MAX_MESSAGE_CHARACTERS),
        reason=row.reason,
        violations=_bounded(about.violations),
        metadata=about.metadata,
        headers=about.headers,
        retry_seconds=about.retry_seconds,
        request_id=current_id(),
    )


def _bug(error: Exception, asked: str) -> Failure:
    error_id = secrets.token_hex(8)
    _logger.error("%s failed", asked, exc_info=error, extra={"error_id": error_id})
    message = f"the service failed on this request; its log says why under {error_id}"
    return Failure(_C.INTERNAL, 500, message, "INTERNAL_ERROR", (), {"error_id": error_id}, {}, None, current_id())


def shortened(text: str, limit: int = 120) -> str:
    """The text, cut where it is longer than so many characters: what a caller sends is quoted, not echoed."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _summary(violations: tuple[FieldViolation, ...]) -> str:
    if not violations:
        return "the request is refused"
    first = violations[0]
    text = f"{first.field}: {first.description}" if first.field else first.description
    more = len(violations) - 1
    return text if more == 0 else f"{shortened(text, 400)} (and {more} more)"


def _bounded(violations: tuple[FieldViolation, ...]) -> tuple[FieldViolation, ...]:
    return tuple(
        FieldViolation(shortened(each.field, 200), shortened(each.description, 400), each.reason)
        for each in violations[:MAX_VIOLATIONS]
    )
