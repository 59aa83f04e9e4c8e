"""The worked figures through REST and gRPC, against the running service."""

import json
import urllib.error
import urllib.request
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from tests.service_process import RunningService
from tests.worked_figures import FIGURES, TRAINING, Figure, at
from tonnage.v1 import capacity_service_pb2 as pb

PATHS = {
    "EstimateDecode": "/v1/decode:estimate",
    "EstimateKvMemory": "/v1/kv-memory:estimate",
    "ComputeUtilization": "/v1/utilization:compute",
}


def ask_rest(service: RunningService, rpc: str, question: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        service.http + PATHS[rpc], json.dumps(question).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        body: dict[str, Any] = json.load(answer)
        return body


def ask_grpc(service: RunningService, rpc: str, question: dict[str, Any]) -> dict[str, Any]:
    request = json_format.ParseDict(question, getattr(pb, f"{rpc}Request")())
    with grpc.insecure_channel(service.grpc) as channel:
        call = channel.unary_unary(
            f"/tonnage.v1.CapacityService/{rpc}",
            type(request).SerializeToString,
            getattr(pb, f"{rpc}Response").FromString,
        )
        return json_format.MessageToDict(
            call(request), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )


@pytest.mark.parametrize("door", [ask_rest, ask_grpc], ids=["rest", "grpc"])
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.row}-{figure.path}")
def test_worked_figure(service: RunningService, door: Any, figure: Figure) -> None:
    actual = at(door(service, figure.rpc, figure.question), figure.path)
    if isinstance(figure.value, float) or (isinstance(figure.value, int) and not isinstance(figure.value, bool)):
        assert actual == pytest.approx(figure.value, rel=figure.tolerance)
    else:
        assert actual == figure.value


def test_limits_bind_in_the_order_of_a7(service: RunningService) -> None:
    answer = ask_rest(service, "EstimateDecode", next(f.question for f in FIGURES if f.row == "A7"))
    order = [onset["limit"] for onset in answer["limits"]]
    assert order.index("KV_BANDWIDTH") < order.index("COMPUTE")
    assert order.index("KV_CAPACITY") < order.index("COMPUTE")


def test_b6_the_statement_says_what_the_figure_rests_on(service: RunningService) -> None:
    statement = ask_rest(service, "ComputeUtilization", TRAINING)["statement"]
    for part in ("attention counted", "bf16", "dense", "padding", "N = "):
        assert part in statement


def test_b6_nvidia_smi_is_refused_with_the_reason(service: RunningService) -> None:
    with pytest.raises(urllib.error.HTTPError) as refusal:
        ask_rest(service, "ComputeUtilization", TRAINING | {"nvml_gpu_utilization_ratio": 0.97})
    assert refusal.value.code == 400
    assert "at least one kernel ran" in refusal.value.read().decode()
