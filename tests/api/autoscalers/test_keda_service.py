"""A fake KEDA and a fake Dynamo against the running service, over real gRPC, with TLS; and what a scrape sees."""

import asyncio
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import trustme

from service.api.autoscalers.keda import METRIC
from tests.api.autoscalers import fake_prometheus as told
from tests.api.autoscalers.fake_prometheus import FakePrometheus, fake_prometheus
from tests.api.autoscalers.keda_calls import ASKED, FIXED, metrics_request, reference, replicas_of
from tests.api.autoscalers.raw_messages import fields
from tests.api.autoscalers.test_deployments import CHAT
from tests.api.autoscalers.test_dynamo import AT_LEAST, SET, request, targets, traffic
from tests.api.autoscalers.wire_format import varint
from tests.service_process import RunningService, free_port, running_service

SERVICE = "/externalscaler.ExternalScaler/"
DYNAMO = "/dynamo.planner.plugin.v1."


@dataclass(frozen=True)
class Running:
    """The service with every door of this room open."""

    service: RunningService
    prometheus: FakePrometheus
    keda: str
    credentials: grpc.ChannelCredentials
    dynamo: str
    deployments: Path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("keda")
    authority = trustme.CA()
    issued, own = authority.issue_cert("localhost"), authority.issue_cert("keda.example")
    (folder / "tls.crt").write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())
    (folder / "ca.crt").write_bytes(authority.cert_pem.bytes())
    credentials = grpc.ssl_channel_credentials(
        authority.cert_pem.bytes(), own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes()
    )
    keda, dynamo, deployments = free_port(), free_port(), folder / "deployments.yaml"
    with fake_prometheus() as prometheus:
        deployments.write_text(
            CHAT
            + f"""
  agent:
    model: llama-3.1-70b
    accelerator: h100-sxm
    engine: vllm
    tensor: 4
    disaggregated: true
    ttft_seconds: 1
    tpot_seconds: 0.03
    max_replicas: 40
    dynamo_port: {dynamo}
  read:
    model: llama-3.1-8b
    accelerator: h100-sxm
    engine: vllm
    tpot_seconds: 0.03
    prometheus_server: {prometheus.url}
    query: of the file
    input_tokens: 1000
    output_tokens: 200
"""
        )
        settings = {
            "TONNAGE_KEDA_PORT": str(keda),
            "TONNAGE_KEDA_TLS_CERT_FILE": str(folder / "tls.crt"),
            "TONNAGE_KEDA_TLS_KEY_FILE": str(folder / "tls.key"),
            "TONNAGE_KEDA_TLS_CLIENT_CA_FILE": str(folder / "ca.crt"),
            "TONNAGE_DEPLOYMENTS_FILE": str(deployments),
            "TONNAGE_DEPLOYMENTS_INTERVAL_SECONDS": "1",
            "TONNAGE_PROMETHEUS_HOSTS": prometheus.url,
        }
        with running_service(**settings) as service:
            yield Running(service, prometheus, f"localhost:{keda}", credentials, f"127.0.0.1:{dynamo}", deployments)


@pytest.fixture
def prometheus(running: Running) -> FakePrometheus:
    running.prometheus.reset()
    return running.prometheus


