"""Why a call was not answered: one exception per status, with what the service said in its details."""

from typing import NamedTuple, Protocol, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

_DetailT = TypeVar("_DetailT", bound=Message)


class Violation(NamedTuple):
    """One thing wrong with a request."""

    field: str
    """Path of the field in the request: ``"parallelism.tensor"``."""
    reason: str
    """What is wrong with it, in a sentence."""


class TonnageError(Exception):
    """A call that was not answered. ``str()`` of it is a message for people."""

    def __init__(
        self, message: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN, status: status_pb2.Status | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        """The gRPC status code."""
        self.status = status or status_pb2.Status(code=code.value[0], message=message)
        """The status with all its details; REST sends the same one as its body."""
        info = _detail(self.status, error_details_pb2.ErrorInfo)
        self.reason = info.reason if info else ""
        """The reason for programs, in UPPER_SNAKE_CASE. Empty where the service gave none."""
        self.metadata: dict[str, str] = dict(info.metadata) if info else {}
        """What goes with the reason."""
        request = _detail(self.status, error_details_pb2.RequestInfo)
        self.request_id = request.request_id if request else ""
        """Under which the service's log knows the call. Empty where the service gave none."""


class InvalidRequest(TonnageError):
    """The request is malformed or contradicts itself. ``violations`` holds every fault found, not only the first."""

    def __init__(
        self,
        message: str,
        code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT,
        status: status_pb2.Status | None = None,
    ) -> None:
        super().__init__(message, code, status)
        fault = _detail(self.status, error_details_pb2.BadRequest)
        found = fault.field_violations if fault else ()
        self.violations = tuple(Violation(violation.field, violation.description) for violation in found)

    @classmethod
    def of(cls, *violations: Violation) -> "InvalidRequest":
        """The error for faults that were found before anything was sent."""
        message = "; ".join(f"{field}: {reason}" if field else reason for field, reason in violations)
        status = status_pb2.Status(code=grpc.StatusCode.INVALID_ARGUMENT.value[0], message=message)
        fault = error_details_pb2.BadRequest()
        for field, reason in violations:
            fault.field_violations.add(field=field, description=reason)
        status.details.add().Pack(fault)
        return cls(message, status=status)


class NotFound(TonnageError):
    """The catalogue has no such accelerator, model or node type. ``nearest`` holds the names closest to it."""

    @property
    def nearest(self) -> tuple[str, ...]:
        """Names that the catalogue does have, the closest first. Empty where nothing is close."""
        return tuple(name.strip() for name in self.metadata.get("nearest", "").split(",") if name.strip())


class Unanswerable(TonnageError):
    """The question is sound, but a figure that its answer needs does not exist. Nothing is extrapolated."""

    @property
    def missing(self) -> str:
        """What does not exist, in a sentence."""
        return self.metadata.get("missing", "")

    @property
    def remedy(self) -> str:
        """What to ask or give instead, in a sentence. Empty where nothing would help."""
        return self.metadata.get("remedy", "")


class Overloaded(TonnageError):
    """Too much was asked at once, or in one request."""

    @property
    def retry_after_seconds(self) -> float | None:
        """How long the service asks to be left alone. None where trying again would not help, or is not said."""
        info = _detail(self.status, error_details_pb2.RetryInfo)
        return info.retry_delay.seconds + info.retry_delay.nanos / 1e9 if info else None


class Unavailable(TonnageError):
    """No service answers at the address, also after retries."""


class DeadlineExceeded(TonnageError):
    """The answer took longer than the call's timeout."""


class Refused(TonnageError):
    """The service, or what stands before it, does not accept the caller: credentials are missing or not enough."""


class Unimplemented(TonnageError):
    """The server at the address does not know the call: an older service, or another one altogether."""


class ServiceFault(TonnageError):
    """The service failed. The cause is in its log."""


_BY_CODE: dict[grpc.StatusCode, type[TonnageError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.FAILED_PRECONDITION: Unanswerable,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.UNAUTHENTICATED: Refused,
    grpc.StatusCode.PERMISSION_DENIED: Refused,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.INTERNAL: ServiceFault,
    grpc.StatusCode.UNKNOWN: ServiceFault,
}


class _FailedCall(Protocol):
    """What the errors of the blocking and of the asyncio library have in common."""

    def code(self) -> grpc.StatusCode: ...
    def details(self) -> str | None: ...


def from_rpc_error(error: grpc.RpcError) -> TonnageError:
    """The exception for a failed call, blocking or asyncio."""
    call = cast(_FailedCall, error)
    code = call.code()
    kind = _BY_CODE.get(code, TonnageError)
    return kind(call.details() or code.name, code, _status(error))


def _status(error: grpc.RpcError) -> status_pb2.Status | None:
    try:
        return rpc_status.from_call(cast(grpc.Call, error))
    except (ValueError, DecodeError):  # written by something that is no Tonnage: the code and message must do
        return None


def _detail(status: status_pb2.Status, kind: type[_DetailT]) -> _DetailT | None:
    for packed in status.details:
        if packed.Is(kind.DESCRIPTOR):
            detail = kind()
            try:
                packed.Unpack(detail)
            except DecodeError:
                return None
            return detail
    return None
