"""``tonnage fusion``: what fusing a chain of operators saves, and its roofline as a picture."""

import json
import re
from pathlib import Path
from typing import Any

import click
from google.protobuf import json_format
from rich.console import Console
from rich.table import Table

from tonnage import methods
from tonnage.cli import layout, options, titles
from tonnage.cli.quantities import byte_count, count, duration, percent, rate, words
from tonnage.cli.request_file import Question, has_request_file
from tonnage.cli.session import Session
from tonnage.cli.subject import AcceleratedWords, with_accelerated_words
from tonnage.v1.fusion_pb2 import (
    AnalyzeFusionRequest,
    AnalyzeFusionResponse,
    Elementwise,
    FusionForm,
    FusionPlace,
    Gemm,
    KernelLimit,
    Normalization,
    Operator,
    Reduction,
    Softmax,
)

_WORD = re.compile(r"([A-Za-z_][\w.]*)(?::(\d+(?:x\d+)*))?")
_ROWWISE = {"softmax": Softmax, "normalization": Normalization, "reduction": Reduction}


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage fusion h100-sxm gemm:4096x4096x4096 add relu",
        "tonnage fusion h100-sxm gemm:8x4096x4096 add relu --svg roofline.svg",
        "tonnage fusion h100-sxm --operators graph.json",
    ),
)
@with_accelerated_words("[ACCELERATOR] [OPERATOR]...")
@click.option(
    "--operators",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON list of operators, as the REST API takes them, in place of words.",
)
@click.option("--precision", metavar="FORMAT", help="Format of tensors and arithmetic. [default: bf16]")
@click.option("--launch-seconds", type=float, metavar="X", help="Seconds to submit one kernel. [default: the service's]")
@click.option("--svg", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Also write the roofline there.")
@options.explain
@options.with_session
def fusion(given: AcceleratedWords, file: Path | None, svg: Path | None, session: Session, **rest: Any) -> None:
    """Compare OPERATORs on ACCELERATOR run one by one, fused, and fused into matrix products.

    An OPERATOR is gemm:MxNxK, softmax, normalization or reduction (over the last axis), or any other word, which is taken as
    the name of an element-by-element operator. A shape may follow: relu:4096x4096. Each reads the one before it.
    """
    operators = _from_file(file) if file else [_operator(word) for word in given.words]
    if file and given.words:
        raise click.UsageError("give operators as words or by --operators, not both")
    if not operators and not has_request_file():
        raise click.UsageError("name the operators, such as gemm:4096x4096x4096 add relu")
    request = session.request(methods.ANALYZE_FUSION, operators=operators, accelerator=given.accelerator, **rest)
    answer = session.ask(lambda client: client.analyze_fusion(request))
    if svg:
        drawing = session.ask(lambda client: client.draw_roofline(fusion=request))
        svg.write_text(drawing.svg, encoding="utf-8")
    names = [each.name for each in answer.operators]

    def draw(console: Console, drawn: AnalyzeFusionResponse) -> None:
        layout.title(console, " → ".join(names), titles.hardware(request.accelerator, given.hardware_title))
        _draw(console, drawn)

    session.show(answer, draw)


def _from_file(file: Path) -> list[Operator]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return list(json_format.ParseDict({"operators": content}, AnalyzeFusionRequest()).operators)
    except (OSError, ValueError, RecursionError, json_format.ParseError) as error:
        raise click.UsageError(f"{file} holds no list of operators: {error}") from None


def _operator(word: str) -> Operator:
    found = _WORD.fullmatch(word)
    if found is None:
        raise click.UsageError(f"{word!r} is no operator: write a name, or a name and a shape, such as gemm:8x4096x4096")
    name, shape = found[1], [int(length) for length in (found[2] or "").split("x") if length]
    try:
        if name == "gemm":
            return _gemm(word, shape)
        if name in _ROWWISE:
            return Operator(**{name: _ROWWISE[name](shape=shape)})
        return Operator(name=name, elementwise=Elementwise(shape=shape))
    except ValueError as error:
        raise click.UsageError(f"{word}: {error}") from None


def _gemm(word: str, shape: list[int]) -> Operator:
    if len(shape) not in (3, 4):
        raise click.UsageError(f"{word}: a matrix product is gemm:MxNxK, or a batch of them gemm:BxMxNxK")
    *batch, m, n, k = shape
    return Operator(gemm=Gemm(m=m, n=n, k=k, num_matrices=batch[0] if batch else None))


def _draw(console: Console, answer: AnalyzeFusionResponse) -> None:
    console.print(answer.summary)
    console.print()
    layout.section(console, "Operators by themselves", _operators(answer))
    layout.section(console, "Together", _forms(answer))
    layout.sentences(console, "Where each goes", (f"{each.name}: {each.reason}" for each in answer.operators))
    layout.sentences(console, "Launches", _launches(answer))
    layout.sentences(console, "Notes", (f"{note.text} ({note.source})" for note in answer.notes))
    if answer.HasField("explanation"):
        layout.explanation(console, answer.explanation)
    layout.footing(console, answer.assumptions, answer.catalogue_revision)


def _operators(answer: AnalyzeFusionResponse) -> Table:
    drawn = layout.table("operator", "bytes", "operations", "FLOP/byte", "at least", "by", "fused", right=[1, 2, 3, 4])
    for each in answer.operators:
        drawn.add_row(
            each.name,
            byte_count(each.num_bytes),
            rate(each.flops, "FLOP"),
            f"{each.arithmetic_intensity_flops_per_byte:.3g}",
            duration(each.kernel_seconds),
            words(KernelLimit.Name(each.limit)),
            words(FusionPlace.Name(each.place)),
        )
    return drawn


def _forms(answer: AnalyzeFusionResponse) -> Table:
    heads = ("form", "launches", "outside GEMMs", "", "GEMMs", "share", "device", "submission", "CUDA Graph")
    drawn = layout.table(*heads, right=range(1, 9))
    for form in answer.forms:
        drawn.add_row(
            words(FusionForm.Form.Name(form.form)),
            str(form.num_launches),
            byte_count(form.other_bytes),
            duration(form.other_seconds),
            duration(form.gemm_seconds),
            percent(form.other_to_gemm_ratio) if form.HasField("other_to_gemm_ratio") else "",
            duration(form.device_seconds),
            duration(form.submission_seconds),
            duration(form.graph_paced_seconds),
        )
    return drawn


def _launches(answer: AnalyzeFusionResponse) -> list[str]:
    lines = []
    for form in answer.forms:
        name = words(FusionForm.Form.Name(form.form))
        if form.HasField("kernels_dominate_from_rows"):
            lines.append(f"{name}: kernels take longer than launches from {count(form.kernels_dominate_from_rows)} rows on")
        elif form.launches_dominate:
            lines.append(f"{name}: launches take longer than kernels, whatever the rows")
    return lines
