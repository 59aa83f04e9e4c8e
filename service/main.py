"""The command ``tonnage-service``: reads the settings, serves until it is told to stop, ends with a code that says how."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

import uvloop

from service.api.autoscalers import doors as autoscaler_doors
from service.api.autoscalers.doors import port_variable
from service.assembly import Addresses, PortTaken, addresses_of, bound, serving, version
from service.catalogue.loader import CatalogueError
from service.log_format import configure_logging
from service.settings import Settings, SettingsError
from service.telemetry import SERVER_LOG

#: How long a planning thread may keep the event loop waiting at a time; Python's own 5 ms is longer than most requests take.
_SWITCH_INTERVAL_SECONDS: Final = 0.0005

_EXIT_MISCONFIGURED: Final = 2
_EXIT_PORT_TAKEN: Final = 3
_EXIT_WORKER_DIED: Final = 4
_EXIT_CODES: Final = """exit codes:
  0  drained and stopped, as told
  1  failed
  2  a setting or the catalogue is wrong
  3  a port cannot be listened on
  4  one of several worker processes died"""

_logger = logging.getLogger(SERVER_LOG)


def _greeting(addresses: Addresses) -> str:
    question = (
        '{"model": {"name": "llama-3.1-70b"}, "accelerator": {"name": "h100-sxm"},'
        ' "parallelism": {"tensor": 8}, "batch_size": 64, "context_tokens": 4096}'
    )
    chatbots = "" if addresses.mcp is None else f"  MCP   {addresses.mcp}  (for chatbots)\n"
    others = "".join(f"  {name}  {address}\n" for name, address in addresses.others.items())
    return (
        f"Tonnage {version()} answers\n"
        f"  page  {addresses.http}/  (to look rather than ask, in a browser)\n"
        f"  REST  {addresses.http}  (/docs, /openapi.json, /metrics, /readyz)\n"
        f"{chatbots}"
        f"  gRPC  {addresses.grpc}  (with reflection and health)\n"
        f"{others}"
        f"Try:\n"
        f"  curl -s {addresses.http}/v1/decode:estimate -H 'content-type: application/json' \\\n"
        f"    -d '{question}'"
    )


def _say(text: str) -> None:
    """Prints the text. Who cannot be told, because the disk behind standard output is full, can still be served."""
    try:
        print(text, flush=True)
    except OSError as error:
        _logger.warning("standard output takes nothing: %s", error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the end fails on what is left to write


def _told_to_stop() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets; a second one ends the process at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def first() -> None:
        stop.set()
        for each in signals:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)

    for each in signals:
        loop.add_signal_handler(each, first)
    return stop


async def _serve(settings: Settings, *, is_worker: bool, is_attached: bool) -> int:
    stop = _told_to_stop()
    if is_worker or is_attached:  # whoever started it never writes to it: the pipe only ends, when they do
        asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    async with serving(settings) as addresses:
        # What is loaded stays: looking through it for garbage, now or ever again, would only cost time.
        gc.freeze()
        gc.enable()  # which service/__main__.py has put off
        sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
        _say("ready" if is_worker else _greeting(addresses))
        await stop.wait()
        _logger.info("draining")
    _logger.info("stopped")
    return 0


async def _supervise(settings: Settings) -> int:
    """Runs several processes on the same ports; ends when told to, or when one of them dies."""
    gc.enable()
    stop = _told_to_stop()
    wanted = {"http": settings.http_port, "grpc": settings.grpc_port, **autoscaler_doors.ports(settings)}
    if settings.operations_port is not None:
        wanted["operations"] = settings.operations_port
    sockets = {door: _reserved(settings.host, port, port_variable(door)) for door, port in wanted.items()}
    taken = {door: each.getsockname()[1] for door, each in sockets.items()}
    with tempfile.TemporaryDirectory(prefix="tonnage-metrics-") as metrics:
        given = {port_variable(door): str(port) for door, port in taken.items()} | {"PROMETHEUS_MULTIPROC_DIR": metrics}
        workers = [await _worker(given) for _ in range(settings.processes)]
        ended = [asyncio.create_task(worker.wait()) for worker in workers]
        greeted = [worker.stdout.readline() for worker in workers if worker.stdout is not None]
        if all(await asyncio.gather(*greeted)):  # an empty line: it ended before it was ready
            _say(_greeting(addresses_of(settings, taken)))
            await asyncio.wait([asyncio.create_task(stop.wait()), *ended], return_when=asyncio.FIRST_COMPLETED)
        for worker in workers:
            if worker.returncode is None:
                worker.terminate()
        codes = await asyncio.gather(*ended)
    for each in sockets.values():
        each.close()
    if stop.is_set() and not any(codes):
        return 0
    _logger.error("a worker process ended by itself; exit codes: %s", ", ".join(map(str, codes)))
    return _EXIT_WORKER_DIED


async def _worker(environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    """A process that serves like this one would, in a session of its own: signals reach it through us."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "service", "--worker")
    return await asyncio.create_subprocess_exec(
        *command, env=os.environ | environment, stdin=pipe, stdout=pipe, start_new_session=True
    )


def _reserved(host: str, port: int, variable: str) -> socket.socket:
    """A socket that keeps the port for our workers; PortTaken where somebody else listens there."""
    probe = bound(host, port, variable, share_port=False)
    port = probe.getsockname()[1]
    probe.close()
    return bound(host, port, variable, share_port=True)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tonnage-service",
        description="Serves Tonnage over REST and gRPC until SIGTERM or SIGINT, then drains.",
        epilog=f"settings:\n{Settings.describe()}\n\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version())
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)  # one of several, started by ourselves
    parser.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)  # started by `tonnage … --local`
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the service and ends the program with its exit code."""
    asked = _arguments(arguments)
    is_worker: bool = asked.worker
    try:
        settings = Settings.from_environment()
        configure_logging(settings.log_level, settings.log_format)
        if settings.processes > 1 and not is_worker:
            code = asyncio.run(_supervise(settings))
        else:
            code = uvloop.run(_serve(settings, is_worker=is_worker, is_attached=asked.attached))
    except PortTaken as error:
        code = _refuse(str(error), _EXIT_PORT_TAKEN)
    except (SettingsError, CatalogueError, FileNotFoundError, ValueError) as error:
        code = _refuse(str(error), _EXIT_MISCONFIGURED)
    raise SystemExit(code)


def _refuse(reason: str, code: int) -> int:
    print(f"tonnage-service: {reason}", file=sys.stderr)
    return code
