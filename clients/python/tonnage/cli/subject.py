"""What a question is about: the model and the hardware, from options, files, or names in order."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from google.protobuf import json_format

from tonnage.cli import names as proposals
from tonnage.cli.options import Command, Decorator, grouped
from tonnage.cli.quantities import large_count
from tonnage.cli.request_file import has_request_file
from tonnage.errors import InvalidRequest
from tonnage.structs import struct
from tonnage.v1.accelerator_pb2 import AcceleratorSpec, InlineAccelerator, NodeSpec
from tonnage.v1.model_pb2 import DenseModel, ModelSpec

_JSON_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model and the hardware to carry it, as messages and as one calls them; empty where a request file says them."""

    model: ModelSpec | None
    model_title: str
    accelerator: AcceleratorSpec | None = None
    node: NodeSpec | None = None
    hardware_title: str = ""


@dataclass(frozen=True, slots=True)
class PartialSubject:
    """As far as options give them: a model and an accelerator."""

    model: ModelSpec | None
    model_title: str
    multi_token_prediction: bool
    accelerator: AcceleratorSpec | None
    hardware_title: str


@dataclass(frozen=True, slots=True)
class AcceleratedWords:
    """An accelerator, and the words that stand after it."""

    accelerator: AcceleratorSpec | None
    hardware_title: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Figures:
    num_parameters: float | None
    num_layers: int | None
    num_query_heads: int | None
    num_kv_heads: int | None
    head_dim: int | None
    hidden_size: int | None


@dataclass(frozen=True, slots=True)
class _ModelOptions:
    model: str | None
    config: Path | None
    quantization: Path | None
    multi_token_prediction: bool


@dataclass(frozen=True, slots=True)
class _AcceleratorOptions:
    accelerator: str | None
    accelerator_file: Path | None


_with_figures = grouped(
    "figures",
    _Figures,
    click.option("--num-parameters", type=float, metavar="X", help="A dense model by its figures: parameters (7e9)."),
    click.option("--num-layers", type=int, metavar="N", help="… decoder layers."),
    click.option("--num-query-heads", type=int, metavar="N", help="… query heads per layer."),
    click.option("--num-kv-heads", type=int, metavar="N", help="… key-value heads per layer."),
    click.option("--head-dim", type=int, metavar="N", help="… elements per head."),
    click.option("--hidden-size", type=int, metavar="N", help="… width of the residual stream."),
)
_with_model = grouped(
    "model_options",
    _ModelOptions,
    proposals.option(proposals.MODELS, "--model", help="A model of the catalogue, also by its Hugging Face id."),
    click.option("--config", "--hf-config", "config", type=_JSON_FILE, help="A model by its Hugging Face config.json."),
    click.option("--quantization", type=_JSON_FILE, help="The hf_quant_config.json that belongs to --config."),
    click.option("--multi-token-prediction", is_flag=True, help="Load the multi-token-prediction layers too."),
)
_with_accelerator = grouped(
    "accelerator_options",
    _AcceleratorOptions,
    proposals.option(proposals.ACCELERATORS, "--accelerator", help="An accelerator of the catalogue."),
    click.option("--accelerator-file", type=_JSON_FILE, help="An accelerator by its figures, an InlineAccelerator in JSON."),
)


def _accelerated(
    names: tuple[str, ...], model_options: _ModelOptions, figures: _Figures, accelerator_options: _AcceleratorOptions
) -> Subject:
    """Names stand for the model and the accelerator, in this order, as far as no option gives them."""
    left = list(names)
    model, model_title = _model(model_options, figures, left)
    accelerator, title = _accelerator(accelerator_options)
    if accelerator is None:
        accelerator, title = _named_accelerator(left)
    _refuse(left)
    return Subject(model, model_title, accelerator, hardware_title=title)


def _noded(
    names: tuple[str, ...],
    node: str | None,
    model_options: _ModelOptions,
    figures: _Figures,
    accelerator_options: _AcceleratorOptions,
) -> Subject:
    """Names stand for the model and the node type, in this order, as far as no option gives them."""
    left = list(names)
    model, model_title = _model(model_options, figures, left)
    accelerator, title = _accelerator(accelerator_options)
    if accelerator is None:
        node = node or _next(left, "a node type (or --accelerator with --devices-per-node)", "nodes")
    _refuse(left)
    spec = NodeSpec(name=node) if node else None
    return Subject(model, model_title, accelerator, spec, node or title)


def _modelled(
    names: tuple[str, ...], model_options: _ModelOptions, figures: _Figures, accelerator_options: _AcceleratorOptions
) -> Subject:
    """A name stands for the model, as far as no option gives it; an accelerator is not needed."""
    left = list(names)
    model, model_title = _model(model_options, figures, left)
    accelerator, title = _accelerator(accelerator_options)
    _refuse(left)
    return Subject(model, model_title, accelerator, hardware_title=title)


def _partial(model_options: _ModelOptions, figures: _Figures, accelerator_options: _AcceleratorOptions) -> PartialSubject:
    drafts = model_options.multi_token_prediction
    given = model_options.model or model_options.config or _dense(figures)
    model, model_title = _model(model_options, figures, []) if given else (None, "")
    return PartialSubject(model, model_title, drafts, *_accelerator(accelerator_options))


