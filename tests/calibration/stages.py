"""The whole fit: serving runs first, then engines and generations of which only batches alone were measured.

What serving runs say of the common values is kept in the second step: only the departures of what is new there move.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tests.calibration.fitting import Sample, fit, parameters_of, predicted, sample
from tests.calibration.hierarchy import Hierarchy
from tests.calibration.knowledge import Knowledge
from tests.calibration.runs import Run

_HELD: Final = 1e-3
_FOLDS: Final = 5
_SEED: Final = 20261202


@dataclass(frozen=True)
class Calibrated:
    """A fitted hierarchy."""

    hierarchy: Hierarchy
    vector: Any


def prepared(runs: Sequence[Run], known: Knowledge) -> tuple[Hierarchy, Sample]:
    """Runs as a sample, and the hierarchy of all engines and generations that are known."""
    hierarchy = Hierarchy(tuple(known.engines), tuple(known.generations), known.measured())
    return hierarchy, sample(runs, known.generation_of(), [known.age_years(run) for run in runs])


def calibrate(hierarchy: Hierarchy, serving: Sample, batches: Sample | None = None) -> Calibrated:
    """Fits serving runs, then what batches alone add."""
    vector = fit(hierarchy, serving)
    if batches is None:
        return Calibrated(hierarchy, vector)
    engines = {engine for engine, _ in serving.members}
    generations = {generation for _, generation in serving.members}
    free = np.array([hierarchy.is_departure_beyond(i, engines, generations) for i in range(len(vector))])
    return Calibrated(hierarchy, fit(hierarchy, batches, vector, np.where(free, hierarchy.spreads, _HELD)))


def folds(runs: Sequence[Run]) -> Iterator[Any]:
    """Five parts of the runs as masks; runs that differ only in concurrency stay together."""
    families = sorted({run.family for run in runs}, key=str)
    order = np.random.default_rng(_SEED).permutation(len(families))
    part = {family: int(order[i]) % _FOLDS for i, family in enumerate(families)}
    for number in range(_FOLDS):
        yield np.array([part[run.family] == number for run in runs])


def pairs(runs: Sequence[Run]) -> Iterator[Any]:
    """The runs of each model on each accelerator as a mask."""
    for pair in sorted({run.pair for run in runs}):
        yield np.array([run.pair == pair for run in runs])


def held_out(hierarchy: Hierarchy, serving: Sample, parts: Iterator[Any]) -> tuple[Any, Any]:
    """Both times of every run as a caller would get them, by a fit that has not seen the part that it lies in."""
    inter, first = np.empty(len(serving.runs)), np.empty(len(serving.runs))
    for part in parts:
        vector = fit(hierarchy, serving.only(~part))
        rest = serving.only(part)
        inter[part], first[part] = predicted(parameters_of(hierarchy, vector, rest), rest)
    return inter, first
