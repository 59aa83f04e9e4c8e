"""Every row of the error table, on both doors: the same code, words and details, and nothing that is no refusal."""

import json
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.message import Message

from service.api import examples
from tests.api.asking import BY_NAME, POSTED, Doors, Refusal, message_of, refusal_in, refusal_of
from tests.architectures.published import configurations
from tonnage.v1 import capacity_service_pb2 as pb

DECODE = examples.REQUESTS["EstimateDecode"]
UTILIZATION = examples.REQUESTS["ComputeUtilization"]
DENSE = {"num_parameters": 7e9, "num_layers": 32, "num_query_heads": 32, "num_kv_heads": 8, "head_dim": 128}


def decode(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (DECODE | changes).items() if value is not None}


def utilization(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (UTILIZATION | changes).items() if value is not None}


def dense(**changes: Any) -> dict[str, Any]:
    return {"dense": {key: value for key, value in (DENSE | changes).items() if value is not None}}


# What the schema refuses: rpc, question, field, what its description holds.
MALFORMED: list[tuple[str, dict[str, Any], str, str]] = [
    ("EstimateDecode", decode(batch_size=-1), "batch_size", "-1 is out of range"),
    ("EstimateDecode", decode(batch_size=0), "batch_size", "greater than or equal to 1"),
    ("EstimateDecode", decode(batch_size=2_000_000_000), "batch_size", "less than or equal to 10000000"),
    ("EstimateDecode", decode(context_tokens=0), "context_tokens", "0 is out of range"),
    ("EstimateDecode", decode(memory_utilization_ratio=0), "memory_utilization_ratio", "greater than 0"),
    ("EstimateDecode", decode(memory_utilization_ratio=1.01), "memory_utilization_ratio", "1.01 is out of range"),
    ("EstimateDecode", decode(model=None), "model", "must be given"),
    ("EstimateDecode", decode(model={}), "model", "exactly one of name, hf_config, dense"),
    ("EstimateDecode", decode(accelerator={}), "accelerator", "exactly one of name, inline"),
    ("EstimateDecode", decode(model={"name": ""}), "model.name", "must not be empty"),
    ("EstimateDecode", decode(model={"name": "x" * 201}), "model.name", "at most 200"),
    ("EstimateDecode", decode(model=dense(num_parameters=-7e9)), "model.dense.num_parameters", "out of range"),
    ("EstimateDecode", decode(model=dense(num_parameters=1e300)), "model.dense.num_parameters", "1e+300"),
    ("EstimateDecode", decode(model=dense(num_parameters=None)), "model.dense.num_parameters", "must be given"),
    ("EstimateDecode", decode(parallelism={"tensor": 0}), "parallelism.tensor", "0 is out of range"),
    ("EstimateDecode", decode(precision={"weights": "fp7"}), "precision.weights", "'fp7' is not accepted"),
    (
        "EstimateDecode",
        decode(accelerator={"inline": {"peak_dense_flops_per_second": {"fp7": 1e12}}}),
        'accelerator.inline.peak_dense_flops_per_second["fp7"]',
        "the key 'fp7'",
    ),
    (
        "EstimateDecode",
        decode(accelerator={"inline": {"peak_dense_flops_per_second": {"bf16": -1.0}}}),
        'accelerator.inline.peak_dense_flops_per_second["bf16"]',
        "-1 is out of range",
    ),
    ("EstimateKvMemory", {"model": DECODE["model"], "accelerator": DECODE["accelerator"]}, "context_tokens", "given"),
    ("ComputeUtilization", utilization(phase=None), "phase", "one of TRAINING, INFERENCE, PREFILL, DECODE"),
    ("ComputeUtilization", utilization(tokens_per_second=None), "tokens_per_second", "must be given"),
    ("ComputeUtilization", utilization(num_devices=None), "num_devices", "must be given"),
    ("ComputeUtilization", utilization(peak_precision=None), "peak_precision", "must be given"),
]

