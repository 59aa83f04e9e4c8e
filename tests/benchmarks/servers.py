"""What the benchmarks compare: the real service, and servers of the same flavours that do nothing.

python -m tests.benchmarks.servers grpc PORT BYTES    answers every call with so many bytes (grpc.aio, raw bytes, uvloop)
python -m tests.benchmarks.servers grpc_sync PORT BYTES    the same by the library's server on threads
python -m tests.benchmarks.servers rest PORT BYTES    answers every POST with a body of so many bytes (Starlette, uvicorn)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.service_process import free_port, running_service

START_SECONDS = 60


@dataclass(frozen=True)
class Server:
    """A running server process."""

    pid: int
    grpc_port: int
    http_port: int
    ready_seconds: float

    def cpu_seconds(self) -> float:
        """CPU time that the process has used so far."""
        tasks = Path(f"/proc/{self.pid}/task").glob("*/schedstat")  # in nanoseconds, where stat counts hundredths of a second
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def resident_bytes(self) -> int:
        """Memory that the process holds."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def service(**settings: str) -> Iterator[Server]:
    """The real service on free ports, with the given TONNAGE_ settings."""
    started = time.perf_counter()
    with running_service(TONNAGE_LOG_LEVEL="warning", **settings) as running:
        grpc_port, http_port = (int(address.rpartition(":")[2]) for address in (running.grpc, running.http))
        yield Server(running.process.pid, grpc_port, http_port, time.perf_counter() - started)


@contextlib.contextmanager
def echo(flavour: str, num_bytes: int) -> Iterator[Server]:
    """A server of one flavour that answers everything with the same bytes."""
    port = free_port()
    with _process([sys.executable, "-m", __name__, flavour, str(port), str(num_bytes)]) as (process, started):
        _wait_until_open(port)
        yield Server(process.pid, port, port, time.perf_counter() - started)


@contextlib.contextmanager
def _process(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process, started
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def _wait_until_open(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.005)
    raise TimeoutError(f"nothing listens on {port} after {START_SECONDS} s")


class _EchoHandler(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stubs only
    def __init__(self, body: bytes) -> None:
        async def answer(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            return body

        self._handler = grpc.unary_unary_rpc_method_handler(answer)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        return self._handler


async def _serve_grpc(port: int, body: bytes) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_EchoHandler(body),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    await server.stop(grace=1)


def _serve_grpc_on_threads(port: int, body: bytes) -> None:
    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        return body

    class Handler(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stubs only
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((Handler(),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop(grace=1))
    server.wait_for_termination()


def _serve_rest(port: int, body: bytes) -> None:
    async def answer(request: Request) -> Response:
        await request.body()
        return Response(body, media_type="application/json")

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=port, loop="uvloop", http="httptools", log_level="warning", access_log=False)


if __name__ == "__main__":
    chosen, at, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if chosen == "grpc":
        uvloop.run(_serve_grpc(at, b"x" * size))
    elif chosen == "grpc_sync":
        _serve_grpc_on_threads(at, b"x" * size)
    else:
        _serve_rest(at, b"x" * size)
