"""Published config.json files pass every door as they are, numbers that are not finite included."""

import json
import math
from typing import Any

import pytest

from tests.api.asking import Doors, message_of, refusal_in
from tests.architectures.published import configurations, expected, quantization
from tests.service_process import RunningService
from tonnage import Client
from tonnage.v1 import capacity_service_pb2 as pb

MODELS = sorted(configurations())
NEMOTRON = "nvidia/Nemotron-H-56B-Base-8K"
REST_OF_IT: dict[str, Any] = {"accelerator": {"name": "h100-sxm"}, "context_tokens": 8}


def _model(name: str) -> dict[str, Any]:
    separate = quantization(name)
    return {"hf_config": configurations()[name]} | ({"hf_quantization": separate} if separate else {})


def test_some_of_them_hold_numbers_that_are_not_finite() -> None:
    found = {name for name in MODELS if math.inf in configurations()[name].get("time_step_limit", [])}
    assert 3 == len(found)
    assert NEMOTRON in found


@pytest.mark.parametrize("name", MODELS)
def test_they_are_read_over_rest_and_over_grpc(doors: Doors, name: str) -> None:
    model = _model(name)
    body = json.dumps(REST_OF_IT | {"model": model}).encode()
    over_rest = doors.post_bytes("EstimateKvMemory", body).json()
    request = message_of("EstimateKvMemory", REST_OF_IT)
    assert isinstance(request, pb.EstimateKvMemoryRequest)
    for field, content in model.items():
        getattr(request.model, field).update(content)
    over_grpc = doors.call("EstimateKvMemory", request)
    assert isinstance(over_grpc, pb.EstimateKvMemoryResponse)
    assert expected(name)["total_params"] == pytest.approx(over_rest["total_parameters"], rel=0.001)
    assert over_rest["total_parameters"] == over_grpc.total_parameters
    assert over_rest["cache_bytes_per_sequence"] == over_grpc.cache_bytes_per_sequence


def test_the_client_takes_one_with_infinity(service: RunningService) -> None:
    with Client(service.grpc) as client:
        answer = client.estimate_kv_memory(model=configurations()[NEMOTRON], accelerator="h100-sxm", context_tokens=8)
    assert expected(NEMOTRON)["total_params"] == pytest.approx(answer.total_parameters, rel=0.001)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    ("template", "field"),
    [
        ('"batch_size": %s', "batch_size"),
        ('"memory_utilization_ratio": %s', "memory_utilization_ratio"),
        ('"explain": %s', "explain"),
        ('"precision": {"weights": %s}', "precision.weights"),
        ('"engine": %s', "engine"),
    ],
)
def test_elsewhere_such_numbers_are_no_json(doors: Doors, template: str, field: str, literal: str) -> None:
    config = '"model": {"hf_config": {"time_step_limit": [0.0, Infinity]}}'
    refusal = refusal_in(doors.post_bytes("EstimateKvMemory", f"{{{config}, {template % literal}}}".encode()))
    assert ("INVALID_ARGUMENT", 400, "UNREADABLE_REQUEST") == (refusal.code, refusal.http_status, refusal.reason)
    assert f"the body is not JSON: {literal} is no number in JSON, at {field}" == refusal.message


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (r'{"a": NaN, "b": "\ud800"}', "surrogates"),
        ('{"a": NaN, "b": 1e999}', "infinity when parsed as double"),
        ('{"a": NaN, "b": ' + "9" * 400 + "}", "infinity when parsed as double"),
        ('{"a": NaN, "b": ' + "[" * 100_000, "recursion"),
        ('{"a": NaN, "b": nan}', "Expecting value"),
        ('{"a": NaN} x', "Expecting"),
    ],
    ids=["surrogate", "double", "integer", "deep", "word", "open"],
)
def test_what_is_no_json_in_another_way_is_still_refused(doors: Doors, config: str, words: str) -> None:
    refusal = refusal_in(doors.post_bytes("EstimateKvMemory", f'{{"model": {{"hf_config": {config}}}}}'.encode()))
    assert ("INVALID_ARGUMENT", "UNREADABLE_REQUEST") == (refusal.code, refusal.reason)
    assert words in refusal.message


def test_a_config_nested_too_deep_is_refused_with_infinity_in_it(doors: Doors) -> None:
    deep = '{"a": Infinity, "b": ' + "[" * 40 + "]" * 40 + "}"
    refusal = refusal_in(doors.post_bytes("EstimateKvMemory", f'{{"model": {{"hf_config": {deep}}}}}'.encode()))
    assert "nested more than 28 deep" in refusal.violations["model.hf_config"]
