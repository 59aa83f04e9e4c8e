"""The composition root: builds every part out of the settings, opens the doors on one event loop, drains.

``serving`` is what ``tonnage-service`` runs, and for tests and whoever wants a service inside a program.
"""

import asyncio
import hashlib
import logging
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from starlette.types import ASGIApp

import tonnage
from service.api.access.gate import Gate
from service.api.access.http import guarded
from service.api.access.keys import KeyFile
from service.api.access.limits import Limits
from service.api.access.tokens import Tokens
from service.api.autoscalers import doors as autoscaler_doors
from service.api.autoscalers.doors import port_variable
from service.api.autoscalers.scaling import Scaling
from service.api.explorer.page import explorer_pages
from service.api.grpc_port import GrpcPort
from service.api.grpc_server import GrpcServer
from service.api.http_answers import Bodies
from service.api.http_connection import ConnectionLimits
from service.api.http_server import HttpServer, listen
from service.api.mcp.door import McpDoor, is_open, mcp_door
from service.api.mcp.guard import PATH as MCP_PATH
from service.api.openapi import documents
from service.api.operations import Readiness, operations_app, operations_pages
from service.api.prometheus import PrometheusReader
from service.api.rest import rest_app
from service.api.schema import RPCS
from service.api.servicers import Admission, Servicer, servicers
from service.api.tls import Certificate, TlsFiles
from service.api.traced import TracedCache
from service.cache.cache import Cache
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.catalogue.entries import Catalogue
from service.catalogue.kept import KeptDocuments
from service.catalogue.loader import load
from service.planning.planner import Planner
from service.planning.sweep.grid import SweepLimits
from service.settings import Settings, specs_dir
from service.telemetry import CATALOGUE_LOG, UNKNOWN, RpcName, Telemetry
from service.tracing import Tracing, otlp_tracing

if TYPE_CHECKING:
    from service.cache.redis_tier import RedisTier

#: What is heavy is Python, which runs on one core whatever the number of threads: more would only crowd out the event loop.
_PLANNING_THREADS: Final = 1
#: While NOT_SERVING gets around and callers close their connections, calls are still taken for so long.
_FAREWELL_SECONDS: Final = 1.0
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class PortTaken(Exception):
    """An address cannot be listened on; the text says which, and which setting chooses it."""

    def __init__(self, host: str, port: int, variable: str, reason: str) -> None:
        super().__init__(f"cannot listen on {host} port {port}: {reason}. {variable} chooses another port, 0 any free one")


class Addresses(Struct, frozen=True):
    """Where a running service answers."""

    http: str  # "http://127.0.0.1:8080", "https://…" with TLS
    grpc: str  # "127.0.0.1:50051"
    others: Mapping[str, str] = field(default_factory=dict)  # {"expander": "127.0.0.1:50061"}
    mcp: str | None = None  # "http://127.0.0.1:8080/mcp"; None where there is no such door


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


def _cache(settings: Settings, telemetry: Telemetry, revision: str, tracing: Tracing | None) -> Cache:
    redis = None if settings.redis_url is None else _redis(settings, settings.redis_url, telemetry, tracing)
    return (Cache if tracing is None else partial(TracedCache, tracing))(
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


def _redis(settings: Settings, url: str, telemetry: Telemetry, tracing: Tracing | None) -> "RedisTier":
    from service.api.traced_redis import TracedRedis
    from service.cache.redis_tier import RedisSettings, RedisTier

    about = RedisSettings(
        url=url,
        time_to_live_seconds=settings.redis_ttl_seconds,
        connect_timeout_seconds=settings.redis_connect_timeout_seconds,
        answer_timeout_seconds=settings.redis_timeout_seconds,
        secret=None if settings.redis_secret is None else settings.redis_secret.encode(),
    )
    return (RedisTier if tracing is None else partial(TracedRedis, tracing))(about, observer=telemetry.cache)


def load_catalogue(*further: Path | str) -> Catalogue:
    """The built-in catalogue, parsed once and then kept beside its files, and what further folders add to it."""
    folder = specs_dir()
    return load(folder, *further, kept=KeptDocuments(folder))


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Addresses]:
    """A service that answers on both doors until the block is left, and then drains.

    Raises:
        CatalogueError: the catalogue is not valid.
        PortTaken: an address cannot be listened on.
        ValueError: settings that only show to be wrong when they are used.
    """
    catalogue = load_catalogue(*settings.catalogue_dir)
    planner = Planner(catalogue, SweepLimits(settings.sweep_max_points, settings.sweep_max_plans))
    planner.warm_up()
    names = [RpcName(rpc.service, rpc.name, "server_stream" if rpc.is_streaming else "unary") for rpc in RPCS]
    tracing = otlp_tracing(version()) if settings.traces else None
    telemetry = Telemetry([*names, *autoscaler_doors.rpc_names(settings)], version=version(), spans=tracing)
    telemetry.catalogue_loaded(revision=catalogue.revision, version=version())
    logging.getLogger(CATALOGUE_LOG).info("catalogue %s loaded", catalogue.revision)
    cache = _cache(settings, telemetry, catalogue.revision, tracing)
    executor = ThreadPoolExecutor(_PLANNING_THREADS, thread_name_prefix="planning")
    try:
        core = _core(settings, planner, cache, telemetry, executor, tracing)
        async with _doors(core) as addresses:
            yield addresses
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        await cache.close()
        if tracing is not None:
            await tracing.close()


