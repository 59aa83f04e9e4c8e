"""What the page shows is what the API answers, figure by figure."""

from math import log
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.explorer.conftest import Opened
from tests.explorer.driving import MISSING, Explorer, Rest, gib, seconds, shown

USUAL: dict[str, Any] = {
    "model": {"name": "llama-3.1-70b"},
    "accelerator": {"name": "h100-sxm"},
    "parallelism": {"tensor": 8},
}
LOAD = {"batch_size": 64, "context_tokens": 4096}
WORKLOAD = {"input_tokens": 1024, "output_tokens": 1024, "concurrency": 64}


def ranged(interval: dict[str, float], text: Any) -> tuple[str, str]:
    return repr(interval["p50"]), f"{text(interval['p50'])} {text(interval['p10'])} to {text(interval['p90'])}"


def close(found: dict[str, tuple[str, str]], expected: dict[str, tuple[float | str, str]]) -> None:
    """The exact value behind each line is the API's, and so is what is shown."""
    for name, (value, text) in expected.items():
        kept, printed = found[name]
        assert text == printed, name
        assert value == (type(value)(kept)), name


def test_choosing_by_clicks_and_keys_shows_the_bound_and_the_estimate_of_the_api(explorer: Explorer, rest: Rest) -> None:
    explorer.open()
    explorer.choose(model="qwen3-32b", accelerator="h200-sxm", tensor=4, engine="sglang", concurrency=128, context_tokens=8192)
    explorer.choose(input_tokens=2000, output_tokens=500)
    deployment = {"model": {"name": "qwen3-32b"}, "accelerator": {"name": "h200-sxm"}, "parallelism": {"tensor": 4}}
    decode = rest.post("/v1/decode:estimate", {**deployment, "batch_size": 128, "context_tokens": 8192})
    workload = {"input_tokens": 2000, "output_tokens": 500, "concurrency": 128}
    serving = rest.post("/v1/serving:estimate", {**deployment, "engine": {"name": "sglang"}, "workload": workload})
    bound, expected, estimate = decode["bound"], decode["expected"], serving["estimate"]
    cards = explorer.cards()
    close(
        cards["A step, at the very best"],
        {
            "Tokens/s at most": (bound["tokens_per_second"], shown(bound["tokens_per_second"])),
            "Per user": (bound["tokens_per_second_per_user"], shown(bound["tokens_per_second_per_user"])),
            "Per device": (bound["tokens_per_second_per_device"], shown(bound["tokens_per_second_per_device"])),
            "Step at least": (bound["step_seconds"], seconds(bound["step_seconds"])),
            "Bound by": (bound["binding_limit"], bound["binding_limit"].replace("_", " ").lower()),
        },
    )
    close(
        cards["A step, as expected"],
        {"Step": (expected["expected_step_seconds"], seconds(expected["expected_step_seconds"]))},
    )
    served = cards["What the engine serves"]
    assert ranged(estimate["output_tokens_per_second"], shown)[1] == served["Tokens/s"][1]
    assert ranged(estimate["tpot_seconds"], seconds)[1] == served["Between tokens"][1]
    assert ranged(estimate["ttft_seconds"], seconds)[1] == served["To first token"][1]
    assert estimate["ttft_seconds"]["p50"] == float(served["To first token"][0])
    assert "fit" == cards["Does it fit?"]["Weights and cache"][1]
    assert decode["fits"]


def test_the_roofline_is_that_of_the_api_and_points_lie_where_the_axes_say(explorer: Explorer, rest: Rest) -> None:
    explorer.open()
    answer = rest.post("/v1/rooflines:draw", {"decode": {**USUAL, **LOAD}})
    assert [
        {
            "Point": point["label"],
            "Format": point["precision"],
            "Intensity (FLOP/B)": shown(point["arithmetic_intensity_flops_per_byte"]),
            "At most (TFLOP/s)": shown(point["bound_flops_per_second"] / 1e12),
        }
        for point in answer["points"]
    ] == explorer.rows("roofline")
    chart = explorer.page.locator("#figure-roofline svg")
    drawn: dict[str, Any] = chart.evaluate(
        """svg => ({
            ticks: [...svg.querySelectorAll("text.tick[text-anchor=middle]")]
                .map(each => [each.textContent, +each.getAttribute("x")]),
            points: [...svg.querySelectorAll(".point circle")].map(each => +each.getAttribute("cx")),
        })"""
    )
    (low, at_low), (high, at_high) = [(float(text.replace(",", "")), x) for text, x in drawn["ticks"][:2]]
    per_factor = (at_high - at_low) / log(high / low)
    for point, x in zip(answer["points"], drawn["points"], strict=True):
        assert at_low + per_factor * log(point["arithmetic_intensity_flops_per_byte"] / low) == pytest.approx(x, abs=0.2)
    asked = chart.locator(".point.chosen")
    assert "batch 64 (as asked): 42.61 FLOP per byte, at most 142.8 TFLOP/s" == asked.get_attribute("aria-label")


