"""The error table: complete, and as the design has it."""

import inspect
import re

import grpc
import pytest

from service.api import errors
from service.api.errors import TABLE, DoorError, failure_of
from service.api.failure_bodies import as_json, as_status
from service.planning import errors as planning_errors
from service.planning.errors import (
    InvalidRequest,
    NotFound,
    OutOfTime,
    PlanningError,
    TooLarge,
    Unanswerable,
    Undecided,
    Violation,
)

CODE = grpc.StatusCode

#: One error of each kind, and what either door makes of it.
EXPECTED = [
    (InvalidRequest(Violation("batch_size", "it is too large", "halve it")), CODE.INVALID_ARGUMENT, 400, "INVALID_REQUEST"),
    (errors.MalformedRequest([errors.FieldViolation("a", "b")]), CODE.INVALID_ARGUMENT, 400, "INVALID_REQUEST"),
    (errors.Unreadable("the body is not JSON"), CODE.INVALID_ARGUMENT, 400, "UNREADABLE_REQUEST"),
    (NotFound("model.name", "model", "x", ("y", "z")), CODE.NOT_FOUND, 404, "NAME_NOT_FOUND"),
    (Unanswerable("accelerator.name", "it has no fp4 peak", "choose bf16"), CODE.FAILED_PRECONDITION, 400, "FIGURE_MISSING"),
    (Undecided("no pod fits any option"), CODE.FAILED_PRECONDITION, 400, "UNDECIDED"),
    (OutOfTime("300 options took too long"), CODE.DEADLINE_EXCEEDED, 504, "OUT_OF_TIME"),
    (TooLarge("max_num_nodes", "3000 shapes", 2000, "allow fewer"), CODE.RESOURCE_EXHAUSTED, 429, "TOO_LARGE"),
    (errors.TooManyInFlight(256), CODE.RESOURCE_EXHAUSTED, 429, "TOO_MANY_REQUESTS"),
    (errors.Unavailable("the demand is not known"), CODE.UNAVAILABLE, 503, "UNAVAILABLE"),
    (errors.CallerLimited("buyer asks more than 5 requests per second", 2), CODE.RESOURCE_EXHAUSTED, 429, "CALLER_LIMITED"),
    (errors.Unauthenticated("no credentials"), CODE.UNAUTHENTICATED, 401, "UNAUTHENTICATED"),
    (errors.PermissionDenied("buyer", "plan", ["read"]), CODE.PERMISSION_DENIED, 403, "PERMISSION_DENIED"),
    (errors.BodyTooLarge(4096), CODE.RESOURCE_EXHAUSTED, 413, "BODY_TOO_LARGE"),
    (errors.UnsupportedContentType("text/plain"), CODE.INVALID_ARGUMENT, 415, "UNSUPPORTED_CONTENT_TYPE"),
    (errors.NotAcceptable("text/html", ["application/json"]), CODE.INVALID_ARGUMENT, 406, "NOT_ACCEPTABLE"),
    (errors.UnsupportedContentEncoding("gzip"), CODE.INVALID_ARGUMENT, 415, "UNSUPPORTED_CONTENT_ENCODING"),
    (errors.TooManyPending(4096), CODE.RESOURCE_EXHAUSTED, 429, "TOO_MANY_PENDING_BODIES"),
    (errors.UnknownPath("/v9"), CODE.UNIMPLEMENTED, 404, "UNKNOWN_PATH"),
    (errors.ForeignHost("evil.example"), CODE.PERMISSION_DENIED, 421, "FOREIGN_HOST"),
    (errors.ForeignOrigin("http://evil.example"), CODE.PERMISSION_DENIED, 403, "FOREIGN_ORIGIN"),
    (errors.WrongMethod("PUT", "/v1/models", ["GET"]), CODE.UNIMPLEMENTED, 405, "METHOD_NOT_ALLOWED"),
]


def test_every_error_that_can_be_raised_on_purpose_has_a_row() -> None:
    modules = (errors, planning_errors)
    kinds = {kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)}
    raised = {kind for kind in kinds if issubclass(kind, DoorError | PlanningError)} - {DoorError, PlanningError}
    assert raised == {row.kind for row in TABLE} == {type(error) for error, *_ in EXPECTED}


@pytest.mark.parametrize(("error", "code", "http_status", "reason"), EXPECTED, ids=lambda value: type(value).__name__)
def test_rows(error: Exception, code: grpc.StatusCode, http_status: int, reason: str) -> None:
    failure = failure_of(error, "test")
    assert (code, http_status, reason) == (failure.code, failure.http_status, failure.reason)
    assert re.fullmatch("[A-Z][A-Z_]+[A-Z]", failure.reason)
    assert as_status(failure).code == code.value[0]
    assert reason.encode() in as_json(failure)


def test_what_heals_by_itself_says_when_to_come_back() -> None:
    failure = failure_of(errors.TooManyInFlight(256, retry_seconds=3), "test")
    assert "3" == failure.headers["retry-after"]
    assert b'"retry_delay":"3s"' in as_json(failure)
    assert {"google.rpc.ErrorInfo", "google.rpc.RetryInfo"} == {each.TypeName() for each in as_status(failure).details}


def test_a_bug_leaks_nothing_and_its_cause_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    failure = failure_of(ZeroDivisionError("the secret cause"), "EstimateDecode")
    assert (CODE.INTERNAL, 500, "INTERNAL_ERROR") == (failure.code, failure.http_status, failure.reason)
    assert b"secret" not in as_json(failure)
    assert b"secret" not in as_status(failure).SerializeToString()
    (record,) = caplog.records
    assert failure.metadata["error_id"] == record.__dict__["error_id"]
    assert record.exc_info is not None
    assert "the secret cause" == str(record.exc_info[1])


def test_a_subclass_of_a_known_error_is_a_bug_until_it_has_a_row() -> None:
    class Novel(NotFound):
        pass

    assert CODE.INTERNAL is failure_of(Novel("field", "kind", "name", ()), "test").code
