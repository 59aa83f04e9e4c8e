"""Nothing measured beats the bound.

The runs are public: end-to-end runs of vLLM, SGLang and TensorRT-LLM (silicon sample of ai-dynamo/aiconfigurator, 2026), vLLM
on MI300X (ROCm's published latencies, 2025) and single-stream decoding by gpt-fast on A100 (2024); of each engine, model and
accelerator the three that come closest. Where a run does not say its cache precision, fp8 is taken, which gives the lower
bound.
"""

import csv
from pathlib import Path

import pytest

from service.planning.planner import Planner
from service.planning.requests import Parallelism, Precision
from tests.planning.questions import decode


def measured_runs() -> list[dict[str, str]]:
    with (Path(__file__).parents[1] / "data" / "decode_runs.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("run", measured_runs(), ids=lambda run: "-".join((run["engine"], run["model"], run["accelerator"])))
def test_no_measured_run_beats_its_bound(planner: Planner, run: dict[str, str]) -> None:
    shape = Parallelism(int(run["tensor"]), int(run["pipeline"]), int(run["expert"]))
    precision = Precision(run["weights"], run["kv_cache"], run["compute"] or None)
    batch, context = int(run["batch_size"]), int(run["context_tokens"])
    answer = planner.estimate_decode(
        decode(run["model"], run["accelerator"], shape=shape, precision=precision, batch=batch, context=context)
    )
    assert float(run["tpot_seconds"]) >= answer.bound.step_seconds
    # Nor is the bound so loose that it says nothing: dense models come within a few times of it.
    if run["model"].startswith(("llama", "qwen3-32b")):
        assert float(run["tpot_seconds"]) < 6 * answer.bound.step_seconds
