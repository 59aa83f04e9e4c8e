"""Requests from a file or standard input: read as the REST API takes them, with what options say laid over them."""

import copy
import json
import sys
from pathlib import Path
from typing import Any, TypeVar

import click
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tonnage.errors import InvalidRequest
from tonnage.structs import struct

_FILE = "tonnage.request"
_RELAXED = "tonnage.relaxed"
_CONFIGS = ("hf_config", "hf_quantization")
_MAX_BYTES = 1 << 26
_WORKLOADS = "workloads"
_ABOUT_SESSION = frozenset({"server", "timeout", "form"})
"""Options with a default that are about asking, not about the question."""
_MessageT = TypeVar("_MessageT", bound=Message)


class Question(click.Command):
    """A command that asks one call of the service, and takes its request also from a file.

    With ``--request`` nothing else is required and no option has a default: what is given goes before the file's.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params.append(
            click.Option(
                ["--request"],
                metavar="FILE|-",
                expose_value=False,
                callback=_keep,
                help="The request as the REST API takes it, in JSON or YAML; options that are given go before it.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Looks first whether there is a file, since that decides what is required."""
        options = args[: args.index("--")] if "--" in args else args
        if any(word == "--request" or word.startswith("--request=") for word in options):
            ctx.meta[_RELAXED] = [_relaxed(each) for each in super().get_params(ctx)]
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, none of them required where there is a file."""
        relaxed: list[click.Parameter] | None = ctx.meta.get(_RELAXED)
        return super().get_params(ctx) if relaxed is None else relaxed


def _keep(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta[_FILE] = value


def _relaxed(parameter: click.Parameter) -> click.Parameter:
    if parameter.name in _ABOUT_SESSION:
        return parameter
    relaxed = copy.copy(parameter)
    relaxed.required = False
    if isinstance(parameter.default, int | float | str) and not isinstance(parameter.default, bool):
        relaxed.default = None
    return relaxed


def has_request_file() -> bool:
    """Whether the request, or part of it, comes from a file."""
    context = click.get_current_context(silent=True)
    return context is not None and _FILE in context.meta


def with_request_file(by_options: _MessageT) -> _MessageT:
    """The file's request with what options say laid over it; what options say alone, where there is no file."""
    file = click.get_current_context().meta.get(_FILE)
    if file is None:
        return by_options
    request = _parsed(_content(file), file, type(by_options)())
    lay_over(request, by_options)
    return request


def lay_over(below: Message, above: Message) -> None:
    """Sets in ``below`` what is set in ``above``. Lists are replaced as a whole, other messages field by field.

    Options for a demand make one workload, and change the one of the file. A UsageError where it has several.
    """
    changed = type(above)()
    changed.CopyFrom(above)
    for field, value in above.ListFields():
        lists = field.name == _WORKLOADS and getattr(below, field.name)
        if lists and len(lists) > 1:
            raise click.UsageError(
                f"the file has {len(lists)} workloads, and options change an only one: change them in the file"
            )
        if lists:
            lay_over(lists[0], value[0])
            changed.ClearField(field.name)
        elif _is_single_message(field):
            lay_over(getattr(below, field.name), value)
        else:
            below.ClearField(field.name)
    below.MergeFrom(changed)


def _is_single_message(field: FieldDescriptor) -> bool:
    return field.message_type is not None and not field.is_repeated


def _content(file: str) -> dict[str, Any]:
    try:
        data = sys.stdin.buffer.read(_MAX_BYTES + 1) if file == "-" else Path(file).read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise click.UsageError(f"--request {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"--request {file} is no text in UTF-8") from None
    if len(data) > _MAX_BYTES:
        raise click.UsageError(f"--request {file} is larger than {_MAX_BYTES >> 20} MiB")
    content = _yaml(text, file) if file.endswith((".yaml", ".yml")) else _json_or_yaml(text, file)
    if not isinstance(content, dict):
        raise click.UsageError(f'--request {file} holds no request: give an object, such as {{"model": {{…}}}}')
    return content


def _json_or_yaml(text: str, file: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if file == "-" and not text.lstrip().startswith(("{", "[")):  # JSON is what it would begin with
            return _yaml(text, file)
        raise click.UsageError(f"--request {file} is not JSON: {error}") from None


def _yaml(text: str, file: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise click.UsageError("reading YAML needs PyYAML (pip install pyyaml); JSON does not") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise click.UsageError(f"--request {file} is not YAML: {error}") from None


def _parsed(content: dict[str, Any], file: str, request: _MessageT) -> _MessageT:
    """The message. Configurations go by themselves: published ones hold Infinity, which the library's JSON has not."""
    content = dict(content)
    configs: dict[str, Any] = {}
    if isinstance(content.get("model"), dict):
        model = dict(content["model"])
        configs = {name: model.pop(name) for name in _CONFIGS if isinstance(model.get(name), dict)}
        content["model"] = model
    try:
        json_format.ParseDict(content, request)
        for name, config in configs.items():
            getattr(getattr(request, "model"), name).CopyFrom(struct(config, f"model.{name}"))  # noqa: B009 - not all have it
    except (json_format.ParseError, RecursionError) as error:
        raise click.UsageError(f"--request {file}: {error}") from None
    except InvalidRequest as error:
        raise click.UsageError(f"--request {file}: {error.message}") from None
    return request
