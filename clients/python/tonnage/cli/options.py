"""Options that several commands share. Each group of them reaches its command as one argument."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import click

from tonnage.channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS
from tonnage.cli.connection import connection
from tonnage.cli.session import JSON, TABLE, YAML, Session
from tonnage.tabular import CSV, FORMS, XLSX

Command: TypeAlias = Callable[..., None]
Decorator: TypeAlias = Callable[[Command], Command]


def examples(*lines: str) -> str:
    """Examples for the end of a command's help, kept line by line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def grouped(name: str, gather: Callable[..., object], *options: Decorator) -> Decorator:
    """Adds the options to a command, which gets what ``gather`` makes of them as its argument ``name``."""
    own = list(inspect.signature(gather).parameters)

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(**given: Any) -> None:
            gathered = gather(**{option: given.pop(option) for option in own})
            command(**given, **{name: gathered})

        decorated: Command = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


@dataclass(frozen=True, slots=True)
class _Group:
    def given(self) -> dict[str, Any]:
        """The options as keyword arguments of the client's methods."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Split(_Group):
    """How one replica is split over devices."""

    tensor: int | None
    pipeline: int | None
    expert: int | None
    attention_data: int | None


@dataclass(frozen=True, slots=True)
class Formats(_Group):
    """Number formats."""

    weights: str | None
    kv_cache: str | None
    compute: str | None


def _session(
    as_json: bool,
    form: str | None,
    server: str,
    local: bool,
    timeout: float,
    tls: bool,
    ca: Path | None,
    client_cert: Path | None,
    client_key: Path | None,
    token: str | None,
    token_file: Path | None,
) -> Session:
    if as_json and form not in (None, JSON):
        raise click.UsageError(f"--json and --format {form} contradict each other")
    where = connection(server, local, tls, ca, client_cert, client_key, token, token_file)
    return Session(where, timeout, JSON if as_json else form or TABLE)


def _file_option(name: str, variable: str, meaning: str) -> Decorator:
    return click.option(
        name, type=click.Path(exists=True, dir_okay=False, path_type=Path), envvar=variable, show_envvar=True, help=meaning
    )


_CONNECTION = (
    click.option(
        "--server",
        metavar="HOST:PORT",
        default=DEFAULT_TARGET,
        envvar="TONNAGE_SERVER",
        show_envvar=True,
        show_default=True,
        help="Where the service answers gRPC.",
    ),
    click.option(
        "--local", is_flag=True, help="Start a service of one's own for this call, on a free port, and stop it after."
    ),
    click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        default=DEFAULT_TIMEOUT_SECONDS,
        show_default=True,
        help="How long to wait for the answer.",
    ),
    click.option("--tls", is_flag=True, envvar="TONNAGE_TLS", show_envvar=True, help="Encrypt; trust the usual issuers."),
    _file_option("--ca", "TONNAGE_CA_FILE", "Encrypt; trust the issuers in this PEM file."),
    _file_option("--client-cert", "TONNAGE_CLIENT_CERT_FILE", "Encrypt; one's own certificate, as PEM."),
    _file_option("--client-key", "TONNAGE_CLIENT_KEY_FILE", "… and its private key."),
    click.option(
        "--token",
        metavar="KEY",
        envvar="TONNAGE_TOKEN",
        show_envvar=True,
        help="API key or signed token. Others see a command line: better in the variable or a file.",
    ),
    _file_option("--token-file", "TONNAGE_TOKEN_FILE", "… or the file that holds it."),
)


def _with_forms(*forms: str) -> Decorator:
    """Adds what every asking command has: how to print (one of these forms), and where and how to ask."""
    return grouped(
        "session",
        _session,
        click.option("--format", "form", type=click.Choice(forms), help=f"How to print the answer. [default: {forms[0]}]"),
        click.option("--json", "as_json", is_flag=True, help="As --format json: with the keys of the REST API."),
        *_CONNECTION,
    )


with_session = _with_forms(TABLE, JSON, YAML)
with_tabular_session = _with_forms(TABLE, JSON, YAML, *(each.name for each in FORMS))
with_streamed_session = _with_forms(CSV.name, JSON, XLSX.name)


def _with_split(default: str) -> Decorator:
    def option(name: str, short: str, meaning: str) -> Decorator:
        return click.option(name, short, type=int, metavar="N", help=f"{meaning}. [default: {default}]")

    return grouped(
        "split",
        Split,
        option("--tensor", "--tp", "Tensor-parallel ranks"),
        option("--pipeline", "--pp", "Pipeline stages"),
        option("--expert", "--ep", "Expert-parallel groups"),
        option("--attention-data", "--dp", "Data-parallel attention groups"),
    )


with_split = _with_split("1")
#: Where the way to split is looked for as long as none of these is given.
with_searched_split = _with_split("searched, 1 beside another of these")

with_formats = grouped(
    "formats",
    Formats,
    click.option("--weights", metavar="FORMAT", help="Format of the weights (bf16, fp8, …). [default: the checkpoint's]"),
    click.option("--kv-cache", metavar="FORMAT", help="Format of the KV cache. [default: bf16, or the checkpoint's]"),
    click.option("--compute", metavar="FORMAT", help="Format that the matrix units multiply in. [default: by the weights]"),
)

batch_size = click.option("--batch-size", type=int, metavar="N", help="Sequences at once, over the replica. [default: 1]")
memory_utilization_ratio = click.option(
    "--memory-utilization-ratio",
    type=float,
    metavar="RATIO",
    help="Share of the usable memory for weights and cache, 0 to 1. [default: 0.9]",
)
explain = click.option("--explain", is_flag=True, help="Show every formula applied and every figure used.")
check = click.option("--check", is_flag=True, help="Exit with 3 where it does not fit.")


def context_tokens(required: bool) -> Decorator:
    """The option for the tokens that each sequence holds."""
    return click.option("--context-tokens", type=int, metavar="N", required=required, help="Tokens that each sequence holds.")