class _Core(Struct, frozen=True):
    """What every door stands on."""

    settings: Settings
    planner: Planner
    telemetry: Telemetry
    prometheus: PrometheusReader
    admission: Admission
    gate: Gate | None
    servicers: tuple[Servicer, ...]
    certificate: Certificate | None

    @property
    def share_port(self) -> bool:
        """Whether other processes listen on the same ports."""
        return self.settings.processes > 1


def _core(
    settings: Settings,
    planner: Planner,
    cache: Cache,
    telemetry: Telemetry,
    executor: ThreadPoolExecutor,
    tracing: Tracing | None,
) -> _Core:
    prometheus = PrometheusReader(settings.prometheus_hosts)
    made = servicers(
        planner,
        cache,
        telemetry,
        executor,
        redis_for_every_rpc=settings.redis_all_rpcs,
        prometheus=prometheus,
        tracing=tracing,
    )
    return _Core(
        settings=settings,
        planner=planner,
        telemetry=telemetry,
        prometheus=prometheus,
        admission=Admission(settings.max_concurrent_requests, telemetry.shed),
        gate=_gate(settings, telemetry),
        servicers=made,
        certificate=_certificate(settings, telemetry),
    )


def _gate(settings: Settings, telemetry: Telemetry) -> Gate | None:
    """What checks callers; None where everybody may ask as much as there is room for, so that nothing is spent on it."""
    rate, concurrent = settings.caller_requests_per_second, settings.caller_max_concurrent_requests
    keys = None if settings.api_keys_file is None else KeyFile(settings.api_keys_file)
    tokens = None
    if settings.jwt_keys_file is not None:
        issuer, audience = settings.jwt_issuer or "", settings.jwt_audience or ""  # which the settings hold together
        tokens = Tokens(settings.jwt_keys_file, issuer=issuer, audience=audience)
    if keys is None and tokens is None and rate is None and concurrent is None:
        return None
    limits = Limits(
        max_concurrent_requests=settings.max_concurrent_requests,
        requests_per_second=rate,
        max_concurrent_per_caller=concurrent,
    )
    return Gate(limits, keys, tokens, telemetry.caller_refused)


def _certificate(settings: Settings, telemetry: Telemetry) -> Certificate | None:
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    files = TlsFiles(settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file)
    return Certificate(files, telemetry.tls_reloads("main"))


def _mcp(core: _Core) -> McpDoor:
    settings = core.settings
    return mcp_door(
        settings.mcp,
        servicers=core.servicers,
        admission=core.admission,
        telemetry=core.telemetry,
        catalogue=core.planner.catalogue,
        version=version(),
        hosts=settings.mcp_allowed_hosts,
        token=settings.mcp_token,
        max_request_bytes=settings.max_request_bytes,
    )


def _rest(core: _Core, mcp: McpDoor, readiness: Readiness) -> ASGIApp:
    settings = core.settings
    engines = {name: engine.title for name, engine in core.planner.catalogue.engines.items()}
    app = rest_app(
        core.servicers,
        core.telemetry,
        core.admission,
        pages={**operations_pages(core.telemetry, readiness), **explorer_pages(engines)},
        bodies=Bodies(settings.max_request_bytes, settings.http_max_pending_body_bytes),
        documents=documents(),
        mounted={MCP_PATH: mcp},
    )
    if core.gate is None:
        return app
    own_token = () if settings.mcp_token is None else (MCP_PATH,)
    refused = core.telemetry.route(UNKNOWN, UNKNOWN)
    return guarded(app, core.gate, (each.rpc for each in core.servicers), refused, open_paths=own_token)


