"""The composition root: reads the settings, builds every part, serves both doors on one event loop, drains.

``tonnage-service`` runs it; ``serving`` is for tests and for whoever wants a service inside a program.
"""

import argparse
import asyncio
import gc
import hashlib
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import uvloop

import tonnage
from service.api.grpc_server import GrpcServer
from service.api.http_server import HttpServer, listen
from service.api.openapi import documents
from service.api.prometheus import PrometheusReader
from service.api.rest import Readiness, rest_app
from service.api.schema import RPCS
from service.api.servicers import Admission, servicers
from service.cache.cache import Cache
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.cache.redis_tier import RedisSettings, RedisTier
from service.catalogue.loader import CatalogueError, load
from service.planning.planner import Planner
from service.planning.sweep.grid import SweepLimits
from service.settings import Settings, SettingsError, specs_dir
from service.telemetry import CATALOGUE_LOG, SERVER_LOG, RpcName, Telemetry, configure_logging

#: What is heavy is Python, which runs on one core whatever the number of threads: more would only crowd out the event loop.
_PLANNING_THREADS: Final = 1
#: How long a planning thread may keep the event loop waiting at a time; Python's own 5 ms is longer than most requests take.
_SWITCH_INTERVAL_SECONDS: Final = 0.0005
#: While NOT_SERVING gets around and callers close their connections, calls are still taken for so long.
_FAREWELL_SECONDS: Final = 1.0

_EXIT_MISCONFIGURED: Final = 2
_EXIT_PORT_TAKEN: Final = 3
_EXIT_WORKER_DIED: Final = 4
_EXIT_CODES: Final = """exit codes:
  0  drained and stopped, as told
  1  failed
  2  a setting or the catalogue is wrong
  3  a port cannot be listened on
  4  one of several worker processes died"""
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}

_logger = logging.getLogger(SERVER_LOG)


