"""``tonnage explain-log`` against the real service: predicted beside logged, what was refused, what would cure it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.architectures.published import configurations
from tests.client import startup_logs
from tests.client.conftest import Run
from tonnage.cli.exits import Exit

GIB = 2.0**30


@pytest.fixture
def explain(run_for_real: Run, tmp_path: Path) -> Run:
    def explained(log: str, *arguments: str) -> tuple[int, str, str]:
        file = tmp_path / "server.log"
        file.write_text(log)
        return run_for_real("explain-log", str(file), *arguments)

    return explained


def lines(shown: str) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in json.loads(shown)["lines"]}


def test_a_start_line_by_line(explain: Run) -> None:
    code, shown, _ = explain(startup_logs.LLAMA_8B)

    assert Exit.ANSWERED == code
    assert "vllm 0.19.0 · llama-3.1-8b · 1 × h100-sxm · up to 8,192 tokens" in shown
    assert re.search(r"weights +15\.0 GiB +15\.0 GiB – 15\.0 GiB +15\.0 GiB +\+\d+ KiB +0\.01 %", shown)
    assert re.search(r"tokens, as the log prints them +475,968 .* 476,000 +−32 +−0\.01 %", shown)
    assert "58.1 GiB are left for the KV cache" in shown
    assert "The start is as predicted." in shown
    assert "What would make it start" not in shown


CASES = [
    (
        startup_logs.LLAMA_8B,
        (),
        {"weights_bytes": 0.001, "kv_pool_bytes": 0.01, "kv_cache_tokens": 0.01, "max_concurrency": 0.01},
    ),
    (
        startup_logs.GPT_OSS_20B,
        ("--accelerator", "h100-sxm"),
        {"weights_bytes": 0.05, "kv_pool_bytes": 0.02, "max_concurrency": 0.02},
    ),
    (
        startup_logs.QWEN3_32B_REFUSED,
        ("--accelerator", "h100-sxm", "--engine-version", "0.11"),
        {"weights_bytes": 0.001, "kv_pool_bytes": 0.05, "needed_bytes": 0.001},
    ),
    (
        startup_logs.QWQ_32B_SGLANG,
        ("--accelerator", "a10g", "--model", "qwen2.5-32b", "--engine-version", "0.4.3"),
        {"weights_bytes": 0.02, "free_before_load_bytes": 0.01, "kv_pool_bytes": 0.15},
    ),
    (
        startup_logs.LLAMA_8B_TENSORRT_LLM,
        ("--accelerator", "l40s", "--model", "llama-3.1-8b"),
        {"kv_pool_bytes": 0.1, "kv_cache_tokens": 0.1},
    ),
]


@pytest.mark.parametrize(("log", "arguments", "near"), CASES, ids=["llama", "gpt-oss", "qwen3", "sglang", "tensorrt-llm"])
def test_predicted_is_near_logged(explain: Run, log: str, arguments: tuple[str, ...], near: dict[str, float]) -> None:
    code, shown, said = explain(log, *arguments, "--json")

    assert (Exit.ANSWERED, "") == (code, said)
    found = lines(shown)
    for name, within in near.items():
        assert found[name]["logged"] == pytest.approx(found[name]["predicted"], rel=within), name
        assert found[name]["predicted"] - found[name]["logged"] == found[name]["difference"]
    body = json.loads(shown)
    assert body["log"]["outcome"] == body["answer"]["engine_memory"]["outcome"]
    assert body["request"]["engine"]["name"] == body["log"]["engine"]
    assert body["findings"]


def test_a_refusal_with_what_would_cure_it(explain: Run) -> None:
    code, shown, _ = explain(startup_logs.QWEN3_32B_REFUSED, "--accelerator", "h100-sxm", "--engine-version", "0.11")

    told = re.sub(r"\s+", " ", shown)
    assert Exit.ANSWERED == code
    assert "one sequence of 32,000 tokens needs 7.81 GiB, it has 4.45 GiB; the longest that fits is 18,224 tokens." in told
    assert "The failure is as predicted." in told
    assert "--max-model-len 18224 the longest that the logged pool holds" in told
    assert 1 == told.count("· --max-model-len")
    assert "--kv-cache-dtype fp8 it would start" in told


def test_a_refusal_that_was_not_predicted_is_told_apart(explain: Run) -> None:
    code, shown, _ = explain(startup_logs.QWEN3_32B_REFUSED, "--accelerator", "h200-sxm", "--engine-version", "0.11")

    told = re.sub(r"\s+", " ", shown)
    assert Exit.ANSWERED == code
    assert "Predicted was another end: vLLM 0.11 starts" in told
    assert "Farthest from its prediction is KV pool: 4.45 GiB logged" in told
    assert "--max-model-len 18224" in told


def test_memory_that_others_hold_is_cured_by_a_smaller_fraction(explain: Run) -> None:
    log = startup_logs.QWEN3_32B_REFUSED.partition("INFO [gpu_model_runner")[0] + (
        "ValueError: Free memory on device (30.12/79.19 GiB) on startup is less than desired GPU memory utilization\n"
    )

    _, shown, _ = explain(log, "--accelerator", "h100-sxm")

    told = re.sub(r"\s+", " ", shown)
    assert "30.1 GiB were free, less than its fraction asks for" in told
    assert "--gpu-memory-utilization 0.38 no more than is free" in told


def test_nothing_left_is_said_so(explain: Run) -> None:
    _, shown, _ = explain(startup_logs.DEEPSEEK_OUT_OF_MEMORY, "--accelerator", "h100-sxm")

    told = re.sub(r"\s+", " ", shown)
    assert "nothing is left for the KV cache (about −" in told
    assert "It ran out of memory while loading: the weights do not fit." in told


def test_what_the_log_does_not_say_is_named_with_its_option(explain: Run) -> None:
    code, shown, said = explain(startup_logs.SEVEN_BILLION_TENSORRT_LLM)

    assert (Exit.BAD_REQUEST, "") == (code, shown)
    assert "--model NAME or --config FILE: which model it is" in said
    assert re.search(r"--accelerator NAME: which GPU it ran on \(by its memory .*h100-sxm", said)
    assert "--max-model-len N: the longest sequence" in said


def test_options_go_before_the_log(explain: Run) -> None:
    code, shown, _ = explain(
        *(startup_logs.LLAMA_8B, "--accelerator", "h200-sxm", "--tp", "2", "--max-model-len", "4096", "--json"),
        *("--engine", "vllm==0.18", "--kv-cache", "bf16"),
    )

    request = json.loads(shown)["request"]
    assert Exit.ANSWERED == code
    assert {"name": "h200-sxm"} == request["accelerator"]
    assert {"tensor": 2} == request["parallelism"]
    assert ("0.18", 4096, 4096) == (request["engine"]["version"], request["engine"]["max_model_len"], request["context_tokens"])


def test_a_model_is_found_by_its_folder_or_given_by_its_config(explain: Run, tmp_path: Path) -> None:
    folder = startup_logs.LLAMA_8B.replace("meta-llama/", "/srv/models/")
    config = tmp_path / "config.json"
    config.write_text('{"architectures": ["LlamaForCausalLM"]}')

    _, shown, _ = explain(folder, "--json")
    assert {"name": "llama-3.1-8b"} == json.loads(shown)["request"]["model"]

    code, _, said = explain(folder, "--hf-config", str(config))
    assert Exit.BAD_REQUEST == code
    assert "--config" in said


def test_a_config_with_infinity_passes_and_is_shown(explain: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    llama = configurations()["meta-llama/Llama-3.1-8B-Instruct"]
    config.write_text(json.dumps(llama | {"time_step_limit": [0.0, float("inf")]}))

    code, shown, _ = explain(startup_logs.LLAMA_8B, "--config", str(config), "--json")

    assert Exit.ANSWERED == code
    assert [0, float("inf")] == json.loads(shown)["request"]["model"]["hf_config"]["time_step_limit"]
    _, by_name, _ = explain(startup_logs.LLAMA_8B, "--json")
    assert lines(by_name)["weights_bytes"]["predicted"] == lines(shown)["weights_bytes"]["predicted"]


def test_a_checkpoint_quantised_at_load_is_predicted_so(explain: Run, tmp_path: Path) -> None:
    log = startup_logs.LLAMA_8B.replace("quantization=None", "quantization=fp8")
    assert "quantization=fp8" in log

    _, plain, _ = explain(startup_logs.LLAMA_8B, "--json")
    _, shown, _ = explain(log, "--json")

    assert "precision" not in json.loads(plain)["request"]
    assert {"weights": "fp8"} == json.loads(shown)["request"]["precision"]
    # 8.03 B parameters, of which 1.05 B of embedding and lm_head keep 16 bits: 2 × 1.05 + 6.98.
    assert 9.08e9 == pytest.approx(lines(shown)["weights_bytes"]["predicted"], rel=0.01)
    # What is quantised already is left as its checkpoint has it.
    config = tmp_path / "config.json"
    own = {"quant_method": "fp8"}
    config.write_text(json.dumps(configurations()["meta-llama/Llama-3.1-8B-Instruct"] | {"quantization_config": own}))
    _, quantised, _ = explain(log, "--config", str(config), "--json")
    assert "precision" not in json.loads(quantised)["request"]


def test_a_longest_sequence_that_was_cut_is_said(explain: Run) -> None:
    arguments = ("--model", "qwen3-8b", "--accelerator", "a10", "--engine-version", "0.16", "--weights", "fp8")
    code, shown, said = explain(startup_logs.SHORTENED_TENSORRT_LLM, *arguments)

    assert Exit.ANSWERED == code, said
    assert "cut its longest sequence from 32,768 tokens to 5,185" in shown


def test_a_model_that_nobody_knows_is_not_found(explain: Run) -> None:
    code, _, said = explain(startup_logs.LLAMA_8B.replace("Llama-3.1-8B-Instruct", "Unheard-Of"))

    assert Exit.NOT_FOUND == code
    assert "meta-llama/Unheard-Of" in said
    assert "--config" in said


@pytest.mark.parametrize("arguments", [(), ("--engine", "sglang"), ("--engine", "no-such-engine")])
def test_a_log_with_nothing_in_it_ends_with_what_was_looked_for(explain: Run, arguments: tuple[str, ...]) -> None:
    code, shown, said = explain(startup_logs.NOTHING, *arguments)

    assert (Exit.BAD_REQUEST, "") == (code, shown)
    for looked_for in ("Available KV cache memory", "max_total_num_tokens=", "[MemUsageChange] Allocated"):
        assert looked_for in said
