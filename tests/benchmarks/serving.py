"""How fast serving estimates are: one through the planner, and many at once through the same arithmetic on arrays.

``python -m tests.benchmarks.serving``. Times of one run on one core; compare them with each other, not with other machines.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from service.catalogue.loader import load
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.serving.requests import EstimateServingRequest, Workload
from service.planning.serving.steady import Traffic, steady
from service.planning.serving.step import ARRAYS
from tests.calibration.calibrate import SPECS

_POINTS: Final = 16_384
_CHUNKS: Final = 20
_SINGLE: Final = 500


def main() -> None:
    """Prints the figures."""
    planner = Planner(load(SPECS))
    request = EstimateServingRequest(
        ModelSpec(name="llama-3.1-70b"),
        AcceleratorSpec(name="h200-sxm"),
        EngineSpec("vllm", "0.19"),
        Workload(1024, 1024, concurrency=64),
        Parallelism(tensor=8),
        Precision(weights="fp8"),
    )
    planner.estimate_serving(request)
    best = min(_timed(lambda: planner.estimate_serving(request)) for _ in range(_SINGLE))
    print(f"one estimate, closed loop, no cache: {best * 1e6:.0f} µs (aim 300)")
    deployed = planner.serving.deployment(
        request.model, request.accelerator, request.engine, request.precision, request.parallelism
    )
    assert deployed.generation is not None
    by = planner.serving.parameters(deployed.generation, deployed.calibration, "0.19")
    chooser = np.random.default_rng(1)
    lengths: Any = chooser.integers(16, 16384, (2, _POINTS)).astype(float)
    running: Any = chooser.integers(1, 512, _POINTS).astype(float)
    traffic = Traffic(lengths[0], lengths[1])
    each = min(_timed(lambda: steady(deployed.work, by, traffic, running=running, pick=ARRAYS)) for _ in range(_CHUNKS))
    print(f"estimates per second on arrays of {_POINTS}: {_POINTS / each:,.0f} (aim 200,000)")


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