def test_the_memory_is_the_budget_of_the_api(explorer: Explorer, rest: Rest) -> None:
    explorer.open()
    answer = rest.post("/v1/kv-memory:estimate", {**USUAL, **LOAD, "engine": {"name": "vllm"}})
    rows = explorer.rows("memory")
    engine = answer["engine_memory"]
    assert [gib(line["bytes_per_device"]) for line in answer["budget"] + engine["budget"]] == [
        row["Memory (GiB)"] for row in rows
    ]
    ranges = [(gib(line["low_bytes_per_device"]), gib(line["high_bytes_per_device"])) for line in engine["budget"]]
    assert ranges == [(row["At least (GiB)"], row["At most (GiB)"]) for row in rows[len(answer["budget"]) :]]
    assert engine["statement"] in explorer.page.inner_text("#memory")
    # The bars: what is stacked up to the line is the memory of the device, to the pixel.
    widths: list[list[float]] = explorer.page.locator("#figure-memory svg > g").evaluate_all(
        """bars => bars.map(bar => [
            [...bar.querySelectorAll(":scope > .segment > rect")]
                .reduce((sum, each) => sum + +each.getAttribute("width") + 1, 0),
            +bar.querySelector(".capacity").getAttribute("x1"),
        ])"""
    )
    assert 2 == len(widths)
    for stacked, capacity in widths:
        assert stacked == pytest.approx(capacity, abs=2.5)