class PortTaken(Exception):
    """An address cannot be listened on; the text says which, and which setting chooses it."""

    def __init__(self, host: str, port: int, variable: str, reason: str) -> None:
        super().__init__(f"cannot listen on {host} port {port}: {reason}. {variable} chooses another port, 0 any free one")


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a running service answers."""

    http: str  # "http://127.0.0.1:8080"
    grpc: str  # "127.0.0.1:50051"


def version() -> str:
    """The installed release."""
    try:
        return metadata.version("tonnage-service")
    except metadata.PackageNotFoundError:
        return "0-uninstalled"


def code_version() -> str:
    """Changes with every change of the code that answers: cached answers of another build are never used."""
    digest = hashlib.blake2b(digest_size=8)
    for package in (Path(__file__).parent, Path(str(tonnage.__file__)).parent / "v1"):
        for path in sorted(package.rglob("*.py")):
            digest.update(path.read_bytes())
    return f"{version()}-{digest.hexdigest()}"


def _cache(settings: Settings, telemetry: Telemetry, revision: str) -> Cache:
    redis = None
    if settings.redis_url is not None:
        redis = RedisTier(
            RedisSettings(
                url=settings.redis_url,
                time_to_live_seconds=settings.redis_ttl_seconds,
                connect_timeout_seconds=settings.redis_connect_timeout_seconds,
                answer_timeout_seconds=settings.redis_timeout_seconds,
            ),
            observer=telemetry.cache,
        )
    return Cache(
        keys=KeySpace(
            catalogue_revision=revision,
            code_version=code_version(),
            prefix=settings.redis_prefix,
        ),
        local=LocalTier(max_bytes=settings.cache_max_bytes, max_entries=settings.cache_max_entries),
        redis=redis,
        observer=telemetry.cache,
        redis_for_every_rpc=settings.redis_all_rpcs,
    )


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Addresses]:
    """A service that answers on both doors until the block is left, and then drains.

    Raises:
        CatalogueError: the catalogue is not valid.
        PortTaken: an address cannot be listened on.
        ValueError: settings that only show to be wrong when they are used.
    """
    catalogue = load(specs_dir(), *settings.catalogue_dir)
    planner = Planner(catalogue, SweepLimits(settings.sweep_max_points, settings.sweep_max_plans))
    planner.warm_up()
    names = [RpcName(rpc.service, rpc.name, "server_stream" if rpc.is_streaming else "unary") for rpc in RPCS]
    telemetry = Telemetry(names, version=version())
    telemetry.catalogue_loaded(revision=catalogue.revision, version=version())
    logging.getLogger(CATALOGUE_LOG).info("catalogue %s loaded", catalogue.revision)
    cache = _cache(settings, telemetry, catalogue.revision)
    executor = ThreadPoolExecutor(_PLANNING_THREADS, thread_name_prefix="planning")
    try:
        async with _doors(settings, planner, cache, telemetry, executor) as addresses:
            yield addresses
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        await cache.close()


@asynccontextmanager
async def _doors(
    settings: Settings, planner: Planner, cache: Cache, telemetry: Telemetry, executor: ThreadPoolExecutor
) -> AsyncIterator[Addresses]:
    share_port = settings.processes > 1
    admission = Admission(settings.max_concurrent_requests, telemetry.shed)
    readiness = Readiness()
    served = servicers(
        planner,
        cache,
        telemetry,
        executor,
        redis_for_every_rpc=settings.redis_all_rpcs,
        prometheus=PrometheusReader(settings.prometheus_hosts),
    )
    app = rest_app(served, telemetry, admission, readiness, max_request_bytes=settings.max_request_bytes, documents=documents())
    http = HttpServer(app, drain_seconds=settings.drain_seconds)
    grpc = GrpcServer(
        served,
        telemetry,
        admission,
        max_concurrent_requests=settings.max_concurrent_requests,
        max_request_bytes=settings.max_request_bytes,
        share_port=share_port,
    )
    http_port, grpc_port = await _listen(settings, http, grpc, share_port)
    readiness.ready = True
    try:
        yield _addresses(settings.host, http_port, grpc_port)
    finally:
        # Together, without a turn of the loop between: who is told that we drain is told to close the connection too.
        readiness.ready = False
        http.stop_keeping_alive()
        await grpc.stop_being_healthy()
        await asyncio.sleep(min(_FAREWELL_SECONDS, settings.drain_seconds))
        await asyncio.gather(grpc.drain(settings.drain_seconds), http.drain())


async def _listen(settings: Settings, http: HttpServer, grpc: GrpcServer, share_port: bool) -> tuple[int, int]:
    """Starts both servers and returns their ports."""
    host = settings.host
    http_socket = _bound(host, settings.http_port, "TONNAGE_HTTP_PORT", share_port)
    try:
        # The library logs pages where a port is taken, so look first.
        _bound(host, settings.grpc_port, "TONNAGE_GRPC_PORT", share_port).close()
        grpc_port = grpc.bind(host, settings.grpc_port)
    except RuntimeError as error:
        http_socket.close()
        raise PortTaken(host, settings.grpc_port, "TONNAGE_GRPC_PORT", str(error)) from None
    except PortTaken:
        http_socket.close()
        raise
    http_port: int = http_socket.getsockname()[1]
    await grpc.start()
    await http.start(http_socket)
    return http_port, grpc_port


def _bound(host: str, port: int, variable: str, share_port: bool) -> socket.socket:
    try:
        return listen(host, port, share_port=share_port)
    except OSError as error:
        raise PortTaken(host, port, variable, (error.strerror or str(error)).lower()) from None


def _addresses(host: str, http_port: int, grpc_port: int) -> Addresses:
    host = _WILDCARDS.get(host, host)
    host = f"[{host}]" if ":" in host else host
    return Addresses(f"http://{host}:{http_port}", f"{host}:{grpc_port}")


# -- the command ------------------------------------------------------------------------------------------------------


def _greeting(addresses: Addresses) -> str:
    question = (
        '{"model": {"name": "llama-3.1-70b"}, "accelerator": {"name": "h100-sxm"},'
        ' "parallelism": {"tensor": 8}, "batch_size": 64, "context_tokens": 4096}'
    )
    return (
        f"Tonnage {version()} answers\n"
        f"  REST  {addresses.http}  (/docs, /openapi.json, /metrics, /readyz)\n"
        f"  gRPC  {addresses.grpc}  (with reflection and health)\n"
        f"Try:\n"
        f"  curl -s {addresses.http}/v1/decode:estimate -H 'content-type: application/json' \\\n"
        f"    -d '{question}'"
    )


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


async def _serve(settings: Settings, *, is_worker: bool) -> int:
    stop = _told_to_stop()
    if is_worker:  # its supervisor never writes to it: the pipe only ends, when the supervisor does
        asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    async with serving(settings) as addresses:
        # What is loaded stays: looking through it for garbage again and again would only cost time.
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
        print("ready" if is_worker else _greeting(addresses), flush=True)
        await stop.wait()
        _logger.info("draining")
    _logger.info("stopped")
    return 0


async def _supervise(settings: Settings) -> int:
    """Runs several processes on the same two ports; ends when told to, or when one of them dies."""
    stop = _told_to_stop()
    sockets = [
        _reserved(settings.host, settings.http_port, "TONNAGE_HTTP_PORT"),
        _reserved(settings.host, settings.grpc_port, "TONNAGE_GRPC_PORT"),
    ]
    http_port, grpc_port = (each.getsockname()[1] for each in sockets)
    with tempfile.TemporaryDirectory(prefix="tonnage-metrics-") as metrics:
        given = {"TONNAGE_HTTP_PORT": str(http_port), "TONNAGE_GRPC_PORT": str(grpc_port), "PROMETHEUS_MULTIPROC_DIR": metrics}
        workers = [await _worker(given) for _ in range(settings.processes)]
        ended = [asyncio.create_task(worker.wait()) for worker in workers]
        greeted = [worker.stdout.readline() for worker in workers if worker.stdout is not None]
        if all(await asyncio.gather(*greeted)):  # an empty line: it ended before it was ready
            print(_greeting(_addresses(settings.host, http_port, grpc_port)), flush=True)
            await asyncio.wait([asyncio.create_task(stop.wait()), *ended], return_when=asyncio.FIRST_COMPLETED)
        for worker in workers:
            if worker.returncode is None:
                worker.terminate()
        codes = await asyncio.gather(*ended)
    for each in sockets:
        each.close()
    if stop.is_set() and not any(codes):
        return 0
    _logger.error("a worker process ended by itself; exit codes: %s", ", ".join(map(str, codes)))
    return _EXIT_WORKER_DIED


async def _worker(environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    """A process that serves like this one would, in a session of its own: signals reach it through us."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "service.main", "--worker")
    return await asyncio.create_subprocess_exec(
        *command, env=os.environ | environment, stdin=pipe, stdout=pipe, start_new_session=True
    )


def _reserved(host: str, port: int, variable: str) -> socket.socket:
    """A socket that keeps the port for our workers; PortTaken where somebody else listens there."""
    probe = _bound(host, port, variable, share_port=False)
    port = probe.getsockname()[1]
    probe.close()
    return _bound(host, port, variable, share_port=True)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tonnage-service",
        description="Serves Tonnage over REST and gRPC until SIGTERM or SIGINT, then drains.",
        epilog=f"settings:\n{Settings.describe()}\n\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version())
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)  # one of several, started by ourselves
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the service and ends the program with its exit code."""
    is_worker = _arguments(arguments).worker
    try:
        settings = Settings.from_environment()
        configure_logging(settings.log_level, settings.log_format)
        if settings.processes > 1 and not is_worker:
            code = asyncio.run(_supervise(settings))
        else:
            code = uvloop.run(_serve(settings, is_worker=is_worker))
    except PortTaken as error:
        code = _refuse(str(error), _EXIT_PORT_TAKEN)
    except (SettingsError, CatalogueError, FileNotFoundError, ValueError) as error:
        code = _refuse(str(error), _EXIT_MISCONFIGURED)
    raise SystemExit(code)


def _refuse(reason: str, code: int) -> int:
    print(f"tonnage-service: {reason}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
