"""``tonnage decode``: the bound on a decode step, the step to expect, and what limits it."""

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tonnage import methods
from tonnage.cli import layout, options, titles
from tonnage.cli.exits import Exit
from tonnage.cli.quantities import byte_count, count, counted, duration, rate, significant, words
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.cli.subject import Subject, with_accelerated_subject
from tonnage.v1.capacity_service_pb2 import DecodeBound, DecodeExpectation, EstimateDecodeResponse, Limit, LimitOnset


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage decode llama-3.1-70b h100-sxm --tp 8 --batch-size 64 --context-tokens 4096",
        "tonnage decode --request question.json --batch-size 128",
    ),
)
@with_accelerated_subject
@options.with_split
@options.with_formats
@options.batch_size
@options.context_tokens(required=False)
@options.memory_utilization_ratio
@options.explain
@options.check
@options.with_session
def decode(
    subject: Subject,
    split: options.Split,
    formats: options.Formats,
    batch_size: int | None,
    context_tokens: int | None,
    check: bool,
    session: Session,
    **rest: Any,
) -> None:
    """Bound the decode throughput of MODEL on ACCELERATOR."""
    request = session.request(
        methods.ESTIMATE_DECODE,
        model=subject.model,
        accelerator=subject.accelerator,
        batch_size=batch_size,
        context_tokens=context_tokens,
        **split.given(),
        **formats.given(),
        **rest,
    )
    answer = session.ask(lambda client: client.estimate_decode(request))
    devices = f"{answer.num_devices} × {titles.hardware(request.accelerator, subject.hardware_title)}"
    held = f" at {counted(request.context_tokens, 'token')}" if request.context_tokens else ""

    def draw(console: Console, drawn: EstimateDecodeResponse) -> None:
        model, asked = titles.model(request.model, subject.model_title), f"batch {count(request.batch_size or 1)}{held}"
        layout.title(console, model, devices, titles.split(request.parallelism), titles.formats(request.precision), asked)
        _draw(console, drawn)

    session.show(answer, draw)
    if check and not answer.fits:
        raise SystemExit(Exit.DOES_NOT_FIT)


def _draw(console: Console, answer: EstimateDecodeResponse) -> None:
    console.print(_step(answer))
    console.print()
    layout.section(console, "Limits", _limits(answer))
    shortfall = answer.shortfall if answer.HasField("shortfall") else None
    layout.verdict(console, answer.fits if answer.HasField("fits") else None, shortfall)
    if answer.HasField("explanation"):
        layout.explanation(console, answer.explanation)
    layout.footing(console, answer.assumptions, answer.catalogue_revision)


def _step(answer: EstimateDecodeResponse) -> Table:
    """Bound and expectation beside each other, never in one column."""
    drawn = layout.table(
        "one decode step", "bound\n(nothing can beat it)", "expected\n(arithmetic, not a measurement)", right=[1, 2]
    )
    _times(drawn, answer.bound, answer.expected)
    drawn.add_section()
    _throughput(drawn, answer.bound, answer.expected)
    drawn.add_section()
    _traffic(drawn, answer.bound, answer.expected)
    return drawn


def _times(drawn: Table, bound: DecodeBound, expected: DecodeExpectation) -> None:
    drawn.add_row("time", f"≥ {duration(bound.step_seconds)}", duration(expected.expected_step_seconds))
    for name, limit, least, average in (
        ("memory", Limit.MEMORY_BANDWIDTH, bound.memory_seconds, expected.expected_memory_seconds),
        ("compute", Limit.COMPUTE, bound.compute_seconds, expected.expected_compute_seconds),
        ("interconnect", Limit.INTERCONNECT, bound.interconnect_seconds, expected.expected_interconnect_seconds),
    ):
        mark = "  ← binds" if limit == bound.binding_limit else ""
        drawn.add_row(f"  {name}{mark}", duration(least), duration(average))


def _throughput(drawn: Table, bound: DecodeBound, expected: DecodeExpectation) -> None:
    drawn.add_row("tokens/s", f"≤ {significant(bound.tokens_per_second)}", significant(expected.expected_tokens_per_second))
    drawn.add_row(
        "  per user",
        f"≤ {significant(bound.tokens_per_second_per_user)}",
        significant(expected.expected_tokens_per_second_per_user),
    )
    drawn.add_row("  per device", f"≤ {significant(bound.tokens_per_second_per_device)}")


def _traffic(drawn: Table, bound: DecodeBound, expected: DecodeExpectation) -> None:
    drawn.add_row("weights read", byte_count(bound.weight_bytes), byte_count(expected.expected_weight_bytes))
    drawn.add_row("KV cache read", byte_count(bound.kv_cache_bytes))
    drawn.add_row("read by the busiest device", byte_count(bound.bytes_per_device))
    drawn.add_row("sent by each device", byte_count(bound.interconnect_bytes_per_device))
    drawn.add_row("operations", rate(bound.flops, "FLOP"))
    drawn.add_section()
    drawn.add_row("FLOP per byte read", significant(bound.arithmetic_intensity_flops_per_byte))
    if bound.HasField("attention_intensity_flops_per_byte"):
        drawn.add_row("  in attention alone", significant(bound.attention_intensity_flops_per_byte))
    drawn.add_row("  where compute would bind", significant(bound.ridge_point_flops_per_byte))


def _limits(answer: EstimateDecodeResponse) -> Table:
    drawn = layout.table("limit", "binds from batch", "what it means", right=[1])
    for onset in answer.limits:
        drawn.add_row(words(Limit.Name(onset.limit)), _onset(onset), onset.description)
    return drawn


def _onset(onset: LimitOnset) -> str:
    if onset.HasField("binds_from_batch_size"):
        return count(onset.binds_from_batch_size)
    if onset.HasField("binds_only_below_context_tokens"):
        return f"never (could below\n{significant(onset.binds_only_below_context_tokens)} tokens)"
    return "never"
