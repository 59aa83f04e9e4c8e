"""``tonnage occupancy``: what an SM holds of a kernel, what limits it, and what would raise it."""

from typing import Any, TextIO

import click
from rich.console import Console
from rich.table import Table

from tonnage import methods
from tonnage.cli import layout, options
from tonnage.cli.quantities import byte_count, percent, words
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.v1.kernel_service_pb2 import ComputeOccupancyResponse, KernelOccupancy, LimitingFactor


@click.command(
    cls=Question,
    epilog=options.examples(
        "tonnage occupancy 9.0 --threads-per-block 256 --registers-per-thread 64",
        "nvcc --resource-usage -arch=sm_90 -c k.cu 2>&1 | tonnage occupancy --threads-per-block 256 --resource-usage -",
    ),
)
@click.argument("compute_capability", required=False, metavar="[COMPUTE_CAPABILITY]")
@click.option("--threads-per-block", "--threads", type=int, metavar="N", required=True, help="Threads of a block.")
@click.option("--registers-per-thread", "--registers", type=int, metavar="N", help="Registers of a thread.")
@click.option(
    "--shared-memory-bytes-per-block",
    "--shared-memory",
    type=int,
    metavar="BYTES",
    help="Shared memory of a block; with --resource-usage its dynamic part. [default: 0]",
)
@click.option(
    "--resource-usage", type=click.File(), metavar="FILE", help="What nvcc --resource-usage or ptxas -v printed; - reads it."
)
@click.option(
    "--shared-memory-carveout-bytes-per-sm",
    "--carveout",
    type=int,
    metavar="BYTES",
    help="Shared memory of an SM. [default: the most]",
)
@click.option("--barriers-per-block", type=int, metavar="N", help="Barriers of a block.")
@click.option("--blocks-per-cluster", type=int, metavar="N", help="Blocks of a thread-block cluster.")
@click.option("--num-sms", type=int, metavar="N", help="SMs of the device, to bound its active clusters.")
@options.explain
@options.with_session
def occupancy(compute_capability: str | None, resource_usage: TextIO | None, session: Session, **rest: Any) -> None:
    """Compute how many blocks and warps of a kernel an SM holds."""
    text = resource_usage.read() if resource_usage else None
    request = session.request(
        methods.COMPUTE_OCCUPANCY, compute_capability=compute_capability, resource_usage_text=text, **rest
    )
    session.show(session.ask(lambda client: client.compute_occupancy(request)), _draw)


def _draw(console: Console, answer: ComputeOccupancyResponse) -> None:
    for kernel in answer.kernels:
        name = kernel.name or "Kernel"
        layout.title(
            console, name, f"compute capability {kernel.compute_capability}", f"{kernel.threads_per_block} threads a block"
        )
        _draw_kernel(console, kernel)
    layout.sentences(console, "Notes", answer.notes)
    if answer.HasField("explanation"):
        layout.explanation(console, answer.explanation)
    layout.footing(console, answer.assumptions, answer.catalogue_revision)


def _draw_kernel(console: Console, kernel: KernelOccupancy) -> None:
    limited = ", ".join(words(LimitingFactor.Name(each)) for each in kernel.limiting_factors)
    blocks = f"{kernel.active_blocks_per_sm} block{'' if kernel.active_blocks_per_sm == 1 else 's'}"
    warps = f"{kernel.active_warps_per_sm} of {kernel.max_warps_per_sm} warps"
    console.print(f"{blocks} on an SM, {warps}: {percent(kernel.occupancy_ratio)}, limited by {limited or 'what stands below'}")
    console.print()
    layout.section(console, "What an SM would hold by each resource", _limits(kernel))
    layout.sentences(console, "It cannot be launched", (each.description for each in kernel.obstacles))
    layout.sentences(console, "What would hold more", (each.description for each in kernel.next_steps))
    if kernel.HasField("cluster"):
        most = kernel.cluster.max_active_clusters
        bound = [f"at most {most:.0f} clusters at once"] if kernel.cluster.HasField("max_active_clusters") else []
        layout.sentences(
            console, f"Clusters of {kernel.cluster.blocks_per_cluster} blocks", [*bound, kernel.cluster.description]
        )
    layout.sentences(console, "About the kernel", kernel.notes)


def _limits(kernel: KernelOccupancy) -> Table:
    drawn = layout.table("resource", "blocks", "a block takes", right=[1])
    registers = f"{kernel.registers_per_thread} registers a thread, {kernel.allocated_registers_per_warp} a warp"
    drawn.add_row("warps", str(kernel.max_blocks_by_warps), f"{kernel.warps_per_block} warps")
    drawn.add_row("registers", str(kernel.max_blocks_by_registers), registers)
    if kernel.HasField("max_blocks_by_shared_memory"):
        taken = byte_count(kernel.allocated_shared_memory_bytes_per_block)
        held = byte_count(kernel.shared_memory_carveout_bytes_per_sm)
        drawn.add_row(
            "shared memory", str(kernel.max_blocks_by_shared_memory), f"{taken} of {held}, reserve and rounding included"
        )
    if kernel.HasField("max_blocks_by_barriers"):
        drawn.add_row("barriers", str(kernel.max_blocks_by_barriers), f"{kernel.barriers_per_block} barriers")
    drawn.add_row("block slots", str(kernel.max_blocks_per_sm), "")
    return drawn