def _http_server(core: _Core, app: ASGIApp, certificate: Certificate | None) -> HttpServer:
    settings = core.settings
    limits = ConnectionLimits(
        max_connections=settings.http_max_connections,
        max_head_bytes=settings.http_max_head_bytes,
        arrival_seconds=settings.http_arrival_seconds,
        refused=core.telemetry.connection_cut_off,
    )
    return HttpServer(app, limits, drain_seconds=settings.drain_seconds, certificate=certificate)


def _grpc_server(core: _Core) -> GrpcServer:
    return GrpcServer(
        core.servicers,
        core.telemetry,
        core.admission,
        core.gate,
        max_concurrent_requests=core.settings.max_concurrent_requests,
        max_request_bytes=core.settings.max_request_bytes,
        share_port=core.share_port,
        credentials=None if core.certificate is None else core.certificate.credentials(),
    )


@asynccontextmanager
async def _doors(core: _Core) -> AsyncIterator[Addresses]:
    """All doors, open until the block is left, and then drained together."""
    settings, readiness = core.settings, Readiness()
    scaling = Scaling(settings, core.planner, core.prometheus)
    mcp = _mcp(core)
    https = {"http": _http_server(core, _rest(core, mcp, readiness), core.certificate)}
    if settings.operations_port is not None:
        https["operations"] = _http_server(core, operations_app(operations_pages(core.telemetry, readiness)), None)
    grpc = _grpc_server(core)
    autoscalers = autoscaler_doors.doors(settings, core.planner, core.telemetry, scaling, share_port=core.share_port)
    ports = await _opened(core, https, grpc, autoscalers)
    readiness.ready = True
    try:
        async with scaling.watched(core.telemetry):
            yield addresses_of(settings, ports)
    finally:
        await _drained(core, readiness, https, (grpc, *(door.server for door in autoscalers)))
        await mcp.close()


async def _drained(core: _Core, readiness: Readiness, https: Mapping[str, HttpServer], grpcs: Sequence[GrpcPort]) -> None:
    # Together, without a turn of the loop between: who is told that we drain is told to close the connection too.
    drain_seconds = core.settings.drain_seconds
    readiness.ready = False
    for each in https.values():
        each.stop_keeping_alive()
    await asyncio.gather(*(each.stop_being_healthy() for each in grpcs))
    await asyncio.sleep(min(_FAREWELL_SECONDS, drain_seconds))
    await asyncio.gather(*(each.drain() for each in https.values()), *(each.drain(drain_seconds) for each in grpcs))


async def _opened(
    core: _Core, https: Mapping[str, HttpServer], grpc: GrpcServer, autoscalers: Sequence[autoscaler_doors.Door]
) -> dict[str, int]:
    """Takes all ports, then starts all servers; returns the ports by the doors' names."""
    host, share_port = core.settings.host, core.share_port
    sockets: dict[str, socket.socket] = {}
    try:
        for name in https:
            sockets[name] = bound(host, getattr(core.settings, f"{name}_port"), port_variable(name), share_port)
        ports = {"grpc": _bind(grpc, port_variable("grpc"), host, core.settings.grpc_port, share_port)}
        for door in autoscalers:
            ports[door.server.door] = _bind(door.server, door.variable, host, door.port, share_port)
    except PortTaken:
        for each in sockets.values():
            each.close()
        raise
    ports |= {name: each.getsockname()[1] for name, each in sockets.items()}
    await asyncio.gather(grpc.start(), *(door.server.start() for door in autoscalers))
    await asyncio.gather(*(server.start(sockets[name]) for name, server in https.items()))
    return ports


def _bind(server: GrpcPort, variable: str, host: str, port: int, share_port: bool) -> int:
    # The library logs pages where a port is taken, so look first.
    bound(host, port, variable, share_port).close()
    try:
        return server.bind(host, port)
    except RuntimeError as error:
        raise PortTaken(host, port, variable, str(error)) from None


def bound(host: str, port: int, variable: str, share_port: bool) -> socket.socket:
    """A socket that is bound to the address; PortTaken, which names the variable, where it cannot be had."""
    try:
        return listen(host, port, share_port=share_port)
    except OSError as error:
        raise PortTaken(host, port, variable, (error.strerror or str(error)).lower()) from None


def addresses_of(settings: Settings, ports: Mapping[str, int]) -> Addresses:
    """Where doors with these ports answer callers on this machine."""
    host = _WILDCARDS.get(settings.host, settings.host)
    host = f"[{host}]" if ":" in host else host
    at = {door: f"{host}:{port}" for door, port in ports.items()}
    scheme = "http" if settings.tls_cert_file is None else "https"
    http = f"{scheme}://{at.pop('http')}"
    return Addresses(http, at.pop("grpc"), at, f"{http}{MCP_PATH}" if is_open(settings.mcp) else None)