# What makes no sense, or cannot be read: the same over both doors, with the field that is to blame.
CONTRADICTORY: list[tuple[str, dict[str, Any], str]] = [
    ("EstimateDecode", decode(context_tokens=None), "context_tokens"),
    ("EstimateDecode", decode(parallelism={"tensor": 9}), "parallelism.tensor"),
    ("EstimateDecode", decode(parallelism={"tensor": 8, "expert": 4}), "parallelism.expert"),
    ("EstimateDecode", decode(parallelism={"pipeline": 1000}), "parallelism.pipeline"),
    ("EstimateDecode", decode(model=dense(num_layers=None), parallelism=None), "model.dense.num_layers"),
    ("EstimateDecode", decode(model={"hf_config": {"hello": "world"}}), "model.hf_config.model_type"),
    ("EstimateDecode", decode(model={"hf_config": {}}), "model.hf_config.model_type"),
    ("FitNode", {"model": DECODE["model"], "context_tokens": 8}, "node"),
    ("ComputeUtilization", utilization(nvml_gpu_utilization_ratio=0.98), "nvml_gpu_utilization_ratio"),
]

#: A quantisation file beside a name, wherever a model is asked about: what keeps answers by the question must refuse it too.
CONTRADICTORY += [
    (rpc, question | {"model": {"name": "llama-3.1-70b", "hf_quantization": {"quantization": {}}}}, "model.hf_quantization")
    for rpc, question in examples.REQUESTS.items()
    if "model" in question
]

UNKNOWN: list[tuple[str, dict[str, Any], str, str]] = [
    ("EstimateDecode", decode(model={"name": "llama-3.1-80b"}), "model.name", "llama-3.1-8b"),
    ("EstimateDecode", decode(accelerator={"name": "h100"}), "accelerator.name", "h100-sxm"),
    ("FitNode", examples.REQUESTS["FitNode"] | {"node": {"name": "dgx-h1000"}}, "node.name", "dgx-h100"),
]

UNANSWERABLE: list[tuple[str, dict[str, Any]]] = [
    ("EstimateDecode", decode(accelerator={"name": "a100-sxm-80"}, precision={"compute": "fp4"})),
    ("EstimateDecode", decode(accelerator={"inline": {"memory_bandwidth_bytes_per_second": 1e12}})),
    ("ComputeUtilization", utilization(accelerator={"name": "a100-sxm-80"}, peak_precision="fp8")),
]


def both(doors: Doors, rpc: str, question: dict[str, Any]) -> Refusal:
    """The refusal over REST, after it was found the same over gRPC."""
    over_rest = doors.rest_refusal(rpc, question)
    assert doors.grpc_refusal(rpc, question).without_status() == over_rest.without_status()
    return over_rest


@pytest.mark.parametrize(("rpc", "question", "field", "words"), MALFORMED, ids=lambda value: str(value)[:40])
def test_what_the_schema_refuses(doors: Doors, rpc: str, question: dict[str, Any], field: str, words: str) -> None:
    refusal = both(doors, rpc, question)
    assert ("INVALID_ARGUMENT", 400, "INVALID_REQUEST") == (refusal.code, refusal.http_status, refusal.reason)
    assert words in refusal.violations[field]
    assert refusal.message.startswith(next(iter(refusal.violations)))


@pytest.mark.parametrize(("rpc", "question", "field"), CONTRADICTORY, ids=lambda value: str(value)[:40])
def test_what_planning_refuses(doors: Doors, rpc: str, question: dict[str, Any], field: str) -> None:
    refusal = both(doors, rpc, question)
    assert ("INVALID_ARGUMENT", 400, "INVALID_REQUEST") == (refusal.code, refusal.http_status, refusal.reason)
    assert field in refusal.violations


@pytest.mark.parametrize(("rpc", "question", "field", "near"), UNKNOWN, ids=lambda value: str(value)[:40])
def test_unknown_names_come_with_the_nearest(doors: Doors, rpc: str, question: dict[str, Any], field: str, near: str) -> None:
    refusal = both(doors, rpc, question)
    assert ("NOT_FOUND", 404, "NAME_NOT_FOUND") == (refusal.code, refusal.http_status, refusal.reason)
    assert field == refusal.metadata["field"]
    assert near in refusal.metadata["nearest"].split(", ")
    assert near in refusal.violations[field]


