"""A failure as either door sends it: ``google.rpc.Status`` as JSON, and as the message in gRPC's trailing metadata."""

from typing import Any, Final

import orjson
from google.rpc import error_details_pb2, status_pb2

from service.api.errors import DOMAIN, Failure, FieldViolation

#: gRPC refuses trailing metadata beyond 8 KiB unless both sides raise it, and sends these bytes in base64.
_MAX_TRAILER_BYTES: Final = 4096
_TYPE_PREFIX: Final = "type.googleapis.com/google.rpc."


def as_json(failure: Failure) -> bytes:
    """The failure as the body of an HTTP response: ``google.rpc.Status`` in JSON."""
    info = {"reason": failure.reason, "domain": DOMAIN, "metadata": dict(failure.metadata)}
    details: list[dict[str, Any]] = [{"@type": f"{_TYPE_PREFIX}ErrorInfo", **info}]
    if failure.violations:
        found = [{"field": v.field, "description": v.description, "reason": v.reason} for v in failure.violations]
        details.append({"@type": f"{_TYPE_PREFIX}BadRequest", "field_violations": found})
    if failure.retry_seconds is not None:
        details.append({"@type": f"{_TYPE_PREFIX}RetryInfo", "retry_delay": f"{failure.retry_seconds}s"})
    if failure.request_id is not None:
        details.append({"@type": f"{_TYPE_PREFIX}RequestInfo", "request_id": failure.request_id})
    return orjson.dumps({"code": failure.code.value[0], "message": failure.message, "details": details})


def as_status(failure: Failure) -> status_pb2.Status:
    """The failure as the message that goes into ``grpc-status-details-bin``, with as many violations as fit there."""
    status = status_pb2.Status(code=failure.code.value[0], message=failure.message)
    info = error_details_pb2.ErrorInfo(reason=failure.reason, domain=DOMAIN, metadata=failure.metadata)
    status.details.add().Pack(info)
    if failure.retry_seconds is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds = failure.retry_seconds
        status.details.add().Pack(retry)
    if failure.request_id is not None:
        status.details.add().Pack(error_details_pb2.RequestInfo(request_id=failure.request_id))
    if failure.violations:
        room = _MAX_TRAILER_BYTES - status.ByteSize()
        status.details.add().Pack(_bad_request(failure.violations, room))
    return status


def _bad_request(violations: tuple[FieldViolation, ...], room_bytes: int) -> error_details_pb2.BadRequest:
    bad = error_details_pb2.BadRequest()
    for each in violations:
        bad.field_violations.add(field=each.field, description=each.description, reason=each.reason)
        if bad.ByteSize() > room_bytes:
            del bad.field_violations[-1]
            break
    return bad
