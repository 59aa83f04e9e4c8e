"""Every knob of the service: typed, its unit in its name, read once from environment variables at start.

A knob is one field of ``Settings``; its variable is the field's name in capitals after ``TONNAGE_``. A wrong value and
a mistyped variable are both errors, all of them reported at once, so that nothing falls back to a default unnoticed.
A variable set to the empty string counts as not set. This module imports nothing of ours.
"""

import difflib
import math
import os
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

PREFIX: Final = "TONNAGE_"

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]

#: Kubernetes puts variables of this form into every pod of a namespace that has a Service named tonnage or tonnage-…:
#: TONNAGE_SERVICE_HOST, TONNAGE_GRPC_SERVICE_PORT_HTTP, TONNAGE_PORT_8080_TCP_ADDR. Nobody typed them: passed over.
_SERVICE_LINK: Final = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
#: So are TONNAGE_PORT and TONNAGE_HTTP_PORT (from a Service named tonnage-http), which only their values give away.
_SERVICE_LINK_VALUE: Final = re.compile(r"(tcp|udp|sctp)://")

#: What the command line reads. A shell that has it set may start the service too.
_CLIENT_VARIABLES: Final = ("TONNAGE_SERVER",)

_REDIS_SCHEMES: Final = ("redis", "rediss", "unix")
_SERVER: Final = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:(?P<port>[0-9]{1,5}))?")
_TRUE: Final = ("true", "1", "yes", "on")
_FALSE: Final = ("false", "0", "no", "off")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Knob:
    """What is known of one setting besides its type and default."""

    meaning: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    parse: Callable[[str], object] | None = None  # where the field's type does not say how to read it


class SettingsError(ValueError):
    """One or more environment variables are wrong; ``problems`` has a sentence for each."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


class _Refusal(Exception):
    """Why a value is not accepted, and what would be. A secret value must not be repeated in the message."""

    def __init__(self, reason: str, accepted: str, *, secret: bool = False) -> None:
        self.reason, self.accepted, self.secret = reason, accepted, secret
        super().__init__(reason)


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise _Refusal("is neither true nor false", f"{', '.join(_TRUE)} or {', '.join(_FALSE)}")


def _number(text: str, kind: type[int] | type[float], knob: Knob) -> float:
    accepted = _range(kind, knob)
    try:
        value = kind(text)
    except ValueError:
        raise _Refusal("is not a whole number" if kind is int else "is not a number", accepted) from None
    if not math.isfinite(value):
        raise _Refusal("is not finite", accepted)
    if knob.minimum is not None and value < knob.minimum:
        raise _Refusal("is too small", accepted)
    if knob.maximum is not None and value > knob.maximum:
        raise _Refusal("is too large", accepted)
    return value


def _range(kind: type[int] | type[float], knob: Knob) -> str:
    words = ["a whole number" if kind is int else "a number"]
    if knob.unit:
        words.append(f"of {knob.unit}")
    if knob.minimum is not None:
        words.append(f"from {knob.minimum}")
    if knob.maximum is not None:
        words.append(f"up to {knob.maximum}")
    return " ".join(words)


def _choice(text: str, choices: tuple[str, ...]) -> str:
    if text.lower() in choices:
        return text.lower()
    raise _Refusal("is not one of them", ", ".join(choices))


def _folders(text: str) -> tuple[Path, ...]:
    folders = [Path(part).expanduser() for part in text.split(os.pathsep) if part]
    for folder in folders:
        if not folder.is_dir():
            raise _Refusal(f"names no folder: {folder}", f"folders that exist, separated by {os.pathsep!r}")
    return tuple(folder.resolve() for folder in folders)


def _redis_url(text: str) -> str:
    """The address as given. It may hold a password, so no message repeats it."""
    accepted = "redis://[user:password@]host[:port][/database], rediss:// for TLS, unix:///path"
    try:
        parts = urlsplit(text)
        reachable = parts.path if parts.scheme == "unix" else parts.hostname
        parts.port  # noqa: B018 - raises when the port is no number
    except ValueError:
        raise _Refusal("is not an address", accepted, secret=True) from None
    if parts.scheme not in _REDIS_SCHEMES or not reachable:
        raise _Refusal("is not the address of a Redis", accepted, secret=True)
    return text


def _servers(text: str) -> tuple[str, ...]:
    """Addresses by scheme, host and port, nothing else: what is allowed must be readable at a glance."""
    servers = tuple(part.strip() for part in text.split(",") if part.strip())
    for server in servers:
        found = _SERVER.fullmatch(server)
        if found is None or not 0 < int(found["port"] or 80) < 65536:
            raise _Refusal(f"names no server: {server}", "http:// or https://, host and port, separated by ','")
    return servers


def _parse(text: str, annotation: Any, knob: Knob) -> object:
    """The text as the field's type wants it; ``_Refusal`` where it cannot be that."""
    if knob.parse is not None:
        return knob.parse(text)
    if annotation is bool:
        return _boolean(text)
    if annotation in (int, float):
        return _number(text, annotation, knob)
    if typing.get_origin(annotation) is Literal:
        return _choice(text, typing.get_args(annotation))
    return text


