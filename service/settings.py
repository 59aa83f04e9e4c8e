"""Every knob of the service: typed, its unit in its name, read once from environment variables at start.

A knob is one field of ``Settings``; its variable is the field's name in capitals after ``TONNAGE_``. A wrong value and
a mistyped variable are both errors, all of them reported at once, so that nothing falls back to a default unnoticed.
A variable set to the empty string counts as not set. What the texts of a value mean is ``service.knobs``.
"""

import difflib
import os
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal

from service.knobs import Knob, Refusal, bearer_token, folders, hosts_of, knob, parse, redis_address, servers

PREFIX: Final = "TONNAGE_"

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
McpMode = Literal["auto", "true", "false"]

#: Kubernetes puts variables of this form into every pod of a namespace that has a Service named tonnage or tonnage-…:
#: TONNAGE_SERVICE_HOST, TONNAGE_GRPC_SERVICE_PORT_HTTP, TONNAGE_PORT_8080_TCP_ADDR. Nobody typed them: passed over.
_SERVICE_LINK: Final = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
#: So are TONNAGE_PORT and TONNAGE_HTTP_PORT (from a Service named tonnage-http), which only their values give away.
_SERVICE_LINK_VALUE: Final = re.compile(r"(tcp|udp|sctp)://")

#: What the command line reads. A shell that has it set may start the service too.
_CLIENT_VARIABLES: Final = (
    "TONNAGE_SERVER",
    "TONNAGE_TLS",
    "TONNAGE_CA_FILE",
    "TONNAGE_CLIENT_CERT_FILE",
    "TONNAGE_CLIENT_KEY_FILE",
    "TONNAGE_TOKEN",
    "TONNAGE_TOKEN_FILE",
)