ALL_UNKNOWN = [
    ("EstimateDecode", decode(model={"name": "llama"}, accelerator={"name": "h100"}), ("model", "accelerator")),
    ("ComputeUtilization", utilization(model={"name": "x"}, accelerator={"name": "y"}), ("model", "accelerator")),
    (
        "EstimateKvMemory",
        {"model": {"name": "x"}, "accelerator": {"name": "y"}, "engine": {"name": "z"}, "context_tokens": 8},
        ("model", "accelerator", "engine"),
    ),
    ("FitNode", {"model": {"name": "x"}, "node": {"name": "y"}, "context_tokens": 8}, ("model", "node")),
    ("EstimateDecode", decode(model=dense(), accelerator={"name": "y"}), ("accelerator",)),
]


@pytest.mark.parametrize(("rpc", "question", "specs"), ALL_UNKNOWN, ids=lambda value: str(value)[:40])
def test_all_unknown_names_are_said_at_once(doors: Doors, rpc: str, question: dict[str, Any], specs: tuple[str, ...]) -> None:
    refusal = both(doors, rpc, question)
    assert ("NOT_FOUND", 404, "NAME_NOT_FOUND") == (refusal.code, refusal.http_status, refusal.reason)
    assert [f"{spec}.name" for spec in specs] == list(refusal.violations)
    assert f"{specs[0]}.name" == refusal.metadata["field"]
    for spec in specs:
        assert f"{spec}.name: the catalogue has no" in refusal.message


@pytest.mark.parametrize("rpc", ["GetAccelerator", "GetNodeType", "GetModel"])
def test_an_unknown_entry_is_not_found_at_its_path(doors: Doors, rpc: str) -> None:
    refusal = refusal_in(doors.http.get(BY_NAME[rpc].http.template.partition("{")[0] + "h100"))
    assert ("NOT_FOUND", 404, "NAME_NOT_FOUND") == (refusal.code, refusal.http_status, refusal.reason)
    assert doors.grpc_refusal(rpc, {"name": "h100"}).without_status() == refusal.without_status()


@pytest.mark.parametrize(("rpc", "question"), UNANSWERABLE, ids=lambda value: str(value)[:40])
def test_what_no_figure_answers_is_said_and_not_extrapolated(doors: Doors, rpc: str, question: dict[str, Any]) -> None:
    refusal = both(doors, rpc, question)
    assert ("FAILED_PRECONDITION", 400, "FIGURE_MISSING") == (refusal.code, refusal.http_status, refusal.reason)
    assert refusal.metadata["missing"]
    assert refusal.metadata["remedy"]


def test_all_faults_are_reported_at_once(doors: Doors) -> None:
    question = {"model": {"dense": {"num_parameters": -1, "num_layers": 0}}, "batch_size": -1, "context_tokens": 0}
    refusal = both(doors, "EstimateDecode", question)
    expected = {"model.dense.num_parameters", "model.dense.num_layers", "accelerator", "batch_size", "context_tokens"}
    assert expected == refusal.violations.keys()
    assert refusal.message.endswith("(and 4 more)")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused_over_grpc(doors: Doors, number: float) -> None:
    request = message_of("EstimateDecode", DECODE)
    assert isinstance(request, pb.EstimateDecodeRequest)
    request.memory_utilization_ratio = number
    request.model.dense.num_parameters = number
    refusal = _refused(doors, "EstimateDecode", request)
    assert "INVALID_ARGUMENT" == refusal.code
    assert {"memory_utilization_ratio", "model.dense.num_parameters"} == refusal.violations.keys()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("key", ["hidden_size", "mamba_head_dim"])