def _knob(default: T, meaning: str, *, secret: bool = False, **about: Any) -> T:
    """A field of ``Settings``. A secret is left out of its repr, which ends up in logs."""
    return field(default=default, repr=not secret, metadata={"knob": Knob(meaning, **about)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every knob with its default. ``from_environment`` reads them, ``describe`` lists them."""

    host: str = _knob("127.0.0.1", "address to listen on, for both doors; 0.0.0.0 or :: opens them to the network")
    http_port: int = _knob(8080, "port for REST, MCP, metrics and docs; 0 takes any free one", minimum=0, maximum=65535)
    grpc_port: int = _knob(50051, "port for gRPC; 0 takes any free one", minimum=0, maximum=65535)
    processes: int = _knob(1, "worker processes sharing the ports; in Kubernetes leave 1, add pods", minimum=1, maximum=256)
    drain_seconds: float = _knob(
        10.0, "after SIGTERM, how long running requests may take to finish", unit="seconds", minimum=0, maximum=3600
    )
    max_request_bytes: int = _knob(
        4 * 2**20, "largest request body taken, over either door", unit="bytes", minimum=1024, maximum=2**30
    )
    max_concurrent_requests: int = _knob(
        256, "requests worked on at once in a process; more are refused with a retry-after", minimum=1, maximum=100_000
    )
    catalogue_dir: tuple[Path, ...] = _knob(
        (),
        f"further catalogue folders, separated by {os.pathsep!r}; their entries stand beside the built-in ones",
        parse=_folders,
    )
    cache_max_bytes: int = _knob(
        64 * 2**20, "memory for the in-process cache of a process; 0 turns it off", unit="bytes", minimum=0
    )
    cache_max_entries: int = _knob(65_536, "most answers in the in-process cache of a process", minimum=1)
    redis_url: str | None = _knob(
        None,
        "redis://, rediss:// or unix:// address of the shared cache; not set: in-process only",
        parse=_redis_url,
        secret=True,
    )
    redis_all_rpcs: bool = _knob(False, "keep every RPC's answers in Redis, the cheap ones too")
    redis_prefix: str = _knob("tonnage:", "how every Redis key begins")
    redis_connect_timeout_seconds: float = _knob(
        0.1, "longest wait for a Redis connection before answering without", unit="seconds", minimum=0.001, maximum=10
    )
    redis_timeout_seconds: float = _knob(
        0.1, "longest wait for a Redis reply before answering without", unit="seconds", minimum=0.001, maximum=10
    )
    redis_ttl_seconds: float = _knob(
        86_400.0, "how long Redis keeps an answer, before jitter", unit="seconds", minimum=1, maximum=30 * 86_400
    )
    prometheus_hosts: tuple[str, ...] = _knob(
        (),
        "Prometheus servers that observations may be read from, as http://prometheus:9090, separated by ','; not set: none",
        parse=_servers,
    )
    sweep_max_points: int = _knob(10_000_000, "most points of a sweep", minimum=1, maximum=2**31 - 1)
    sweep_max_plans: int = _knob(
        10_000, "most combinations of model, accelerator, shape, precision and engine in a sweep", minimum=1, maximum=1_000_000
    )
    log_level: LogLevel = _knob("info", "least severe log lines that are written")  # noqa: RUF009 - a field
    log_format: LogFormat = _knob(  # noqa: RUF009 - a field
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
        for variable, (name, knob) in _variables(cls).items():
            if variable not in given:
                continue
            try:
                values[name] = _parse(given[variable], annotations[name], knob)
            except _Refusal as refusal:
                shown = "its value" if refusal.secret else repr(given[variable])
                problems.append(f"{variable}: {shown} {refusal.reason}. Accepted: {refusal.accepted}.")
        if not problems:
            settings = cls(**values)
            problems = settings._conflicts()
            if not problems:
                return settings
        raise SettingsError(problems)

    def _conflicts(self) -> list[str]:
        if self.http_port and self.http_port == self.grpc_port:
            return [
                f"TONNAGE_HTTP_PORT and TONNAGE_GRPC_PORT are both {self.http_port}. "
                "Accepted: two different ports, or 0 for any free one."
            ]
        return []

    @classmethod
    def describe(cls) -> str:
        """The table of all variables that ``tonnage-service --help`` prints: variable, default, unit, meaning."""
        rows = [("variable", "default", "unit", "meaning")]
        annotations = typing.get_type_hints(cls)
        defaults = {each.name: each.default for each in fields(cls)}
        for variable, (name, knob) in _variables(cls).items():
            choices = typing.get_args(annotations[name]) if typing.get_origin(annotations[name]) is Literal else ()
            meaning = f"{knob.meaning}: {', '.join(choices)}" if choices else knob.meaning
            rows.append((variable, _shown(defaults[name]), knob.unit or "-", meaning))
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
