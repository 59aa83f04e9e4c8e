"""The fit itself: least squares on the logarithms of both times, robust against runs that nothing explains."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from scipy.optimize import least_squares

from service.catalogue.calibrations import PARAMETER_NAMES, Parameters
from service.formulas.serving import prefill_pass_seconds
from service.planning.serving.steady import Steady, Traffic, steady
from service.planning.serving.step import ARRAYS
from tests.calibration.hierarchy import Hierarchy
from tests.calibration.runs import Run, chosen, stacked

#: Deviations of the logarithm beyond which a run counts linearly: what scatters between equal runs, and what kernels explain.
_INTER_TOKEN_SCALE: Final = 0.08
_FIRST_TOKEN_SCALE: Final = 0.12
_FIRST_TOKEN_WEIGHT: Final = 0.8
_PRIOR_WEIGHT: Final = 2.0
#: Runs whose requests waited for memory: their first token says nothing about the engine.
_QUEUED_RATIO: Final = 0.93
_MOST_EVALUATIONS: Final = 40


@dataclass(frozen=True)
class Sample:
    """Runs as arrays, ready to be estimated together."""

    runs: tuple[Run, ...]
    work: Any
    traffic: Traffic
    batch: Any
    running: Any
    age: Any  # years of the release from the reference
    is_static: Any
    is_queued: Any  # whether requests waited for memory, outside of the engine
    places: Any  # requests that find room at a time
    inter_token: Any
    first_token: Any  # NaN where it was not measured or was spent in a queue
    weight: Any
    member: Any  # which of ``members`` each run belongs to
    members: tuple[tuple[str, str], ...]  # engine and generation

    def only(self, rows: Any) -> "Sample":
        """Some of the runs, weighted among themselves."""
        runs = tuple(run for run, keep in zip(self.runs, rows, strict=True) if keep)
        arrays = {
            each.name: chosen(getattr(self, each.name), rows)
            for each in fields(self)
            if each.name not in {"runs", "members", "weight"}
        }
        return Sample(runs=runs, members=self.members, weight=_weights(runs), **arrays)


def sample(runs: Sequence[Run], generation_of: dict[str, str], ages: Sequence[float]) -> Sample:
    """Runs of any engines and generations as one sample."""
    keys = [(run.engine, generation_of[run.architecture]) for run in runs]
    members = tuple(sorted(set(keys)))
    first = np.array([run.first_token_seconds or np.nan for run in runs])
    batch, running = np.array([run.batch for run in runs]), np.array([run.concurrency for run in runs])
    long = np.array([run.output_tokens for run in runs]) >= 1000
    queued = (batch < _QUEUED_RATIO * running) & long
    first[queued] = np.nan
    return Sample(
        runs=tuple(runs),
        work=stacked([run.work for run in runs]),
        traffic=stacked([Traffic(run.input_tokens, run.output_tokens) for run in runs]),
        batch=batch,
        running=running,
        age=np.array(ages, dtype=float),
        is_static=np.array([run.is_static for run in runs]),
        is_queued=queued,
        places=np.array([max(1.0, run.places) for run in runs]),
        inter_token=np.array([run.inter_token_seconds for run in runs]),
        first_token=first,
        weight=_weights(runs),
        member=np.array([members.index(key) for key in keys]),
        members=members,
    )


def _weights(runs: Sequence[Run]) -> Any:
    """Runs of a pair measured often weigh less, each pair as the root of its runs."""
    counts = Counter(run.pair for run in runs)
    weights = np.array([counts[run.pair] ** -0.5 for run in runs])
    return weights / weights.mean()


def parameters_of(hierarchy: Hierarchy, vector: Any, of: Sample) -> Parameters:
    """Each run's parameters, for its release."""
    table = [hierarchy.parameters(vector, *member) for member in of.members]
    columns = {name: np.array([getattr(each, name) for each in table])[of.member] for name in PARAMETER_NAMES}
    return Parameters(**columns).aged(of.age)


def predicted(by: Parameters, of: Sample) -> tuple[Any, Any]:
    """Both times of every run as a caller would get them: batch and queue are estimated, not taken from the run."""
    running = np.minimum(of.running, of.places)
    state = steady(of.work, by, of.traffic, running=running, pick=ARRAYS)
    wait = (of.running - running) / state.requests_per_second
    inter, first = _times(of, state)
    return inter, first + wait


def estimated(hierarchy: Hierarchy, vector: Any, of: Sample) -> tuple[Any, Any]:
    """Both times of every run with the batch that it was measured at: what a fit compares."""
    by = parameters_of(hierarchy, vector, of)
    running = np.where(of.is_queued, of.batch, of.running)
    return _times(of, steady(of.work, by, of.traffic, running=running, decoding=of.batch, pick=ARRAYS))


def _times(of: Sample, state: Steady) -> tuple[Any, Any]:
    """Seconds between tokens and to the first; a batch alone pays its prompts over its own tokens."""
    prompts = prefill_pass_seconds(
        compute_seconds=of.batch * state.prompt.compute_seconds,
        fixed_seconds=state.prompt.num_passes * state.prompt.pass_seconds,
    )
    static = state.step.seconds + prompts / of.traffic.output_tokens
    return np.where(of.is_static, static, state.inter_token_seconds), state.first_token_seconds


def fit(hierarchy: Hierarchy, of: Sample, start: Any = None, spreads: Any = None) -> Any:
    """The vector that explains the runs best without straying from ``start``, or from the priors where none is given.

    ``spreads``: how far it may stray, where that is not what the priors say.
    """
    means = hierarchy.means if start is None else start
    spreads = hierarchy.spreads if spreads is None else spreads

    def residuals(vector: Any) -> Any:
        inter, first = estimated(hierarchy, vector, of)
        times = _robust(np.log(inter / of.inter_token) / _INTER_TOKEN_SCALE) * np.sqrt(of.weight)
        firsts = _robust(np.nan_to_num(np.log(first / of.first_token)) / _FIRST_TOKEN_SCALE)
        priors = (vector - means) / spreads * _PRIOR_WEIGHT
        return np.concatenate([times, firsts * np.sqrt(of.weight * _FIRST_TOKEN_WEIGHT), priors])

    return least_squares(residuals, means, method="trf", max_nfev=_MOST_EVALUATIONS).x


def _robust(deviations: Any) -> Any:
    """Quadratic near zero, linear far out (Huber's pseudo loss as a residual)."""
    return np.sign(deviations) * np.sqrt(2 * (np.sqrt(1 + deviations**2) - 1))
