"""What a chatbot's host sees of the tools before it calls one, and what an answer looks like."""

import json
import re
from typing import Any

import pytest
from mcp import Client
from mcp.types import Tool

from tests.api.asking import SMALL_CONFIG
from tests.api.mcp.calling import HANDSHAKE, MODERN, call
from tests.service_process import RunningService

TOOLS = {
    *("will_it_fit", "how_fast", "plan_fleet", "check_claim", "look_up", "explain_mfu", "explain_kernel", "place_jobs"),
}
#: Some 3,000 tokens, at four characters each: what every conversation pays for the list.
MAX_LIST_CHARACTERS = 12_000
UNITS = {
    *("tokens", "seconds", "second", "ratio", "precision", "size", "type", "block", "thread", "elements", "bytes"),
    *("bandwidth", "flops", "nodes", "layers", "heads", "dim", "pods", "padding", "usd"),
}


async def listed(service: RunningService, mode: str = MODERN) -> list[Tool]:
    async with Client(f"{service.http}/mcp", mode=mode) as client:
        return list((await client.list_tools()).tools)


def on_the_wire(tools: list[Tool]) -> str:
    return json.dumps(
        [each.model_dump(by_alias=True, exclude_none=True) for each in tools], ensure_ascii=False, separators=(",", ":")
    )


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), (HANDSHAKE, "2025-")])
async def test_both_eras_of_the_protocol_are_spoken(service: RunningService, mode: str, version: str) -> None:
    async with Client(f"{service.http}/mcp", mode=mode) as client:
        assert client.protocol_version.startswith(version)
        assert client.server_info is not None
        assert "tonnage" == client.server_info.name
        assert client.instructions is not None
        assert "summary" in client.instructions
        assert len(client.instructions) < 1000


async def test_the_tools_are_the_same_in_both_eras(service: RunningService) -> None:
    modern, older = await listed(service), await listed(service, HANDSHAKE)
    assert TOOLS == {each.name for each in modern}
    assert json.loads(on_the_wire(modern)) == json.loads(on_the_wire(older))


async def test_the_whole_list_is_short(service: RunningService) -> None:
    assert len(on_the_wire(await listed(service))) < MAX_LIST_CHARACTERS


async def test_every_tool_says_what_it_is(service: RunningService) -> None:
    for tool in await listed(service):
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.open_world_hint is False
        assert tool.description is not None
        assert 150 < len(tool.description) < 500, tool.name
        assert "?" in tool.description.split("\n")[0], "the first line is the question that it answers"
        assert re.search("Not (for|a)", tool.description) or tool.name in {"plan_fleet", "explain_kernel"}
        assert "object" == tool.input_schema["type"]
        assert tool.input_schema["additionalProperties"] is False
        assert all("type" in each for each in tool.input_schema["properties"].values()), tool.name


async def test_numbers_among_the_arguments_carry_a_unit_in_their_name(service: RunningService) -> None:
    for tool in await listed(service):
        for name, schema in tool.input_schema["properties"].items():
            if schema["type"] != "string" and name not in {"explain", "m", "n", "k"}:
                assert UNITS & set(name.split("_")), f"{tool.name}: {name}"


async def test_answers_are_as_their_schema_says(service: RunningService) -> None:
    for tool in await listed(service):
        assert tool.output_schema is not None
        assert ["summary"] == tool.output_schema["required"]
        assert {"summary", "figures", "rows", "notes", "assumptions", "next"} == tool.output_schema["properties"].keys()


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("will_it_fit", {"model": "DeepSeek V3", "hardware": "DGX H100"}),
    ("will_it_fit", {"model": "7B", "hardware": "1x H100"}),
    ("how_fast", {"model": "Llama 70B", "hardware": "8x H200", "input_tokens": 1024, "output_tokens": 256}),
    ("how_fast", {"model": "Llama 70B", "hardware": "8x H100, 8x MI300X"}),
    ("plan_fleet", {"model": "Llama 70B", "requests_per_second": 50, "hardware": "H100, MI300X"}),
    ("check_claim", {"text": "H100: 1,979 TFLOPS BF16. GB200: 20 PFLOPS FP4"}),
    ("look_up", {"name": "H100"}),
    ("look_up", {"name": "p5.48xlarge"}),
    ("look_up", {"name": "Llama 70B"}),
    ("look_up", {"name": "ridge point"}),
    ("explain_mfu", {"model": "Llama 70B", "hardware": "64x H100", "tokens_per_second": 40000, "sequence_tokens": 4096}),
    ("explain_kernel", {"threads_per_block": 256, "registers_per_thread": 64}),
    ("place_jobs", {"nodes": "3 nodes of 8 GPUs", "jobs": "1000 jobs of 4"}),
]


