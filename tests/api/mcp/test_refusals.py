"""Where a tool gives no answer it says which argument, what is wrong with it, and what to give instead."""

import json
from typing import Any

import httpx
import pytest

from tests.api.mcp.calling import call
from tests.service_process import RunningService

POINT = {"model": "Llama 70B", "hardware": "8x H100"}
REFUSED: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    # names
    ("how_fast", POINT | {"model": "Lama 7OB"}, ("model:", "llama-3.1-70b", "Call again with one of these names", "'7B'")),
    ("how_fast", POINT | {"hardware": "8x H10000"}, ("hardware:", "H10000", "h100-sxm")),
    ("will_it_fit", POINT | {"hardware": "DGX H1000"}, ("hardware:", "dgx-h100")),
    ("plan_fleet", {"model": "Llama 70B", "requests_per_second": 1, "hardware": "H100, MI30X"}, ("hardware:", "mi300x")),
    ("look_up", {"name": "H1000"}, ("name:", "h100-sxm")),
    ("how_fast", POINT | {"engine": "vlm", "input_tokens": 9, "output_tokens": 9}, ("engine: ", "vllm")),
    ("how_fast", POINT | {"engine": "vllm"}, ("engine: ", "input_tokens and output_tokens")),
    ("will_it_fit", POINT | {"weights_precision": "fp9"}, ("weights_precision", "fp8")),
    ("place_jobs", {"nodes": "3x DGX H1000", "jobs": "a: 4"}, ("hardware:", "dgx-h100")),
    # units
    ("plan_fleet", {"model": "7B", "requests_per_second": "50 GB"}, ("requests_per_second: 'GB' is no unit", "per minute")),
    ("plan_fleet", {"model": "7B", "requests_per_second": 1, "ttft_seconds": "2 tokens"}, ("ttft_seconds:", "500 ms")),
    ("how_fast", POINT | {"context_tokens": "128k"}, ("context_tokens:", "128000 or 131072")),
    ("how_fast", POINT | {"batch_size": "64 GiB"}, ("batch_size:", "count", "GiB")),
    ("explain_kernel", {"threads_per_block": 256, "shared_memory_per_block": "48 GB"}, ("shared_memory_per_block:", "48 KB")),
    ("explain_kernel", {"m": 8, "n": 8, "k": 8, "memory_bandwidth": "2 tb/s", "peak_flops": 1e12}, ("'tb/s'", "'2 TB/s'")),
    # what is out of range, contradicts itself, or is missing
    ("how_fast", POINT | {"batch_size": 0}, ("batch_size:", "0")),
    ("how_fast", POINT | {"context_tokens": 0}, ("context_tokens:", "0")),
    ("how_fast", POINT | {"hardware": "0x H100"}, ("hardware:", "count")),
    ("how_fast", POINT | {"batch_size": -5}, ("batch_size:", "-5")),
    ("how_fast", POINT | {"batch_size": 1.5}, ("batch_size:", "no whole number")),
    ("how_fast", POINT | {"input_tokens": 100}, ("output_tokens:", "together")),
    ("how_fast", POINT | {"batch_size": 1, "requests_per_second": 1}, ("requests_per_second:", "leave one out")),
    ("how_fast", POINT | {"num_layers": 32}, ("num_layers:", "'7B'")),
    ("how_fast", POINT | {"hardware": "8x H100, 4x MI300X"}, ("hardware:", "equal numbers")),
    ("how_fast", {"model": "Llama 70B"}, ("hardware: it is missing", "The arguments are model, hardware")),
    ("how_fast", POINT | {"batchsize": 4}, ("'batchsize' is no argument", "did you mean batch_size")),
    ("how_fast", POINT | {"hardware": ["H100", "MI300X"]}, ("hardware: give one value", "commas")),
    ("how_fast", POINT | {"batch_size": 10**400}, ("batch_size: it is too large",)),
    ("plan_fleet", {"model": "7B", "requests_per_second": 1, "term": "lease"}, ("term:", "spot")),
    ("plan_fleet", {"model": "7B", "requests_per_second": "1e999"}, ("requests_per_second: it must be a finite number",)),
    ("explain_kernel", {"threads_per_block": 256, "registers_per_thread": 32, "m": 8}, ("one question a call",)),
    ("explain_kernel", {"registers_per_thread": 32}, ("threads_per_block: it is missing",)),
    ("explain_kernel", {}, ("threads_per_block", "stride_elements", "m, n and k")),
    ("explain_kernel", {"threads_per_block": 256}, ("registers_per_thread: it is missing", "nvcc --resource-usage")),
    ("explain_kernel", {"hardware": "MI300X", "threads_per_block": 256, "registers_per_thread": 32}, ("hardware:", "NVIDIA")),
    (
        "explain_mfu",
        {"model": "7B", "hardware": "8x H100", "tokens_per_second": 72018, "nvidia_smi_utilization_ratio": "97 %"},
        ("nvidia_smi_utilization_ratio:", "at least one kernel ran", "tokens_per_second"),
    ),
    # clusters
    ("place_jobs", {"nodes": "3x H100", "jobs": "a: 4"}, ("nodes:", "is an accelerator", "DGX H100")),
    ("place_jobs", {"nodes": "", "jobs": "a: 4"}, ("nodes: it is empty", "3 nodes of 8 GPUs")),
    ("place_jobs", {"nodes": "3x8", "jobs": "a: half"}, ("jobs: 'a: half' is no job", "T16: 2x8")),
    ("place_jobs", {"nodes": "3x8", "jobs": "a: 4, a: 4"}, ("jobs:", "a name of its own")),
    ("place_jobs", {"nodes": "3x8", "jobs": "999999 jobs of 4"}, ("jobs:", "1,000")),
    ("place_jobs", {"nodes": "999999x8", "jobs": "a: 4"}, ("nodes:", "20000")),
    ("place_jobs", {"nodes": "3x8", "jobs": "a: 4", "policy": "best"}, ("policy:", "gang and bin packing")),
    ("place_jobs", {"nodes": "3x8", "jobs": "a: 4", "policy": "gang", "interleave_pods": True}, ("interleave_pods:",)),
    # texts that mean harm
    ("look_up", {"name": "x" * 99_000}, ("name:", "xxx…")),
    ("look_up", {"name": "x" * 150_000}, ("150,000 characters; at most 100,000",)),
    ("how_fast", POINT | {"model": '{"a": ' + "[" * 50_000}, ("model:", "no JSON")),
    ("how_fast", POINT | {"model": '{"hidden_size": NaN}'}, ("model",)),
    ("how_fast", POINT | {"model": "{}"}, ("model",)),
]


