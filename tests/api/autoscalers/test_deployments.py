"""The deployments file and its gauges: read strictly, read anew, and absent rather than zero."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from service.api.autoscalers.deployments_file import DeploymentsError, DeploymentsFile, read_deployments
from service.api.autoscalers.gauges import DeploymentGauges
from service.api.autoscalers.readings import Readings
from service.api.autoscalers.watching import DeploymentWatch
from service.api.prometheus import METRICS, PrometheusReader, promql
from service.planning.replicas import ReplicaPlanner, predicted_times, replicas_needed
from tests.api.autoscalers import fake_prometheus as told
from tests.api.autoscalers.fake_prometheus import FakePrometheus

CHAT = """
deployments:
  chat:
    model: llama-3.1-70b
    accelerator: h100-sxm
    engine: vllm
    tensor: 4
    ttft_seconds: 1
    tpot_seconds: 0.03
    requests_per_second: 30
    input_tokens: 2000
    output_tokens: 300
"""


def no_check(_: object) -> None:
    """Names are not looked up."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deployments.yaml"


@pytest.fixture
async def readings(replica_planner: ReplicaPlanner, prometheus: FakePrometheus) -> AsyncIterator[Readings]:
    made = Readings(replica_planner, PrometheusReader([prometheus.url]))
    yield made
    await made.close()


def problems(path: Path, text: str, readings: Readings | None = None) -> list[str]:
    """What is told of a file, less its name."""
    path.write_text(text)

    def check(deployment: Any) -> None:
        if readings is not None:
            readings.check(deployment.spec, deployment.demand)

    with pytest.raises(DeploymentsError) as refusal:
        read_deployments(path, check)
    assert all(each.startswith(f"{path}:") for each in refusal.value.problems)
    return [each.removeprefix(f"{path}:").strip() for each in refusal.value.problems]


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_file_as_the_documentation_has_it(path: Path) -> None:
    path.write_text(CHAT)
    found = read_deployments(path, no_check)
    assert ["chat"] == list(found)
    chat = found["chat"]
    assert chat.demand is not None
    assert (4, 30.0, 2000.0) == (chat.spec.parallelism.tensor, chat.demand.requests_per_second, chat.demand.input_tokens)
    assert (1, None, False) == (chat.rule.min_replicas, chat.rule.max_replicas, chat.rule.scale_to_zero)


