"""Keyword arguments become the request that the schema means, and nothing that was not given is sent."""

import json
import re
from collections.abc import Callable

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from tonnage import AcceleratorSpec, DenseModel, InlineAccelerator, InvalidRequest, ModelSpec, NodeSpec, requests
from tonnage.v1.capacity_service_pb2 import ComputeUtilizationRequest, EstimateDecodeRequest


def sent(request: Message) -> object:
    return json_format.MessageToDict(request, preserving_proto_field_name=True)


def test_the_pleasant_call_is_the_documented_request() -> None:
    request = requests.estimate_decode(
        model="llama-3.1-70b", accelerator="h100-sxm", tensor=8, batch_size=64, context_tokens=4096
    )

    expected = {
        "model": {"name": "llama-3.1-70b"},
        "accelerator": {"name": "h100-sxm"},
        "parallelism": {"tensor": 8},
        "batch_size": 64,
        "context_tokens": 4096,
    }
    assert expected == sent(request)


def test_every_argument_reaches_its_field() -> None:
    request = requests.estimate_kv_memory(
        model="m",
        accelerator="a",
        tensor=1,
        pipeline=2,
        expert=3,
        attention_data=4,
        weights="fp8",
        kv_cache="int8",
        compute="bf16",
        batch_size=5,
        context_tokens=6,
        memory_utilization_ratio=0.5,
        explain=True,
    )

    expected = {
        "model": {"name": "m"},
        "accelerator": {"name": "a"},
        "parallelism": {"tensor": 1, "pipeline": 2, "expert": 3, "attention_data": 4},
        "precision": {"weights": "fp8", "kv_cache": "int8", "compute": "bf16"},
        "batch_size": 5,
        "context_tokens": 6,
        "memory_utilization_ratio": 0.5,
        "explain": True,
    }
    assert expected == sent(request)


def test_a_node_by_name_or_by_accelerator() -> None:
    by_name = requests.fit_node(model="m", node="dgx-h100", context_tokens=4096, concurrency=2, max_num_nodes=3)
    by_message = requests.fit_node(
        model="m", node=NodeSpec(name="dgx-h100"), context_tokens=4096, concurrency=2, max_num_nodes=3
    )
    by_accelerator = requests.fit_node(model="m", accelerator="h100-sxm", devices_per_node=8, context_tokens=4096)

    expected = {
        "model": {"name": "m"},
        "node": {"name": "dgx-h100"},
        "context_tokens": 4096,
        "concurrency": 2,
        "max_num_nodes": 3,
    }
    assert expected == sent(by_name) == sent(by_message)
    expected = {
        "model": {"name": "m"},
        "accelerator": {"name": "h100-sxm"},
        "devices_per_node": 8,
        "context_tokens": 4096,
    }
    assert expected == sent(by_accelerator)


@pytest.mark.parametrize("phase", ["TRAINING", "training", ComputeUtilizationRequest.TRAINING])
def test_a_phase_by_name_or_number(phase: str | ComputeUtilizationRequest.Phase.ValueType) -> None:
    request = requests.compute_utilization(
        model=DenseModel(num_parameters=7e9),
        accelerator="h100-sxm",
        num_devices=8,
        peak_precision="bf16",
        phase=phase,
        tokens_per_second=72018,
        tokens_include_padding=False,
    )

    expected = {
        "model": {"dense": {"num_parameters": 7e9}},
        "accelerator": {"name": "h100-sxm"},
        "num_devices": 8,
        "peak_precision": "bf16",
        "phase": "TRAINING",
        "tokens_per_second": 72018.0,
        "tokens_include_padding": False,
    }
    assert expected == sent(request)


def test_a_config_json_goes_as_it_is() -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "quantization_config": {"bits": 4, "modules_to_not_convert": ["lm_head"]},
        "vocab_size": 128256,
    }

    request = requests.estimate_decode(model=config)

    assert config == json.loads(json_format.MessageToJson(request.model.hf_config))


def test_a_config_json_may_hold_infinity() -> None:
    request = requests.estimate_kv_memory(model={"time_step_limit": [0.0, float("inf")]})

    limits = request.model.hf_config.fields["time_step_limit"].list_value.values
    assert [0.0, float("inf")] == [limit.number_value for limit in limits]


def test_messages_are_taken_as_they_are() -> None:
    model = ModelSpec(name="m", multi_token_prediction=True)
    inline = InlineAccelerator(title="mine", memory_bandwidth_bytes_per_second=1e12)

    request = requests.estimate_decode(model=model, accelerator=inline)

    assert EstimateDecodeRequest(model=model, accelerator=AcceleratorSpec(inline=inline)) == request


def test_a_ready_request_stands_for_all_keywords() -> None:
    ready = EstimateDecodeRequest(model=ModelSpec(name="m"), batch_size=3)

    assert ready is requests.estimate_decode(ready)
    with pytest.raises(TypeError, match="not both"):
        requests.estimate_decode(ready, batch_size=4)
    with pytest.raises(TypeError, match="a ready EstimateDecodeRequest, not a str"):
        requests.estimate_decode("llama-3.1-70b")  # type: ignore[arg-type]


def test_nothing_given_is_nothing_sent() -> None:
    builders: list[Callable[[], Message]] = [
        requests.estimate_decode,
        requests.estimate_kv_memory,
        requests.fit_node,
        requests.compute_utilization,
        requests.list_accelerators,
        requests.list_models,
        requests.list_node_types,
    ]
    for build in builders:
        assert b"" == build().SerializeToString()


def test_zero_is_sent_where_it_differs_from_nothing() -> None:
    assert requests.estimate_decode(batch_size=0).HasField("batch_size")


def test_what_fits_no_field_is_refused_by_its_path_all_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        requests.estimate_decode(model="m", tensor=2**40, pipeline="2")  # type: ignore[arg-type]

    assert ["parallelism.tensor", "parallelism.pipeline"] == [violation.field for violation in refused.value.violations]
    assert str(2**40) in refused.value.message


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"model": 7}, "model"),
        ({"model": {"layers": {1, 2}}}, "model.hf_config"),
        ({"model": {"layers": 10**400}}, "model.hf_config"),
        ({"model": json.loads('{"a":' * 29 + "{}" + "}" * 29)}, "model.hf_config"),
        ({"model": {"layers": {1: 2}}}, "model.hf_config"),
        ({"accelerator": 7}, "accelerator"),
        ({"model": "\ud800"}, "model.name"),
    ],
)
def test_what_is_no_model_and_no_accelerator_is_refused(arguments: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^{re.escape(field)}: ") as refused:
        requests.estimate_decode(**arguments)  # type: ignore[arg-type]

    assert field == refused.value.violations[0].field


def test_an_unknown_phase_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match="training, inference, prefill, decode"):
        requests.compute_utilization(phase="sleeping")
