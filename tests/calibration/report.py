"""Tables of how far estimates lie from runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tests.calibration.runs import Run

_BANDS: Final = (1, 8, 32, 128, 1 << 30)


@dataclass(frozen=True)
class Estimates:
    """Both times of every run, and between which times eight in ten runs should lie."""

    runs: Sequence[Run]
    inter: Any
    first: Any
    low: Any
    high: Any

    @property
    def errors(self) -> Any:
        """Estimated over measured time between tokens, less 1."""
        return self.inter / np.array([run.inter_token_seconds for run in self.runs]) - 1

    @property
    def first_errors(self) -> Any:
        """The same of the time to the first token; NaN where it was not measured."""
        measured = np.array([np.nan if run.first_token_seconds is None else run.first_token_seconds for run in self.runs])
        return self.first / measured - 1

    @property
    def is_covered(self) -> Any:
        """Whether each run lies in its range."""
        measured = np.array([run.inter_token_seconds for run in self.runs])
        return (self.low <= measured) & (measured <= self.high)


GROUPINGS: Final[dict[str, Callable[[Run], str]]] = {
    "model": lambda run: run.model,
    "accelerator": lambda run: run.accelerator,
    "engine": lambda run: run.engine,
    "precision": lambda run: run.precision,
    "concurrency": lambda run: _band(run.concurrency),
}


def summary(of: Estimates, rows: Any = None) -> dict[str, float]:
    """Medians, means and coverage of some of the runs."""
    keep = np.ones(len(of.runs), dtype=bool) if rows is None else np.asarray(rows)
    errors, firsts = of.errors[keep], of.first_errors[keep]
    firsts = firsts[~np.isnan(firsts)]
    size = np.abs(errors)
    return {
        "rows": float(keep.sum()),
        "tpot_median": float(np.median(size)),
        "tpot_mean": float(size.mean()),
        "tpot_p90": float(np.percentile(size, 90)),
        "tpot_bias": float(np.median(errors)),
        "ttft_median": float(np.median(np.abs(firsts))) if len(firsts) else float("nan"),
        "ttft_mean": float(np.abs(firsts).mean()) if len(firsts) else float("nan"),
        "ttft_p90": float(np.percentile(np.abs(firsts), 90)) if len(firsts) else float("nan"),
        "coverage": float(of.is_covered[keep].mean()),
    }


def lines(title: str, of: Estimates) -> Iterable[str]:
    """The table: overall, then by each grouping."""
    yield f"== {title}"
    times = (("TPOT med", 10), ("mean", 8), ("p90", 8), ("bias", 8), ("TTFT med", 10), ("mean", 8), ("p90", 8))
    columns = (("rows", 6), *times, ("covered", 9))
    yield " " * 34 + "".join(f"{name:>{width}}" for name, width in columns)
    yield _line("all", summary(of))
    for name, group_of in GROUPINGS.items():
        for group in sorted({group_of(run) for run in of.runs}):
            rows = np.array([group_of(run) == group for run in of.runs])
            yield _line(f"{name} {group}", summary(of, rows))


def _line(name: str, values: dict[str, float]) -> str:
    shown = "".join(
        f"{100 * values[key]:{width}.1f}"
        for key, width in (
            ("tpot_median", 10),
            ("tpot_mean", 8),
            ("tpot_p90", 8),
            ("tpot_bias", 8),
            ("ttft_median", 10),
            ("ttft_mean", 8),
            ("ttft_p90", 8),
            ("coverage", 9),
        )
    )
    return f"{name[:33]:34}{values['rows']:6.0f}{shown}"


def _band(concurrency: float) -> str:
    low, high = next((a, b) for a, b in pairwise(_BANDS) if a <= max(1, concurrency) < b)
    return f"{low:4d} to {high - 1}" if high < _BANDS[-1] else f"{low:4d} and more"
