"""What people bring: a model by its config.json, prices of their own; and the chart of costs that follows them."""

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from service.assembly import load_catalogue
from tests.explorer.conftest import Opened
from tests.explorer.driving import MISSING, Explorer, Rest, shown

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "_name_or_path": "an-organisation-with-a-very-long-name/A-Model-With-An-Even-Longer-Name-Instruct-v2<b>",
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_attention_heads": 24,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
WORKLOAD = {"input_tokens": 1024, "output_tokens": 1024}
NAMES = ["h100-sxm", "mi300x"]


def paste(explorer: Explorer, text: str) -> None:
    explorer.control("model").select_option("")
    explorer.control("hf_config").fill(text)


def test_a_pasted_model_is_answered_as_by_the_api_everywhere_and_its_link_shows_it_again(opened: Opened, rest: Rest) -> None:
    first = opened(width=360)
    first.open("?tensor=1&others=mi300x")
    assert first.control("hf_config").is_hidden()
    paste(first, json.dumps(CONFIG, indent=2))
    first.answered(model="")
    deployment = {"model": {"hf_config": CONFIG}, "accelerator": {"name": "h100-sxm"}}
    bound = rest.post("/v1/decode:estimate", {**deployment, "batch_size": 64, "context_tokens": 4096})["bound"]
    request = {**deployment, "engine": {"name": "vllm"}, "workload": {**WORKLOAD, "concurrency": 64}}
    estimate = rest.post("/v1/serving:estimate", request)["estimate"]
    cards = first.cards()
    assert bound["tokens_per_second"] == float(cards["A step, at the very best"]["Tokens/s at most"][0])
    assert estimate["tpot_seconds"]["p50"] == float(cards["What the engine serves"]["Between tokens"][0])
    for figure in ("roofline", "memory", "throughput-latency", "cost", "fleets"):
        assert first.rows(figure), figure
    assert first.page.title().startswith("your own model (an-organisation-with-a-very-long-name/")
    assert 360 == first.page.evaluate("document.documentElement.scrollWidth")
    second = opened()
    second.open((first.page.locator("#cost a.share").get_attribute("href") or "").removeprefix("/"))
    assert CONFIG == json.loads(second.choices()["hf_config"])
    assert cards == second.cards()
    assert first.rows("cost") == second.rows("cost")
    # And back to the catalogue: what was pasted is kept in its field and in no link.
    second.choose(model="llama-3.1-8b")
    assert "hf_config" not in second.page.url


def test_a_model_too_long_for_a_link_says_so_and_is_asked_for_where_the_link_leads(opened: Opened) -> None:
    explorer = opened()
    explorer.open("?tensor=1&others=")
    paste(explorer, json.dumps({**CONFIG, "a_remark": "x" * 9000}))
    explorer.answered(model="")
    assert explorer.page.locator("#no-link").is_visible()
    assert len(explorer.page.url) < 1000
    other = opened()
    other.page.goto(explorer.page.url)
    other.settled("refused")
    assert "config.json: Paste the config.json" in other.page.get_by_role("alert").inner_text()


WRONG = {
    '{"hidden_size": 4096,': "This is no JSON that can be sent: ",
    "[1, 2]": "model.hf_config: an object is expected, not an array",
    '{"model_type": "<img src=x onerror=alert(1)>"}': "<img src=x onerror=alert(1)>",
    json.dumps({**CONFIG, "hidden_size": -5}): "model.hf_config.hidden_size: -5 is out of range",
    "[" * 2_000 + "]" * 2_000: "the body is not JSON: depth limit exceeded",
    json.dumps({"a_remark": "x" * 4_200_000}): "the body is larger than the 4194304 bytes that are taken",
}


