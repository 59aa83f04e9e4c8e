"""The worked figures through REST and gRPC, against the running service."""

import csv
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.api.asking import BY_NAME, json_of, message_of
from tests.service_process import RunningService
from tests.worked_figures import D10, FIGURES, TRAINING, Figure, at, occupancy


def ask_rest(service: RunningService, rpc: str, question: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        service.http + BY_NAME[rpc].http.template, json.dumps(question).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        body: dict[str, Any] = json.load(answer)
        return body


def ask_grpc(service: RunningService, rpc: str, question: dict[str, Any]) -> dict[str, Any]:
    with grpc.insecure_channel(service.grpc) as channel:
        call = channel.unary_unary(BY_NAME[rpc].path, None, BY_NAME[rpc].response.FromString)
        answer: dict[str, Any] = json_of(call(message_of(rpc, question).SerializeToString()))
        return answer


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


@pytest.mark.parametrize("door", [ask_rest, ask_grpc], ids=["rest", "grpc"])
def test_d5_every_row_of_nvidias_calculator(service: RunningService, door: Any) -> None:
    bits = {"WARPS": 1, "REGISTERS": 2, "SHARED_MEMORY": 4, "BLOCKS": 8, "BARRIERS": 16}
    table = (Path(__file__).parents[1] / "data" / "occupancy_vectors.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(table.splitlines()))
    assert len(rows) == 400
    for row in rows[:: 1 if door is ask_rest else 8]:  # the other door takes the same way; a part shows it
        answer = door(
            service,
            "ComputeOccupancy",
            {
                "compute_capability": row["compute_capability"],
                "threads_per_block": int(row["threads_per_block"]),
                "registers_per_thread": int(row["registers_per_thread"]),
                "shared_memory_bytes_per_block": int(row["shared_memory_bytes"]),
            },
        )
        assert answer["active_blocks_per_sm"] == int(row["active_blocks"]), row
        assert answer["active_warps_per_sm"] == int(row["active_warps"]), row
        assert sum(bits[factor] for factor in answer["limiting_factors"]) == int(row["limiting_factors"]), row


def test_d5_the_answer_says_what_occupancy_is_not(service: RunningService) -> None:
    notes = " ".join(ask_rest(service, "ComputeOccupancy", occupancy())["notes"])
    assert "warps an SM has to switch between" in notes
    assert "it is not speed" in notes


def test_d7_and_d8_say_what_sectors_do_not_and_what_helps(service: RunningService) -> None:
    offset = ask_rest(service, "AnalyzeMemoryAccess", {"offset_elements": 1})
    assert any("9/10" in note and "V100" in note for note in offset["notes"])
    strided = ask_rest(service, "AnalyzeMemoryAccess", {"stride_elements": 32})
    assert "threadIdx.x run along the lowest dimension" in strided["remedies"][0]


def test_d10_what_fusion_saves_is_launches(service: RunningService) -> None:
    answer = ask_rest(service, "AnalyzeFusion", D10)
    assert answer["summary"].startswith("fusing saves mostly launches: 2 of 3 launches")
    assert "CUDA Graph" in answer["summary"]