def columns(parts: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    start = parts[0]["start"]
    packed = [part["chunk"][kind] for part in parts if kind in part.get("chunk", {})]
    rows = [dict(zip(each, values, strict=True)) for each in packed for values in zip(*each.values(), strict=True)]
    return [{**row, "shape": start["shapes"][row["shape_index"]]} for row in rows]


def test_the_curve_and_its_front_are_those_of_the_sweep(explorer: Explorer, rest: Rest) -> None:
    explorer.open()
    loads = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    request = {
        "kind": "SERVING",
        "models": [USUAL["model"]],
        "accelerators": [USUAL["accelerator"]],
        "shapes": [{"tensor": tensor} for tensor in (1, 2, 4, 8)],
        "engines": [{"name": "vllm"}],
        "concurrencies": loads,
        "lengths": [{"input_tokens": 1024, "output_tokens": 1024}],
    }
    points = columns(rest.lines("/v1/sweeps:run", request), "serving")
    throughput = "output_tokens_per_second_per_device"
    for latency, column in (("tpot", "tpot_seconds"), ("ttft", "ttft_seconds"), ("end_to_end", "end_to_end_seconds")):
        if latency != "tpot":
            explorer.choose(latency=latency)
        expected = [
            (
                point["shape"],
                shown(loads[point["concurrency_index"]]),
                shown(point["tpot_seconds"] * 1e3),
                shown(point["ttft_seconds"] * 1e3),
                shown(point[throughput]),
                "no" if _is_beaten(points, place, column, throughput) else "yes",
            )
            for place, point in enumerate(points)
        ]
        names = (
            "Shape",
            "Requests at once",
            "Between tokens (ms)",
            "To the first token (ms)",
            "Tokens/s per device",
            "On the front",
        )
        assert expected == [tuple(row[name] for name in names) for row in explorer.rows("throughput-latency")]
    label = explorer.page.locator("#figure-throughput-latency .point.chosen").get_attribute("aria-label")
    assert label is not None
    assert label.startswith("TP8, 64 requests at once: ")


def _is_beaten(points: list[dict[str, Any]], place: int, latency: str, throughput: str) -> bool:
    """Whether another is as good in both, and better in one of them or the first of several alike."""
    point = points[place]
    rivals = [
        (other[latency] < point[latency] or other[throughput] > point[throughput] or before < place)
        for before, other in enumerate(points)
        if before != place and other[latency] <= point[latency] and other[throughput] >= point[throughput]
    ]
    return any(rivals)


def test_without_an_engine_there_are_bounds_and_nothing_else(explorer: Explorer, rest: Rest) -> None:
    explorer.open("?engine=&concurrency=32")
    assert "What the engine serves" not in explorer.cards()
    request = {
        "kind": "DECODE",
        "models": [USUAL["model"]],
        "accelerators": [USUAL["accelerator"]],
        "shapes": [{"tensor": tensor} for tensor in (1, 2, 4, 8)],
        "batch_sizes": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
        "context_tokens": [4096],
    }
    points = columns(rest.lines("/v1/sweeps:run", request), "decode")
    rows = explorer.rows("throughput-latency")
    assert [(point["shape"], shown(point["step_seconds"] * 1e3), "yes" if point["fits"] else "no") for point in points] == [
        (row["Shape"], row["Step (ms)"], row["Fits"]) for row in rows
    ]
    assert {"bound"} == set(explorer.page.locator("#figure-throughput-latency th .kind").all_text_contents())


def test_costs_and_fleets_are_those_of_the_api(explorer: Explorer, rest: Rest) -> None:
    explorer.open("?" + urlencode({"others": "mi300x,tpu7x", "requests_per_second": 20}))
    names = ["h100-sxm", "mi300x", "tpu7x"]
    replica = {"model": USUAL["model"], "parallelism": USUAL["parallelism"]}
    compared = rest.post("/v1/accelerators:compare", {**replica, "accelerators": names, **WORKLOAD})
    rows = explorer.rows("cost")
    for row, each in zip(rows, compared["accelerators"], strict=True):
        assert each["accelerator"] == row["Accelerator"]
        if each["accelerator"] == "tpu7x":  # neither calibrated nor priced
            assert (MISSING, MISSING) == (row["Per million answer tokens (USD)"], row["The same at least (USD)"])
        else:
            cost = each["estimated_cost_per_million_output_tokens"]
            text = f"{shown(cost['p50'])} ({shown(cost['p10'])} to {shown(cost['p90'])})"
            assert text == row["Per million answer tokens (USD)"]
            assert shown(each["bound_cost_per_million_output_tokens"]) == row["The same at least (USD)"]
        assert shown(each["decode_tokens_per_second_per_device"]) == row["Tokens/s per device at most"]
        price = each.get("price")
        assert MISSING == row["Price, date"] if price is None else price["date"] in row["Price, date"]
    plan = rest.post(
        "/v1/fleets:plan",
        {
            "model": USUAL["model"],
            "accelerators": names,
            "engines": [{"name": "vllm"}],
            "workloads": [{"input_tokens": 1024, "output_tokens": 1024, "requests_per_second": {"mid": 20}}],
            "service_level": {"ttft_seconds": 1, "tpot_seconds": 0.05, "percentile": "P90"},
        },
    )
    assert plan["plans"]
    assert [
        (shown(each["rank"]), each["accelerator"], shown(each["num_devices"]), shown(each["cost"]["cost_per_hour"]))
        for each in plan["plans"]
    ] == [(row["Rank"], row["Accelerator"], row["Devices"], row["Per hour (USD)"]) for row in explorer.rows("fleets")]
    assert f"Why not others ({len(plan['excuses'])})" in explorer.page.inner_text("#cost")


def test_why_shows_every_formula_and_source_of_the_explanation(explorer: Explorer, rest: Rest) -> None:
    explorer.open()
    decode = rest.post("/v1/decode:estimate", {**USUAL, **LOAD, "explain": True})
    serving = rest.post("/v1/serving:estimate", {**USUAL, "engine": {"name": "vllm"}, "workload": WORKLOAD, "explain": True})
    steps = decode["explanation"]["steps"] + serving["explanation"]["steps"]
    assert [(step["name"], step["expression"], step["source"]) for step in steps] == [
        (row["Quantity"], row["Formula"], row["Source"]) for row in explorer.rows("formulas")
    ]
    values = explorer.page.locator("#why .step > summary data").evaluate_all("all => all.map(each => +each.value)")
    assert [step["value"] for step in steps] == values
    shown_figures = {row["Figure"]: row["Sources"] for row in explorer.rows("sources")}
    for figure in decode["explanation"]["figures"]:
        assert "; ".join(figure["sources"]) == shown_figures[figure["name"].replace("_", " ")]
    first = explorer.page.locator("#why .step").first
    first.locator("summary").click()
    assert steps[0]["expression"] in first.inner_text()
    assert steps[0]["source"] in first.inner_text()
    text = explorer.page.inner_text("#why")
    assert all(each in text for each in decode["assumptions"])


def test_what_was_measured_moves_the_estimate_and_is_called_observed(explorer: Explorer, rest: Rest) -> None:
    explorer.open("?observed_requests=100")
    explorer.choose(observed_tpot_seconds=0.02)
    serving = rest.post(
        "/v1/serving:estimate",
        {
            **USUAL,
            "engine": {"name": "vllm"},
            "workload": WORKLOAD,
            "observation": {"num_requests": 100, "tpot_seconds": 0.02},
        },
    )
    cards = explorer.cards()
    assert ranged(serving["estimate"]["tpot_seconds"], seconds)[1] == cards["What the engine serves"]["Between tokens"][1]
    assert "20 ms" == cards["What you measured"]["Between tokens"][1]
    assert {"bound", "expected", "estimate", "observed"} == set(explorer.page.locator(".card h3 .kind").all_inner_texts())


@pytest.mark.parametrize(
    "query",
    [
        "model=rwkv-5-world-3b&tensor=1&engine=",  # a cache that does not grow
        "accelerator=tpu7x",  # neither estimate nor price
        "output_tokens=1&latency=tpot",  # no time between tokens
        "model=deepseek-v3&tensor=4&accelerator=h100-sxm",  # does not fit
        "model=llama-3.1-8b&tensor=1&accelerator=l4&engine=tensorrt-llm&others=",
        "model=mixtral-8x7b&tensor=4&expert=4&weights=fp8&kv_cache=fp8&engine=sglang&requests_per_second=100000",
    ],
)
def test_nothing_that_is_no_number_is_shown(opened: Opened, query: str) -> None:
    explorer = opened()
    explorer.open(f"?{query}")
    text = explorer.page.inner_text("body") + explorer.page.inner_html("main")
    for wrong in ("NaN", "undefined", "Infinity", "[object", ">null<"):
        assert wrong not in text, wrong
