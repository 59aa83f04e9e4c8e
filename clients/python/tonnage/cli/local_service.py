"""The service as a child of the command line: on free ports of this machine, gone as soon as the command is."""

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import IO

import click

_ADDRESS = "tonnage.local_address"
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0
_GREETING = re.compile(r"\s*gRPC\s+(\S+)")
_DISTRIBUTION = "tonnage-service"
COMMAND = (sys.executable, "-m", "service")
"""How the service is started in this very environment."""
_KEPT = ("TONNAGE_CATALOGUE_DIR", "TONNAGE_PROMETHEUS_HOSTS", "TONNAGE_SWEEP_MAX_POINTS", "TONNAGE_SWEEP_MAX_PLANS")
"""Settings that change answers; all others are about who else reaches the service, and nobody else does."""
_SETTINGS = {
    "TONNAGE_HTTP_PORT": "0",
    "TONNAGE_GRPC_PORT": "0",
    "TONNAGE_MCP": "false",
    "TONNAGE_DRAIN_SECONDS": "1",
    "TONNAGE_LOG_LEVEL": "warning",
}


def require_service() -> None:
    """A UsageError where the server is not installed beside this client."""
    try:
        metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise click.UsageError(
            f"the service is not installed here, only its client is: pip install {_DISTRIBUTION}, run this from a checkout's "
            "environment, or name a server with --server"
        ) from None


def local_address() -> str:
    """Where the service of this call answers; starts it at the first question, and stops it when the call ends."""
    root = click.get_current_context().find_root()
    if _ADDRESS not in root.meta:
        require_service()
        root.meta[_ADDRESS] = root.with_resource(_running())
    address: str = root.meta[_ADDRESS]
    return address


@contextmanager
def _running() -> Iterator[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TONNAGE_") or name in _KEPT}
    with tempfile.TemporaryFile() as log:
        # It ends with its standard input, which ends with us, however we end. A session of its own: Ctrl-C is for us alone.
        process = subprocess.Popen(
            [*COMMAND, "--attached"],
            env=environment | _SETTINGS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield _address_of(process, log)
        finally:
            _stop(process)


def _address_of(process: subprocess.Popen[bytes], log: IO[bytes]) -> str:
    """The address from its greeting, which it prints once it answers."""
    if process.stdout is None:
        raise AssertionError("it was started with a pipe")
    watchdog = threading.Timer(_START_SECONDS, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            if found := _GREETING.match(line.decode()):
                return found[1]
    finally:
        watchdog.cancel()
    log.seek(0)
    # Its refusals are a line each; of a traceback the last line says what it was.
    said = log.read().decode(errors="replace").strip()
    reason = said.rpartition("\n")[2] if "Traceback" in said else said
    raise click.ClickException(f"the service did not start: {reason or f'nothing within {_START_SECONDS:g} s'}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