class SettingsError(ValueError):
    """One or more environment variables are wrong; ``problems`` has a sentence for each."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every knob with its default. ``from_environment`` reads them, ``describe`` lists them."""

    host: str = knob("127.0.0.1", "address to listen on, for both doors; 0.0.0.0 or :: opens them to the network")
    http_port: int = knob(8080, "port for REST, MCP, metrics and docs; 0 takes any free one", minimum=0, maximum=65535)
    grpc_port: int = knob(50051, "port for gRPC; 0 takes any free one", minimum=0, maximum=65535)
    operations_port: int | None = knob(
        None,
        "port for /healthz, /readyz and /metrics alone, in plain HTTP and without keys; 0 takes any free one; not set: none",
        minimum=0,
        maximum=65535,
    )
    tls_cert_file: Path | None = knob(  # noqa: RUF009 - a field
        None, "PEM file with the certificate of REST and gRPC, and those that lead to its issuer; not set: no TLS"
    )
    tls_key_file: Path | None = knob(None, "PEM file with the private key of that certificate")  # noqa: RUF009 - a field
    tls_client_ca_file: Path | None = knob(  # noqa: RUF009 - a field
        None, "PEM file with issuers: callers then need a certificate of one of them"
    )
    api_keys_file: Path | None = knob(  # noqa: RUF009 - a field
        None,
        "YAML file of callers by the hashes of their keys, with scopes and limits; read anew when it changes; not set: no keys",
    )
    jwt_keys_file: Path | None = knob(  # noqa: RUF009 - a field
        None, "public keys of an identity provider, as PEM or a JSON Web Key Set, whose signed tokens are taken; not set: none"
    )
    jwt_issuer: str | None = knob(None, "what iss of a signed token must be")
    jwt_audience: str | None = knob(None, "what aud of a signed token must be, or hold")
    allow_anonymous: bool = knob(
        False, "answer everybody on an address that others reach; on loopback nobody needs a key anyway"
    )
    caller_requests_per_second: float | None = knob(
        None, "of each caller that has no limit of its own; not set: no limit", minimum=0.001, maximum=1e6
    )
    caller_max_concurrent_requests: int | None = knob(
        None, "of each caller that has no limit of its own, in a process; not set: its fair share", minimum=1, maximum=100_000
    )
    http_max_connections: int = knob(1024, "HTTP connections open at once in a process", minimum=1, maximum=1_000_000)
    http_max_head_bytes: int = knob(
        64 * 2**10, "longest request line and headers of an HTTP request", unit="bytes", minimum=1024, maximum=2**24
    )
    http_max_pending_body_bytes: int = knob(
        64 * 2**20, "HTTP bodies that are on their way in a process, together", unit="bytes", minimum=1024, maximum=2**34
    )
    http_arrival_seconds: float = knob(
        20.0,
        "how long an HTTP request may take to arrive in whole, and its caller to take what waits for it",
        unit="seconds",
        minimum=0.1,
        maximum=3600,
    )
    processes: int = knob(1, "worker processes sharing the ports; in Kubernetes leave 1, add pods", minimum=1, maximum=256)
    drain_seconds: float = knob(
        10.0, "after SIGTERM, how long running requests may take to finish", unit="seconds", minimum=0, maximum=3600
    )
    max_request_bytes: int = knob(
        4 * 2**20, "largest request body taken, over either door", unit="bytes", minimum=1024, maximum=2**30
    )
    max_concurrent_requests: int = knob(
        256, "requests worked on at once in a process; more are refused with a retry-after", minimum=1, maximum=100_000
    )
    catalogue_dir: tuple[Path, ...] = knob(
        (),
        f"further catalogue folders, separated by {os.pathsep!r}; their entries stand beside the built-in ones",
        parse=folders,
    )
    cache_max_bytes: int = knob(
        64 * 2**20, "memory for the in-process cache of a process; 0 turns it off", unit="bytes", minimum=0
    )
    cache_max_entries: int = knob(65_536, "most answers in the in-process cache of a process", minimum=1)
    redis_url: str | None = knob(
        None,
        "redis://, rediss:// or unix:// address of the shared cache; not set: in-process only",
        parse=redis_address,
        secret=True,
    )
    redis_secret: str | None = knob(
        None,
        "shared by all replicas: answers in Redis are then signed with it, and what somebody else put there is not believed",
        parse=bearer_token,
        secret=True,
    )
    redis_all_rpcs: bool = knob(False, "keep every RPC's answers in Redis, the cheap ones too")
    redis_prefix: str = knob("tonnage:", "how every Redis key begins")
    redis_connect_timeout_seconds: float = knob(
        0.1, "longest wait for a Redis connection before answering without", unit="seconds", minimum=0.001, maximum=10
    )
    redis_timeout_seconds: float = knob(
        0.1, "longest wait for a Redis reply before answering without", unit="seconds", minimum=0.001, maximum=10
    )
    redis_ttl_seconds: float = knob(
        86_400.0, "how long Redis keeps an answer, before jitter", unit="seconds", minimum=1, maximum=30 * 86_400
    )
    prometheus_hosts: tuple[str, ...] = knob(
        (),
        "Prometheus servers that observations may be read from, as http://prometheus:9090, separated by ','; not set: none",
        parse=servers,
    )
    autoscaler_max_connection_age_seconds: float = knob(
        300.0,
        "how long an autoscaler keeps a connection before it is closed gently, to be opened anew",
        unit="seconds",
        minimum=1,
        maximum=86_400,
    )
    expander_port: int | None = knob(
        None, "port for the Cluster Autoscaler's gRPC expander; 0 takes any free one; not set: off", minimum=0, maximum=65535
    )
    expander_tls_cert_file: Path | None = knob(  # noqa: RUF009 - a field
        None, "PEM file with the expander's certificate, and those that lead to its issuer; not set: no TLS"
    )
    expander_tls_key_file: Path | None = knob(  # noqa: RUF009 - a field
        None, "PEM file with the private key of the expander's certificate"
    )
    expander_tls_client_ca_file: Path | None = knob(  # noqa: RUF009 - a field
        None, "PEM file with issuers: callers of the expander then need a certificate of one of them"
    )
    expander_max_request_bytes: int = knob(
        64 * 2**20, "largest request the expander takes", unit="bytes", minimum=1024, maximum=2**30
    )
    expander_fit_weight: float | None = knob(
        None,
        "weight of the pods that fit; while no weight is set, the order is fit, gangs, waste, cost",
        minimum=0,
        maximum=1e6,
    )
    expander_gang_weight: float | None = knob(None, "weight of whole gangs", minimum=0, maximum=1e6)
    expander_waste_weight: float | None = knob(
        None, "weight of accelerators put to use rather than wasted", minimum=0, maximum=1e6
    )
    expander_cost_weight: float | None = knob(None, "weight of a low price", minimum=0, maximum=1e6)
    keda_port: int | None = knob(
        None, "port for KEDA's external scaler; 0 takes any free one; not set: off", minimum=0, maximum=65535
    )
    keda_tls_cert_file: Path | None = knob(  # noqa: RUF009 - a field
        None, "PEM file with the certificate of KEDA's port, and those that lead to its issuer; not set: no TLS"
    )
    keda_tls_key_file: Path | None = knob(  # noqa: RUF009 - a field
        None, "PEM file with the private key of that certificate"
    )
    keda_tls_client_ca_file: Path | None = knob(  # noqa: RUF009 - a field
        None, "PEM file with issuers: KEDA then needs a certificate of one of them"
    )
    deployments_file: Path | None = knob(  # noqa: RUF009 - a field
        None, "YAML file of deployments to show as gauges and to serve to Dynamo; read anew when it changes; not set: none"
    )
    deployments_interval_seconds: float = knob(
        15.0, "from one look at the deployments of the file to the next", unit="seconds", minimum=1, maximum=3600
    )
    mcp: McpMode = knob(  # noqa: RUF009 - a field
        "auto", "whether chatbots are answered at /mcp; auto: where the extra [mcp] is installed, loaded when first asked"
    )
    mcp_allowed_hosts: tuple[str, ...] = knob(
        (),
        "names that /mcp is reached by, with or without a port, separated by ','; * for any; not set: localhost only",
        parse=hosts_of,
    )
    mcp_token: str | None = knob(
        None, "bearer token that callers of /mcp must present; not set: none is needed", parse=bearer_token, secret=True
    )
    sweep_max_points: int = knob(10_000_000, "most points of a sweep", minimum=1, maximum=2**31 - 1)
    sweep_max_plans: int = knob(
        10_000, "most combinations of model, accelerator, shape, precision and engine in a sweep", minimum=1, maximum=1_000_000
    )
    traces: bool = knob(
        False,
        "send requests as OpenTelemetry traces, by OTLP over HTTP to OTEL_EXPORTER_OTLP_ENDPOINT; needs the extra [otel]",
    )
    log_level: LogLevel = knob("info", "least severe log lines that are written")  # noqa: RUF009 - a field
    log_format: LogFormat = knob(  # noqa: RUF009 - a field
        "text", "one line a record for people, or one JSON object a record for machines"
    )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """The settings that the environment asks for (``os.environ`` when not given), defaults for the rest.

        Raises:
            SettingsError: a value is not accepted, two of them conflict, or a TONNAGE_ variable is unknown.
        """
        given = _given(os.environ if environ is None else environ)
        problems = [_unknown(name, cls) for name in sorted(given) if name not in _variables(cls)]
        values: dict[str, Any] = {}
        annotations = typing.get_type_hints(cls)
        for variable, (name, about) in _variables(cls).items():
            if variable not in given:
                continue
            try:
                values[name] = parse(given[variable], annotations[name], about)
            except Refusal as refusal:
                shown = "its value" if refusal.secret else repr(given[variable])
                problems.append(f"{variable}: {shown} {refusal.reason}. Accepted: {refusal.accepted}.")
        if not problems:
            settings = cls(**values)
            problems = settings._conflicts()
            if not problems:
                return settings
        raise SettingsError(problems)

    def _conflicts(self) -> list[str]:
        return [*self._port_conflicts(), *self._tls_conflicts(), *self._access_conflicts()]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the address that is listened on."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def _access_conflicts(self) -> list[str]:
        """Whoever opens the service to a network says who may ask."""
        problems = []
        has_keys = self.api_keys_file is not None or self.jwt_keys_file is not None
        if not (self.is_loopback or has_keys or self.allow_anonymous):
            problems.append(
                f"TONNAGE_HOST: others reach {self.host}, and nobody needs a key. Accepted: TONNAGE_API_KEYS_FILE, "
                "TONNAGE_JWT_KEYS_FILE, a loopback address, or TONNAGE_ALLOW_ANONYMOUS=true."
            )
        if has_keys and self.allow_anonymous:
            problems.append("TONNAGE_ALLOW_ANONYMOUS: there are keys, so not everybody is answered. Accepted: one of the two.")
        if len({each is None for each in (self.jwt_keys_file, self.jwt_issuer, self.jwt_audience)}) > 1:
            problems.append(
                "TONNAGE_JWT_KEYS_FILE, TONNAGE_JWT_ISSUER and TONNAGE_JWT_AUDIENCE go together. Accepted: all, or none."
            )
        return problems

    def _port_conflicts(self) -> list[str]:
        taken: dict[int, list[str]] = {}
        for each in fields(self):
            port = getattr(self, each.name)
            if each.name.endswith("_port") and port:
                taken.setdefault(port, []).append(PREFIX + each.name.upper())
        return [
            f"{' and '.join(variables)} are {'both' if len(variables) == 2 else 'all'} {port}. "
            "Accepted: different ports, or 0 for any free one."
            for port, variables in taken.items()
            if len(variables) > 1
        ]

    def _tls_conflicts(self) -> list[str]:
        """A certificate goes with its key, and issuers of callers with a certificate."""
        problems = []
        for door in (each.name.removesuffix("tls_cert_file") for each in fields(self) if each.name.endswith("tls_cert_file")):
            certificate, key, client_ca = (getattr(self, f"{door}tls_{file}_file") for file in ("cert", "key", "client_ca"))
            prefix = f"{PREFIX}{door.upper()}TLS"
            if (certificate is None) != (key is None):
                problems.append(f"{prefix}_CERT_FILE and {prefix}_KEY_FILE go together. Accepted: both, or neither.")
            elif client_ca is not None and certificate is None:
                problems.append(f"{prefix}_CLIENT_CA_FILE needs {prefix}_CERT_FILE and {prefix}_KEY_FILE. Accepted: all three.")
        return problems

    @classmethod
    def describe(cls) -> str:
        """The table of all variables that ``tonnage-service --help`` prints: variable, default, unit, meaning."""
        rows = [("variable", "default", "unit", "meaning")]
        annotations = typing.get_type_hints(cls)
        defaults = {each.name: each.default for each in fields(cls)}
        for variable, (name, about) in _variables(cls).items():
            choices = typing.get_args(annotations[name]) if typing.get_origin(annotations[name]) is Literal else ()
            meaning = f"{about.meaning}: {', '.join(choices)}" if choices else about.meaning
            rows.append((variable, _shown(defaults[name]), about.unit or "-", meaning))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = ("  ".join((*map(str.ljust, row, widths), row[3])) for row in rows)
        return "\n".join(lines)


