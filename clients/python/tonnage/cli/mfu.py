"""``tonnage mfu``: utilisation on every basis side by side, and the one to quote."""

from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tonnage import methods
from tonnage.cli import layout, options, titles
from tonnage.cli.quantities import count, large_count, percent, rate, significant, words
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.cli.subject import Subject, with_accelerated_subject
from tonnage.v1.capacity_service_pb2 import ComputeUtilizationRequest, ComputeUtilizationResponse, Utilization

_PHASES = [name.lower() for name, number in ComputeUtilizationRequest.Phase.items() if number]


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage mfu llama-3.1-8b h100-sxm --num-devices 8 --phase training \\",
        "    --tokens-per-second 72018 --sequence-tokens 4096 --peak-precision bf16",
    ),
)
@with_accelerated_subject
@click.option("--num-devices", type=int, metavar="N", required=True, help="Devices that the run used.")
@click.option("--phase", type=click.Choice(_PHASES, case_sensitive=False), required=True, help="What was running.")
@click.option("--tokens-per-second", type=float, metavar="X", required=True, help="Over all devices, as observed.")
@click.option("--peak-precision", metavar="FORMAT", required=True, help="Format whose dense peak is the denominator (bf16, …).")
@click.option("--sequence-tokens", type=int, metavar="N", help="Tokens per sequence; without it attention is left out.")
@click.option("--batch-size", type=int, metavar="N", help="Sequences that decode together, for MBU.")
@click.option("--padding/--no-padding", "tokens_include_padding", default=None, help="Whether the tokens include padding.")
@options.with_formats
@options.explain
@options.with_session
def mfu(
    subject: Subject,
    formats: options.Formats,
    session: Session,
    **rest: Any,
) -> None:
    """Compute MFU, HFU and MBU of a run of MODEL on ACCELERATOR."""
    request = session.request(
        methods.COMPUTE_UTILIZATION, model=subject.model, accelerator=subject.accelerator, **formats.given(), **rest
    )
    answer = session.ask(lambda client: client.compute_utilization(request))
    devices = f"{request.num_devices} × {titles.hardware(request.accelerator, subject.hardware_title)}"
    phase = words(ComputeUtilizationRequest.Phase.Name(request.phase))
    observed = f"{phase}, {significant(request.tokens_per_second)} tokens/s"

    def draw(console: Console, drawn: ComputeUtilizationResponse) -> None:
        model = titles.model(request.model, subject.model_title)
        layout.title(console, model, devices, titles.formats(request.precision), observed)
        _draw(console, drawn)

    session.show(answer, draw)


def _draw(console: Console, answer: ComputeUtilizationResponse) -> None:
    layout.section(console, "To quote", answer.statement)
    layout.section(console, "On every basis", _bases(answer))
    layout.sentences(console, "Warnings", _warnings(answer))
    console.print(
        f"N = {large_count(answer.num_active_parameters)} parameters per token ({count(answer.num_active_parameters)})\n"
    )
    if answer.HasField("explanation"):
        layout.explanation(console, answer.explanation)
    layout.footing(console, answer.assumptions, answer.catalogue_revision)


def _bases(answer: ComputeUtilizationResponse) -> Table:
    drawn = layout.table("basis", "", "", "what it counts", right=[1])
    for entry in answer.utilizations:
        recommended = entry.basis == answer.recommended_basis
        unit = "B/s" if entry.basis == Utilization.MBU else "FLOP/s"
        shares = f"  {rate(entry.achieved_per_second, unit)} of {rate(entry.peak_per_second, unit)}"
        drawn.add_row(
            Text.assemble(f"{_name(entry)}\n", (shares, layout.QUIET)),
            percent(entry.ratio),
            "← quote" if recommended else "" if entry.valid else "wrong",
            entry.description,
            style=layout.HEADING if recommended else None if entry.valid else layout.BAD,
        )
    return drawn


def _warnings(answer: ComputeUtilizationResponse) -> list[str]:
    """Each warning once, with the bases that it is about."""
    bases: dict[str, list[str]] = {}
    for entry in answer.utilizations:
        if entry.warning:
            bases.setdefault(entry.warning, []).append(_name(entry))
    return [f"{', '.join(names)}: {warning}" for warning, names in bases.items()]


def _name(entry: Utilization) -> str:
    return Utilization.Basis.Name(entry.basis)
