"""Options that several commands share. Each group reaches its command as one argument."""

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import click
from google.protobuf import json_format

from tonnage.channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS
from tonnage.cli.session import Session
from tonnage.requests import struct
from tonnage.v1.accelerator_pb2 import AcceleratorSpec, InlineAccelerator, NodeSpec
from tonnage.v1.model_pb2 import DenseModel, ModelSpec

Command: TypeAlias = Callable[..., None]
_JSON_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _grouped(name: str, gather: Callable[..., object], *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Adds the options to a command, which gets what ``gather`` makes of them as its argument ``name``."""
    own = list(inspect.signature(gather).parameters)

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(**given: Any) -> None:
            gathered = gather(**{option: given.pop(option) for option in own})
            command(**given, **{name: gathered})

        for option in reversed(options):
            call = option(call)
        return call

    return decorate


def _session(server: str, timeout: float, as_json: bool) -> Session:
    return Session(server, timeout, as_json)


with_session = _grouped(
    "session",
    _session,
    click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, with the keys of the REST API."),
    click.option(
        "--server", default=DEFAULT_TARGET, envvar="TONNAGE_SERVER", show_envvar=True, show_default=True,
        help="Where the service answers gRPC, as host:port.",
    ),
    click.option(
        "--timeout", type=click.FloatRange(min=0, min_open=True), default=DEFAULT_TIMEOUT_SECONDS, show_default=True,
        help="Seconds to wait for the answer.",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """What a question is about: a model and the hardware to carry it."""

    model: ModelSpec
    model_title: str
    accelerator: AcceleratorSpec | None
    node: NodeSpec | None
    hardware_title: str


def _content(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise click.UsageError(f"{path} is not a JSON file: {error}") from None
    if not isinstance(content, dict):
        raise click.UsageError(f"{path} does not hold a JSON object")
    return content


def _dense(figures: Mapping[str, float | None]) -> DenseModel | None:
    if all(value is None for value in figures.values()):
        return None
    if figures["num_parameters"] is None:
        raise click.UsageError("a model by its figures needs --num-parameters")
    try:
        return DenseModel(**figures)  # type: ignore[arg-type]  # the options are named for the fields
    except ValueError as error:
        raise click.UsageError(f"the model's figures: {error}") from None


class _Names:
    """Names given without an option, handed out in order to what no option named."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._left = list(names)

    def next(self, missing: str) -> str:
        if not self._left:
            raise click.UsageError(missing)
        return self._left.pop(0)

    def end(self) -> None:
        if self._left:
            raise click.UsageError(f"unexpected {' '.join(self._left)!r}: both names are already given")


def _model(names: _Names, name: str | None, config: Path | None, quantization: Path | None, dense: DenseModel | None,
           multi_token_prediction: bool) -> tuple[ModelSpec, str]:  # fmt: skip
    given = [source for source in (name, config, dense) if source is not None]
    if len(given) > 1:
        raise click.UsageError("give one model: a name, --config or --num-parameters")
    if quantization and not config:
        raise click.UsageError("--quantization goes with --config")
    spec = ModelSpec(multi_token_prediction=multi_token_prediction)
    if config:
        spec.hf_config.CopyFrom(struct(_content(config), "model.hf_config"))
        if quantization:
            spec.hf_quantization.CopyFrom(struct(_content(quantization), "model.hf_quantization"))
        return spec, str(config)
    if dense:
        spec.dense.CopyFrom(dense)
        return spec, f"{dense.num_parameters:.3g} parameters"
    spec.name = name or names.next("name a model, as in `tonnage decode llama-3.1-70b h100-sxm`; `tonnage models` lists them")
    return spec, spec.name


def _inline(path: Path) -> AcceleratorSpec:
    try:
        return AcceleratorSpec(inline=json_format.ParseDict(dict(_content(path)), InlineAccelerator()))
    except json_format.ParseError as error:
        raise click.UsageError(f"{path} does not hold an accelerator's figures: {error}") from None


def _model_options(command: Command) -> Command:
    options = (
        click.option("--model", metavar="NAME", help="A model of the catalogue, also by its Hugging Face id."),
        click.option("--config", type=_JSON_FILE, help="A model by its Hugging Face config.json."),
        click.option("--quantization", type=_JSON_FILE, help="The hf_quant_config.json beside --config, where there is one."),
        click.option("--multi-token-prediction", is_flag=True, help="Load the multi-token-prediction layers too."),
        click.option("--num-parameters", type=float, help="A dense model by its figures: parameters (7e9)."),
        click.option("--num-layers", type=int, help="… decoder layers."),
        click.option("--num-query-heads", type=int, help="… query heads per layer."),
        click.option("--num-kv-heads", type=int, help="… key-value heads per layer."),
        click.option("--head-dim", type=int, help="… elements per head."),
        click.option("--hidden-size", type=int, help="… width of the residual stream."),
    )
    for option in reversed(options):
        command = option(command)
    return command


_accelerator_options = (
    click.option("--accelerator", metavar="NAME", help="An accelerator of the catalogue."),
    click.option("--accelerator-file", type=_JSON_FILE, help="An accelerator by its figures: an InlineAccelerator as JSON."),
)
