"""Closed loops and long prompts, as an independent simulation of the engine sees them."""

from pathlib import Path
from random import Random

import pytest

from service.catalogue.calibrations import Parameters
from service.catalogue.loader import load
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.serving.load import arrivals, closed_loop, fullest
from service.planning.serving.places import Places, asked_places
from service.planning.serving.steady import Traffic
from service.planning.serving.work import ServingWork
from tests.simulation.engine import Engine

SUBJECTS = [
    ("llama-3.1-8b", "h100-sxm", 1, "vllm"),
    ("llama-3.1-8b", "h100-sxm", 1, "sglang"),
    ("llama-3.1-70b", "h100-sxm", 8, "vllm"),
    ("gpt-oss-120b", "b200-sxm", 1, "tensorrt-llm"),
]


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(load(Path(__file__).parents[2] / "specs"))


def deployed(
    planner: Planner, model: str, on: str, tensor: int, name: str, traffic: Traffic
) -> tuple[ServingWork, Parameters, Places]:
    engine = EngineSpec(name)
    made = planner.serving.deployment(ModelSpec(model), AcceleratorSpec(on), engine, Precision(), Parallelism(tensor=tensor))
    assert made.generation is not None
    by = planner.serving.parameters(made.generation, made.calibration, None)
    held, _ = asked_places(made.split, made.plan, engine, None, traffic.input_tokens + traffic.output_tokens / 2)
    return made.work, by, held


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("tokens", [(32_768, 16), (32_768, 128), (8192, 16), (8192, 2), (8192, 1), (1024, 1024)])
def test_a_closed_loop_of_a_few_requests_finishes_what_the_simulation_does(
    planner: Planner, subject: tuple[str, str, int, str], tokens: tuple[int, int]
) -> None:
    traffic = Traffic(float(tokens[0]), float(tokens[1]))
    work, by, held = deployed(planner, *subject, traffic)
    engine = Engine(work, by, [traffic], held.most)
    for in_flight in (2, 3, 8):
        if in_flight > held.most:
            continue
        found = closed_loop(work, by, traffic, float(in_flight), held.most)
        rate, _ = engine.keep(in_flight, 400, Random(1))
        # Requests that are all alike pass the host and the engine in turn, better than those that differ could.
        assert 0.78 * rate < found.state.requests_per_second < 1.17 * rate
        assert found.state.requests_per_second <= found.most_per_second


@pytest.mark.parametrize("subject", [SUBJECTS[0], SUBJECTS[2], ("gpt-oss-120b", "b200-sxm", 1, "vllm")])
@pytest.mark.parametrize("tokens", [(20_000, 300), (12_000, 500), (60_000, 200)])
@pytest.mark.parametrize("share", [0.3, 0.5])
def test_prompts_of_several_passes_that_arrive_at_random(
    planner: Planner, subject: tuple[str, str, int, str], tokens: tuple[int, int], share: float
) -> None:
    traffic = Traffic(float(tokens[0]), float(tokens[1]))
    work, by, held = deployed(planner, *subject, traffic)
    rate = fullest(work, by, traffic, held.most)[1] * share
    found = arrivals(work, by, traffic, rate, held.most)
    (seen,) = Engine(work, by, [traffic], held.most).serve(rate, 4000, Random(7))
    first = found.state.first_token_seconds + found.queue_seconds
    assert first == pytest.approx(sum(seen.ttft_seconds) / len(seen.ttft_seconds), rel=0.15)
    assert found.state.inter_token_seconds == pytest.approx(sum(seen.tpot_seconds) / len(seen.tpot_seconds), rel=0.15)
