"""``tonnage fit``: every legal way to split a model over nodes, what each holds and what the others lack."""

from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tonnage import methods
from tonnage.cli import engine_memory, layout, options, titles
from tonnage.cli.engine_options import EngineOptions, with_engine
from tonnage.cli.exits import Exit
from tonnage.cli.quantities import byte_count, count, counted
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.cli.subject import Subject, with_noded_subject
from tonnage.v1.capacity_service_pb2 import FitCandidate, FitNodeResponse
from tonnage.v1.model_pb2 import Parallelism

_ROWS = 16
"""Shapes shown without --all: those that fit, or the first ones where none does."""


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage fit llama-3.1-70b dgx-h100 --context-tokens 4096",
        "tonnage fit qwen3-32b dgx-h100 --context-tokens 32000 --engine vllm --engine-version 0.19",
        "tonnage fit deepseek-v3 --accelerator h200-sxm --devices-per-node 8 --context-tokens 4096",
    ),
)
@with_noded_subject
@click.option("--devices-per-node", type=int, metavar="N", help="Accelerators per node. Goes with --accelerator.")
@options.with_formats
@options.context_tokens(required=True)
@click.option("--concurrency", type=int, metavar="N", help="Sequences to hold at once. [default: 1]")
@options.memory_utilization_ratio
@with_engine
@click.option("--max-num-nodes", type=int, metavar="N", help="Nodes to consider at most. [default: as needed, up to 16]")
@click.option("--all", "show_all", is_flag=True, help="Show every shape.")
@options.explain
@options.check
@options.with_session
def fit(
    subject: Subject,
    formats: options.Formats,
    context_tokens: int | None,
    concurrency: int | None,
    engine: EngineOptions,
    show_all: bool,
    check: bool,
    session: Session,
    **rest: Any,
) -> None:
    """Find how MODEL fits on nodes of type NODE."""
    spec = engine.spec()
    request = session.request(
        methods.FIT_NODE,
        model=subject.model,
        node=subject.node,
        accelerator=subject.accelerator,
        context_tokens=context_tokens,
        concurrency=concurrency,
        engine=spec,
        **formats.given(),
        **rest,
    )
    answer = session.ask(lambda client: client.fit_node(request))
    hardware = titles.hardware(request.node if request.HasField("node") else request.accelerator, subject.hardware_title)
    asked = f"{counted(request.concurrency or 1, 'sequence')} at {counted(request.context_tokens, 'token')}"

    def draw(console: Console, drawn: FitNodeResponse) -> None:
        model = titles.model(request.model, subject.model_title)
        layout.title(console, model, hardware, titles.formats(request.precision), asked)
        _draw(console, drawn, show_all)

    session.show(answer, draw)
    if check and not answer.fits:
        raise SystemExit(Exit.DOES_NOT_FIT)


def _draw(console: Console, answer: FitNodeResponse, show_all: bool) -> None:
    console.print(answer.summary, style=layout.GOOD if answer.fits else layout.BAD)
    console.print(f"Nodes have {answer.devices_per_node} × {answer.accelerator}.\n")
    shown = list(answer.candidates)
    if not show_all:
        shown = [candidate for candidate in shown if candidate.fits == answer.fits][:_ROWS]
    layout.section(console, "Shapes", _shapes(shown, answer.smallest))
    if len(shown) < len(answer.candidates):
        console.print(f"{len(shown)} of {len(answer.candidates)} shapes; the others with --all.\n", style=layout.QUIET)
    if answer.smallest.HasField("engine_memory"):
        console.print(f"Smallest: {shape(answer.smallest.parallelism)}")
        engine_memory.draw(console, answer.smallest.engine_memory)
    if not answer.fits and answer.candidates:
        _lacking(console, "Closest", answer.candidates)
    elif answer.smallest.num_nodes > 1:
        _lacking(console, "On one node, closest", [each for each in answer.candidates if each.num_nodes == 1])
    if answer.HasField("explanation"):
        layout.explanation(console, answer.explanation)
    layout.footing(console, answer.assumptions, answer.catalogue_revision)


def _lacking(console: Console, what: str, candidates: Sequence[FitCandidate]) -> None:
    """Why the shape among these that comes closest does not fit."""
    lacking = [each for each in candidates if each.HasField("shortfall")]
    if lacking:
        closest = max(lacking, key=lambda candidate: candidate.headroom_bytes_per_device)
        console.print(f"{what}: {shape(closest.parallelism)}")
        layout.lacks(console, closest.shortfall)
        console.print()


def _shapes(candidates: Sequence[FitCandidate], smallest: FitCandidate) -> Table:
    drawn = layout.table(
        "shape", "devices", "nodes", "fits", "sequences", "longest\ncontext", "weights\nper device", "cache per\nsequence",
        "headroom", "", right=[1, 2, 4, 5, 6, 7, 8],
    )  # fmt: skip
    drawn.collapse_padding = True  # ten columns in 120
    for candidate in candidates:
        drawn.add_row(
            shape(candidate.parallelism),
            str(candidate.num_devices),
            str(candidate.num_nodes),
            "yes" if candidate.fits else "no",
            count(candidate.max_sequences),
            count(candidate.longest_context_tokens),
            byte_count(candidate.weight_bytes_per_device),
            byte_count(candidate.cache_bytes_per_sequence_per_device),
            byte_count(candidate.headroom_bytes_per_device),
            _remark(candidate, smallest),
            style=None if candidate.fits else layout.QUIET,
        )
    return drawn


def shape(parallelism: Parallelism) -> str:
    """A split in the field's abbreviations; ways of one are left out."""
    ways = {
        "TP": parallelism.tensor,
        "PP": parallelism.pipeline,
        "EP": parallelism.expert,
        "DP": parallelism.attention_data,
    }
    return " · ".join(f"{name} {number}" for name, number in ways.items() if number > 1) or "one device"


def _remark(candidate: FitCandidate, smallest: FitCandidate) -> str:
    remarks = ["smallest"] if candidate == smallest else []
    if candidate.binding_limit == FitCandidate.WEIGHTS:  # elsewhere it is the cache that fills what is left
        remarks.append("weights bind")
    if candidate.uneven_pipeline:
        remarks.append("uneven stages")
    if candidate.crosses_link_domain:
        remarks.append("crosses links")
    if candidate.partial_node:
        remarks.append("part of a node")
    return ", ".join(remarks)
