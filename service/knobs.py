"""How one knob of the service is read out of text: its type, its unit, its range, and why a value is refused."""

import math
import os
import re
import typing
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

_REDIS_SCHEMES: Final = ("redis", "rediss", "unix")
_SERVER: Final = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:(?P<port>[0-9]{1,5}))?")
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(:[0-9]{1,5})?|[0-9a-f:]+")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")
_TRUE: Final = ("true", "1", "yes", "on")
_FALSE: Final = ("false", "0", "no", "off")

T = TypeVar("T")


class Knob(Struct, frozen=True):
    """What is known of one setting besides its type and default."""

    meaning: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    parse: Callable[[str], object] | None = None  # where the field's type does not say how to read it


class Refusal(Exception):
    """Why a value is not accepted, and what would be. A secret value must not be repeated in the message."""

    def __init__(self, reason: str, accepted: str, *, secret: bool = False) -> None:
        self.reason, self.accepted, self.secret = reason, accepted, secret
        super().__init__(reason)


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise Refusal("is neither true nor false", f"{', '.join(_TRUE)} or {', '.join(_FALSE)}")


def _number(text: str, kind: type[int] | type[float], knob: Knob) -> float:
    accepted = _range(kind, knob)
    try:
        value = kind(text)
    except ValueError:
        raise Refusal("is not a whole number" if kind is int else "is not a number", accepted) from None
    if not math.isfinite(value):
        raise Refusal("is not finite", accepted)
    if knob.minimum is not None and value < knob.minimum:
        raise Refusal("is too small", accepted)
    if knob.maximum is not None and value > knob.maximum:
        raise Refusal("is too large", accepted)
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
    raise Refusal("is not one of them", ", ".join(choices))


def folders(text: str) -> tuple[Path, ...]:
    """Folders that are there."""
    named = [Path(part).expanduser() for part in text.split(os.pathsep) if part]
    for folder in named:
        if not folder.is_dir():
            raise Refusal(f"names no folder: {folder}", f"folders that exist, separated by {os.pathsep!r}")
    return tuple(folder.resolve() for folder in named)


def redis_address(text: str) -> str:
    """The address as given. It may hold a password, so no message repeats it."""
    accepted = "redis://[user:password@]host[:port][/database], rediss:// for TLS, unix:///path"
    try:
        parts = urlsplit(text)
        reachable = parts.path if parts.scheme == "unix" else parts.hostname
        parts.port  # noqa: B018 - raises when the port is no number
    except ValueError:
        raise Refusal("is not an address", accepted, secret=True) from None
    if parts.scheme not in _REDIS_SCHEMES or not reachable:
        raise Refusal("is not the address of a Redis", accepted, secret=True)
    return text


def servers(text: str) -> tuple[str, ...]:
    """Addresses by scheme, host and port, nothing else: what is allowed must be readable at a glance."""
    servers = tuple(part.strip() for part in text.split(",") if part.strip())
    for server in servers:
        found = _SERVER.fullmatch(server)
        if found is None or not 0 < int(found["port"] or 80) < 65536:
            raise Refusal(f"names no server: {server}", "http:// or https://, host and port, separated by ','")
    return servers


def hosts_of(text: str) -> tuple[str, ...]:
    """Names as a Host header has them."""
    hosts = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    for host in hosts:
        if host != "*" and _HOST.fullmatch(host) is None:
            raise Refusal(f"names no host: {host}", "names or addresses without http://, separated by ','; * for any")
    return hosts


def bearer_token(text: str) -> str:
    """A bearer token. It is a secret, so no message repeats it."""
    if not 16 <= len(text) <= 4096 or _TOKEN.fullmatch(text) is None:
        raise Refusal("is no bearer token", "16 to 4,096 letters, digits and -._~+/=", secret=True)
    return text


def parse(text: str, annotation: Any, knob: Knob) -> object:
    """The text as the field's type wants it; ``Refusal`` where it cannot be that."""
    if knob.parse is not None:
        return knob.parse(text)
    if type(None) in typing.get_args(annotation):  # not given is one of its values
        annotation, _ = typing.get_args(annotation)
    if annotation is bool:
        return _boolean(text)
    if annotation in (int, float):
        return _number(text, annotation, knob)
    if typing.get_origin(annotation) is Literal:
        return _choice(text, typing.get_args(annotation))
    if annotation is Path:
        return Path(text).expanduser()
    return text


def knob(default: T, meaning: str, *, secret: bool = False, **about: Any) -> T:
    """A field of ``Settings``. A secret is left out of its repr, which ends up in logs."""
    return field(default=default, repr=not secret, metadata={"knob": Knob(meaning, **about)})
