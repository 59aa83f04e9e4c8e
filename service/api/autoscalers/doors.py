"""Which doors of autoscalers the settings open, and how they are built. A further one is a module and a row of ``_DOORS``."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from msgspec import Struct

from service.api.autoscalers import dynamo, expander, keda
from service.api.autoscalers.metrics import AutoscalerMetrics
from service.api.autoscalers.scaling import Scaling
from service.api.autoscalers.server import AutoscalerServer, Limits, Method
from service.api.tls import TlsFiles
from service.planning.planner import Planner
from service.settings import PREFIX, Settings
from service.telemetry import RpcName, Telemetry


class Parts(Struct, frozen=True):
    """What the methods of a door are made of."""

    settings: Settings
    planner: Planner
    metrics: AutoscalerMetrics
    scaling: Scaling


class Door(Struct, frozen=True):
    """A door that is open: its server, the port that it shall have (0: any free one), and what chooses another."""

    server: AutoscalerServer
    port: int
    variable: str


class _Kind(Struct, frozen=True):
    """A door that there can be. Its settings begin with its name: ``expander_port``, ``expander_tls_cert_file``."""

    name: str
    rpcs: tuple[RpcName, ...]
    methods: Callable[[Parts], Sequence[Method]]
    max_concurrent_requests: int


def _expander(parts: Parts) -> Sequence[Method]:
    # A thread of its own: behind plans that wait for the planning thread its answers would come too late.
    thread = ThreadPoolExecutor(1, thread_name_prefix="expander")
    return expander.methods(parts.planner, parts.settings, parts.metrics, thread)


def _keda(parts: Parts) -> Sequence[Method]:
    return keda.KedaScaler(parts.scaling.readings).methods()


_DOORS: Final = (
    _Kind("expander", expander.RPCS, _expander, expander.MAX_CONCURRENT_REQUESTS),
    _Kind("keda", keda.RPCS, _keda, keda.MAX_CONCURRENT_REQUESTS),
)


def ports(settings: Settings) -> dict[str, int]:
    """The ports that the doors that are open shall have, by their names; 0 for any free one."""
    return {kind.name: port for kind in _DOORS if (port := _port(settings, kind)) is not None}


def rpc_names(settings: Settings) -> list[RpcName]:
    """What is served on the doors that are open, for the telemetry."""
    named = () if settings.deployments_file is None else dynamo.RPCS
    return [name for kind in _DOORS if kind.name in ports(settings) for name in kind.rpcs] + [*named]


def doors(
    settings: Settings, planner: Planner, telemetry: Telemetry, scaling: Scaling, *, share_port: bool
) -> tuple[Door, ...]:
    """The doors that the settings and the deployments file open, not yet bound.

    Raises:
        TlsFilesError: a certificate cannot be used.
    """
    wanted, named = ports(settings), _dynamo_ports(scaling)
    if not wanted and not named:
        return ()
    parts = Parts(settings, planner, AutoscalerMetrics(telemetry.registry), scaling)
    opened = [kind for kind in _DOORS if kind.name in wanted]
    return (
        *(Door(_server(kind, parts, telemetry, share_port), wanted[kind.name], port_variable(kind.name)) for kind in opened),
        *(
            Door(_dynamo_server(name, parts, telemetry, share_port), port, f"dynamo_port of {name} in the deployments file")
            for name, port in named.items()
        ),
    )


def _dynamo_ports(scaling: Scaling) -> dict[str, int]:
    """The ports of the deployments that Dynamo asks about. Those of a file that changes are taken at the next start."""
    named = {} if scaling.file is None else scaling.file.deployments
    return {name: each.dynamo_port for name, each in named.items() if each.dynamo_port is not None}


def _dynamo_server(name: str, parts: Parts, telemetry: Telemetry, share_port: bool) -> AutoscalerServer:
    plugin = dynamo.DynamoPlugin(parts.scaling.replicas, partial(parts.scaling.deployment, name))
    return AutoscalerServer(
        f"dynamo-{name}",
        plugin.methods(),
        telemetry,
        limits=Limits(
            max_request_bytes=dynamo.MAX_REQUEST_BYTES,
            max_concurrent_requests=dynamo.MAX_CONCURRENT_REQUESTS,
            max_connection_age_seconds=parts.settings.autoscaler_max_connection_age_seconds,
        ),
        share_port=share_port,
    )


def port_variable(door: str) -> str:
    """The setting that chooses a door's port."""
    return f"{PREFIX}{door.upper()}_PORT"


def _server(kind: _Kind, parts: Parts, telemetry: Telemetry, share_port: bool) -> AutoscalerServer:
    settings = parts.settings
    return AutoscalerServer(
        kind.name,
        kind.methods(parts),
        telemetry,
        limits=Limits(
            max_request_bytes=getattr(settings, f"{kind.name}_max_request_bytes", settings.max_request_bytes),
            max_concurrent_requests=kind.max_concurrent_requests,
            max_connection_age_seconds=settings.autoscaler_max_connection_age_seconds,
        ),
        tls=_tls_files(settings, kind.name),
        share_port=share_port,
    )


def _tls_files(settings: Settings, door: str) -> TlsFiles | None:
    certificate, key, client_ca = (getattr(settings, f"{door}_tls_{file}_file") for file in ("cert", "key", "client_ca"))
    return None if certificate is None else TlsFiles(certificate, key, client_ca, f"{PREFIX}{door.upper()}")


def _port(settings: Settings, kind: _Kind) -> int | None:
    port: int | None = getattr(settings, f"{kind.name}_port")
    return port