def _with_words(words: tuple[str, ...], accelerator_options: _AcceleratorOptions) -> AcceleratedWords:
    """The first word stands for the accelerator, as far as no option gives it."""
    left = list(words)
    accelerator, title = _accelerator(accelerator_options)
    if accelerator is None:
        accelerator, title = _named_accelerator(left)
    return AcceleratedWords(accelerator, title, tuple(left))


def with_accelerated_words(metavar: str) -> Decorator:
    """An accelerator by name or option, and whatever words the command makes something of."""

    def decorate(command: Command) -> Command:
        words = click.argument("words", nargs=-1, metavar=metavar, shell_complete=proposals.in_order(proposals.ACCELERATORS))
        return _with_accelerator(grouped("given", _with_words, words)(command))

    return decorate


def with_partial_subject(command: Command) -> Command:
    """The options for a model and an accelerator, none of them needed."""
    return _with_model(_with_figures(_with_accelerator(grouped("subject", _partial)(command))))


def _subject(gather: Callable[..., Subject], metavar: str, proposing: proposals.Proposing, *options: Decorator) -> Decorator:
    names = click.argument("names", nargs=-1, metavar=metavar, shell_complete=proposing)

    def decorate(command: Command) -> Command:
        # A decorator further out runs first and hands what it gathered further in.
        return _with_model(_with_figures(_with_accelerator(grouped("subject", gather, names, *options)(command))))

    return decorate


with_modelled_subject = _subject(_modelled, "[MODEL]", proposals.in_order(proposals.MODELS))
with_accelerated_subject = _subject(
    _accelerated, "[MODEL] [ACCELERATOR]", proposals.in_order(proposals.MODELS, proposals.ACCELERATORS)
)
with_noded_subject = _subject(
    _noded,
    "[MODEL] [NODE]",
    proposals.in_order(proposals.MODELS, proposals.NODE_TYPES),
    proposals.option(proposals.NODE_TYPES, "--node", help="A node type of the catalogue."),
)


def _model(options: _ModelOptions, figures: _Figures, names: list[str]) -> tuple[ModelSpec | None, str]:
    dense = _dense(figures)
    if sum(source is not None for source in (options.model, options.config, dense)) > 1:
        raise click.UsageError("give one model: a name, --config, or its figures")
    if options.quantization and not options.config:
        raise click.UsageError("--quantization goes with --config")
    spec = ModelSpec(multi_token_prediction=options.multi_token_prediction)
    if dense is not None:
        spec.dense.CopyFrom(dense)
        return spec, f"{large_count(dense.num_parameters)} parameters"
    if options.config:
        _read_config(spec, options.config, options.quantization)
        return spec, str(options.config)
    name = options.model or _next(names, "a model", "models")
    if not name:  # the request file has it
        return spec if options.multi_token_prediction else None, ""
    spec.name = _no_file(name)
    return spec, spec.name


def _no_file(name: str) -> str:
    """The name of a model, where it is not the path of its configuration."""
    path = Path(name)
    if path.suffix == ".json" or path.is_file():
        raise click.UsageError(f"{name} is a file, not a model's name: give it with --config {name}")
    if path.is_dir() and (path.is_absolute() or name.startswith(".")):
        raise click.UsageError(
            f"{name} is a folder, not a model's name: give its config.json with --config {path / 'config.json'}"
        )
    return name


def _dense(figures: _Figures) -> DenseModel | None:
    given = asdict(figures)
    if set(given.values()) == {None}:
        return None
    if figures.num_parameters is None:
        raise click.UsageError("a model by its figures needs --num-parameters")
    try:
        return DenseModel(**given)
    except ValueError as error:
        raise click.UsageError(f"the model's figures: {error}") from None


def _read_config(spec: ModelSpec, config: Path, quantization: Path | None) -> None:
    try:
        spec.hf_config.CopyFrom(struct(_content(config), str(config)))
        if quantization:
            spec.hf_quantization.CopyFrom(struct(_content(quantization), str(quantization)))
    except InvalidRequest as error:
        raise click.UsageError(error.message) from None


def _accelerator(options: _AcceleratorOptions) -> tuple[AcceleratorSpec | None, str]:
    if options.accelerator and options.accelerator_file:
        raise click.UsageError("give one accelerator: a name or --accelerator-file")
    if options.accelerator:
        return AcceleratorSpec(name=options.accelerator), options.accelerator
    if options.accelerator_file is None:
        return None, ""
    try:
        inline = json_format.ParseDict(_content(options.accelerator_file), InlineAccelerator())
    except json_format.ParseError as error:
        raise click.UsageError(f"{options.accelerator_file} holds no accelerator's figures: {error}") from None
    return AcceleratorSpec(inline=inline), inline.title or str(options.accelerator_file)


def _named_accelerator(names: list[str]) -> tuple[AcceleratorSpec | None, str]:
    title = _next(names, "an accelerator", "accelerators")
    return AcceleratorSpec(name=title) if title else None, title


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise click.UsageError(f"{path} is no JSON file: {error}") from None
    if not isinstance(content, dict):
        raise click.UsageError(f"{path} holds no JSON object")
    return content


def _next(names: list[str], missing: str, command: str) -> str:
    if not names:
        if has_request_file():
            return ""
        raise click.UsageError(f"name {missing}; `tonnage {command}` lists them")
    return names.pop(0)


def _refuse(names: list[str]) -> None:
    if names:
        raise click.UsageError(f"too many names: {' '.join(names)}")