def test_a_wrong_paste_is_refused_beside_its_field(explorer: Explorer) -> None:
    explorer.expected_statuses = {400, 413}
    explorer.open("?tensor=1&others=")
    beside, field = explorer.page.locator("[data-beside=hf_config]"), explorer.control("hf_config")
    asked = len(explorer.requests)
    for text, said in WRONG.items():
        paste(explorer, text)
        expect(beside).to_contain_text(said)
        assert (asked == len(explorer.requests)) == ("This is no JSON" in said)  # that alone is not sent; it is pasted first
        expect(explorer.page.get_by_role("alert")).to_contain_text(said)
        assert "true" == field.get_attribute("aria-invalid")
    assert {} == explorer.cards()
    assert 0 == explorer.page.locator("img").count()
    explorer.choose(model="llama-3.1-8b")
    assert beside.is_hidden()
    assert field.get_attribute("aria-invalid") is None


def test_own_prices_are_sent_as_the_api_takes_them_and_shared(opened: Opened, rest: Rest) -> None:
    explorer = opened()
    explorer.expected_statuses = {400}
    explorer.open("?others=mi300x")
    explorer.page.locator("#own-prices > summary").click()
    explorer.page.get_by_role("spinbutton", name="h100-sxm").fill("1.9")
    explorer.answered(prices="h100-sxm:1.9")
    prices: dict[str, Any] = {"prices": [{"accelerator": "h100-sxm", "amount_per_hour": 1.9, "currency": "USD"}]}
    _costs_are(explorer, rest, {"price_list": prices})
    assert "1.9 USD per device-hour, your own" in (explorer.page.locator("#figure-cost .cost-row").first.text_content() or "")
    # In another currency the published prices need a rate, and the API says so at its field.
    explorer.put("currency", "EUR")
    expect(explorer.page.locator("#cost-problem")).to_contain_text("no exchange rate between them is given")
    expect(explorer.control("usd_rate")).to_have_attribute("aria-invalid", "true")
    assert explorer.page.locator("#figure-cost").is_hidden()
    assert explorer.cards()  # the rest is answered
    explorer.control("usd_rate_date").fill("2026-11-02")
    explorer.choose(usd_rate=0.9)
    prices["prices"][0]["currency"] = "EUR"
    prices["exchange_rates"] = [{"from_currency": "USD", "to_currency": "EUR", "rate": 0.9, "date": "2026-11-02"}]
    _costs_are(explorer, rest, {"currency": "EUR", "price_list": prices})
    again = opened()
    again.open((explorer.page.locator("#cost a.share").get_attribute("href") or "").removeprefix("/"))
    assert explorer.rows("cost") == again.rows("cost")
    assert "1.9" == again.page.get_by_role("spinbutton", name="h100-sxm").input_value()


def _costs_are(explorer: Explorer, rest: Rest, priced: dict[str, Any]) -> None:
    """Both tables and the chart are those of the API asked with these prices."""
    currency = priced.get("currency", "USD")
    question = {"model": {"name": "llama-3.1-70b"}, "accelerators": NAMES, **priced}
    replica = {"parallelism": {"tensor": 8}, "engine": {"name": "vllm"}, "concurrency": 64}
    compared = rest.post("/v1/accelerators:compare", {**question, **WORKLOAD, **replica})["accelerators"]
    column = f"Per device-hour ({currency})"
    assert [shown(each["cost_per_device_hour"]) for each in compared] == [row[column] for row in explorer.rows("cost")]
    _marks_are(explorer, compared)
    demand = {
        "engines": [{"name": "vllm"}],
        "workloads": [{**WORKLOAD, "requests_per_second": {"mid": 50}}],
        "service_level": {"ttft_seconds": 1, "tpot_seconds": 0.05, "percentile": "P90"},
    }
    plans = rest.post("/v1/fleets:plan", {**question, **demand})["plans"]
    assert [shown(each["cost"]["cost_per_hour"]) for each in plans] == [
        row[f"Per hour ({currency})"] for row in explorer.rows("fleets")
    ]


