"""What stopped somebody who let a chatbot answer: each question with the words and figures that were missing."""

from typing import Any

import httpx
import pytest

from service.api.mcp.answers import MAX_SENTENCES, Writer
from tests.api.mcp.calling import Reply, call
from tests.service_process import RunningService

FLEET: dict[str, Any] = {"model": "Llama 70B", "requests_per_second": 50}
TWO = FLEET | {"hardware": "H100, MI300X"}


async def planned(service: RunningService, **arguments: Any) -> Reply:
    return await call(service.http, "plan_fleet", **(FLEET | arguments))


async def test_devices_that_are_let_by_the_machine_are_priced_as_whole_machines_too(service: RunningService) -> None:
    first = (await planned(service, hardware="H100")).answer["figures"]
    machines = -(-first["first_num_devices"] // 8)
    assert machines * 8 != first["first_num_devices"]  # else there is nothing to tell
    whole = machines * 8 * first["first_cost_per_hour"] / first["first_num_devices"]
    assert f"({whole:,.2f} as {machines} whole machines of 8)" in (await planned(service, hardware="H100")).summary


async def test_both_shares_of_the_price_of_tokens_are_said_and_add_up_to_the_hour(service: RunningService) -> None:
    reply = await planned(service, hardware="MI300X")
    figures = reply.answer["figures"]
    shares = [figures[f"first_{kind}_cost_per_million_tokens"] for kind in ("input", "output")]
    for share, kind in zip(shares, ("input", "output"), strict=True):
        assert f"{share:.3g} per million {kind}" in reply.summary
    millions_per_hour = [50 * tokens * 3600 / 1e6 for tokens in (1024, 256)]
    hour = sum(share * millions for share, millions in zip(shares, millions_per_hour, strict=True))
    assert hour == pytest.approx(figures["first_cost_per_hour"])
    assert any("share the cost of an hour" in note for note in reply.answer["notes"])


async def test_the_summary_says_how_full_the_fleet_is(service: RunningService) -> None:
    reply = await planned(service, hardware="H100")
    assert f"at {reply.answer['figures']['first_utilization_ratio']:.0%} of what they carry".replace("%", " %") in reply.summary


@pytest.mark.parametrize("amount", [2.10, "2.10", "$2.10", "2.10 USD"])
async def test_a_price_of_ones_own_is_taken(service: RunningService, amount: object) -> None:
    by_device = await planned(service, hardware="H100", usd_per_device_hour=amount)
    figures = by_device.answer["figures"]
    assert figures["first_cost_per_hour"] == pytest.approx(figures["first_num_devices"] * 2.10)
    assert "at the price given" in by_device.summary
    assert "Lambda" not in by_device.summary


async def test_a_price_of_ones_own_is_taken_for_whole_nodes(service: RunningService) -> None:
    figures = (await planned(service, hardware="DGX H100", usd_per_device_hour=2.10)).answer["figures"]
    assert figures["first_cost_per_hour"] == pytest.approx(figures["first_num_nodes"] * 8 * 2.10)


async def test_one_price_for_two_products_is_refused(service: RunningService) -> None:
    reply = await planned(service, hardware="H100, MI300X", usd_per_device_hour=2.10)
    assert reply.is_error
    assert "usd_per_device_hour" in reply.text
    assert "name one in hardware" in reply.text


@pytest.mark.parametrize(
    ("amount", "why"), [("2,10", "decimal comma"), (0, "from 0.001"), (-1, "from 0.001"), (1e308, "from 0.001")]
)
async def test_a_price_that_is_none_is_refused_by_its_name(service: RunningService, amount: object, why: str) -> None:
    reply = await planned(service, hardware="H100", usd_per_device_hour=amount)
    assert reply.is_error
    assert "usd_per_device_hour" in reply.text
    assert why in reply.text
    assert "price_list" not in reply.text


@pytest.mark.parametrize("phrase", ["price for 1 hour", "cost of 20", "price for 16"])
async def test_a_bare_number_is_no_product(service: RunningService, phrase: str) -> None:
    assert "figures are for" not in (await call(service.http, "look_up", name=phrase)).text


async def test_a_word_is_found_in_a_question_about_it(service: RunningService) -> None:
    assert (await call(service.http, "look_up", name="what is MFU?")).summary.startswith("MFU is the tokens/s")


async def test_a_narrower_cache_is_planned_with(service: RunningService) -> None:
    usual, narrow = [(await planned(service, hardware="H100", kv_cache_precision=each)).answer for each in ("bf16", "fp8")]
    assert narrow["figures"]["first_max_requests_per_second"] / narrow["figures"]["first_num_devices"] > (
        usual["figures"]["first_max_requests_per_second"] / usual["figures"]["first_num_devices"]
    )


async def test_each_reason_is_told_once_with_the_hardware_of_which_it_is_true(service: RunningService) -> None:
    notes = (await planned(service)).answer["notes"]
    reasons = [note.partition(": ")[2] for note in notes]
    assert sorted(set(reasons)) == sorted(reasons)
    assert any("others: no dense bf16 peak is known for t4" in note for note in notes)


@pytest.mark.parametrize(("hardware", "larger"), [("8x H100", "h200-sxm"), ("DGX H100", "dgx-h200")])
@pytest.mark.parametrize("engine", [None, "vllm"])
async def test_what_does_not_fit_is_told_its_cures(
    service: RunningService, hardware: str, larger: str, engine: str | None
) -> None:
    asked: dict[str, Any] = {"model": "DeepSeek V3", "hardware": hardware, "context_tokens": 32_768, "batch_size": 16}
    said = (await call(service.http, "will_it_fit", engine=engine, **asked)).summary
    assert said.startswith("No: ")
    assert "weights in int4" in said
    assert f"fits {larger}" in said
    assert "on 2 nodes" in said


async def test_an_engine_is_quoted_with_its_own_count_alone(service: RunningService) -> None:
    asked: dict[str, Any] = {"model": "Llama 8B", "hardware": "1x H100", "context_tokens": 32_768, "engine": "vllm"}
    said = (await call(service.http, "will_it_fit", **asked)).summary
    assert "as the engine would allot it" in said
    assert "left to the reserve" not in said
    assert 1 == said.count("sequences of 32768 tokens")
    assert "such sequences would fit" not in said


@pytest.mark.parametrize("asked", ["H100 price", "What does an H100 cost?", "memory bandwidth of the H100"])
async def test_a_question_about_a_product_finds_the_product(service: RunningService, asked: str) -> None:
    reply = await call(service.http, "look_up", name=asked)
    listed = httpx.get(f"{service.http}/v1/prices", params={"accelerator": "h100-sxm", "page_size": 50}).json()["prices"]
    usual = [each for each in listed if each["term"] == "ON_DEMAND" and each["currency"] == "USD"]
    amounts = [
        each["amount_per_hour"] / (each.get("num_devices") or 1)
        for each in usual
        if each["date"] == max(other["date"] for other in usual if other["provider"] == each["provider"])
    ]
    assert f"Listed on demand at {min(amounts):,.2f} to {max(amounts):,.2f} USD per device-hour" in reply.summary
    assert reply.answer["figures"]["memory_bandwidth_bytes_per_second"] == pytest.approx(3.352e12)


async def test_figures_are_written_without_the_digits_of_binary_fractions(service: RunningService) -> None:
    reply = await call(service.http, "plan_fleet", **TWO)
    assert 79.8 == reply.answer["figures"]["first_cost_per_hour"]
    assert "79.80000000" not in reply.text


def test_what_is_left_out_is_counted() -> None:
    told = [f"{number}" for number in range(MAX_SENTENCES + 5)]
    answer = Writer({})({"assumptions": told}, "Yes.", notes=told[:MAX_SENTENCES])
    assert MAX_SENTENCES == len(answer.assumptions)
    assert answer.assumptions[-1].startswith("6 more are left out")
    assert answer.notes == told[:MAX_SENTENCES]