def specs_dir() -> Path:
    """The folder of the built-in catalogue: inside an installed wheel, or beside ``service/`` in a checkout.

    Raises:
        FileNotFoundError: neither is there, so the installation is broken.
    """
    package = Path(__file__).resolve().parent
    candidates = (package / "specs", package.parent / "specs")
    for candidate in candidates:
        if (candidate / "sources.yaml").is_file():
            return candidate
    raise FileNotFoundError(f"no catalogue: looked for sources.yaml in {' and '.join(map(str, candidates))}")


def _variables(cls: type[Settings]) -> dict[str, tuple[str, Knob]]:
    return {PREFIX + each.name.upper(): (each.name, each.metadata["knob"]) for each in fields(cls)}


def _given(environ: Mapping[str, str]) -> dict[str, str]:
    """Our variables that somebody set to something."""
    ours = {name: value.strip() for name, value in environ.items() if name.startswith(PREFIX)}
    return {name: value for name, value in ours.items() if value and not _is_meant_for_another(name, value)}


def _is_meant_for_another(name: str, value: str) -> bool:
    if name in _CLIENT_VARIABLES or _SERVICE_LINK.fullmatch(name.removeprefix(PREFIX)):
        return True
    return name.endswith("PORT") and _SERVICE_LINK_VALUE.match(value) is not None


def _unknown(variable: str, cls: type[Settings]) -> str:
    names = [each.removeprefix(PREFIX) for each in _variables(cls)]
    near = difflib.get_close_matches(variable.removeprefix(PREFIX), names, n=3, cutoff=0.7)
    if not near:
        return f"{variable}: no such setting. tonnage-service --help lists them all."
    return f"{variable}: no such setting. Did you mean {' or '.join(PREFIX + name for name in near)}?"


def _shown(default: object) -> str:
    if default is None or default == ():
        return "not set"
    return str(default).lower() if isinstance(default, bool) else str(default)
