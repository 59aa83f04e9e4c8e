"""Options that several commands share. Each group of them reaches its command as one argument."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import click

from tonnage.channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS
from tonnage.cli.session import Session
from tonnage.tabular import FORMS

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

    def __str__(self) -> str:
        ways = {"TP": self.tensor, "PP": self.pipeline, "EP": self.expert, "DP": self.attention_data}
        return " · ".join(f"{name} {number}" for name, number in ways.items() if number is not None)


@dataclass(frozen=True, slots=True)
class Formats(_Group):
    """Number formats."""

    weights: str | None
    kv_cache: str | None
    compute: str | None

    def __str__(self) -> str:
        kept = {"weights": self.weights, "KV cache": self.kv_cache, "compute": self.compute}
        return ", ".join(f"{name} {number_format}" for name, number_format in kept.items() if number_format)


def _session(server: str, timeout: float, as_json: bool) -> Session:
    return Session(server, timeout, as_json)


def _tabular_session(server: str, timeout: float, as_json: bool, form: str | None) -> Session:
    return Session(server, timeout, as_json or form == "json", "" if as_json or form in {None, "json"} else str(form))


_SESSION = (
    click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, with the keys of the REST API."),
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
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        default=DEFAULT_TIMEOUT_SECONDS,
        show_default=True,
        help="How long to wait for the answer.",
    ),
)
with_session = grouped("session", _session, *_SESSION)
with_tabular_session = grouped(
    "session",
    _tabular_session,
    click.option(
        "--format",
        "form",
        type=click.Choice(["json", *(each.name for each in FORMS)]),
        help="Print the answer in this form: a table for spreadsheets, or JSON.",
    ),
    *_SESSION,
)

with_split = grouped(
    "split",
    Split,
    click.option("--tensor", "--tp", type=int, metavar="N", help="Tensor-parallel ranks. [default: 1]"),
    click.option("--pipeline", "--pp", type=int, metavar="N", help="Pipeline stages. [default: 1]"),
    click.option("--expert", "--ep", type=int, metavar="N", help="Expert-parallel groups. [default: 1]"),
    click.option("--attention-data", "--dp", type=int, metavar="N", help="Data-parallel attention groups. [default: 1]"),
)

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
