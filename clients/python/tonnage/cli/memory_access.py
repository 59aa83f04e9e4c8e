"""``tonnage memory-access``: the sectors that one load or store of a warp touches, and what would touch fewer."""

from typing import Any

import click
from rich.console import Console

from tonnage import methods
from tonnage.cli import layout, options
from tonnage.cli.quantities import count, percent
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.v1.kernel_service_pb2 import AnalyzeMemoryAccessResponse, StructureLayout


@click.command(
    "memory-access",
    cls=Question,
    epilog=options.examples(
        "tonnage memory-access --offset-elements 1",
        "tonnage memory-access --stride-elements 32",
        "tonnage memory-access --struct-bytes 12 --field-offset-bytes 4",
    ),
)
@click.option("--element-bytes", type=int, metavar="N", help="Bytes that a lane touches: 1, 2, 4, 8 or 16. [default: 4]")
@click.option("--stride-elements", type=int, metavar="N", help="Elements from one lane to the next. [default: 1]")
@click.option("--offset-elements", type=int, metavar="N", help="Elements from the array's start to lane 0. [default: 0]")
@click.option("--base-alignment-bytes", type=int, metavar="N", help="What the array's start is a multiple of. [default: 256]")
@click.option("--struct-bytes", type=int, metavar="N", help="An array of structures of so many bytes.")
@click.option("--field-offset-bytes", type=int, metavar="N", help="… of which each lane touches the field there. [default: 0]")
@click.option("--active-mask", metavar="HEX", help="Which lanes take part, lane 0 lowest. [default: 0xffffffff]")
@click.option(
    "--address", "addresses_bytes", type=float, multiple=True, metavar="N", help="The address of each lane, lane 0 first."
)
@options.explain
@options.with_session
def memory_access(
    struct_bytes: int | None,
    field_offset_bytes: int | None,
    addresses_bytes: tuple[float, ...],
    session: Session,
    **rest: Any,
) -> None:
    """Count the 32-byte sectors that one load or store of a warp touches."""
    structure = None
    if struct_bytes is not None:
        structure = StructureLayout(struct_bytes=struct_bytes, field_offset_bytes=field_offset_bytes)
    elif field_offset_bytes is not None:
        raise click.UsageError("--field-offset-bytes goes with --struct-bytes")
    request = session.request(
        methods.ANALYZE_MEMORY_ACCESS, structure=structure, addresses_bytes=addresses_bytes or None, **rest
    )
    session.show(session.ask(lambda client: client.analyze_memory_access(request)), _draw)


def _draw(console: Console, answer: AnalyzeMemoryAccessResponse) -> None:
    layout.title(console, f"{answer.sectors_per_request} sectors", f"{percent(answer.efficiency_ratio)} of the bytes are used")
    drawn = layout.table("", "", right=[1])
    drawn.add_row("sectors of 32 bytes", str(answer.sectors_per_request))
    drawn.add_row("as few as", str(answer.ideal_sectors_per_request))
    if answer.HasField("best_sectors_per_request"):
        drawn.add_row("from the best start of the array", str(answer.best_sectors_per_request))
    drawn.add_row("lines of 128 bytes", str(answer.lines_per_request))
    drawn.add_row("bytes moved", count(answer.moved_bytes))
    drawn.add_row("bytes used", count(answer.used_bytes))
    if answer.HasField("efficiency_with_reuse_ratio"):
        drawn.add_row("used, where neighbouring warps share a cache", percent(answer.efficiency_with_reuse_ratio))
    layout.section(console, f"One request of {answer.num_active_lanes} lanes", drawn)
    layout.sentences(console, "What would move less", answer.remedies)
    layout.sentences(console, "Notes", answer.notes)
    if answer.HasField("explanation"):
        layout.explanation(console, answer.explanation)
    layout.footing(console, answer.assumptions, answer.catalogue_revision)
