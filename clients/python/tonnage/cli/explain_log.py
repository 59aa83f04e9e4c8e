"""``tonnage explain-log``: an engine's start-up log beside what was to be expected, and where the memory went."""

import json
from dataclasses import asdict, dataclass
from typing import Any, TextIO

import click
from google.protobuf import json_format
from rich.console import Console
from rich.table import Table

from tonnage.cli import layout, options
from tonnage.cli.engine_options import EngineOptions, with_engine_options
from tonnage.cli.fields import option_of
from tonnage.cli.log_comparison import Line, compared, cures, findings
from tonnage.cli.log_question import LogQuestion, completed
from tonnage.cli.quantities import counted, percent
from tonnage.cli.rest_json import request_body, rest_json
from tonnage.cli.session import Session
from tonnage.cli.subject import PartialSubject, with_partial_subject
from tonnage.logs import LOOKED_FOR, Outcome, StartupLog, read
from tonnage.v1.capacity_service_pb2 import EstimateKvMemoryResponse
from tonnage.v1.explanation_pb2 import Shortfall

_ENDS = {
    Outcome.UNKNOWN: "how it ended is not in the log",
    Outcome.STARTS: "it started",
    Outcome.REFUSED_NO_KV: "it refused to start: nothing was left for the cache",
    Outcome.REFUSED_MAX_LEN: "it refused to start: the cache does not hold its longest sequence",
    Outcome.OUT_OF_MEMORY_LOADING_WEIGHTS: "it ran out of memory while loading the weights",
    Outcome.OUT_OF_MEMORY_LATER: "it ran out of memory after loading the weights",
    Outcome.MEMORY_TAKEN_BY_OTHERS: "it refused to start: too little memory was free",
}


@click.command(
    name="explain-log",
    epilog=options.examples(
        "tonnage explain-log server.log --accelerator h100-sxm",
        "kubectl logs deployment/llama | tonnage explain-log - --accelerator h100-sxm --model llama-3.1-8b",
    ),
)
@click.argument("file", type=click.File("r", encoding="utf-8", errors="replace"))
@with_partial_subject
@options.with_split
@options.with_formats
@with_engine_options
@options.with_session
def explain_log(
    file: TextIO,
    subject: PartialSubject,
    split: options.Split,
    formats: options.Formats,
    engine_options: EngineOptions,
    session: Session,
) -> None:
    """Explain the start-up log of an engine: predicted beside logged, where the memory went, what would cure a refusal.

    FILE is a log of vLLM, SGLang or TensorRT-LLM, - for standard input. Options fill in what the log does not say, and
    go before what it does.
    """
    text = file.read()
    log = read(text, engine_options.name)
    if log is None:
        looked_for = "\n".join(f"  {line}" for line in LOOKED_FOR)
        raise click.UsageError(f"no engine's start-up is recognised in {file.name}; looked for\n{looked_for}")
    question = session.ask(lambda client: completed(client, log, text, subject, split, formats, engine_options))
    answer = session.ask(question.ask)
    explained = _explained(log, question, answer)
    session.tell(explained.as_json, explained.draw)


@dataclass(frozen=True, slots=True)
class _Explained:
    """A log, the question that it made, the answer, and what the two say together."""

    log: StartupLog
    question: LogQuestion
    answer: EstimateKvMemoryResponse
    lines: tuple[Line, ...]
    findings: tuple[str, ...]
    cures: tuple[Shortfall.Cure, ...]

    def as_json(self) -> str:
        """All of it; ``answer`` is what REST sends for ``request``."""
        body: dict[str, Any] = {
            "log": asdict(self.log),
            "request": request_body(self.question.request),
            "lines": [asdict(line) | {"difference": line.difference} for line in self.lines],
            "findings": self.findings,
            "cures": [json_format.MessageToDict(cure, preserving_proto_field_name=True) for cure in self.cures],
            "answer": json.loads(rest_json(self.answer)),
        }
        return json.dumps(body, indent=2, ensure_ascii=False)

    def draw(self, console: Console) -> None:
        """What was started, predicted beside logged, and the sentences."""
        question, memory = self.question, self.answer.engine_memory
        devices = f"{self.answer.num_devices} × {question.hardware_title}"
        length = f"up to {counted(memory.max_model_len, 'token')}"
        release = f"{memory.engine} {self.log.version or memory.version}"
        layout.title(console, release, question.model_title, devices, question.split_title, length)
        read_off = {"dtype": self.log.dtype, "quantization": self.log.quantization, **self.log.flags}
        flags = [f"{name} {value}" for name, value in read_off.items() if value is not None and name != "max_model_len"]
        ended = _ENDS[self.log.outcome]
        layout.sentences(console, "Read from the log", [line for line in (", ".join(flags), ended, self.log.complaint) if line])
        layout.section(console, "Predicted beside logged, per device", _table(self.lines))
        layout.sentences(console, "Where the memory went", self.findings)
        if self.cures:
            layout.sentences(console, "What would make it start", [_cure(cure) for cure in self.cures])
        layout.footing(console, self.answer.assumptions, self.answer.catalogue_revision)


def _explained(log: StartupLog, question: LogQuestion, answer: EstimateKvMemoryResponse) -> _Explained:
    memory = answer.engine_memory
    lines = compared(log, memory)
    return _Explained(log, question, answer, lines, tuple(findings(log, memory, lines)), tuple(cures(log, memory)))


def _table(lines: tuple[Line, ...]) -> Table:
    drawn = layout.table("", "predicted", "range", "logged", "difference", "", right=[1, 2, 3, 4, 5])
    for line in lines:
        drawn.add_row(
            line.title,
            line.shown(line.predicted),
            "" if line.low == line.high else f"{line.shown(line.low)} – {line.shown(line.high)}",
            line.shown(line.logged),
            _signed(line),
            _minus(percent(line.difference / abs(line.logged))) if line.difference is not None and line.logged else "",
            style=layout.BAD if line.is_outside else None,
        )
    return drawn


def _signed(line: Line) -> str:
    if not line.difference:
        return "" if line.difference is None else "0"
    return ("+" if line.difference > 0 else "") + _minus(line.shown(line.difference))


def _minus(number: str) -> str:
    return number.replace("-", "−")


def _cure(cure: Shortfall.Cure) -> str:
    return f"{option_of(cure.field) or cure.field} {cure.value}   {cure.description}"
