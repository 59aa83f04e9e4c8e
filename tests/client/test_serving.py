"""What engines really serve, through the clients and the command line."""

import json
from typing import Any

import pytest

from tests.client.conftest import Run, ScriptedServer
from tests.client.test_questions import asked
from tests.service_process import RunningService
from tonnage import (
    AsyncClient,
    Client,
    Disaggregation,
    EngineSpec,
    InvalidRequest,
    NotFound,
    PrometheusObservation,
    ServingObservation,
    SpeculativeDecoding,
    Unanswerable,
)
from tonnage.cli.exits import Exit
from tonnage.v1.serving_service_pb2 import ServingEstimate

QUESTION: dict[str, Any] = {"model": "llama-3.1-8b", "accelerator": "h100-sxm", "input_tokens": 1024, "output_tokens": 256}
WORDS = ("serving", "llama-3.1-8b", "h100-sxm", "--engine", "vllm==0.19", "--isl", "1024", "--osl", "256")


async def test_both_clients_get_the_same_answers(service: RunningService) -> None:
    drafts = SpeculativeDecoding(accepted_tokens_per_step=2.5, drafted_tokens_per_step=3)
    questions: list[dict[str, Any]] = [
        {"engine": "vllm==0.19", "concurrency": 64, "explain": True},
        {"engine": EngineSpec(name="sglang", max_running_requests=32), "requests_per_second": 2.0, "kv_cache": "fp8"},
        {"engine": "vllm", "concurrency": 8, "tensor": 2, "speculative_decoding": drafts, "prefix_cache_hit_ratio": 0.5},
        {"engine": "trtllm", "concurrency": 64, "disaggregation": Disaggregation(prefill_replicas=1, decode_replicas=2)},
        {"engine": "vllm", "concurrency": 64, "observation": ServingObservation(num_requests=100, tpot_seconds=0.01)},
    ]
    with Client(service.grpc) as client:
        answers = [client.estimate_serving(**QUESTION, **each) for each in questions]
    assert answers[0].estimate.calibration == "vllm-hopper"
    assert answers[0].estimate.calibration_basis == ServingEstimate.MEASURED
    assert answers[0].explanation.steps
    assert answers[1].estimate.max_running_requests == 32
    assert answers[3].num_devices == 3
    assert answers[4].estimate.correction.observation.num_requests == 100
    async with AsyncClient(service.grpc) as asynchronous:
        assert answers == [await asynchronous.estimate_serving(**QUESTION, **each) for each in questions]


def test_answers_of_one_token_have_no_time_between_tokens(service: RunningService, run_for_real: Run) -> None:
    with Client(service.grpc) as client:
        found = client.estimate_serving(**QUESTION | {"output_tokens": 1}, engine="vllm==0.19", concurrency=8).estimate
    assert not found.HasField("tpot_seconds")
    assert not found.HasField("tpot_over_requests")
    assert not found.HasField("output_tokens_per_second_per_user")
    assert found.ttft_seconds.p50 == found.end_to_end_seconds.p50 > 0
    code, out, _ = run_for_real(*WORDS[:-1], "1", "--concurrency", "8")
    assert Exit.ANSWERED == code
    assert "time to first token" in out
    assert "time between tokens" not in out
    assert "per user" not in out


def test_failures(service: RunningService) -> None:
    with Client(service.grpc) as client:
        with pytest.raises(NotFound) as unknown:
            client.estimate_serving(**QUESTION, engine="vlm", concurrency=1)
        assert "vllm" in unknown.value.nearest
        with pytest.raises(InvalidRequest) as neither:
            client.estimate_serving(**QUESTION, engine="vllm")
        assert ["workload"] == [each.field for each in neither.value.violations]
        observe = PrometheusObservation(prometheus_url="http://prometheus:9090")
        with pytest.raises(Unanswerable) as forbidden:
            client.estimate_serving(**QUESTION, engine="vllm", concurrency=1, observe=observe)
        assert "TONNAGE_PROMETHEUS_HOSTS" in forbidden.value.remedy


def test_every_option_reaches_its_field(run: Run, scripted: ScriptedServer) -> None:
    load = ("--rate", "2.5", "--prefix-cache-hit-ratio", "0.25", "--accepted-tokens-per-step", "2.5")
    drafts = ("--drafted-tokens-per-step", "3", "--drafter-step-ratio", "0.1", "--prefill-replicas", "1")
    apart = ("--decode-replicas", "2", "--transfer-bytes-per-second", "5e10", "--memory-utilization-ratio", "0.8")
    read = (
        "--prometheus-url",
        "http://p:9090",
        "--prometheus-label",
        "a=b=c",
        "--prometheus-label",
        "d=",
        "--window-seconds",
        "60",
    )
    run(
        *WORDS,
        *load,
        *drafts,
        *apart,
        *read,
        "--metric-prefix",
        "kserve_",
        "--max-num-seqs",
        "64",
        "--tp",
        "2",
        "--kv-cache",
        "fp8",
    )
    expected = {
        "model": {"name": "llama-3.1-8b"},
        "accelerator": {"name": "h100-sxm"},
        "engine": {"name": "vllm", "version": "0.19", "max_num_seqs": 64},
        "parallelism": {"tensor": 2},
        "precision": {"kv_cache": "fp8"},
        "workload": {
            "input_tokens": 1024,
            "output_tokens": 256,
            "requests_per_second": 2.5,
            "prefix_cache_hit_ratio": 0.25,
            "speculative_decoding": {
                "accepted_tokens_per_step": 2.5,
                "drafted_tokens_per_step": 3,
                "drafter_step_ratio": 0.1,
            },
            "disaggregation": {"prefill_replicas": 1, "decode_replicas": 2, "transfer_bytes_per_second": 5e10},
        },
        "memory_utilization_ratio": 0.8,
        "observe": {
            "prometheus_url": "http://p:9090",
            "labels": {"a": "b=c", "d": ""},
            "window_seconds": 60,
            "metric_prefix": "kserve_",
        },
    }
    assert expected == asked(scripted)