@pytest.mark.parametrize(("tool", "arguments"), ASKED, ids=lambda value: value if isinstance(value, str) else "")
async def test_an_answer_is_short_and_echoes_what_it_rests_on(
    service: RunningService, tool: str, arguments: dict[str, Any]
) -> None:
    reply = await call(service.http, tool, **arguments)
    answer = reply.answer
    assert reply.summary[0].isupper() or reply.summary[0] in "'0123456789" or reply.summary.startswith(("h100", "ridge"))
    assert len(reply.summary) < 2000
    assert len(reply.text) < 8000
    assert json.loads(reply.text) == answer, "hosts that read no structure get the same as text"
    assert answer["next"], "says what to ask next"
    assert len(answer["rows"]) <= 8
    assert "NaN" not in reply.text


async def test_what_was_taken_for_granted_is_said(service: RunningService) -> None:
    answer = (await call(service.http, "how_fast", model="Llama 70B", hardware="H100")).answer
    assumed = " ".join(answer["assumptions"])
    for part in ("'Llama 70B' is read as llama-3.1-70b", "'H100' is read as h100-sxm", "h100-nvl", "batch_size 1", "4096"):
        assert part in assumed


@pytest.mark.parametrize(
    ("tool", "arguments", "taken"),
    [
        ("will_it_fit", {"model": "7B", "hardware": "1x H100"}, ["context_tokens 4096", "batch_size 1"]),
        ("will_it_fit", {"model": "Llama 8B", "hardware": "DGX H100"}, ["context_tokens 4096", "batch_size 1"]),
        (
            "plan_fleet",
            {"model": "Llama 8B", "requests_per_second": 5, "hardware": "8x H100"},
            ["input_tokens 1024", "output_tokens 256", "the count of h100-sxm is not used", "first token in 2 s"],
        ),
    ],
)
async def test_defaults_are_among_the_assumptions(
    service: RunningService, tool: str, arguments: dict[str, Any], taken: list[str]
) -> None:
    assumed = (await call(service.http, tool, **arguments)).answer["assumptions"]
    assert [] == [each for each in taken if not any(each in said for said in assumed)], assumed


async def test_a_bound_is_never_called_an_estimate(service: RunningService) -> None:
    arguments: dict[str, Any] = {
        "model": "Llama 70B",
        "hardware": "8x H100",
        "batch_size": 16,
        "input_tokens": 1024,
        "output_tokens": 256,
    }
    answer = (await call(service.http, "how_fast", **arguments)).answer
    assert answer["summary"].startswith("Bound, not an estimate:")
    assert "Estimate (calibration " in answer["summary"]
    figures = answer["figures"]
    assert figures["estimate_p90_output_tokens_per_second"] < figures["bound_tokens_per_second"]


async def test_formulas_are_shown_where_they_are_asked_for(service: RunningService) -> None:
    arguments: dict[str, Any] = {"model": "Llama 70B", "hardware": "8x H100"}
    assert [] == (await call(service.http, "how_fast", **arguments)).answer["steps"]
    steps = (await call(service.http, "how_fast", **arguments, explain=True)).answer["steps"]
    assert any(step.startswith("ridge_point_flops_per_byte = P / BW = 295.167 with") for step in steps)


async def test_a_config_json_is_a_model(service: RunningService) -> None:
    as_object = await call(service.http, "will_it_fit", model=SMALL_CONFIG, hardware="1x H100")
    as_text = await call(service.http, "will_it_fit", model=json.dumps(SMALL_CONFIG), hardware="1x H100")
    assert as_object.summary == as_text.summary
    assert as_object.summary.startswith("Yes, it fits: the model of this config.json")
    assert as_object.answer["figures"]["weight_bytes_per_device"] == pytest.approx(8.030e9 * 2, rel=1e-3)
