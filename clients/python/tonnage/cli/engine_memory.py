"""A serving engine's word on memory: its budget line by line, what its pool holds, what it says, what would make it start."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tonnage.cli import layout
from tonnage.cli.quantities import byte_count, count, counted, significant, words
from tonnage.v1.engine_pb2 import EngineBudgetLine, EngineMemory

_NAMES = {
    EngineBudgetLine.WEIGHTS_BESIDE_CHECKPOINT: "  beside the checkpoint",
    EngineBudgetLine.NON_TORCH: "outside the framework",
    EngineBudgetLine.CUDA_GRAPHS: "CUDA graphs",
}


def draw(console: Console, memory: EngineMemory, said: str = "") -> None:
    """All but the remedies and assumptions, which the answer repeats, and the statement where it is ``said`` anyway."""
    layout.section(console, f"Budget of {title(memory)}, on the device that decides", _budget(memory))
    layout.section(console, "What its cache holds", _holding(memory))
    if memory.statement not in said:
        starts = memory.outcome == EngineMemory.STARTS
        console.print(Text(memory.statement, style=layout.GOOD if starts else layout.BAD))
    if not memory.outcome_is_certain:
        console.print("It could go the other way within the ranges of the estimates.", style=layout.QUIET)
    console.print()


def item_name(item: EngineBudgetLine.Item.ValueType) -> str:
    """A line of the budget as one reads it."""
    return _NAMES.get(item) or words(EngineBudgetLine.Item.Name(item))


def title(memory: EngineMemory) -> str:
    """The engine and its release."""
    return f"{memory.engine} {memory.version}".strip()


def span(low: float, high: float) -> str:
    """A range of bytes. Empty where it is a point.

    >>> span(2**30, 2 * 2**30), span(2**30, 2**30)
    ('1.00 GiB – 2.00 GiB', '')
    """
    return "" if low == high else f"{byte_count(low)} – {byte_count(high)}"


def _budget(memory: EngineMemory) -> Table:
    drawn = layout.table("", "per device", "range", "basis", right=[1, 2])
    for line in memory.budget:
        item = item_name(line.item)
        drawn.add_row(
            f"  {item} (out of the reserve)" if line.within_reserve else item,
            byte_count(line.bytes_per_device),
            span(line.low_bytes_per_device, line.high_bytes_per_device),
            words(EngineBudgetLine.Basis.Name(line.basis)),
            style=layout.BAD if line.bytes_per_device < 0 else None,
        )
    return drawn


def _holding(memory: EngineMemory) -> Table:
    low, likely, high = memory.low, memory.likely, memory.high
    drawn = layout.table("", "most likely", "range", right=[1, 2])
    for name, least, value, most in (
        (f"blocks of {counted(memory.block_tokens, 'token')}", low.num_blocks, likely.num_blocks, high.num_blocks),
        ("tokens, as its log prints them", low.kv_cache_tokens, likely.kv_cache_tokens, high.kv_cache_tokens),
        (
            "longest single sequence",
            low.longest_context_tokens,
            likely.longest_context_tokens,
            high.longest_context_tokens,
        ),
    ):
        drawn.add_row(name, count(value), "" if least == most else f"{count(least)} – {count(most)}")
    drawn.add_row(
        f"sequences of {counted(memory.max_model_len, 'token')} at once",
        significant(likely.max_concurrency),
        ""
        if low.max_concurrency == high.max_concurrency
        else f"{significant(low.max_concurrency)} – {significant(high.max_concurrency)}",
    )
    if memory.replica_max_concurrency != likely.max_concurrency:
        drawn.add_row("  over the whole replica", significant(memory.replica_max_concurrency))
    drawn.add_row("one such sequence needs", byte_count(memory.needed_bytes_per_device))
    return drawn
