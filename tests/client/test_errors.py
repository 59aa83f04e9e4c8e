"""A failed call raises the exception of its status, with what stands in the status's details."""

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

import tonnage
from tests.client.conftest import ScriptedServer, fails, made_status
from tonnage import AsyncClient, Client, InvalidRequest, NotFound, Overloaded, TonnageError, Violation

CLASSES = [
    (grpc.StatusCode.INVALID_ARGUMENT, tonnage.InvalidRequest),
    (grpc.StatusCode.NOT_FOUND, tonnage.NotFound),
    (grpc.StatusCode.FAILED_PRECONDITION, tonnage.Unanswerable),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, tonnage.Overloaded),
    (grpc.StatusCode.UNAVAILABLE, tonnage.Unavailable),
    (grpc.StatusCode.DEADLINE_EXCEEDED, tonnage.DeadlineExceeded),
    (grpc.StatusCode.UNAUTHENTICATED, tonnage.Refused),
    (grpc.StatusCode.PERMISSION_DENIED, tonnage.Refused),
    (grpc.StatusCode.UNIMPLEMENTED, tonnage.Unimplemented),
    (grpc.StatusCode.INTERNAL, tonnage.ServiceFault),
    (grpc.StatusCode.UNKNOWN, tonnage.ServiceFault),
    (grpc.StatusCode.DATA_LOSS, tonnage.TonnageError),
]


def failure(server: ScriptedServer, answer: status_pb2.Status) -> TonnageError:
    server.script["GetModel"] = fails(answer)
    with Client(server.target) as client, pytest.raises(TonnageError) as raised:
        client.get_model("m")
    return raised.value


@pytest.mark.parametrize(("code", "kind"), CLASSES, ids=lambda value: getattr(value, "name", None))
async def test_each_status_has_its_exception_in_both_clients(
    scripted: ScriptedServer, code: grpc.StatusCode, kind: type[TonnageError]
) -> None:
    error = failure(scripted, made_status(code, "what happened"))
    async with AsyncClient(scripted.target) as client:
        with pytest.raises(TonnageError) as raised:
            await client.get_model("m")

    for each in (error, raised.value):
        assert kind is type(each)
        assert "what happened" == str(each)
        assert code == each.code
        assert code.value[0] == each.status.code


def test_every_violation_is_told(scripted: ScriptedServer) -> None:
    fault = error_details_pb2.BadRequest()
    fault.field_violations.add(field="batch_size", description="must be at least 1")
    fault.field_violations.add(field="parallelism.tensor", description="9 does not divide 64 query heads")

    error = failure(scripted, made_status(grpc.StatusCode.INVALID_ARGUMENT, "2 fields", fault))

    assert isinstance(error, InvalidRequest)
    expected = (
        Violation("batch_size", "must be at least 1"),
        Violation("parallelism.tensor", "9 does not divide 64 query heads"),
    )
    assert expected == error.violations


def test_a_thousand_violations_arrive(scripted: ScriptedServer) -> None:
    fault = error_details_pb2.BadRequest()
    for position in range(500):
        fault.field_violations.add(field=f"model.hf_config.field_{position}", description="is not a number")

    error = failure(scripted, made_status(grpc.StatusCode.INVALID_ARGUMENT, "500 fields", fault))

    assert isinstance(error, InvalidRequest)
    assert 500 == len(error.violations)


def test_the_nearest_names_are_told(scripted: ScriptedServer) -> None:
    info = error_details_pb2.ErrorInfo(
        reason="MODEL_NOT_FOUND", domain="tonnage", metadata={"nearest": "llama-3.1-8b, llama-3.1-70b"}
    )

    error = failure(scripted, made_status(grpc.StatusCode.NOT_FOUND, "no model called 'llama'", info))

    assert isinstance(error, NotFound)
    assert ("llama-3.1-8b", "llama-3.1-70b") == error.nearest
    assert "MODEL_NOT_FOUND" == error.reason


def test_what_is_missing_is_told(scripted: ScriptedServer) -> None:
    metadata = {"missing": "the A100 has no fp4 peak", "remedy": "ask with compute bf16"}
    info = error_details_pb2.ErrorInfo(reason="FIGURE_MISSING", domain="tonnage", metadata=metadata)

    error = failure(scripted, made_status(grpc.StatusCode.FAILED_PRECONDITION, "precision.compute: no fp4 peak", info))

    assert isinstance(error, tonnage.Unanswerable)
    assert ("the A100 has no fp4 peak", "ask with compute bf16") == (error.missing, error.remedy)


def test_when_to_come_back_is_told(scripted: ScriptedServer) -> None:
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1, nanos=500_000_000))

    error = failure(scripted, made_status(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", retry))
    silent = failure(scripted, made_status(grpc.StatusCode.RESOURCE_EXHAUSTED, "too large"))

    assert isinstance(error, Overloaded)
    assert 1.5 == error.retry_after_seconds
    assert isinstance(silent, Overloaded)
    assert silent.retry_after_seconds is None


def test_details_that_are_none_of_ours_are_passed_over(scripted: ScriptedServer) -> None:
    def garbled(request: object, context: grpc.ServicerContext) -> Any:
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff no status"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "from a proxy")

    scripted.script["GetModel"] = garbled
    with Client(scripted.target) as client, pytest.raises(NotFound, match="from a proxy") as raised:
        client.get_model("m")

    assert () == raised.value.nearest
    assert "" == raised.value.reason


def test_a_bug_of_the_service_does_not_leak(scripted: ScriptedServer) -> None:
    error = failure(scripted, made_status(grpc.StatusCode.INTERNAL, "internal error"))

    assert () == tuple(error.status.details)
