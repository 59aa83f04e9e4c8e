"""Every published configuration as it is read, beside an independent count of it.

    python -m tests.benchmarks.models

Parameters, active parameters and weight bytes with the difference to the count, and the cache of one sequence at three
lengths. A row that differs by more than 0.1 % (parameters), 1 % (active, bytes) or at all (cache) is marked.
"""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tests.architectures.published import DISPUTED, architecture, cache_bytes, configurations, expected

LENGTHS = (1024, 8192, 131_072)
COLUMNS = ("model", "read as", "parameters", "Δ", "active", "Δ", "weights GiB", "Δ", "cache 1k / 8k / 128k MiB", "")


@dataclass(frozen=True)
class Row:
    """One model: what was read, what was counted, and whether they agree."""

    model: str
    cells: tuple[str, ...]
    agrees: bool


def difference(found: float, counted: float | None) -> float:
    """Relative difference; 0 where nothing was counted."""
    return found / counted - 1 if counted else 0.0


def row(model: str) -> Row:
    """One model's row."""
    found, counted = architecture(model), expected(model)
    total = difference(found.num_parameters, counted["total_params"])
    active = difference(found.num_active_parameters, counted["active_params"])
    weights = difference(found.num_bytes, counted["weight_bytes"])
    caches = [cache_bytes(found, length) for length in LENGTHS]
    same = all(kept == counted[f"cache_bytes_{length}"] for kept, length in zip(caches, LENGTHS, strict=True))
    agrees = abs(total) <= 1e-3 and abs(active) <= 1e-2 and abs(weights) <= 1e-2 and same
    mark = "" if agrees else f"differs: {DISPUTED.get(model, 'unexplained')}"
    cells = (
        model,
        found.reader,
        f"{found.num_parameters / 1e9:.2f} B",
        f"{total:+.3%}",
        f"{found.num_active_parameters / 1e9:.2f} B",
        f"{active:+.2%}",
        f"{found.num_bytes / 2**30:.1f}",
        f"{weights:+.2%}",
        " / ".join(f"{kept / 2**20:,.0f}" for kept in caches),
        mark,
    )
    return Row(model, cells, agrees)


def main() -> None:
    """Prints the table and how many rows agree."""
    rows = [row(model) for model in configurations()]
    table = Table(*COLUMNS, box=None)
    for each in rows:
        table.add_row(*each.cells)
    console = Console(width=190)
    console.print(table)
    console.print(f"{sum(each.agrees for each in rows)} of {len(rows)} agree with the independent count")


if __name__ == "__main__":
    main()
