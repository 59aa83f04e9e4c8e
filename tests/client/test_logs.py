"""Start-up logs as they are read: engine, release, model, flags, memory lines, and how the start ended."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client import startup_logs
from tonnage.logs import Outcome, StartupLog, named_gpu, read

GIB = 2.0**30
ALL = [value for name, value in vars(startup_logs).items() if name.isupper() and name != "NOTHING"]


def logged(text: str) -> StartupLog:
    log = read(text)
    assert log is not None
    return log


def gib(log: StartupLog) -> dict[str, float]:
    return {name: round(value / GIB, 2) if name.endswith("_bytes") else value for name, value in log.figures.items()}


def test_vllm() -> None:
    log = logged(startup_logs.LLAMA_8B)

    assert ("vllm", "0.19.0", "meta-llama/Llama-3.1-8B-Instruct") == (log.engine, log.version, log.model)
    assert ("bfloat16", None, {}) == (log.dtype, log.quantization, log.split)
    assert {
        "gpu_memory_utilization": 0.95,
        "max_model_len": 8192,
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 8192,
        "kv_cache_dtype": "auto",
        "enforce_eager": False,
        "enable_prefix_caching": True,
    } == log.flags
    expected = {"weights_bytes": 14.99, "kv_pool_bytes": 58.11, "kv_cache_tokens": 476_000, "max_concurrency": 58.11}
    assert expected | {"cuda_graphs_bytes": 0.91} == gib(log)
    assert (Outcome.STARTS, "") == (log.outcome, log.complaint)


def test_of_several_ranks_the_one_with_the_smallest_pool_decides() -> None:
    log = logged(startup_logs.GPT_OSS_20B)

    assert {"tensor": 2} == log.split
    assert "mxfp4" == log.quantization
    assert 59.32 == gib(log)["kv_pool_bytes"]
    assert (77.18, 79.19) == (gib(log)["free_before_load_bytes"], gib(log)["physical_memory_bytes"])


def test_a_refusal_tells_what_is_needed_and_what_would_fit() -> None:
    log = logged(startup_logs.QWEN3_32B_REFUSED)

    assert Outcome.REFUSED_MAX_LEN is log.outcome
    assert "To serve at least one request" in log.complaint
    assert {"weights_bytes": 61.03, "kv_pool_bytes": 4.45, "needed_bytes": 7.81, "longest_context_tokens": 18224} == gib(log)


def test_vllm_before_v1() -> None:
    none_left, too_long = logged(startup_logs.QWEN_V0_WITHOUT_ROOM), logged(startup_logs.QWEN_V0_TOO_LONG)

    assert {
        "physical_memory_bytes": 8.0,
        "weights_bytes": 5.2,
        "non_torch_bytes": 0.03,
        "activation_peak_bytes": 1.42,
        "kv_pool_bytes": -1.05,
        "num_blocks": 0,
    } == gib(none_left)
    assert "max_num_seqs" not in none_left.flags  # it was None
    assert (0.7, True) == (none_left.flags["gpu_memory_utilization"], none_left.flags["enforce_eager"])
    assert (Outcome.REFUSED_NO_KV, Outcome.REFUSED_MAX_LEN) == (none_left.outcome, too_long.outcome)
    assert ("0.4.0", 32768, 459, 7344) == (
        too_long.version,
        too_long.flags["max_model_len"],
        too_long.figures["num_blocks"],
        too_long.figures["longest_context_tokens"],
    )


def test_running_out_of_memory_while_loading_and_after() -> None:
    while_loading = startup_logs.DEEPSEEK_OUT_OF_MEMORY
    after = "INFO Model loading took 64.38 GiB and 20 seconds\n" + while_loading

    assert Outcome.OUT_OF_MEMORY_LOADING_WEIGHTS is logged(while_loading).outcome
    assert Outcome.OUT_OF_MEMORY_LATER is logged(after).outcome
    assert 79.18 == gib(logged(while_loading))["physical_memory_bytes"]


def test_memory_that_something_else_holds() -> None:
    log = logged(
        "vllm ValueError: Free memory on device (30.12/79.19 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 71.27 GiB)."
    )

    assert Outcome.MEMORY_TAKEN_BY_OTHERS is log.outcome
    assert {"free_before_load_bytes": 30.12, "physical_memory_bytes": 79.19} == gib(log)


def test_sglang() -> None:
    log = logged(startup_logs.QWQ_32B_SGLANG)

    assert ("sglang", None, "Qwen/QwQ-32B", {"tensor": 4}) == (log.engine, log.version, log.model, log.split)
    assert {
        "mem_fraction_static": 0.85,
        "max_model_len": 131072,
        "max_running_requests": 2049,
        "max_num_batched_tokens": 2048,
        "kv_cache_dtype": "auto",
        "block_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": True,
    } == log.flags
    assert {
        "free_before_load_bytes": 21.76,
        "free_after_load_bytes": 6.09,
        "weights_bytes": 15.54,
        "kv_cache_tokens": 46611,
        "kv_pool_bytes": 2.84,
        "free_after_pool_bytes": 2.09,
        "cuda_graphs_bytes": 0.93,
    } == gib(log)


def test_tensorrt_llm() -> None:
    log, built = logged(startup_logs.LLAMA_8B_TENSORRT_LLM), logged(startup_logs.SEVEN_BILLION_TENSORRT_LLM)

    assert ("tensorrt-llm", "0.17.0", None) == (log.engine, log.version, log.model)
    assert {"max_model_len": 131072, "max_num_seqs": 2048, "max_num_batched_tokens": 8192, "block_size": 64} == log.flags
    assert {"kv_pool_bytes": 26.91, "kv_cache_tokens": 220480} == gib(log)
    assert {
        "weights_bytes": 6.52,
        "activation_peak_bytes": 0.04,
        "physical_memory_bytes": 79.1,
        "free_after_load_bytes": 70.48,
        "num_blocks": 4060,
        "kv_pool_bytes": 63.44,
        "kv_cache_tokens": 259840,
    } == gib(built)


def test_sglang_with_a_pool_for_windowed_layers() -> None:
    log = logged(startup_logs.GPT_OSS_SGLANG)

    assert ("0.5.10", "mxfp4", Outcome.STARTS) == (log.version, log.quantization, log.outcome)
    assert 0.10 == gib(log)["kv_pool_bytes"]  # both pools, not the smaller one
    assert 1710 == log.figures["kv_cache_tokens"]  # of the layers without windows


def test_sglang_with_a_pool_for_states() -> None:
    log = gib(logged(startup_logs.NEMOTRON_SGLANG))

    assert {"state_pool_bytes": 7.8, "kv_pool_bytes": 39.96, "kv_cache_tokens": 2618868} == log


def test_tensorrt_llm_that_cuts_its_longest_sequence() -> None:
    log, pytorch = logged(startup_logs.SHORTENED_TENSORRT_LLM), logged(startup_logs.PYTORCH_TENSORRT_LLM)

    assert (Outcome.STARTS, 32768, 5185) == (log.outcome, log.flags["max_model_len"], log.figures["longest_context_tokens"])
    assert (Outcome.STARTS, "1.2.0") == (pytorch.outcome, pytorch.version)
    assert {"free_gpu_memory_fraction": 0.9, "block_size": 32} == pytorch.flags
    # The pool of the profiling run, 0.56 GiB of 259 blocks, is not the one that serves.
    assert {
        "weights_bytes": 63.5,
        "physical_memory_bytes": 119.7,
        "kv_pool_bytes": 5.95,
        "kv_cache_tokens": 86720,
        "num_blocks": 2710,
        "longest_context_tokens": 86720,
    } == gib(pytorch)


SPLITS = [
    ("vllm non-default args: {'tensor_parallel_size': 2, 'pipeline_parallel_size': 3}", {"tensor": 2, "pipeline": 3}),
    (
        "vllm non-default args: {'tensor_parallel_size': 2, 'data_parallel_size': 4, 'enable_expert_parallel': True}",
        {"tensor": 2, "expert": 8, "attention_data": 4},
    ),
    ("server_args=ServerArgs(tp_size=8, dp_size=2)", {"tensor": 8}),
    (
        "server_args=ServerArgs(tp_size=8, dp_size=4, ep_size=8, enable_dp_attention=True)",
        {"tensor": 2, "expert": 8, "attention_data": 4},
    ),
    ("[TRT-LLM] LLM Args: tensor_parallel_size=4 enable_attention_dp=True", {"attention_data": 4}),
]


@pytest.mark.parametrize(("line", "split"), SPLITS)
def test_parallelism_means_what_each_engine_means_by_it(line: str, split: dict[str, int]) -> None:
    assert split == logged(line).split


def test_of_several_starts_the_last_one_counts() -> None:
    log = logged(startup_logs.QWEN3_32B_REFUSED + startup_logs.LLAMA_8B)

    assert logged(startup_logs.LLAMA_8B) == replace(log, outcome=Outcome.STARTS)


def test_builds_between_releases_are_the_release() -> None:
    log = logged("INFO vLLM API server version 0.11.1.dev0+g1a2b3c4.d20251101")

    assert "0.11.1" == log.version


@pytest.mark.parametrize("text", ["", startup_logs.NOTHING, "\x00\xff", "model weights"])
def test_no_log_is_nothing(text: str) -> None:
    assert read(text) is None


def test_an_engine_that_is_named_is_read_in_its_own_words() -> None:
    assert read(startup_logs.LLAMA_8B, "sglang") is None
    assert read(startup_logs.LLAMA_8B, "no-such-engine") is None
    assert logged(startup_logs.LLAMA_8B) == read(startup_logs.LLAMA_8B, "vLLM")


@given(st.sampled_from(ALL), st.integers(min_value=0), st.text(max_size=20))
def test_a_log_that_is_cut_or_mixed_with_others_is_still_read(text: str, cut: int, noise: str) -> None:
    end = cut % len(text)

    log = read(text[:end] + noise + text[end:])

    assert log is None or log.engine in {"vllm", "sglang", "tensorrt-llm"}
    read(text[:end])


LABELS = {"h200-sxm": ["NVIDIA-H200"], "h200-nvl": ["NVIDIA-H200-NVL"], "a10": ["NVIDIA-A10"]}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("GPU 0: NVIDIA H200 (UUID: GPU-1)", "h200-sxm"),
        ("| 0  NVIDIA H200 NVL   On |", "h200-nvl"),
        ("device_name=NVIDIA_H200,dtype=fp8", "h200-sxm"),
        ("NVIDIA A100-SXM4-80GB", None),
        ("", None),
    ],
)
def test_a_gpu_is_known_by_its_whole_name(text: str, name: str | None) -> None:
    assert name == named_gpu(text, LABELS)
