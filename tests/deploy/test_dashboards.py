"""Dashboards: fresh, and every query of theirs and of the rules finds what a running service exposes, by a real Prometheus."""

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana import autoscalers, generate
from service.api.autoscalers import dynamo, expander, keda
from service.api.autoscalers.gauges import DeploymentFigures, DeploymentGauges
from service.api.autoscalers.metrics import AutoscalerMetrics
from service.api.prometheus import METRICS, promql
from service.telemetry import RpcName, Telemetry
from tests.api.autoscalers.fake_prometheus import FakePrometheus, fake_prometheus
from tests.api.autoscalers.test_deployments import CHAT
from tests.programs import program
from tests.service_process import free_port, running_service
from tonnage import Client

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
START_SECONDS = 30.0
#: What only exists once something happened, or on another door.
NOT_YET_SEEN = {
    "tonnage_cache_errors_total",
    "tonnage_callers_refused_total",
    "tonnage_connections_cut_off_total",
    "tonnage_mcp_tool_call_seconds_bucket",
    "tonnage_mcp_tool_calls_total",
    "tonnage_tls_reloads_total",
}


@pytest.mark.parametrize("name", generate.DASHBOARDS)
def test_the_files_are_what_the_generator_writes(name: str) -> None:
    assert generate.text(name) == (generate.FOLDER / name).read_text()


def queries(*names: str) -> list[str]:
    """Those of the dashboards of these names; of all where none is given."""
    found = [
        target["expr"]
        for name in names or generate.DASHBOARDS
        for panel in generate.DASHBOARDS[name]["panels"]
        for target in panel.get("targets", [])
    ]
    return [each.replace("$__rate_interval", "1m") for each in found]


def rules() -> list[str]:
    groups = yaml.safe_load((DEPLOY / "prometheus/rules.yaml").read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def test_every_metric_of_the_doors_is_shown_somewhere() -> None:
    shown = " ".join(queries() + rules())
    telemetry = Telemetry([RpcName("tonnage.v1.A", "B")], version="1")
    telemetry.catalogue_loaded(revision="1", version="1")
    AutoscalerMetrics(telemetry.registry)
    telemetry.collect_from(gauges_with_everything())
    ours = {family.name for family in telemetry.registry.collect() if family.name.startswith(("tonnage_", "grpc_", "http_"))}
    assert {"tonnage_build_info"} == {name for name in ours if name not in shown}


def gauges_with_everything() -> DeploymentGauges:
    gauges = DeploymentGauges(stale_seconds=60, clock=lambda: 0)
    gauges.keep(["chat"], is_current=True)
    figures = DeploymentFigures(
        requests_per_second=1,
        desired_replicas={"decode": 1},
        max_requests_per_second_per_replica={"decode": 1},
        tokens_per_second=1,
        times_seconds={"ttft_seconds": 1, "tpot_seconds": 1},
        observed_to_predicted={"ttft_seconds": 1},
    )
    gauges.show("chat", figures, 0)
    return gauges


def test_the_services_that_autoscalers_call_are_those_of_the_doors_and_of_the_rules() -> None:
    served = {name.service for name in (*expander.RPCS, *keda.RPCS, *dynamo.RPCS)}
    assert [] == [name for name in served if not re.fullmatch(autoscalers.SERVICES, name)]
    assert [] == [each for each in autoscalers.SERVICES.split("|") if not any(re.fullmatch(each, name) for name in served)]
    assert f'grpc_service=~"{autoscalers.SERVICES}"' in " ".join(rules())


def doors_of_autoscalers(folder: Path, engines: FakePrometheus) -> dict[str, str]:
    """Settings that open every one of them, with a deployment about which all is known."""
    observed = {"ttft_sum": "120", "ttft_count": "400", "tpot_sum": "8", "tpot_count": "400", "running": "30"}
    engines.series[promql(METRICS["vllm"], 'model_name="chat"', "", 600)] = observed
    more = f"prometheus_server: {engines.url}\n    observe: true\n    observe_labels: {{model_name: chat}}"
    dynamo_too = f"max_replicas: 40\n    dynamo_port: {free_port()}"
    (folder / "deployments.yaml").write_text(CHAT.replace("tensor: 4", f"tensor: 4\n    {more}\n    {dynamo_too}"))
    return {
        "TONNAGE_EXPANDER_PORT": str(free_port()),
        "TONNAGE_KEDA_PORT": str(free_port()),
        "TONNAGE_DEPLOYMENTS_FILE": str(folder / "deployments.yaml"),
        "TONNAGE_PROMETHEUS_HOSTS": engines.url,
    }


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A Prometheus that scrapes a running service which has been asked a few things, and the service."""
    folder = tmp_path_factory.mktemp("prometheus")
    with fake_prometheus() as engines, running_service(**doors_of_autoscalers(folder, engines)) as service:
        for path in ("/v1/models?page_size=1", "/v1/models?page_size=1", "/nowhere"):
            ask(f"{service.http}{path}")
        with Client(service.grpc) as client:
            client.get_accelerator("h100-sxm")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(DEPLOY / "prometheus/rules.yaml")],
            "scrape_configs": [
                {"job_name": "tonnage", "static_configs": [{"targets": [service.http.removeprefix("http://")]}]}
            ],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        port = free_port()
        arguments = [f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program("prometheus"), *arguments, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log
            )
        try:
            yield until_scraped(f"http://127.0.0.1:{port}", process, folder / "log"), service.http
        finally:
            process.terminate()
            process.wait(30)


def until_scraped(address: str, process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if len(values(address, 'sum_over_time(tonnage_deployment_up{job="tonnage"}[1m]) > 2')) == 1:
                return address
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def ask(address: str) -> None:
    try:
        urllib.request.urlopen(address, timeout=10).close()
    except urllib.error.HTTPError as error:
        error.close()


def values(address: str, query: str) -> list[Any]:
    with urllib.request.urlopen(f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=10) as answer:
        found: list[Any] = json.load(answer)["data"]["result"]
        return found


def test_every_query_is_accepted_and_every_metric_in_it_is_there(watched: tuple[str, str]) -> None:
    prometheus, service = watched
    absent = set()
    for query in queries() + rules():
        values(prometheus, query)  # 400 where it is no query
        for metric in re.findall(r"\b(?:tonnage_|grpc_server_|http_server_|process_)\w+", query):
            if not values(prometheus, f"count({metric})"):
                absent.add(metric)
    assert absent <= NOT_YET_SEEN
    deadline = time.monotonic() + START_SECONDS
    while not values(prometheus, "tonnage:requests:rate5m > 0"):
        assert time.monotonic() < deadline
        ask(f"{service}/v1/models?page_size=1")
        time.sleep(0.3)


def test_every_query_about_autoscalers_finds_something_while_all_doors_are_open(watched: tuple[str, str]) -> None:
    prometheus, _ = watched
    assert [] == [query for query in queries("autoscalers.json") if not values(prometheus, query)]
