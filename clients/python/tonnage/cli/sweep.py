"""``tonnage sweep``: every point of a grid, as a table for other programs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from tonnage import methods
from tonnage.cli import names, options
from tonnage.cli.exits import Exit
from tonnage.cli.quantities import count
from tonnage.cli.request_file import Question, has_request_file
from tonnage.cli.session import Session
from tonnage.cli.sweep_forms import Form, form_of
from tonnage.errors import TonnageError
from tonnage.methods import Streaming
from tonnage.requests import Accelerator, Engine, Model
from tonnage.sweep_requests import Formats, Length, Shape, run_sweep
from tonnage.sweeps import Sweep
from tonnage.tabular import XLSX
from tonnage.v1.sweep_service_pb2 import RunSweepRequest, RunSweepResponse, SkippedPoints

_T = TypeVar("_T")
Given: TypeAlias = tuple[list[_T], ...]
"""An option that may be given several times, each time with a list."""
_WAYS = {"tp": "tensor", "pp": "pipeline", "ep": "expert", "dp": "attention_data"}
_SHOWN_REASONS = 5


def _listed(form: str, parse: Callable[[str], list[_T]]) -> Callable[[str], list[_T]]:
    """Reads values separated by commas, each of this form."""

    def read(text: str) -> list[_T]:
        try:
            return [each for part in text.split(",") for each in parse(part.strip())]
        except (ValueError, KeyError):
            raise click.BadParameter(f"{text!r} is not understood; give {form}") from None

    return read


def _whole(text: str) -> list[int]:
    """Reads "64", or "1:256" for 1, 2, …, 256, or "1:256:8" for every eighth of them."""
    if ":" not in text:
        return [int(text)]
    first, last, *step = map(int, text.split(":"))
    if len(step) > 1 or (step and step[0] < 1):
        raise ValueError(text)
    return list(range(first, last + 1, *step))


def _shape(text: str) -> list[dict[str, int]]:
    """Reads "8", "tp8" or "tp4-pp2"."""
    if text.isdigit():
        return [{"tensor": int(text)}]
    parts = [(part[:2].lower(), part[2:]) for part in text.split("-")]
    return [{_WAYS[way]: int(size) for way, size in parts}]


def _formats(text: str) -> list[dict[str, str]]:
    """Reads "fp8", or "fp8/fp8" for weights and cache; "-" is the checkpoint's own."""
    weights, _, cache = text.partition("/")
    given = {"weights": weights, "kv_cache": cache}
    return [{name: value for name, value in given.items() if value not in {"", "-"}}]


def _length(text: str) -> list[tuple[int, int]]:
    first, second = text.split("+")
    return [(int(first), int(second))]


def _axis(
    name: str, form: str, parse: Callable[[str], list[_T]], meaning: str, kind: names.Kind | None = None
) -> options.Decorator:
    metavar = f"{form}[,…]"
    proposing = names.of(kind, names.IN_LIST) if kind else None
    read = _listed(metavar, parse)
    return click.option(name, type=read, multiple=True, metavar=metavar, help=meaning, shell_complete=proposing)


def _one(text: str) -> list[str]:
    if not text:
        raise ValueError(text)
    return [text]


