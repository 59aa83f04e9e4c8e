"""``tonnage compare``: accelerators side by side under one workload."""

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tonnage import methods
from tonnage.cli import layout, names, options, own_prices, titles
from tonnage.cli.engine_options import engine_spec
from tonnage.cli.quantities import byte_count, count, duration, rate, significant
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.v1.fleet_service_pb2 import CompareAcceleratorsResponse, ComparedAccelerator


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage compare llama-3.1-8b h100-sxm h200-sxm b200 --concurrency 32",
        "tonnage compare llama-3.1-8b v100-sxm2-32 gb300 --compute fp16",
    ),
)
@click.argument("model", metavar="MODEL", shell_complete=names.of(names.MODELS))
@click.argument(
    "accelerators",
    nargs=-1,
    required=True,
    metavar="ACCELERATOR ACCELERATOR…",
    shell_complete=names.of(names.ACCELERATORS),
)
@click.option("--input-tokens", "--isl", type=int, metavar="N", default=1024, show_default=True, help="Tokens of a prompt.")
@click.option("--output-tokens", "--osl", type=int, metavar="N", default=1024, show_default=True, help="… of an answer.")
@click.option("--concurrency", type=int, metavar="N", default=16, show_default=True, help="Requests in flight on a replica.")
@names.option(names.ENGINES, "--engine", help="The engine, for estimates. [default: vllm]")
@options.with_split
@options.with_formats
@click.option("--term", type=click.Choice(["on-demand", "spot", "one-year", "three-years"]), help="[default: on-demand]")
@click.option("--region", metavar="NAME", help="Region of the prices.")
@click.option("--currency", metavar="CODE", help="[default: USD]")
@own_prices.option
@options.explain
@options.with_tabular_session
def compare(
    model: str | None,
    accelerators: tuple[str, ...],
    engine: str | None,
    split: options.Split,
    formats: options.Formats,
    priced: tuple[str, ...],
    session: Session,
    **rest: Any,
) -> None:
    """Hold ACCELERATORs side by side under one workload of MODEL; each is compared with the first."""
    name, _, version = (engine or "").partition("==")
    spec = engine_spec(name.strip(), version.strip() or None, {}) if name else None
    asked = {**split.given(), **formats.given(), **rest, "engine": spec}
    request = session.request(methods.COMPARE_ACCELERATORS, model=model, accelerators=accelerators, **asked)
    request = own_prices.lay_in(request, priced, session)
    answer = session.ask(lambda client: client.compare_accelerators(request))

    def draw(console: Console, drawn: CompareAcceleratorsResponse) -> None:
        replica = titles.split(request.parallelism), titles.formats(request.precision)
        layout.title(console, titles.model(request.model), ", ".join(request.accelerators), *replica)
        layout.section(console, "Side by side, per counted unit", _side_by_side(drawn))
        layout.sentences(console, "Beside the first", [each.text for each in drawn.generations])
        notes = [f"{each.accelerator}: {note}" for each in drawn.accelerators for note in each.notes]
        layout.sentences(console, "Notes", notes)
        layout.footing(console, drawn.assumptions, drawn.catalogue_revision)
        for each in drawn.accelerators:
            if each.HasField("explanation"):
                layout.title(console, each.accelerator)
                layout.explanation(console, each.explanation)

    session.show(answer, draw, request)


def _side_by_side(answer: CompareAcceleratorsResponse) -> Table:
    listed = answer.accelerators
    drawn = layout.table("", *(each.accelerator for each in listed), right=range(1, len(listed) + 1))
    drawn.add_row("best dense peak", *map(_peak, listed))
    drawn.add_row("memory bandwidth", *(_rate(each, "memory_bandwidth_bytes_per_second", "B/s") for each in listed))
    drawn.add_row("memory", *(byte_count(each.usable_memory_bytes) for each in listed))
    drawn.add_row("decode step, bound", *(_time(each, "decode_step_seconds") for each in listed))
    drawn.add_row("  tokens/s per device", *(_figure(each, "decode_tokens_per_second_per_device") for each in listed))
    drawn.add_row("prompt, bound", *(_time(each, "prefill_seconds") for each in listed))
    drawn.add_section()
    for name, field in (("time to first token", "ttft_seconds"), ("time between tokens", "tpot_seconds")):
        drawn.add_row(f"{name}, estimate", *(_middle(each, field) for each in listed))
    drawn.add_row("output tokens/s per device", *(_tokens(each) for each in listed))
    drawn.add_section()
    drawn.add_row("per device-hour", *(_figure(each, "cost_per_device_hour", each.currency) for each in listed))
    drawn.add_row("price of", *(each.price.date if each.HasField("price") else "" for each in listed))
    for name, field, divisor in (("", "cost", 1), ("kJ ", "joules", 1000)):
        bound, estimated = (f"{basis}_{field}_per_million_output_tokens" for basis in ("bound", "estimated"))
        drawn.add_row(f"{name}per M output tokens, bound", *(_least(each, bound, divisor) for each in listed))
        drawn.add_row("  estimate", *(_ranged(each, estimated, divisor) for each in listed))
    return drawn


def _peak(each: ComparedAccelerator) -> str:
    return f"{rate(each.peaks[0].peak_dense_flops_per_second, 'FLOP/s')} {each.peaks[0].precision}" if each.peaks else ""


def _figure(each: ComparedAccelerator, field: str, unit: str = "") -> str:
    return f"{significant(getattr(each, field))} {unit}".strip() if each.HasField(field) else ""  # type: ignore[arg-type]


def _least(each: ComparedAccelerator, field: str, divisor: float) -> str:
    """A figure at the bound: the least that it can be."""
    if not each.HasField(field):  # type: ignore[arg-type]
        return ""
    return f"≥ {significant(getattr(each, field) / divisor)} {_unit(each, field)}".strip()


def _ranged(each: ComparedAccelerator, field: str, divisor: float) -> str:
    """An estimate and its range."""
    if not each.HasField(field):  # type: ignore[arg-type]
        return "none"
    found = getattr(each, field)
    low, middle, high = (significant(value / divisor) for value in (found.p10, found.p50, found.p90))
    return f"{middle} {_unit(each, field)}".strip() + f" ({low} to {high})"


def _unit(each: ComparedAccelerator, field: str) -> str:
    return each.currency if "cost" in field else ""


def _rate(each: ComparedAccelerator, field: str, unit: str) -> str:
    return rate(getattr(each, field), unit) if each.HasField(field) else ""  # type: ignore[arg-type]


def _time(each: ComparedAccelerator, field: str) -> str:
    return f"≥ {duration(getattr(each, field))}" if each.HasField(field) else ""  # type: ignore[arg-type]


def _middle(each: ComparedAccelerator, field: str) -> str:
    return duration(getattr(each, field).p50) if each.HasField(field) else "none"  # type: ignore[arg-type]


def _tokens(each: ComparedAccelerator) -> str:
    field = "output_tokens_per_second_per_device"
    return count(round(getattr(each, field).p50)) if each.HasField(field) else "none"  # type: ignore[arg-type]
