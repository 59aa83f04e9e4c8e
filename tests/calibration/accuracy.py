"""How right the estimates are: ``python -m tests.calibration.accuracy [FILE]``, or ``make accuracy [DATA=file.csv]``.

With a file of the same columns, by the calibrations as they stand, and row by row through the very call that callers make.
Without one, on the runs that the calibrations were fitted to, each estimated by a fit that has not seen it: in five parts, and
with whole pairs of model and accelerator left out; then batches alone, and whether any run beats its bound. In percent.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from service.catalogue.entries import Catalogue
from service.catalogue.loader import load
from service.planning.decode_step import Load, decode_bound
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec
from service.planning.serving.requests import EstimateServingRequest, Workload
from service.planning.serving.results import Interval
from tests.calibration.calibrate import SPECS, spread_of
from tests.calibration.fitting import Sample, parameters_of, predicted
from tests.calibration.knowledge import knowledge
from tests.calibration.report import Estimates, lines
from tests.calibration.runs import DATA, Reader, Run, Unanswered
from tests.calibration.stages import calibrate, folds, held_out, pairs, prepared


def main(arguments: Sequence[str]) -> None:
    """Prints the tables."""
    catalogue = load(SPECS)
    for line in of_file(catalogue, Path(arguments[0])) if arguments else of_fit(catalogue):
        print(line)


def of_file(catalogue: Catalogue, path: Path) -> list[str]:
    """A file of runs by the calibrations as they stand."""
    planner = Planner(catalogue)
    table, unanswered = estimates_of(planner, Reader(catalogue, knowledge().kv_cache()), path)
    beaten = sum(run.inter_token_seconds < bound_of(planner, run) for run in table.runs)
    return [*lines(path.name, table), f"rows that beat the bound: {beaten}", *_not_answered(unanswered)]


def estimates_of(planner: Planner, reader: Reader, path: Path) -> tuple[Estimates, list[Unanswered]]:
    """Every run of a file through the call that callers make, and the rows that got no estimate."""
    runs, unanswered = reader.serving(path)
    answered: list[Run] = []
    tokens: list[Interval] = []
    firsts: list[float] = []
    for run in runs:
        answer = planner.estimate_serving(request_of(run))
        estimate = answer.estimate
        if estimate is None or estimate.tpot_seconds is None or estimate.ttft_seconds is None:
            unanswered.append(Unanswered(0, run.pair, answer.no_estimate_reason or answer.saturation))
            continue
        answered.append(run)
        tokens.append(estimate.tpot_seconds)
        firsts.append(estimate.ttft_seconds.p50)
    low, middle, high = (np.array([getattr(each, name) for each in tokens]) for name in ("p10", "p50", "p90"))
    return Estimates(answered, middle, np.array(firsts), low, high), unanswered


def bound_of(planner: Planner, run: Run) -> float:
    """The bound on a step at the batch that a run had."""
    asked = request_of(run)
    deployed = planner.serving.deployment(asked.model, asked.accelerator, asked.engine, asked.precision, asked.parallelism)
    load = Load.of(deployed.plan.footprint, max(1, int(run.batch)))
    return decode_bound(deployed.plan, load, int(run.input_tokens)).step_seconds


def request_of(run: Run) -> EstimateServingRequest:
    """The call that asks for a run."""
    return EstimateServingRequest(
        model=ModelSpec(name=run.model),
        accelerator=AcceleratorSpec(name=run.accelerator),
        engine=EngineSpec(run.engine, run.version or None),
        workload=Workload(int(run.input_tokens), int(run.output_tokens), concurrency=run.concurrency),
        parallelism=run.shape,
        precision=run.asked,
    )


def of_fit(catalogue: Catalogue) -> list[str]:
    """The runs of the fit, each by a fit that has not seen it."""
    known = knowledge()
    reader = Reader(catalogue, known.kv_cache())
    runs, missing = reader.serving(DATA / "serving_measured.csv")
    alone, unanswered = reader.decode(DATA / "decode_measured.csv")
    hierarchy, serving = prepared(runs, known)
    _, batches = prepared(alone, known)
    fitted = calibrate(hierarchy, serving, batches)
    shown: list[str] = []
    for title, parts in (("five parts", folds(runs)), ("pairs left out", pairs(runs))):
        shown += [*lines(title, _table(serving, *held_out(hierarchy, serving, parts)))]
    shown += [*lines("batches alone", _table(batches, *predicted(parameters_of(hierarchy, fitted.vector, batches), batches)))]
    return [*shown, *_not_answered([*missing, *unanswered])]


def _table(of: Sample, inter: Any, first: Any) -> Estimates:
    low, high = spread_of(of, inter)
    return Estimates(of.runs, inter, first, inter * low, inter * high)


def _not_answered(rows: Sequence[Unanswered]) -> list[str]:
    counts = Counter((each.subject, each.reason) for each in rows)
    return [f"rows not answered: {len(rows)}", *(f"  {n:4d} {subject}: {why}" for (subject, why), n in sorted(counts.items()))]


if __name__ == "__main__":
    main(sys.argv[1:])