def _marks_are(explorer: Explorer, compared: list[dict[str, Any]]) -> None:
    """The marks of the chart lie where the costs of the API say, on one scale that begins at nothing."""
    drawn: list[list[float]] = explorer.page.locator("#figure-cost .cost-row").evaluate_all(
        """rows => rows.map(row => [
            +row.querySelector(".cost-mark.bound").getAttribute("d").match(/^M([0-9.]+)/)[1],
            +row.querySelector(".cost-mark.estimate").getAttribute("cx"),
            ...row.querySelector(".line.estimate").getAttribute("d").match(/^M([0-9.]+) [0-9.]+H([0-9.]+)/).slice(1),
        ].map(Number))"""
    )
    costs = [
        [each["bound_cost_per_million_output_tokens"], *(interval[part] for part in ("p50", "p10", "p90"))]
        for each in compared
        for interval in [each["estimated_cost_per_million_output_tokens"]]
    ]
    nothing = float(explorer.page.locator("#figure-cost line.grid").first.get_attribute("x1") or "nan")
    scale = (drawn[0][0] - nothing) / costs[0][0]
    for places, values in zip(drawn, costs, strict=True):
        assert places == pytest.approx([nothing + scale * value for value in values])


def test_the_chart_of_costs_names_date_and_currency_and_what_is_missing(explorer: Explorer, rest: Rest) -> None:
    explorer.open("?others=mi300x,tpu7x")
    replica = {"model": {"name": "llama-3.1-70b"}, "parallelism": {"tensor": 8}, "concurrency": 64, **WORKLOAD}
    compared = rest.post("/v1/accelerators:compare", {**replica, "accelerators": [*NAMES, "tpu7x"]})["accelerators"]
    rows = explorer.page.locator("#figure-cost .cost-row")
    for place, each in enumerate(compared[:2]):
        price = f"{shown(each['cost_per_device_hour'])} USD per device-hour, {each['price']['date']}"
        assert price in (rows.nth(place).locator("text").text_content() or "")
    unpriced = rows.nth(2)
    assert "tpu7xno price" == unpriced.locator("text").text_content()
    assert 0 == unpriced.locator(".cost-mark").count()
    assert "USD per million answer tokens" in explorer.page.locator("#figure-cost svg > .label").all_text_contents()
    assert MISSING == explorer.rows("cost")[2]["Price, date"]


def test_where_nothing_is_priced_there_is_a_table_and_no_chart(explorer: Explorer) -> None:
    explorer.open("?accelerator=tpu7x&others=h100-sxm&model=deepseek-v3&tensor=4")
    figure = explorer.page.locator("#figure-cost")
    assert "there is nothing to draw" in figure.inner_text()
    assert 0 == figure.locator("svg").count()
    assert ["CSV"] == figure.locator(".downloads button:visible").all_inner_texts()
    explorer.choose(model="llama-3.1-8b", tensor=1)
    assert figure.locator("svg").is_visible()
    assert 3 == figure.locator(".downloads button:visible").count()


def test_engines_are_those_of_the_catalogue_and_without_one_the_costs_say_whose_they_are(
    explorer: Explorer, rest: Rest
) -> None:
    explorer.open("?engine=&others=mi300x")
    assert "No engine is chosen: estimates and fleets here are those of vLLM" in explorer.page.inner_text("#cost")
    replica = {"model": {"name": "llama-3.1-70b"}, "accelerators": NAMES, "parallelism": {"tensor": 8}, "concurrency": 64}
    named, unnamed = (
        rest.post("/v1/accelerators:compare", {**replica, **WORKLOAD, **engine})["accelerators"]
        for engine in ({"engine": {"name": "vllm"}}, {})
    )
    assert named == unnamed
    offered = explorer.control("engine").locator("option").evaluate_all("all => all.map(each => [each.value, each.text])")
    engines = load_catalogue().engines
    assert [["", "bounds only"], *([name, engine.title] for name, engine in engines.items())] == offered
    explorer.choose(engine="sglang")
    assert "No engine is chosen" not in explorer.page.inner_text("#cost")