@pytest.fixture
def channel(running: Running) -> Iterator[grpc.Channel]:
    """As KEDA connects: by name, with TLS, round robin, and no deadline of its own."""
    balanced = (("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),)
    with grpc.secure_channel(running.keda, running.credentials, balanced) as opened:
        yield opened


def call(channel: grpc.Channel, method: str, message: bytes, path: str = SERVICE) -> bytes:
    """Raw bytes there and back."""
    answer = channel.unary_unary(path + method, None, None)(message, timeout=10)
    assert isinstance(answer, bytes)
    return answer


def status_of(channel: grpc.Channel, method: str, message: bytes, path: str = SERVICE) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as refusal:
        call(channel, method, message, path)
    return told_by(refusal.value)


def told_by(error: grpc.RpcError) -> tuple[str, str]:
    return error.code().name, error.details() or ""


def polled(channel: grpc.Channel, metadata: dict[str, str], name: str = "chat") -> int | tuple[str, str]:
    """What one poll of KEDA comes to: GetMetrics, once more after an error, and IsActive."""
    for attempt in range(2):
        try:
            number = replicas_of(call(channel, "GetMetrics", metrics_request(metadata, name)))
            active = fields(call(channel, "IsActive", reference(metadata, name)))
        except grpc.RpcError as error:
            if attempt:
                return told_by(error)
        else:
            assert (number >= 1) == (active == [(1, 1)])
            return number
    raise AssertionError("not reached")


def polled_until_known(channel: grpc.Channel, metadata: dict[str, str], name: str = "chat") -> int | tuple[str, str]:
    """Polls, quickly, until there is more to say than that the first reading is under way."""
    outcome: int | tuple[str, str] = ("", "")
    for _ in range(100):
        outcome = polled(channel, metadata, name)
        if isinstance(outcome, int) or "for the first time" not in outcome[1]:
            break
        time.sleep(0.05)
    return outcome


def test_a_scaled_object_over_tls(channel: grpc.Channel) -> None:
    spec = call(channel, "GetMetricSpec", reference(FIXED))
    assert METRIC.encode() in spec
    number = polled(channel, FIXED)
    assert isinstance(number, int)
    assert number > 1


def test_without_a_certificate_nobody_is_let_in(running: Running) -> None:
    with grpc.insecure_channel(running.keda) as plain:
        assert "UNAVAILABLE" == status_of(plain, "IsActive", reference(FIXED))[0]


def test_what_is_not_served_is_unimplemented(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        next(iter(channel.unary_stream(f"{SERVICE}StreamMetricSpec", None, None)(reference(FIXED), timeout=10)))
    assert grpc.StatusCode.UNIMPLEMENTED is refusal.value.code()


@pytest.mark.parametrize(
    ("change", "code", "told_too"),
    [
        ({"tpotSecond": "1"}, "INVALID_ARGUMENT", "tpotSecond: no such key; did you mean tpotSeconds? known are accelerator,"),
        ({"model": "llama-3.1-8c"}, "NOT_FOUND", "llama-3.1-8b"),
        ({"tpotSeconds": "0.0001"}, "FAILED_PRECONDITION", "more replicas do not help"),
        ({"accelerator": "tpu-v5e"}, "FAILED_PRECONDITION", "nothing measured or known"),
    ],
)
def test_errors_have_their_codes(channel: grpc.Channel, change: dict[str, str], code: str, told_too: str) -> None:
    found, details = status_of(channel, "GetMetrics", metrics_request(FIXED | change))
    assert code == found
    assert told_too in details


def test_a_prometheus_that_fails_is_unavailable(channel: grpc.Channel, prometheus: FakePrometheus) -> None:
    for at, answer in enumerate((told.SILENT, told.REDIRECT, told.ENDLESS, told.EMPTY, "NaN", "-1", "1e300")):
        query = f"failing {at}"
        prometheus.answers[query] = answer
        metadata = ASKED | {"prometheusServer": prometheus.url, "query": query, "scaleToZero": "true"}
        outcome = polled_until_known(channel, metadata)
        assert isinstance(outcome, tuple), answer
        assert "UNAVAILABLE" == outcome[0]
        assert "the demand is not known" in outcome[1]


def test_a_hundred_scaled_objects_at_once(running: Running, prometheus: FakePrometheus) -> None:
    prometheus.otherwise = "50"
    numbers: list[int] = []
    refusals: set[grpc.StatusCode] = set()

    async def all_polled() -> list[list[float]]:
        async with grpc.aio.secure_channel(running.keda, running.credentials) as channel:
            get = channel.unary_unary(f"{SERVICE}GetMetrics", None, None)

            async def poll(at: int) -> list[float]:
                metadata = ASKED | {
                    "prometheusServer": prometheus.url,
                    "query": f"demand of {at}",
                    "outputTokens": str(100 + at),
                }
                message, seconds = metrics_request(metadata, f"object-{at}"), []
                for _ in range(20):
                    begun = time.perf_counter()
                    try:
                        numbers.append(replicas_of(await get(message, timeout=10)))
                    except grpc.aio.AioRpcError as error:  # while the first reading is under way
                        refusals.add(error.code())
                        await asyncio.sleep(0.05)
                    else:
                        seconds.append(time.perf_counter() - begun)
                assert len(seconds) > 10
                return seconds

            return await asyncio.gather(*map(poll, range(100)))

    assert 100 == len(asyncio.run(all_polled()))
    assert refusals <= {grpc.StatusCode.UNAVAILABLE}
    assert min(numbers) >= 1
    assert 100 <= len(prometheus.asked) <= 200  # each is read once, or twice where that took long


def test_a_stream_tells_first_what_is(channel: grpc.Channel) -> None:
    stream = channel.unary_stream(f"{SERVICE}StreamIsActive", None, None)(reference(FIXED), timeout=10)
    assert [(1, 1)] == fields(next(iter(stream)))
    stream.cancel()  # type: ignore[no-untyped-call]


def test_dynamo_is_answered_on_the_port_of_its_deployment(running: Running) -> None:
    with grpc.insecure_channel(running.dynamo) as channel:
        proposed = targets(call(channel, "ProposePlugin/Propose", request(traffic()), DYNAMO))
        assert [("prefill", SET), ("decode", SET)] == [each[:2] for each in proposed]
        bounds = targets(call(channel, "ConstrainPlugin/Constrain", request(traffic()), DYNAMO))
        assert [("prefill", AT_LEAST), ("decode", AT_LEAST)] == [each[:2] for each in bounds[::2]]
        for path in ("ProposePlugin/Propose", "ConstrainPlugin/Constrain"):
            assert "UNAVAILABLE" == status_of(channel, path, request(None), DYNAMO)[0]
        assert "UNIMPLEMENTED" == status_of(channel, "PredictPlugin/Predict", request(traffic()), DYNAMO)[0]
        padding = request(traffic()) + bytes([0xFA, 0x3E]) + varint(9 * 2**20) + bytes(9 * 2**20)  # an unknown field
        assert proposed == targets(call(channel, "ProposePlugin/Propose", padding, DYNAMO))


def scraped(running: Running) -> dict[str, float]:
    with urllib.request.urlopen(f"{running.service.http}/metrics", timeout=10) as response:
        text = response.read().decode()
    return {
        name: float(value) for name, value in re.findall(r"^(tonnage_\S+?\{[^}]*\}|tonnage_\w+) (\S+)$", text, re.MULTILINE)
    }


def scraped_until(running: Running, name: str, value: float | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for _ in range(100):
        found = scraped(running)
        if found.get(name) == value:
            break
        time.sleep(0.1)
    assert value == found.get(name), found
    return found


def test_gauges_come_and_go_with_what_is_known(running: Running, prometheus: FakePrometheus) -> None:
    prometheus.answers["of the file"] = "40"
    up, desired = 'tonnage_deployment_up{deployment="read"}', 'tonnage_desired_replicas{deployment="read",role="aggregated"}'
    found = scraped_until(running, up, 1.0)
    assert found[desired] >= 1
    assert 1.0 == found["tonnage_deployments_file_current"]
    assert not [name for name in found if 'deployment="agent"' in name]  # it has no demand of its own
    prometheus.answers["of the file"] = "NaN"
    found = scraped_until(running, up, 0.0)
    assert desired not in found
    assert found['tonnage_desired_replicas{deployment="chat",role="aggregated"}'] >= 1
    good = running.deployments.read_text()
    running.deployments.write_text("deployments: 5\n")
    scraped_until(running, "tonnage_deployments_file_current", 0.0)
    running.deployments.write_text(good)
    scraped_until(running, "tonnage_deployments_file_current", 1.0)


def test_calls_are_counted(running: Running, channel: grpc.Channel) -> None:
    polled(channel, FIXED)
    with urllib.request.urlopen(f"{running.service.http}/metrics", timeout=10) as response:
        text = response.read().decode()
    assert 'grpc_method="GetMetrics",grpc_service="externalscaler.ExternalScaler"' in text


def test_several_processes_show_the_gauges_too(tmp_path: Path) -> None:
    deployments = tmp_path / "deployments.yaml"
    deployments.write_text(CHAT)
    settings = {"TONNAGE_DEPLOYMENTS_FILE": str(deployments), "TONNAGE_PROCESSES": "2"}
    with running_service(**settings) as service, fake_prometheus() as prometheus:
        several = Running(service, prometheus, "", grpc.ssl_channel_credentials(), "", deployments)
        for _ in range(4):
            scraped_until(several, 'tonnage_deployment_up{deployment="chat"}', 1.0)


def test_a_wrong_file_stops_the_start_with_its_reasons(tmp_path: Path) -> None:
    deployments = tmp_path / "deployments.yaml"
    deployments.write_text(CHAT.replace("tensor: 4", "tensr: 4").replace("0.03", "0"))
    ports = {"TONNAGE_GRPC_PORT": "0", "TONNAGE_HTTP_PORT": "0"}
    ran = subprocess.run(
        [sys.executable, "-m", "service"],
        env=os.environ | {"TONNAGE_DEPLOYMENTS_FILE": str(deployments), **ports},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 2 == ran.returncode
    assert f"{deployments}:7: deployments.chat.tensr: no such key; did you mean tensor?" in ran.stderr
    assert f"{deployments}:9: deployments.chat.tpot_seconds: 0 is out of bounds" in ran.stderr
    assert "Traceback" not in ran.stderr
