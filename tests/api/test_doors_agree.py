"""One request gets the same answer through every door, and again from the cache."""

from typing import Any
from urllib.parse import quote

import pytest

from service.api import examples
from tests.api.asking import BY_NAME, POSTED, SMALL_CONFIG, Doors, json_of, message_of

DENSE = {"num_parameters": 7e9, "num_layers": 32, "num_query_heads": 32, "num_kv_heads": 8, "head_dim": 128}
H100 = {"name": "h100-sxm"}
INLINE = {
    "peak_dense_flops_per_second": {"bf16": 989.4e12, "fp8": 1978.9e12},
    "memory_bandwidth_bytes_per_second": 3.35e12,
    "usable_memory_bytes": 85e9,
}
PTXAS = "ptxas info : Compiling entry function 'k' for 'sm_90'\nptxas info : Used 40 registers, used 1 barriers, 64 bytes smem"
SERVED = {"engine": {"name": "vllm"}, "workload": {"input_tokens": 512, "output_tokens": 64, "concurrency": 4}}
OVERLOAD = {"input_tokens": 512, "output_tokens": 64, "requests_per_second": 10_000, "prefix_cache_hit_ratio": 0.5}
SEEN = {"num_requests": 50, "tpot_seconds": 0.01, "running_requests": 40}
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    *((rpc, examples.REQUESTS[rpc]) for rpc in POSTED),
    ("EstimateDecode", {"model": {"dense": DENSE}, "accelerator": H100, "batch_size": 128, "context_tokens": 4096}),
    ("EstimateDecode", {"model": {"dense": {"num_parameters": 7e9}}, "accelerator": {"inline": INLINE}}),
    ("EstimateDecode", {"model": {"hf_config": SMALL_CONFIG}, "accelerator": H100, "context_tokens": 100, "explain": True}),
    ("EstimateKvMemory", {"model": {"dense": DENSE}, "accelerator": H100, "context_tokens": 8, "explain": True}),
    ("ComputeOccupancy", {"threads_per_block": 96, "resource_usage_text": PTXAS, "blocks_per_cluster": 2, "explain": True}),
    ("AnalyzeMemoryAccess", {"addresses_bytes": [0, 128, 4096], "active_mask": "0x5", "explain": True}),
    ("AnalyzeMemoryAccess", {"structure": {"struct_bytes": 24, "field_offset_bytes": 8}, "element_bytes": 8}),
    ("EstimateServing", {"model": {"hf_config": SMALL_CONFIG}, "accelerator": H100, **SERVED, "explain": True}),
    ("EstimateServing", {"model": {"name": "llama-3.1-8b"}, "accelerator": {"inline": INLINE}, **SERVED}),
    ("EstimateServing", {"model": {"name": "llama-3.1-8b"}, "accelerator": H100, **SERVED, "workload": OVERLOAD}),
    ("EstimateServing", {"model": {"name": "llama-3.1-8b"}, "accelerator": H100, **SERVED, "observation": SEEN}),
    ("DrawRoofline", {"own": {"accelerator": H100, "points": [{"arithmetic_intensity_flops_per_byte": 0.5}]}}),
    ("FitNode", {"model": {"dense": DENSE}, "accelerator": H100, "devices_per_node": 4, "context_tokens": 8}),
    (
        "ComputeUtilization",
        {
            "model": {"dense": DENSE},
            "accelerator": H100,
            "num_devices": 8,
            "peak_precision": "bf16",
            "phase": "DECODE",
            "tokens_per_second": 1,
            "tokens_include_padding": False,
        },
    ),
]
IDS = [f"{rpc}-{number}" for number, (rpc, _) in enumerate(QUESTIONS)]


@pytest.mark.parametrize(("rpc", "question"), QUESTIONS, ids=IDS)
def test_rest_and_grpc_give_the_same_answer(doors: Doors, rpc: str, question: dict[str, Any]) -> None:
    response = doors.post(rpc, question)
    assert 200 == response.status_code, response.text
    assert "application/json" == response.headers["content-type"]
    assert json_of(doors.call(rpc, message_of(rpc, question))) == response.json()


@pytest.mark.parametrize(("rpc", "question"), QUESTIONS, ids=IDS)
def test_an_answer_from_the_cache_is_the_same(doors: Doors, rpc: str, question: dict[str, Any]) -> None:
    assert doors.post(rpc, question).content == doors.post(rpc, question).content
    request = message_of(rpc, question).SerializeToString()
    assert doors.call_bytes(rpc, request) == doors.call_bytes(rpc, request)


@pytest.mark.parametrize(("rpc", "question"), QUESTIONS, ids=IDS)
def test_keys_in_lower_camel_case_and_whole_floats_mean_the_same(doors: Doors, rpc: str, question: dict[str, Any]) -> None:
    def respelled(value: Any) -> Any:
        if not isinstance(value, dict):
            return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        camel = {"".join(word.title() if number else word for number, word in enumerate(key.split("_"))): key for key in value}
        # What lies below is the caller's own: a config.json, and number formats.
        own = {"hf_config", "peak_dense_flops_per_second"}
        return {new: value[old] if old in own else respelled(value[old]) for new, old in camel.items()}

    assert doors.post(rpc, question).json() == doors.post(rpc, respelled(question)).json()


@pytest.mark.parametrize("rpc", ["GetAccelerator", "GetNodeType", "GetModel"])
def test_one_entry_of_the_catalogue(doors: Doors, rpc: str) -> None:
    name = examples.REQUESTS[rpc]["name"]
    path = BY_NAME[rpc].http.template.partition("{")[0] + name
    response = doors.http.get(path)
    assert 200 == response.status_code
    assert json_of(doors.call(rpc, message_of(rpc, {"name": name}))) == response.json()
    assert response.content == doors.http.get(path.replace(name, quote(name, safe=""))).content


@pytest.mark.parametrize("rpc", ["ListAccelerators", "ListNodeTypes", "ListModels"])
def test_lists_page_through_all_entries_alike(doors: Doors, rpc: str) -> None:
    field = BY_NAME[rpc].response.DESCRIPTOR.fields[0].name

    def names(page_size: int) -> list[str]:
        found, token = [], ""
        while True:
            question: dict[str, str | int] = {"page_size": page_size, "page_token": token}
            page = doors.http.get(BY_NAME[rpc].http.template, params=question).json()
            assert json_of(doors.call(rpc, message_of(rpc, question))) == page
            found += [each["name"] for each in page[field]]
            token = page["next_page_token"]
            if not token:
                return found

    assert names(500) == names(7) == sorted(names(500))


def test_the_verb_may_be_escaped_in_the_path(doors: Doors) -> None:
    question = examples.REQUESTS["EstimateDecode"]
    escaped = doors.http.post("/v1/decode%3Aestimate", json=question)
    assert doors.post("EstimateDecode", question).content == escaped.content


def test_zero_and_false_are_printed_and_absent_messages_left_out(doors: Doors) -> None:
    answer = doors.post("EstimateDecode", examples.REQUESTS["EstimateDecode"] | {"parallelism": {"tensor": 8}}).json()
    assert "shortfall" not in answer
    assert "explanation" not in answer
    single = doors.post("EstimateDecode", QUESTIONS[len(POSTED)][1]).json()
    assert 0.0 == single["bound"]["interconnect_seconds"]
    assert False is single["fits"]