@pytest.mark.parametrize(("tool", "arguments", "said"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
async def test_a_refusal_says_what_to_give_instead(
    service: RunningService, tool: str, arguments: dict[str, Any], said: tuple[str, ...]
) -> None:
    reply = await call(service.http, tool, **arguments)
    assert reply.is_error, reply.text
    missing = [part for part in said if part not in reply.text]
    assert [] == missing, reply.text
    assert len(reply.text) < 1000
    assert "service failed" not in reply.text


async def test_an_unknown_tool_is_told_which_there_are(service: RunningService) -> None:
    reply = await call(service.http, "how_much")
    assert reply.is_error
    assert "'how_much'" in reply.text
    assert "plan_fleet" in reply.text


def posted(service: RunningService, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    return httpx.post(f"{service.http}/mcp", content=body, headers=headers, timeout=30)


def rpc(arguments: str) -> bytes:
    return (
        '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "how_fast", "arguments": ' + arguments + "}}"
    ).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}',
        b"[" * 100_000,
        rpc('{"model": "7B", "hardware": "H100", "batch_size": 1e999}'),
        rpc('{"model": "7B", "hardware": "H100", "batch_size": ' + "9" * 5000 + "}"),
        rpc('{"model": ' + '{"a":' * 5000 + "1" + "}" * 5000 + ', "hardware": "H100"}'),
        rpc('{"model": "\\ud800", "hardware": "H100"}'),
        rpc('{"model": "7B\\u0000", "hardware": "H100"}'),
    ],
    ids=["empty", "list", "cut", "bytes", "params", "deep", "infinite", "digits", "deep-model", "surrogate", "zero"],
)
def test_hostile_bodies_are_refused_in_json(service: RunningService, body: bytes) -> None:
    response = posted(service, body)
    assert 200 <= response.status_code < 500
    answer = response.json()
    assert "error" in answer or answer["result"]["isError"], answer
    assert len(response.content) < 5000
    assert "Traceback" not in response.text
    assert "service failed" not in response.text
    assert 200 == httpx.get(f"{service.http}/healthz").status_code


def test_not_a_number_is_no_batch(service: RunningService) -> None:
    response = posted(service, rpc('{"model": "7B", "hardware": "H100", "batch_size": NaN}'))
    assert response.status_code < 500
    assert "tokens/s" not in response.text


def test_a_body_that_is_too_large_is_refused(service: RunningService) -> None:
    response = posted(service, rpc(json.dumps({"model": "x" * 2**19, "hardware": "H100"})))
    assert 413 == response.status_code
