"""A fake Cluster Autoscaler against the running service, over real gRPC and TLS; and deadlines, against a fake call."""

import asyncio
import contextlib
import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from prometheus_client import CollectorRegistry

from service.api.autoscalers import expander
from service.api.autoscalers.metrics import AutoscalerMetrics
from service.api.autoscalers.server import UnaryMethod
from service.planning.errors import OutOfTime
from service.planning.planner import Planner
from service.settings import Settings
from tests.api.autoscalers import wire_format as wire
from tests.api.autoscalers.expander_questions import (
    GENERATIONS,
    GPU,
    H100,
    MODEL_70B,
    SHORT,
    T4,
    Options,
    machine,
    plain_pods,
    started,
)
from tests.api.autoscalers.fake_cluster_autoscaler import METHOD, FakeClusterAutoscaler, connected
from tests.service_process import RunningService, free_port, running_service

MIB = 2**20


def issue(folder: Path, *names: str) -> bytes:
    """Puts a new certificate with these names, and its key, where the service reads them; answers its issuer."""
    authority = trustme.CA()
    issued = authority.issue_cert(*names)
    for name, content in (
        ("tls.key", issued.private_key_pem.bytes()),
        ("tls.crt", b"".join(each.bytes() for each in issued.cert_chain_pems)),
    ):
        (folder / f"{name}.new").write_bytes(content)
        (folder / f"{name}.new").rename(folder / name)
    return authority.cert_pem.bytes()


@dataclass(frozen=True)
class Running:
    """The service with the expander's door open."""

    service: RunningService
    address: str
    issuer: bytes


@contextlib.contextmanager
def expanding(folder: Path, **settings: str) -> Iterator[Running]:
    issuer, port = issue(folder, "localhost"), free_port()
    files = {"TLS_CERT_FILE": str(folder / "tls.crt"), "TLS_KEY_FILE": str(folder / "tls.key"), "PORT": str(port)}
    with running_service(**{f"TONNAGE_EXPANDER_{name}": value for name, value in files.items()}, **settings) as service:
        yield Running(service, f"localhost:{port}", issuer)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with expanding(tmp_path_factory.mktemp("expander")) as opened:
        yield opened


@pytest.fixture
def autoscaler(running: Running) -> Iterator[FakeClusterAutoscaler]:
    with connected(running.address, running.issuer) as opened:
        yield opened


def h100_or_t4() -> Options:
    pods = [started("vllm/vllm-openai", "--model", MODEL_70B, SHORT, devices=2)]
    return {"h100": (machine(H100), 1, pods), "t4": (machine(T4), 1, pods)}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_choice_over_tls(running: Running, generation: str) -> None:
    with connected(running.address, running.issuer, generation) as autoscaler:
        assert ["h100"] == autoscaler.best_options(h100_or_t4())
        assert not autoscaler.errors


def test_where_nothing_fits_every_option_is_passed_on(autoscaler: FakeClusterAutoscaler) -> None:
    pods = plain_pods(1, 9)
    options = {"a": (machine(), 1, pods), "b": (machine(), 1, pods)}
    assert ["a", "b"] == autoscaler.best_options(options)
    ((code, details),) = autoscaler.errors
    assert "FAILED_PRECONDITION" == code
    assert "a: too small" in details


def test_whatever_cannot_be_read_passes_every_option_on(autoscaler: FakeClusterAutoscaler) -> None:
    options = h100_or_t4()
    for request in (b"", b"\xff" * 99, wire.request(options)[:-1], wire.tag(1, 3) * 99_999):
        assert ["h100", "t4"] == autoscaler.decided(request, options)
    assert {"FAILED_PRECONDITION", "INVALID_ARGUMENT"} == {code for code, _ in autoscaler.errors}
    assert ["h100"] == autoscaler.best_options(options)  # the connection is as good as before


def test_a_name_that_is_not_in_the_certificate_is_not_trusted(running: Running) -> None:
    with connected(running.address.replace("localhost", "127.0.0.1"), running.issuer) as autoscaler:
        assert ["h100", "t4"] == autoscaler.best_options(h100_or_t4())
        assert ["UNAVAILABLE"] == [code for code, _ in autoscaler.errors]