def test_a_number_that_is_not_finite_is_refused_where_a_config_is_read(doors: Doors, key: str, number: float) -> None:
    config = configurations()["nvidia/Nemotron-H-56B-Base-8K"] | {key: number}
    question = {"accelerator": {"name": "h100-sxm"}, "context_tokens": 8}
    body = json.dumps(question | {"model": {"hf_config": config}}).encode()
    over_rest = refusal_in(doors.post_bytes("EstimateKvMemory", body))
    request = message_of("EstimateKvMemory", question)
    assert isinstance(request, pb.EstimateKvMemoryRequest)
    request.model.hf_config.update(config)
    over_grpc = _refused(doors, "EstimateKvMemory", request)
    expected = {f"model.hf_config.{key}": f"a whole number is expected, not {number}; give a whole number"}
    assert ("INVALID_ARGUMENT", expected) == (over_rest.code, over_rest.violations)
    assert over_rest.without_status() == over_grpc.without_status()


def test_an_enum_value_that_nobody_named_is_refused_over_grpc(doors: Doors) -> None:
    request = message_of("ComputeUtilization", UTILIZATION)
    request.phase = 99  # type: ignore[attr-defined]
    refusal = _refused(doors, "ComputeUtilization", request)
    assert {"phase": "99 is none of its values; it is one of TRAINING, INFERENCE, PREFILL, DECODE"} == refusal.violations


@pytest.mark.parametrize("rpc", POSTED)
def test_bytes_that_are_no_message_are_refused_over_grpc(doors: Doors, rpc: str) -> None:
    for request in (b"\xff\xff\xff", b"\x0a\xff", b"{}", bytes(range(256))):
        with pytest.raises(grpc.RpcError) as refused:
            doors.call_bytes(rpc, request)
        refusal = refusal_of(refused.value)
        assert ("INVALID_ARGUMENT", "UNREADABLE_REQUEST") == (refusal.code, refusal.reason)
        assert f"tonnage.v1.{rpc}Request" in refusal.message


def test_an_unknown_method_is_unimplemented(doors: Doors) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        doors.channel.unary_unary("/tonnage.v1.CapacityService/EstimateNothing", None, None)(b"")
    assert grpc.StatusCode.UNIMPLEMENTED is refused.value.code()


def test_a_message_over_the_limit_is_refused_by_the_library(doors: Doors) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        doors.call_bytes("EstimateDecode", b"\x00" * 5_000_000)
    assert grpc.StatusCode.RESOURCE_EXHAUSTED is refused.value.code()


def test_a_refusal_with_many_faults_stays_within_the_trailers(doors: Doors) -> None:
    peaks = {f"{'long' * 40}-{number}": 1.0 for number in range(400)}
    question = decode(accelerator={"inline": {"peak_dense_flops_per_second": peaks}})
    over_rest, over_grpc = doors.rest_refusal("EstimateDecode", question), doors.grpc_refusal("EstimateDecode", question)
    assert over_rest.message == over_grpc.message
    assert over_rest.violations
    assert over_grpc.violations.items() <= over_rest.violations.items()


def test_a_config_of_more_than_a_megabyte_is_refused(doors: Doors) -> None:
    question = decode(model={"hf_config": {"model_type": "llama", "ballast": ["x" * 100] * 15_000}})
    refusal = both(doors, "EstimateDecode", question)
    assert "at most 1048576 are read" in refusal.violations["model.hf_config"]


def test_names_are_quoted_but_never_echoed_at_length(doors: Doors) -> None:
    response = doors.post("EstimateDecode", decode(**{"x" * 100_000: 1}))
    assert len(response.content) < 2_000
    assert "UNKNOWN_FIELD" in response.text


def _refused(doors: Doors, rpc: str, request: Message) -> Refusal:
    with pytest.raises(grpc.RpcError) as refused:
        doors.call(rpc, request)
    return refusal_of(refused.value)


def test_nothing_of_a_refusal_is_kept(doors: Doors) -> None:
    first: httpx.Response = doors.post("EstimateDecode", decode(batch_size=-7))
    assert 400 == first.status_code == doors.post("EstimateDecode", decode(batch_size=-7)).status_code