_NUMBERS = "N|A:B|A:B:STEP"


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage sweep --model llama-3.1-70b --accelerator h100-sxm,h200-sxm --shape tp4,tp8 \\",
        "    --batch-size 1:256 --context-tokens 1024,4096,16384 --output sweep.csv",
        "tonnage sweep --model llama-3.1-70b --accelerator h100-sxm --shape tp8 --engine vllm==0.19 \\",
        "    --concurrency 1:128 --length 1024+256 --format xlsx --output sweep.xlsx",
    ),
)
@_axis("--model", "NAME", _one, "Models of the catalogue.", names.MODELS)
@_axis("--accelerator", "NAME", _one, "Accelerators of the catalogue.", names.ACCELERATORS)
@_axis("--shape", "tpN[-ppN-epN-dpN]", _shape, "Ways to split a replica. [default: tp1]")
@_axis("--precision", "WEIGHTS[/CACHE]", _formats, "Number formats; - is the checkpoint's own. [default: -]")
@_axis("--batch-size", _NUMBERS, _whole, "Bounds: sequences at once. [default: 1]")
@_axis("--context-tokens", _NUMBERS, _whole, "Bounds: tokens that each sequence holds.")
@_axis("--engine", "NAME[==VERSION]", _one, "Estimates: engines and releases.", names.ENGINES)
@_axis("--concurrency", _NUMBERS, _whole, "Estimates: requests kept in flight on a replica.")
@_axis("--length", "INPUT+OUTPUT", _length, "Estimates: tokens of prompts and answers.")
@options.memory_utilization_ratio
@click.option(
    "--output", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Where to write. [default: here]"
)
@options.with_streamed_session
def sweep(
    model: Given[Model],
    accelerator: Given[Accelerator],
    shape: Given[Shape],
    precision: Given[Formats],
    batch_size: Given[int],
    context_tokens: Given[int],
    engine: Given[Engine],
    concurrency: Given[float],
    length: Given[Length],
    memory_utilization_ratio: float | None,
    output: Path | None,
    session: Session,
) -> None:
    """Bound or estimate every combination of the axes, as CSV, as a workbook, or with --json as a line of JSON for each point.

    With --engine the points are estimates of serving, without it bounds on decode. --timeout ends the sweep with what is done.
    """
    request = session.request(
        _RUN_SWEEP,
        models=_joined(model),
        accelerators=_joined(accelerator),
        shapes=_joined(shape),
        precisions=_joined(precision),
        batch_sizes=_joined(batch_size),
        context_tokens=_joined(context_tokens),
        engines=_joined(engine),
        concurrencies=_joined(concurrency),
        lengths=_joined(length),
        memory_utilization_ratio=memory_utilization_ratio,
        time_limit_seconds=session.timeout if _is_time_said() else None,
    )
    if not request.HasField("time_limit_seconds"):
        request.time_limit_seconds = session.timeout
    # The service ends in time by itself; what is under way then still has to be read.
    patience = 2 * request.time_limit_seconds + 10
    with session.client(patience) as client, _opened(output, session.form) as target:
        try:
            under_way = client.run_sweep(request)
            _write(under_way, target, form_of(session.form, under_way, request))
        except TonnageError as error:
            session.refuse(error, patience)
    _report(under_way)
    if under_way.end is None or not under_way.end.is_complete:
        raise SystemExit(Exit.UNREACHABLE)


def _built(**fields: Any) -> RunSweepRequest:
    request = run_sweep(**fields)
    if has_request_file() and not (request.engines or request.concurrencies or request.lengths):
        request.ClearField("kind")  # the file says of which kind it is
    return request


_RUN_SWEEP = Streaming(methods.RUN_SWEEP.path, _built, RunSweepRequest, RunSweepResponse)


def _is_time_said() -> bool:
    return click.get_current_context().get_parameter_source("timeout") is not ParameterSource.DEFAULT


def _joined(lists: Given[_T]) -> tuple[_T, ...]:
    return tuple(each for values in lists for each in values)


@contextmanager
def _opened(output: Path | None, form: str) -> Iterator[IO[bytes]]:
    """The file, or standard output."""
    with _file(output) if output else nullcontext(sys.stdout.buffer) as target:
        if form == XLSX.name and target.isatty():
            raise click.UsageError(f"--format {XLSX.name} is no text: send it to a file, with --output sweep{XLSX.ending}")
        yield target
        target.flush()


@contextmanager
def _file(output: Path) -> Iterator[IO[bytes]]:
    """The file; where nothing was written to one that was not there before, it is gone in the end."""
    is_new = not output.exists()
    try:
        with output.open("wb") as target:
            yield target
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from None
    finally:
        if is_new and output.is_file() and not output.stat().st_size:
            output.unlink()


def _write(under_way: Sweep, target: IO[bytes], form: Form) -> None:
    with _progress() as bar:
        task = bar.add_task("sweep", total=1.0) if bar else None
        for part in under_way:
            target.write(form(part))
            if bar and task is not None:
                bar.update(task, completed=under_way.progress_ratio)


def _progress() -> Any:
    """A bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    console = Console(stderr=True)
    return Progress(
        TextColumn("sweep"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), console=console, transient=True
    )


def _report(under_way: Sweep) -> None:
    """What the table leaves out, on standard error."""
    end = under_way.end
    if end is None:
        return
    done = f"{count(int(end.num_answered))} of {count(int(end.num_points))} points in {end.elapsed_seconds:.2g} s"
    if end.num_skipped:
        done += f"; {count(int(end.num_skipped))} skipped"
    click.echo(f"tonnage: {done}" + ("" if end.is_complete else "; the time was up: --timeout gives it longer"), err=True)
    reasons: dict[str, float] = {}
    for each in under_way.skipped:
        text = f"{SkippedPoints.Reason.Name(each.reason)}: {each.description}"
        reasons[text] = reasons.get(text, 0.0) + each.num_points
    for text, number in sorted(reasons.items(), key=lambda pair: -pair[1])[:_SHOWN_REASONS]:
        click.echo(f"  {count(int(number))} points, {text}", err=True)
    if len(reasons) > _SHOWN_REASONS:
        click.echo(f"  … and {len(reasons) - _SHOWN_REASONS} more reasons", err=True)
