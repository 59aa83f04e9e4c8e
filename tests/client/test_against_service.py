"""The clients and the command line against the real service: one question, one answer, whichever way it is asked."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf import json_format

from tests.architectures.published import configurations
from tests.client.conftest import Run
from tests.service_process import RunningService
from tonnage import AsyncClient, Client, DenseModel, InlineAccelerator, InvalidRequest, NotFound, Unanswerable
from tonnage.cli.exits import Exit
from tonnage.v1.capacity_service_pb2 import Limit

SEVEN_BILLION = DenseModel(num_parameters=7e9, num_layers=32, num_query_heads=32, num_kv_heads=8, head_dim=128)


def test_the_worked_figure(service: RunningService) -> None:
    with Client(service.grpc) as client:
        answer = client.estimate_decode(
            model=SEVEN_BILLION, accelerator="h100-sxm", batch_size=64, context_tokens=4096, explain=True
        )

    assert 0.014427 == pytest.approx(answer.bound.step_seconds, rel=1e-3)
    assert 4436.1 == pytest.approx(answer.bound.tokens_per_second, rel=1e-3)
    assert Limit.MEMORY_BANDWIDTH == answer.bound.binding_limit
    assert answer.fits
    assert answer.explanation.steps
    assert answer.catalogue_revision


async def test_both_clients_get_the_same_answers(service: RunningService) -> None:
    arguments: dict[str, Any] = {"model": "llama-3.1-70b", "accelerator": "h100-sxm", "context_tokens": 4096}
    with Client(service.grpc) as client:
        decode = client.estimate_decode(**arguments, tensor=8, batch_size=64)
        memory = client.estimate_kv_memory(**arguments, tensor=8)
        node = client.fit_node(**arguments, devices_per_node=8)
        names = [entry.name for entry in client.list_accelerators(page_size=2)]
        pages = list(client.list_models(page_size=4).pages)

    async with AsyncClient(service.grpc) as asynchronous:
        assert decode == await asynchronous.estimate_decode(**arguments, tensor=8, batch_size=64)
        assert memory == await asynchronous.estimate_kv_memory(**arguments, tensor=8)
        assert node == await asynchronous.fit_node(**arguments, devices_per_node=8)
        assert names == [entry.name async for entry in asynchronous.list_accelerators(page_size=2)]
        assert pages == [page async for page in asynchronous.list_models(page_size=4).pages]


def test_lists_hold_everything_once(service: RunningService) -> None:
    with Client(service.grpc) as client:
        for listing in (client.list_accelerators, client.list_models, client.list_node_types):
            names = [entry.name for entry in listing(page_size=2)]

            assert names == [entry.name for entry in listing()]
            assert names == sorted(set(names))
            assert len(names) > 2


def test_entries_are_found_by_name(service: RunningService) -> None:
    with Client(service.grpc) as client:
        assert "h100-sxm" == client.get_accelerator("h100-sxm").accelerator.name
        for model in client.list_models():
            assert {model.name} == {client.get_model(name).model.name for name in (model.name, *model.aliases)}
        for node in client.list_node_types():
            assert node == client.get_node_type(node.name).node_type


def test_the_callers_own_accelerator(service: RunningService) -> None:
    inline = InlineAccelerator(
        title="Mine",
        memory_bandwidth_bytes_per_second=3.352e12,
        usable_memory_bytes=80e9,
        peak_dense_flops_per_second={"bf16": 989.4e12},
    )
    with Client(service.grpc) as client:
        answer = client.estimate_decode(model=DenseModel(num_parameters=7e9), accelerator=inline)

    assert 239.4 == pytest.approx(answer.bound.tokens_per_second, rel=1e-3)


def test_refusals_are_exceptions(service: RunningService) -> None:
    with Client(service.grpc) as client:
        with pytest.raises(InvalidRequest) as refused:
            client.estimate_decode(model=SEVEN_BILLION, accelerator="h100-sxm", batch_size=-1, context_tokens=0)
        with pytest.raises(NotFound) as unknown:
            client.get_accelerator("h100-smx")
        with pytest.raises(Unanswerable) as unanswerable:
            client.estimate_decode(model=SEVEN_BILLION, accelerator="a100-sxm-80", context_tokens=1, compute="fp4")

    assert {"batch_size", "context_tokens"} == {violation.field for violation in refused.value.violations}
    assert "h100-sxm" in unknown.value.nearest
    assert unanswerable.value.missing


QUESTIONS = [
    (
        ("decode", "llama-3.1-70b", "h100-sxm", "--tp", "8", "--batch-size", "64", "--context-tokens", "4096", "--explain"),
        "/v1/decode:estimate",
        {
            "model": {"name": "llama-3.1-70b"},
            "accelerator": {"name": "h100-sxm"},
            "parallelism": {"tensor": 8},
            "batch_size": 64,
            "context_tokens": 4096,
            "explain": True,
        },
    ),
    (
        ("decode", "h100-sxm", "--num-parameters", "7e9"),
        "/v1/decode:estimate",
        {"model": {"dense": {"num_parameters": 7e9}}, "accelerator": {"name": "h100-sxm"}},
    ),
    (
        ("kv", "deepseek-v3", "h200-sxm", "--tp", "8", "--context-tokens", "4096", "--batch-size", "4000"),
        "/v1/kv-memory:estimate",
        {
            "model": {"name": "deepseek-v3"},
            "accelerator": {"name": "h200-sxm"},
            "parallelism": {"tensor": 8},
            "context_tokens": 4096,
            "batch_size": 4000,
        },
    ),
    (
        ("fit", "llama-3.1-70b", "--accelerator", "h100-sxm", "--devices-per-node", "8", "--context-tokens", "4096"),
        "/v1/nodes:fit",
        {
            "model": {"name": "llama-3.1-70b"},
            "accelerator": {"name": "h100-sxm"},
            "devices_per_node": 8,
            "context_tokens": 4096,
        },
    ),
    (
        (
            *("mfu", "llama-3.1-8b", "h100-sxm", "--num-devices", "8", "--phase", "training", "--peak-precision", "bf16"),
            *("--tokens-per-second", "72018", "--sequence-tokens", "4096"),
        ),
        "/v1/utilization:compute",
        {
            "model": {"name": "llama-3.1-8b"},
            "accelerator": {"name": "h100-sxm"},
            "num_devices": 8,
            "phase": "TRAINING",
            "peak_precision": "bf16",
            "tokens_per_second": 72018,
            "sequence_tokens": 4096,
        },
    ),
    (("accelerators",), "/v1/accelerators?page_size=500", None),
    (("models",), "/v1/models?page_size=500", None),
    (("nodes",), "/v1/nodes?page_size=500", None),
    (("prices",), "/v1/prices?page_size=500", None),
    (("prices", "--accelerator", "h100-sxm", "--term", "spot"), "/v1/prices?accelerator=h100-sxm&term=SPOT", None),
    (("prices", "no-such-node"), "/v1/prices?node_type=no-such-node", None),
    (("accelerators", "show", "h100-sxm"), "/v1/accelerators/h100-sxm", None),
    (("models", "show", "meta-llama/Llama-3.1-70B"), "/v1/models/meta-llama/Llama-3.1-70B", None),
    (("models", "show", "no-such-model"), "/v1/models/no-such-model", None),
    (
        ("decode", "llama-3.1-70b", "h100-sxm", "--tp", "9", "--context-tokens", "4096"),
        "/v1/decode:estimate",
        {
            "model": {"name": "llama-3.1-70b"},
            "accelerator": {"name": "h100-sxm"},
            "parallelism": {"tensor": 9},
            "context_tokens": 4096,
        },
    ),
]


@pytest.mark.parametrize(
    ("arguments", "path", "body"), QUESTIONS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_json_is_what_rest_sends(
    run_for_real: Run, service: RunningService, arguments: tuple[str, ...], path: str, body: dict[str, Any] | None
) -> None:
    _, shown, said = run_for_real(*arguments, "--json")
    url = service.http + path
    answer = httpx.get(url) if body is None else httpx.post(url, json=body)

    assert without_its_id(answer.json()) == without_its_id(json.loads(shown or said))
    assert bool(shown) == answer.is_success


def without_its_id(body: dict[str, Any]) -> dict[str, Any]:
    """A refusal carries the id of its request, which is another one each time."""
    if "details" not in body:
        return body
    return {**body, "details": [each for each in body["details"] if not each["@type"].endswith("google.rpc.RequestInfo")]}


@pytest.mark.parametrize(
    ("arguments", "path", "body"), QUESTIONS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_person_gets_an_answer_or_a_reason(
    run_for_real: Run, service: RunningService, arguments: tuple[str, ...], path: str, body: dict[str, Any] | None
) -> None:
    code, shown, said = run_for_real(*arguments)

    assert (code == Exit.ANSWERED) == bool(shown)
    assert (code == Exit.ANSWERED) != bool(said)
    assert "_UNSPECIFIED" not in shown
    assert "nan" not in shown.lower().split()


def test_one_page_is_an_answer_of_rest_too(run_for_real: Run, service: RunningService) -> None:
    with Client(service.grpc) as client:
        first = next(iter(client.list_models(page_size=3).pages))

    body = json_format.MessageToDict(first, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    assert body == httpx.get(f"{service.http}/v1/models?page_size=3").json()


def test_what_does_not_fit_is_an_answer_unless_checked(run_for_real: Run) -> None:
    question = ("decode", "h100-sxm", "--num-parameters", "7e12")

    assert Exit.ANSWERED == run_for_real(*question)[0]
    assert Exit.DOES_NOT_FIT == run_for_real(*question, "--check")[0]


def test_exit_codes_of_the_real_service(run_for_real: Run) -> None:
    assert Exit.NOT_FOUND == run_for_real("models", "show", "no-such-model")[0]
    assert Exit.BAD_REQUEST == run_for_real("decode", "llama-3.1-70b", "h100-sxm", "--batch-size", "-1")[0]
    assert Exit.UNANSWERABLE == run_for_real("decode", "a100-sxm-80", "--num-parameters", "7e9", "--compute", "fp4")[0]


def test_a_published_config_with_infinity_is_answered(run_for_real: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(configurations()["nvidia/Nemotron-H-56B-Base-8K"]))
    assert "Infinity" in config.read_text()

    code, shown, _ = run_for_real("kv", "h200-sxm", "--config", str(config), "--tp", "8", "--context-tokens", "8192", "--json")

    assert Exit.ANSWERED == code
    # 10 of 118 layers attend: 8 KV heads of 128, keys and values at 16 bits.
    assert 10 * 8 * 128 * 2 * 2 == json.loads(shown)["kv_bytes_per_token"]
