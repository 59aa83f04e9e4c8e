"""What the client is tested against: the real service in a process of its own, and a gRPC server that fails on demand."""

import functools
import sys
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from tests.service_process import RunningService, free_port
from tonnage import cli, methods
from tonnage.v1.capacity_service_pb2 import EstimateDecodeResponse

Answer = Callable[[Message, grpc.ServicerContext], Message]


def answers(message: Message) -> Answer:
    """Always the same answer."""
    return lambda request, context: message


def fails(status: status_pb2.Status) -> Answer:
    """Always the same failure, with its details."""

    def fail(request: Message, context: grpc.ServicerContext) -> Message:
        context.abort_with_status(rpc_status.to_status(status))
        raise AssertionError("abort_with_status raises")

    return fail


@pytest.fixture(autouse=True)
def _width_of_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests, or another test, may have set a width."""
    monkeypatch.delenv("COLUMNS", raising=False)


@dataclass
class ScriptedServer:
    """A real gRPC server of the schema's methods that answers as it is told, and remembers what it was sent."""

    port: int
    script: dict[str, Answer] = field(default_factory=dict)
    requests: list[Message] = field(default_factory=list)
    metadata: list[dict[str, str | bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.health = health.HealthServicer()
        self._server: grpc.Server | None = None

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.health = health.HealthServicer()
        self.health.set("", health_pb2.HealthCheckResponse.SERVING)
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        for service in sorted({each.path.split("/")[1] for each in vars(methods).values() if isinstance(each, methods.Method)}):
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, self._handlers(service)),))
        if credentials:
            self._server.add_secure_port(self.target, credentials)
        else:
            self._server.add_insecure_port(self.target)
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None

    def _handlers(self, service: str) -> dict[str, "grpc.RpcMethodHandler[Message, Message]"]:
        listed = [method for method in vars(methods).values() if isinstance(method, methods.Method)]
        return {
            method.path.rpartition("/")[2]: grpc.unary_unary_rpc_method_handler(
                self._answering(method),
                request_deserializer=method.request.FromString,
                response_serializer=method.response.SerializeToString,
            )
            for method in listed
            if method.path.startswith(f"/{service}/")
        }

    def _answering(self, method: methods.Method[..., Message, Message]) -> Answer:
        name = method.path.rpartition("/")[2]

        def answer(request: Message, context: grpc.ServicerContext) -> Message:
            self.requests.append(request)
            self.metadata.append(dict(context.invocation_metadata()))
            return self.script.get(name, answers(method.response()))(request, context)

        return answer


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    """A server that is up and answers with empty messages until it is told otherwise."""
    server = ScriptedServer(free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def down() -> Iterator[ScriptedServer]:
    """A server that is not up yet."""
    server = ScriptedServer(free_port())
    server.script["EstimateDecode"] = answers(EstimateDecodeResponse(num_devices=8))
    yield server
    server.stop()


Run = Callable[..., tuple[int, str, str]]
"""Runs ``tonnage`` with these arguments in this process: exit code, standard output, standard error."""


@pytest.fixture
def run_against(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line; its first argument is the address to ask."""

    def run(target: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv("TONNAGE_SERVER", target)
        monkeypatch.setattr(sys, "argv", ["tonnage", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def run(scripted: ScriptedServer, run_against: Run) -> Run:
    """The command line, asking the server that answers as told."""
    return functools.partial(run_against, scripted.target)


@pytest.fixture
def run_for_real(service: RunningService, run_against: Run) -> Run:
    """The command line, asking the real service."""
    return functools.partial(run_against, service.grpc)


def made_status(code: grpc.StatusCode, message: str, *details: Any) -> status_pb2.Status:
    """A status with these messages of google.rpc as its details."""
    made = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        made.details.add().Pack(detail)
    return made
