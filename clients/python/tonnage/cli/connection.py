"""Where the command line asks: a service at an address, behind TLS or not, with a key or not, or one that it starts itself."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import click
import grpc
from click.core import ParameterSource

from tonnage.channel import DEFAULT_TARGET
from tonnage.cli.local_service import local_address
from tonnage.client import Client

LOCAL = "tonnage.local"
"""Where the group keeps its own --local, in what all contexts of a call share."""
_LOOPBACK = re.compile(r"(localhost|127\.[\d.]+|\[::1\])(:\d+)?|unix:.*")
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Connection:
    """The address, and what it takes to be answered there."""

    server: str = DEFAULT_TARGET
    is_local: bool = False
    has_tls: bool = False
    ca: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    token: str = field(default="", repr=False)

    @property
    def is_encrypted(self) -> bool:
        """Whether calls go over TLS."""
        return self.has_tls or self.ca is not None or self.client_cert is not None

    def client(self, timeout: float) -> Client:
        """A client for calls of at most ``timeout`` seconds. Starts the service where it is to be one's own."""
        if self.is_local:
            return Client(local_address(), timeout=timeout)
        metadata = (("authorization", f"Bearer {self.token}"),) if self.token else ()
        return Client(self.server, timeout=timeout, credentials=self._credentials(), metadata=metadata)

    def _credentials(self) -> grpc.ChannelCredentials | None:
        if not self.is_encrypted:
            return None
        roots, chain, key = (None if file is None else _bytes(file) for file in (self.ca, self.client_cert, self.client_key))
        return grpc.ssl_channel_credentials(roots, key, chain)


def connection(
    server: str,
    local: bool,
    tls: bool,
    ca: Path | None,
    client_cert: Path | None,
    client_key: Path | None,
    token: str | None,
    token_file: Path | None,
) -> Connection:
    """What the options say of it. A UsageError where they contradict each other."""
    context = click.get_current_context()
    is_local = local or context.meta.get(LOCAL, False)
    if is_local:
        for name in ("server", "tls", "ca", "client_cert", "client_key", "token", "token_file"):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{name.replace('_', '-')} is about a server elsewhere; --local starts one here")
        return Connection(is_local=True)
    if (client_cert is None) != (client_key is None):
        raise click.UsageError("--client-cert and --client-key go together")
    made = Connection(server, False, tls, ca, client_cert, client_key, _token(context, token, token_file))
    if made.token and not made.is_encrypted and not _LOOPBACK.fullmatch(server):
        click.echo(f"tonnage: the key goes to {server} without encryption; --tls or --ca would encrypt it", err=True)
    return made


def _token(context: click.Context, token: str | None, file: Path | None) -> str:
    """The key, from the option, its file or the environment; what is nearer goes first. No message repeats it."""
    told = ParameterSource.COMMANDLINE
    if token and file is not None:
        by_option = [name for name in ("token", "token_file") if context.get_parameter_source(name) is told]
        if len(by_option) != 1:
            raise click.UsageError("give one key: --token (TONNAGE_TOKEN) or --token-file (TONNAGE_TOKEN_FILE)")
        token, file = (token, None) if by_option == ["token"] else (None, file)
    if file is not None:
        token = _bytes(file).decode("utf-8", "replace")
    text = (token or "").strip()
    if text and not _TOKEN.fullmatch(text):
        raise click.UsageError("the key holds blanks or characters that no header can carry")
    return text


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from None