@pytest.mark.parametrize(
    ("change", "line", "told_too"),
    [
        (("tensor: 4", "tensr: 4"), 7, "deployments.chat.tensr: no such key; did you mean tensor?"),
        (("tensor: 4", "tensor: four"), 7, "deployments.chat.tensor: 'four' is not a whole number"),
        (("tensor: 4", "tensor: 4.5"), 7, "4.5 is not a whole number"),
        (("tensor: 4", "tensor: '4'"), 7, "'4' is not a whole number"),
        (("tensor: 4", "tensor: true"), 7, "'True' is not a whole number"),
        (("tensor: 4", "tensor: [4]"), 7, "is not a whole number"),
        (("tensor: 4", "tensor:"), 7, "'None' is not a whole number"),
        (("tpot_seconds: 0.03", "tpot_seconds: .nan"), 9, "nan is out of bounds"),
        (("tpot_seconds: 0.03", "tpot_seconds: .inf"), 9, "inf is out of bounds"),
        (("tpot_seconds: 0.03", "tpot_seconds: 0"), 9, "above 0"),
        (("tpot_seconds: 0.03", "tpot_seconds: 0.03\n    tpot_seconds: 1"), 10, "given twice, first on line 9"),
        (("model: llama-3.1-70b", "model: 70"), 4, "'70' is not text"),
        (("model: llama-3.1-70b", "model: &a llama"), 4, "anchor"),
        (("requests_per_second: 30", "query: up"), 3, "prometheus_server: query needs a server"),
        (("    requests_per_second: 30\n", ""), 3, "requests_per_second: it is not given"),
        (("    accelerator: h100-sxm\n", ""), 3, "accelerator: it is not given"),
        (("requests_per_second: 30", "requests_per_second: 30\n    role: decode"), 11, "role: no such key"),
        (("requests_per_second: 30", "requests_per_second: 30\n    observe: true"), 3, "observe needs a server"),
        (("requests_per_second: 30", "requests_per_second: 30\n    dynamo_port: 9000"), 3, "max_replicas: Dynamo lets"),
        (("  chat:", "  'a b':"), 3, "deployments.a b: can be no name"),
        (("  chat:", "  -chat:"), 3, "can be no name"),
        (("deployments:", "deployment:"), 2, "begin it with deployments:"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(path: Path, change: tuple[str, str], line: int, told_too: str) -> None:
    assert change[0] in CHAT
    found = problems(path, CHAT.replace(*change))
    assert [line] == [int(each.partition(":")[0]) for each in found if told_too in each], found


def test_everything_that_is_wrong_is_told_at_once(path: Path) -> None:
    other = CHAT.replace("deployments:\n", "").replace("chat", "code").replace("engine: vllm", "engin: vllm")
    found = problems(path, CHAT.replace("tensor: 4", "tensor: 0") + other.replace("0.03", "x"))
    assert 3 == len([each for each in found if "chat.tensor" in each or "code.engin:" in each or "code.tpot_seconds" in each])


@pytest.mark.parametrize(
    "text", ["", "[]", "a: 1", "deployments: []", "deployments: {}", "deployments:\n  a: 1", "\x00", "a: {", "{}"]
)
def test_what_is_no_such_file(path: Path, text: str) -> None:
    assert problems(path, text)


def test_a_file_that_cannot_be_read(path: Path) -> None:
    with pytest.raises(DeploymentsError, match="cannot be read"):
        read_deployments(path, no_check)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DeploymentsError, match="UTF-8"):
        read_deployments(path, no_check)
    path.write_text("# " + "x" * 2**20)
    with pytest.raises(DeploymentsError, match="larger than"):
        read_deployments(path, no_check)
    many = "".join(f"  d{number}: {{}}\n" for number in range(501))
    path.write_text(f"deployments:\n{many}")
    with pytest.raises(DeploymentsError, match="1 to 500"):
        read_deployments(path, no_check)


async def test_names_and_servers_are_looked_up(path: Path, readings: Readings) -> None:
    (problem,) = problems(path, CHAT.replace("llama-3.1-70b", "lama-3.1-70b"), readings)
    assert problem.startswith("4: deployments.chat.model: the catalogue has no model called 'lama-3.1-70b'; nearest are ")
    found = problems(path, CHAT.replace("tensor: 4", "tensor: 3"), readings)
    assert all(each.startswith("7: deployments.chat.tensor: ") for each in found)
    (problem,) = problems(path, CHAT.replace("engine: vllm", "engine: vlm"), readings)
    assert problem.startswith("6: deployments.chat.engine: ")
    elsewhere = "prometheus_server: http://elsewhere:9090\n    query: up"
    (problem,) = problems(path, CHAT.replace("requests_per_second: 30", elsewhere), readings)
    assert "TONNAGE_PROMETHEUS_HOSTS" in problem


def test_two_deployments_on_one_port(path: Path) -> None:
    dynamo = CHAT.replace("tensor: 4", "tensor: 4\n    max_replicas: 8\n    dynamo_port: 9101")
    both = dynamo + dynamo.replace("deployments:\n", "").replace("chat", "code")
    (problem,) = problems(path, both)
    assert "deployments.code.dynamo_port: 9101 is that of chat too" in problem


def test_a_file_is_read_anew_and_a_bad_one_leaves_the_old_in_force(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text(CHAT)
    file = DeploymentsFile(path, no_check)
    assert not file.renew()
    for text, is_good, names in (
        (CHAT.replace("chat", "code"), True, ["code"]),
        (CHAT.replace("tensor", "tensr"), False, ["code"]),
        (CHAT, True, ["chat"]),
    ):
        replacement = path.with_suffix(".new")  # as Kubernetes does: another file under the same name
        replacement.write_text(text)
        os.replace(replacement, path)
        caplog.clear()
        assert is_good is file.renew()
        assert names == list(file.deployments)
        assert is_good is file.is_current
        assert is_good is ("stay in force" not in caplog.text)
        assert not file.renew()  # once is enough
    path.unlink()
    assert not file.renew()
    assert ["chat"] == list(file.deployments)
    assert not file.is_current


# -- the gauges -------------------------------------------------------------------------------------------------------


class Shown:
    """A file, the watch over it, and what a scrape would see."""

    def __init__(self, path: Path, readings: Readings) -> None:
        self.now = 0.0
        self.gauges = DeploymentGauges(stale_seconds=60.0)
        self.registry = CollectorRegistry()
        self.registry.register(self.gauges)
        self.file = DeploymentsFile(path, lambda each: readings.check(each.spec, each.demand))
        self.watch = DeploymentWatch(self.file, readings, self.gauges, interval_seconds=5.0)

    def value(self, name: str, deployment: str = "chat", **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"deployment": deployment, **labels})

    def names(self) -> set[str]:
        return {sample.name for metric in self.registry.collect() for sample in metric.samples}


async def test_gauges_of_a_fixed_demand(path: Path, readings: Readings, replica_planner: ReplicaPlanner) -> None:
    path.write_text(CHAT)
    shown = Shown(path, readings)
    assert set() == shown.names()
    await shown.watch.look()
    spec = shown.file.deployments["chat"].spec
    (pool,) = replica_planner.pools(spec, 2000, 300)
    number = replicas_needed(30.0, pool.rate, shown.file.deployments["chat"].rule)
    times = predicted_times(pool, 30.0, number)
    assert number == shown.value("tonnage_desired_replicas", role="aggregated")
    assert pool.rate == shown.value("tonnage_max_requests_per_second_per_replica", role="aggregated")
    assert pool.rate * number * 300 == shown.value("tonnage_predicted_tokens_per_second")
    assert 30.0 == shown.value("tonnage_demand_requests_per_second")
    assert times.ttft_seconds == shown.value("tonnage_predicted_ttft_seconds")
    assert times.tpot_seconds == shown.value("tonnage_predicted_tpot_seconds")
    assert 1.0 == shown.value("tonnage_deployment_up")
    assert 1.0 == shown.registry.get_sample_value("tonnage_deployments_file_current")
    age = shown.value("tonnage_deployment_age_seconds")
    assert age is not None
    assert 0 <= age < 5
    assert "tonnage_observed_to_predicted_ratio" not in shown.names()


async def test_prompts_and_answers_apart_have_a_role_each(path: Path, readings: Readings) -> None:
    path.write_text(CHAT.replace("tensor: 4", "tensor: 4\n    disaggregated: true"))
    shown = Shown(path, readings)
    await shown.watch.look()
    for role in ("prefill", "decode"):
        assert (shown.value("tonnage_desired_replicas", role=role) or 0) >= 1
        assert (shown.value("tonnage_max_requests_per_second_per_replica", role=role) or 0) > 0
    assert None is shown.value("tonnage_desired_replicas", role="aggregated")
    assert shown.value("tonnage_predicted_ttft_seconds")
    assert shown.value("tonnage_predicted_tpot_seconds")


FIGURES = (
    "tonnage_desired_replicas",
    "tonnage_demand_requests_per_second",
    "tonnage_max_requests_per_second_per_replica",
    "tonnage_predicted_tokens_per_second",
    "tonnage_predicted_ttft_seconds",
    "tonnage_predicted_tpot_seconds",
    "tonnage_observed_to_predicted_ratio",
)


@pytest.mark.parametrize("answer", [told.SILENT, told.EMPTY, told.REDIRECT, told.GARBAGE, told.ENDLESS, "NaN", "1e300", "-1"])
async def test_a_source_that_fails_takes_the_gauges_away(
    path: Path, readings: Readings, prometheus: FakePrometheus, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("service.api.autoscalers.readings.REFRESH_SECONDS", 0.0)
    read = CHAT.replace("requests_per_second: 30", f"prometheus_server: {prometheus.url}\n    query: demand")
    other = CHAT.replace("deployments:\n", "").replace("chat", "code")
    path.write_text(read + other)
    prometheus.answers["demand"] = "30"
    shown = Shown(path, readings)
    await shown.watch.look()
    good = shown.value("tonnage_desired_replicas", role="aggregated")
    assert good
    prometheus.answers["demand"] = answer
    await shown.watch.look()
    assert 0.0 == shown.value("tonnage_deployment_up")
    assert shown.value("tonnage_deployment_age_seconds") is not None
    lost = {
        sample.name
        for metric in shown.registry.collect()
        for sample in metric.samples
        if sample.labels.get("deployment") == "chat"
    }
    assert lost.isdisjoint(FIGURES)
    assert 1.0 == shown.value("tonnage_deployment_up", "code")
    assert good == shown.value("tonnage_desired_replicas", "code", role="aggregated")
    prometheus.answers["demand"] = "30"
    await shown.watch.look()
    assert good == shown.value("tonnage_desired_replicas", role="aggregated")


async def test_what_nobody_renews_is_no_longer_shown(path: Path, readings: Readings) -> None:
    path.write_text(CHAT)
    shown = Shown(path, readings)
    await shown.watch.look()
    now = asyncio.get_running_loop().time()
    shown.gauges._clock = lambda: now + 3600.0
    assert 0.0 == shown.value("tonnage_deployment_up")
    assert shown.names().isdisjoint(FIGURES)


async def test_a_deployment_out_of_reach_is_not_up(path: Path, readings: Readings, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text(CHAT.replace("tpot_seconds: 0.03", "tpot_seconds: 0.0001"))
    shown = Shown(path, readings)
    for _ in range(3):
        await shown.watch.look()
    assert 0.0 == shown.value("tonnage_deployment_up")
    assert None is shown.value("tonnage_deployment_age_seconds")  # never known
    assert shown.names().isdisjoint(FIGURES)
    assert 1 == caplog.text.count("nothing is known of the deployment chat: tpot_seconds: each further token takes at least")


async def test_a_changed_file_changes_the_gauges_and_a_bad_one_is_told(path: Path, readings: Readings) -> None:
    path.write_text(CHAT)
    shown = Shown(path, readings)
    await shown.watch.look()
    path.write_text(CHAT.replace("chat", "code") + "# other\n")
    await shown.watch.look()
    assert (None, 1.0) == (shown.value("tonnage_deployment_up"), shown.value("tonnage_deployment_up", "code"))
    path.write_text("deployments: no\n")
    await shown.watch.look()
    assert 1.0 == shown.value("tonnage_deployment_up", "code")
    assert 0.0 == shown.registry.get_sample_value("tonnage_deployments_file_current")


async def test_zero_is_shown_only_where_it_is_known_and_allowed(
    path: Path, readings: Readings, prometheus: FakePrometheus
) -> None:
    source = f"prometheus_server: {prometheus.url}\n    query: demand"
    text = CHAT.replace("requests_per_second: 30", source)
    allowed = (
        text.replace("deployments:\n", "").replace("chat", "code").replace("tensor: 4", "tensor: 4\n    scale_to_zero: true")
    )
    path.write_text(text + allowed)
    prometheus.answers["demand"] = "0"
    shown = Shown(path, readings)
    await shown.watch.look()
    assert 1.0 == shown.value("tonnage_desired_replicas", role="aggregated")
    assert 0.0 == shown.value("tonnage_desired_replicas", "code", role="aggregated")
    assert 0.0 == shown.value("tonnage_demand_requests_per_second", "code")


@pytest.fixture
def observing(path: Path, prometheus: FakePrometheus) -> str:
    """Metrics of engines that are a quarter slower than 20 ms and 0.3 s, and the query that asks for them."""
    more = f"prometheus_server: {prometheus.url}\n    observe: true\n    observe_labels: {{model_name: chat}}"
    path.write_text(CHAT.replace("tensor: 4", f"tensor: 4\n    {more}"))
    return promql(METRICS["vllm"], 'model_name="chat"', "", 600)


async def test_observed_over_predicted(
    path: Path,
    readings: Readings,
    prometheus: FakePrometheus,
    observing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures = {"ttft_sum": "120", "ttft_count": "400", "tpot_sum": "8", "tpot_count": "400", "running": "30"}
    prometheus.series[observing] = figures
    shown = Shown(path, readings)
    await shown.watch.look()
    ttft, tpot = (
        shown.value("tonnage_observed_to_predicted_ratio", quantity=each) for each in ("ttft_seconds", "tpot_seconds")
    )
    assert ttft is not None
    assert tpot is not None
    monkeypatch.setattr("service.api.autoscalers.readings.REFRESH_SECONDS", 0.0)
    # As many in flight that take twice as long are half the load, under which less time is predicted.
    prometheus.series[observing] = figures | {"ttft_sum": "240", "tpot_sum": "16"}
    await shown.watch.look()
    assert (shown.value("tonnage_observed_to_predicted_ratio", quantity="tpot_seconds") or 0) >= 2 * tpot
    # Metrics that are not there take their gauge away, and no other.
    prometheus.series.clear()
    prometheus.otherwise = told.EMPTY
    await shown.watch.look()
    assert "tonnage_observed_to_predicted_ratio" not in shown.names()
    assert 1.0 == shown.value("tonnage_deployment_up")
