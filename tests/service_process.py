"""The real service, in a process of its own, on free ports."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 120.0  # patience alone: what starts slowly on a busy machine is ready all the same
STOP_SECONDS = 30.0


@dataclass(frozen=True)
class RunningService:
    """Where a running service answers, and its process."""

    grpc: str  # host:port
    http: str  # http://host:port
    process: subprocess.Popen[bytes]
    log: Path


def free_port() -> int:
    """A port that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running_service(*, ready_port: str = "", **settings: str) -> Iterator[RunningService]:
    """Starts the service with the given TONNAGE_ settings, waits until it is ready, and stops it in the end.

    ``ready_port``: where it says so; that of REST where not given.
    """
    grpc_port, http_port = free_port(), free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TONNAGE_")}
    environment |= {"TONNAGE_GRPC_PORT": str(grpc_port), "TONNAGE_HTTP_PORT": str(http_port), **settings}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            command = [sys.executable, "-m", "service"]
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        running = RunningService(f"127.0.0.1:{grpc_port}", f"http://127.0.0.1:{http_port}", process, log)
        try:
            _wait_until_ready(running, f"http://127.0.0.1:{ready_port}" if ready_port else running.http)
            yield running
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


def _wait_until_ready(running: RunningService, address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and running.process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=1):
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"the service did not start:\n{running.log.read_text(errors='replace')}")
