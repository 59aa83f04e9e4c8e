"""Writes specs/calibrations/ from the measured runs: ``python -m tests.calibration.calibrate``, or ``make calibrate``.

Same data, same files: six significant digits, a fixed seed. Takes some minutes, most of it for the spreads, which are those of
runs that the fit had not seen.
"""

import math
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from service.catalogue.calibrations import PARAMETER_NAMES, CalibrationBasis
from service.catalogue.loader import load
from tests.calibration.fitting import Sample, estimated
from tests.calibration.knowledge import Knowledge, knowledge
from tests.calibration.plots import scatter
from tests.calibration.runs import DATA, Reader
from tests.calibration.stages import Calibrated, calibrate, folds, held_out, pairs, prepared

SPECS: Final = Path(__file__).parents[2] / "specs"
_DIGITS: Final = 6
#: How much wider the spread is where an engine has no runs on a generation, and where a generation has none at all.
_PRIOR_WIDENING: Final = 1.5
_DECADE: Final = (10, 90)
_SPREAD_NAMES: Final = ("inter_token_p10", "inter_token_p90", "first_token_p10", "first_token_p90")
_HEADER: Final = (
    "# Written by `make calibrate` from measured runs; not to be edited. README.md says how it was made and where it is weak.\n"
)


def main() -> None:
    """Fits, measures the spreads and writes a file an engine."""
    known = knowledge()
    reader = Reader(load(SPECS), known.kv_cache())
    runs, _ = reader.serving(DATA / "serving_measured.csv")
    alone, _ = reader.decode(DATA / "decode_measured.csv")
    hierarchy, serving = prepared(runs, known)
    _, batches = prepared(alone, known)
    fitted = calibrate(hierarchy, serving, batches)
    left_out = held_out(hierarchy, serving, pairs(serving.runs))
    spreads = {
        "familiar": _spreads(serving, *held_out(hierarchy, serving, folds(serving.runs))),
        "unfamiliar": _spreads(serving, *left_out),
    }
    for engine in known.engines:
        document = _engine(engine, known, fitted, (serving, batches), spreads)
        text = yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)
        (SPECS / "calibrations" / f"{engine}.yaml").write_text(_HEADER + text)
    _draw(serving, *left_out)


def _draw(of: Sample, inter: Any, first: Any) -> None:
    """Pictures of the runs as estimated by fits that had not seen their pair."""
    folder = SPECS / "calibrations"
    tokens = [(run, run.inter_token_seconds, float(value)) for run, value in zip(of.runs, inter, strict=True)]
    scatter(folder / "tpot.svg", "Time between tokens, pairs left out", tokens)
    firsts = [(run, run.first_token_seconds or 0.0, float(value)) for run, value in zip(of.runs, first, strict=True)]
    scatter(folder / "ttft.svg", "Time to the first token, pairs left out", firsts)


def _engine(
    engine: str, known: Knowledge, fitted: Calibrated, samples: tuple[Sample, ...], spreads: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    about = known.engines[engine]
    return {
        "name": engine,
        "aliases": about["aliases"],
        "title": about["title"],
        "date": str(max(_days(samples), default=known.last)),
        "source": list(known.sources),
        "reference": str(known.reference),
        "first": str(known.first),
        "last": str(known.last),
        "releases": [{"version": each.text, "day": str(each.day)} for each in known.releases(engine)],
        "generations": [
            described
            for generation in known.generations
            if (described := _generation(engine, generation, known, fitted, samples, spreads))
        ],
    }


def _generation(
    engine: str,
    generation: str,
    known: Knowledge,
    fitted: Calibrated,
    samples: tuple[Sample, ...],
    spreads: Mapping[str, dict[str, Any]],
) -> dict[str, Any] | None:
    own = [(each, np.array([each.members[m] == (engine, generation) for m in each.member])) for each in samples]
    count = sum(int(rows.sum()) for _, rows in own)
    if not count and engine not in known.serving:
        return None
    about = known.generations[generation]
    like = about.get("like", generation)
    widening = 1.0 if count else _PRIOR_WIDENING
    parameters = fitted.hierarchy.parameters(fitted.vector, engine, like)
    described = {
        "generation": generation,
        "architectures": about["architectures"],
        "basis": str(CalibrationBasis.MEASURED if count else CalibrationBasis.PRIOR),
        "kv_cache_precision": known.engines[engine]["kv_cache"].get(generation, "bf16"),
        "parameters": {name: _rounded(getattr(parameters, name)) for name in PARAMETER_NAMES},
        "seen": sorted({run.pair for each, rows in own for run, mine in zip(each.runs, rows, strict=True) if mine}),
        "familiar": {key: _widened(value, widening) for key, value in spreads["familiar"].items()},
        "unfamiliar": {key: _widened(value, widening) for key, value in spreads["unfamiliar"].items()},
        "statistics": _statistics(fitted, own),
    }
    if not count:
        elsewhere = f"carried over from {like}" if like != generation else "what kernels reach on it"
        described["note"] = (
            f"no runs of {engine} on this generation: the engine elsewhere, {elsewhere}; spreads widened by half"
        )
    return described


def _spreads(of: Sample, inter: Any, first: Any) -> dict[str, Any]:
    """Measured over estimated, at the two ends of the middle four fifths."""
    start = np.percentile(np.array([run.first_token_seconds for run in of.runs]) / first, _DECADE)
    values = dict(zip(_SPREAD_NAMES, (*spread_of(of, inter), *start), strict=True))
    return {key: _rounded(float(value)) for key, value in values.items()} | {"num_runs": len(of.runs)}


def spread_of(of: Sample, inter: Any) -> tuple[float, float]:
    """Measured over estimated time between tokens, at the two ends of the middle four fifths."""
    low, high = np.percentile(of.inter_token / inter, _DECADE)
    return float(low), float(high)


def _widened(value: float, factor: float) -> float:
    return value if isinstance(value, int) else _rounded(value**factor)


def _statistics(fitted: Calibrated, own: list[tuple[Sample, Any]]) -> dict[str, float]:
    """How the fit does on the runs of this engine and generation; zeros where there are none."""
    errors = []
    for each, rows in own:
        if rows.any():
            mine = each.only(rows)
            errors.append(estimated(fitted.hierarchy, fitted.vector, mine)[0] / mine.inter_token - 1)
    signed = np.concatenate(errors) if errors else np.zeros(1)
    return {
        "num_runs": sum(len(each) for each in errors),
        "inter_token_median_absolute_error_ratio": _rounded(float(np.median(np.abs(signed)))),
        "inter_token_mean_absolute_error_ratio": _rounded(float(np.abs(signed).mean())),
        "inter_token_median_error_ratio": _rounded(float(np.median(signed))),
    }


def _days(samples: tuple[Sample, ...]) -> list[date]:
    return [run.day for each in samples for run in each.runs if run.day is not None]


def _rounded(value: float) -> float:
    """Six significant digits."""
    if value == 0 or not math.isfinite(value):
        return 0.0
    return float(f"{value:.{_DIGITS}g}")


if __name__ == "__main__":
    main()
