"""``tonnage kv``: what weights and KV cache take on each device, line by line, and how much fits."""

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tonnage import methods
from tonnage.cli import engine_memory, layout, options, titles
from tonnage.cli.engine_options import EngineOptions, with_engine
from tonnage.cli.exits import Exit
from tonnage.cli.quantities import byte_count, count, counted, large_count, words
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.cli.subject import Subject, with_accelerated_subject
from tonnage.v1.capacity_service_pb2 import BudgetLine, EstimateKvMemoryResponse


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage kv llama-3.1-8b h100-sxm --context-tokens 4096",
        "tonnage kv qwen3-32b h100-sxm --context-tokens 32000 --engine vllm --engine-version 0.19 --max-num-seqs 256",
    ),
)
@with_accelerated_subject
@options.with_split
@options.with_formats
@options.batch_size
@options.context_tokens(required=True)
@options.memory_utilization_ratio
@with_engine
@options.explain
@options.check
@options.with_session
def kv(
    subject: Subject,
    split: options.Split,
    formats: options.Formats,
    batch_size: int | None,
    context_tokens: int | None,
    engine: EngineOptions,
    check: bool,
    session: Session,
    **rest: Any,
) -> None:
    """Draw up the memory budget of MODEL on ACCELERATOR: weights, KV cache, and how much fits."""
    spec = engine.spec()
    request = session.request(
        methods.ESTIMATE_KV_MEMORY,
        model=subject.model,
        accelerator=subject.accelerator,
        batch_size=batch_size,
        context_tokens=context_tokens,
        engine=spec,
        **split.given(),
        **formats.given(),
        **rest,
    )
    answer = session.ask(lambda client: client.estimate_kv_memory(request))
    devices = f"{answer.num_devices} × {titles.hardware(request.accelerator, subject.hardware_title)}"
    asked = f"batch {count(request.batch_size or 1)} at {counted(request.context_tokens, 'token')}"

    def draw(console: Console, drawn: EstimateKvMemoryResponse) -> None:
        model = titles.model(request.model, subject.model_title)
        layout.title(console, model, devices, titles.split(request.parallelism), titles.formats(request.precision), asked)
        _draw(console, drawn)

    session.show(answer, draw)
    if check and not answer.fits:
        raise SystemExit(Exit.DOES_NOT_FIT)


def _draw(console: Console, answer: EstimateKvMemoryResponse) -> None:
    layout.section(console, "Sizes", _sizes(answer))
    if answer.HasField("engine_memory"):
        engine_memory.draw(console, answer.engine_memory, said=answer.shortfall.description)
    elif answer.budget:
        stage = f", of pipeline stage {answer.tightest_stage + 1}" if answer.tightest_stage else ""
        layout.section(console, f"Budget of the tightest device{stage}", _budget(answer))
    if answer.HasField("max_sequences"):
        tokens = f", {counted(answer.max_tokens, 'token')} in all" if answer.HasField("max_tokens") else ""
        console.print(f"Holds {counted(answer.max_sequences, 'sequence')} of this length{tokens}.")
    shortfall = answer.shortfall if answer.HasField("shortfall") else None
    layout.verdict(console, answer.fits if answer.HasField("fits") else None, shortfall)
    if answer.HasField("explanation"):
        layout.explanation(console, answer.explanation)
    layout.footing(console, answer.assumptions, answer.catalogue_revision)


def _sizes(answer: EstimateKvMemoryResponse) -> Table:
    drawn = layout.table("", "whole replica", "tightest device", right=[1, 2])
    drawn.add_row("weights", byte_count(answer.weight_bytes), byte_count(answer.weight_bytes_per_device))
    drawn.add_row("KV cache per token", byte_count(answer.kv_bytes_per_token), byte_count(answer.kv_bytes_per_token_per_device))
    if answer.windowed_kv_bytes_per_token:
        drawn.add_row("  while windows fill", f"+ {byte_count(answer.windowed_kv_bytes_per_token)}")
    if answer.state_bytes_per_sequence:
        drawn.add_row("state per sequence", byte_count(answer.state_bytes_per_sequence))
    drawn.add_row(
        "cache per sequence",
        byte_count(answer.cache_bytes_per_sequence),
        byte_count(answer.cache_bytes_per_sequence_per_device),
    )
    drawn.add_row("cache of the batch", byte_count(answer.kv_cache_bytes))
    drawn.add_row("parameters", large_count(answer.total_parameters))
    if answer.active_parameters != answer.total_parameters:
        drawn.add_row("  active per token", large_count(answer.active_parameters))
    return drawn


def _budget(answer: EstimateKvMemoryResponse) -> Table:
    drawn = layout.table("", "per device", "basis", right=[1])
    for line in answer.budget:
        negative = line.bytes_per_device < 0
        drawn.add_row(
            words(BudgetLine.Item.Name(line.item)),
            byte_count(line.bytes_per_device),
            words(BudgetLine.Basis.Name(line.basis)),
            style=layout.BAD if negative else None,
        )
    return drawn