def test_without_tls_nobody_is_let_in(running: Running) -> None:
    with grpc.insecure_channel(running.address) as channel:
        autoscaler = FakeClusterAutoscaler(channel)
        assert ["h100", "t4"] == autoscaler.best_options(h100_or_t4())
        assert ["UNAVAILABLE"] == [code for code, _ in autoscaler.errors]


def padded(size_bytes: int) -> tuple[bytes, Options]:
    """A request of at least that size: pods that bring much along that nobody needs."""
    per_pod = 10_000
    container = wire.container({GPU: 1}, env={"PADDING": "x" * per_pod})
    pods = [wire.pod(f"pod-{number}", container) for number in range(size_bytes // per_pod + 1)]
    options = {"large": (machine(devices=8), 1000, pods), "small": (machine(devices=0), 1000, pods[:1])}
    return wire.request(options), options


@pytest.mark.parametrize("size_bytes", [5 * MIB, 50 * MIB])
def test_large_requests_are_taken(autoscaler: FakeClusterAutoscaler, size_bytes: int) -> None:
    request, options = padded(size_bytes)
    assert len(request) >= size_bytes
    assert ["large"] == autoscaler.decided(request, options)
    assert not autoscaler.errors
    assert autoscaler.seconds < 5


def test_beyond_the_limit_every_option_is_passed_on(autoscaler: FakeClusterAutoscaler) -> None:
    request, options = padded(65 * MIB)
    assert ["large", "small"] == autoscaler.decided(request, options, timeout=60)  # however slowly it is sent
    assert ["RESOURCE_EXHAUSTED"] == [code for code, _ in autoscaler.errors]


def test_several_ask_at_once(running: Running) -> None:
    def ask(_: int) -> list[str]:
        with connected(running.address, running.issuer) as autoscaler:
            found = autoscaler.best_options(h100_or_t4())
            assert not autoscaler.errors
            return found

    with ThreadPoolExecutor(4) as pool:
        assert [["h100"]] * 24 == list(pool.map(ask, range(24)))


def test_plans_that_wait_do_not_hold_it_up(running: Running, autoscaler: FakeClusterAutoscaler) -> None:
    def plan(number: int) -> int:
        load = {"input_tokens": 2000, "output_tokens": 500, "requests_per_second": {"mid": 100 + number}}
        level = {"ttft_seconds": 2, "tpot_seconds": 0.05}
        body = json.dumps({"model": {"name": "llama-3.1-70b"}, "service_level": level, "workloads": [load]}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{running.service.http}/v1/fleets:plan", body, headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            status: int = response.status
            return status

    with ThreadPoolExecutor(8) as pool:
        plans = [pool.submit(plan, number) for number in range(8)]
        time.sleep(0.3)  # until they queue
        assert ["h100"] == autoscaler.best_options(h100_or_t4())
        assert not all(each.done() for each in plans)
    assert {200} == {each.result() for each in plans}
    assert not autoscaler.errors


def test_a_short_deadline_passes_every_option_on_and_harms_nothing(autoscaler: FakeClusterAutoscaler) -> None:
    request, options = padded(20 * MIB)
    assert ["large", "small"] == autoscaler.decided(request, options, timeout=0.001)
    assert ["DEADLINE_EXCEEDED"] == [code for code, _ in autoscaler.errors]
    assert ["h100"] == autoscaler.best_options(h100_or_t4())


def scraped(running: Running) -> str:
    with urllib.request.urlopen(f"{running.service.http}/metrics", timeout=10) as response:
        text: str = response.read().decode()
        return text


def test_the_certificate_is_renewed_under_an_open_connection(tmp_path: Path) -> None:
    with expanding(tmp_path) as running, connected(running.address, running.issuer) as old:
        assert ["h100"] == old.best_options(h100_or_t4())
        issuer = issue(tmp_path, "localhost")
        with connected(running.address, issuer) as new:
            assert ["h100"] == new.best_options(h100_or_t4())
            assert not new.errors
        assert ["h100"] == old.best_options(h100_or_t4())  # its connection stays
        assert not old.errors
        with connected(running.address, running.issuer) as late:
            assert ["h100", "t4"] == late.best_options(h100_or_t4())
            assert ["UNAVAILABLE"] == [code for code, _ in late.errors]
        (tmp_path / "tls.key").write_text("half a ke")
        with connected(running.address, issuer) as new:
            assert ["h100"] == new.best_options(h100_or_t4())  # what is no good is not taken
        assert "the old certificate stays in use" in running.service.log.read_text()
        again = issue(tmp_path, "localhost")
        with connected(running.address, again) as new:
            assert ["h100"] == new.best_options(h100_or_t4())
            assert not new.errors


def test_connections_are_closed_gently_when_they_are_old(tmp_path: Path) -> None:
    age = {"TONNAGE_AUTOSCALER_MAX_CONNECTION_AGE_SECONDS": "1"}
    with expanding(tmp_path, **age) as running, connected(running.address, running.issuer) as autoscaler:
        for _ in range(25):
            assert ["h100"] == autoscaler.best_options(h100_or_t4())
            time.sleep(0.1)
        assert not autoscaler.errors


def test_what_was_not_judged_is_counted(running: Running, autoscaler: FakeClusterAutoscaler) -> None:
    pods = [started("vllm/vllm-openai", "--model", "org/nobody-knows-it")]
    autoscaler.best_options({"a": (machine(), 1, pods)})
    text = scraped(running)
    (count,) = re.findall(r'^tonnage_expander_unjudged_total\{what="model"\} (\S+)$', text, re.MULTILINE)
    assert float(count) >= 1
    assert 'grpc_method="BestOptions",grpc_service="grpcplugin.Expander"' in text


# ---------------------------------------------------------------------------------------------------------- deadlines


class FakeCall:
    """What a call says of its deadline."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def time_remaining(self) -> float | None:
        return self._seconds


def best_options(
    planner: Planner, executor: Executor, seconds: float | None, options: Options | None = None, **settings: float
) -> bytes:
    """One call within a deadline."""
    metrics = AutoscalerMetrics(CollectorRegistry())
    (method,) = expander.methods(planner, Settings(**settings), metrics, executor)  # type: ignore[arg-type]
    assert isinstance(method, UnaryMethod)
    assert METHOD == method.name.path
    context: Any = FakeCall(seconds)

    async def asked() -> bytes:
        return await method.answer(wire.request(options or h100_or_t4()), context)

    return asyncio.run(asked())


def test_weights_are_settings(scaled_planner: Planner) -> None:
    pods = plain_pods(8)
    more, half = (machine(devices=8), 2, pods), (machine(devices=4), 2, pods[:4])
    full, priced = (machine(devices=4), 1, pods[:4]), (machine(devices=8, instance_type="p4d.24xlarge"), 3, pods)
    gang = (machine(devices=8), 1, plain_pods(2, gang="g", begin="g"))
    part = (machine(devices=8), 2, [*pods, plain_pods(2, gang="g", begin="g")[0]])

    def found(options: Options, **settings: float) -> list[str]:
        with ThreadPoolExecutor(1) as executor:
            return wire.chosen_ids(best_options(scaled_planner, executor, None, options, **settings))

    options = {"half": half, "more": more, "full": full}
    assert ["more"] == found(options)
    assert ["more"] == found(options, expander_fit_weight=1)
    assert ["full"] == found(options, expander_waste_weight=1)
    assert ["gang"] == found({"part": part, "gang": gang}, expander_gang_weight=1)
    assert ["part"] == found({"part": part, "gang": gang}, expander_fit_weight=1)
    dear = (machine(devices=8, instance_type="p5.48xlarge"), 2, pods)  # 2 × 55.04 beside 3 × 21.96 $/h, and fewer idle
    assert ["dear"] == found({"dear": dear, "priced": priced})
    assert ["priced"] == found({"dear": dear, "priced": priced}, expander_cost_weight=1)


def test_without_a_deadline_there_is_an_answer_too(scaled_planner: Planner) -> None:
    with ThreadPoolExecutor(1) as executor:
        for seconds in (None, 3600.0, 2.0):
            assert ["h100"] == wire.chosen_ids(best_options(scaled_planner, executor, seconds))


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_deadline_that_is_over_is_an_error(scaled_planner: Planner, seconds: float) -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(OutOfTime):
        best_options(scaled_planner, executor, seconds)


def test_the_error_comes_before_the_deadline(scaled_planner: Planner) -> None:
    released = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        busy: Future[bool] = executor.submit(released.wait, 30)
        begun = time.monotonic()
        try:
            with pytest.raises(OutOfTime):
                best_options(scaled_planner, executor, 3.0)
            assert time.monotonic() - begun < 3.0
        finally:
            released.set()
        assert busy.result()