def test_what_was_observed_is_sent(run: Run, scripted: ScriptedServer) -> None:
    run(
        *WORDS,
        "--concurrency",
        "8",
        "--observed-requests",
        "50",
        "--observed-tpot-seconds",
        "0.01",
        "--observed-ttft-seconds",
        "0.2",
    )
    question = asked(scripted)
    assert isinstance(question, dict)
    assert {"num_requests": 50, "tpot_seconds": 0.01, "ttft_seconds": 0.2} == question["observation"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--accepted-tokens-per-step", "2"), "--accepted-tokens-per-step goes with --drafted-tokens-per-step"),
        (("--transfer-bytes-per-second", "2"), "--transfer-bytes-per-second goes with --prefill-replicas"),
        (("--observed-tpot-seconds", "0.01"), "go with --observed-requests"),
        (("--prometheus-label", "a=b"), "go with --prometheus-url"),
        (("--prometheus-url", "http://p", "--prometheus-label", "a"), "give NAME=VALUE"),
        (("--observed-requests", "99999999999"), "99999999999"),
    ],
)
def test_options_that_lack_their_other_half(run: Run, scripted: ScriptedServer, options: tuple[str, ...], told: str) -> None:
    code, _, err = run(*WORDS, "--concurrency", "8", *options)
    assert Exit.BAD_REQUEST == code
    assert told in err
    assert [] == scripted.requests


def test_an_engine_is_needed(run: Run, scripted: ScriptedServer) -> None:
    code, _, err = run("serving", "m", "a", "--concurrency", "8")
    assert Exit.BAD_REQUEST == code
    assert "name an engine" in err
    assert [] == scripted.requests


def test_the_answer_is_drawn(run_for_real: Run) -> None:
    code, out, _ = run_for_real(*WORDS, "--concurrency", "8")
    assert Exit.ANSWERED == code
    for part in (
        "1 × h100-sxm · vllm 0.19 · 1,024 in, 256 out, concurrency 8",
        "time to first token, mean",
        "time between tokens, mean",
        "output tokens/s",
        "decode step",
        "nothing can beat it",
        "prompts of others, a token",
        "Calibration vllm-hopper, measured",
        "KV cache in bf16",
    ):
        assert part in out


def test_overload_no_estimate_and_a_correction_are_drawn(run_for_real: Run) -> None:
    _, out, _ = run_for_real(*WORDS, "--rate", "1000", "--explain")
    assert "overloaded: no steady state" in out
    assert "time to first token" not in out
    assert "streaming_seconds = " in out
    code, out, _ = run_for_real("serving", "llama-3.1-70b", "h100-sxm", "--engine", "vllm", "--concurrency", "8", "--check")
    assert Exit.DOES_NOT_FIT == code
    assert "No estimate: the weights leave no room" in out
    assert "a step takes at least" in out
    _, out, _ = run_for_real(*WORDS, "--concurrency", "8", "--observed-requests", "100", "--observed-tpot-seconds", "0.01")
    assert "Corrected by 100 requests observed" in out


def test_the_answer_as_json(run_for_real: Run) -> None:
    code, out, _ = run_for_real(*WORDS, "--concurrency", "8", "--json")
    assert Exit.ANSWERED == code
    answer = json.loads(out)
    assert answer["estimate"]["tpot_seconds"]["p10"] < answer["estimate"]["tpot_seconds"]["p90"]
    assert "correction" not in answer["estimate"]


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        ((), Exit.BAD_REQUEST, "workload (--concurrency)"),
        (("--concurrency", "8", "--rate", "1"), Exit.BAD_REQUEST, "exactly one of the two"),
        (("--rate", "-1"), Exit.BAD_REQUEST, "(--requests-per-second)"),
        (
            ("--concurrency", "8", "--observed-requests", "5", "--observed-tpot-seconds", "1"),
            Exit.BAD_REQUEST,
            "(--observed-requests)",
        ),
        (("--concurrency", "8", "--prometheus-url", "http://p"), Exit.UNANSWERABLE, "TONNAGE_PROMETHEUS_HOSTS"),
        (("--concurrency", "8", "--weights", "fp4"), Exit.UNANSWERABLE, "precision.compute"),
    ],
)
def test_refusals_name_the_option(run_for_real: Run, options: tuple[str, ...], code: Exit, told: str) -> None:
    ended, _, err = run_for_real(*WORDS, *options)
    assert code == ended
    assert told in err
