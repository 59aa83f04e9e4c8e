"""Replicas behind a proxy: they answer the same, share Redis, and one that dies or is replaced costs nobody a request."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from service.api import examples
from tests.programs import program
from tests.service_process import RunningService, free_port, running_service
from tonnage import Client

if TYPE_CHECKING:
    from tests.redis_process import RedisServer

LOAD_SECONDS = 2.5
Asking = AbstractContextManager[Callable[[int], None]]


def configuration(port: int, replicas: list[RunningService]) -> str:
    """HAProxy in front of them: checked by readiness, and a request that reached nobody goes to another."""
    servers = "\n".join(
        f"  server replica{number} {each.http.removeprefix('http://')} check inter 100ms fall 1 rise 1"
        for number, each in enumerate(replicas)
    )
    return f"""
defaults
  mode http
  timeout connect 1s
  timeout client 30s
  timeout server 30s
  retries 3
  option redispatch 1
  option http-buffer-request
  retry-on all-retryable-errors
  # On a connection that is kept, HAProxy leaves it to the caller to ask again; so none is kept.
  option httpclose
frontend all
  bind 127.0.0.1:{port}
  default_backend replicas
backend replicas
  balance roundrobin
  option httpchk GET /readyz
{servers}
"""


@contextlib.contextmanager
def proxy(folder: Path, replicas: list[RunningService]) -> Iterator[str]:
    port = free_port()
    path = folder / "haproxy.cfg"
    path.write_text(configuration(port, replicas))
    process = subprocess.Popen([program("haproxy"), "-f", str(path), "-db"], stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 10
        while not is_ready(address):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(10)


def is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", timeout=1).status_code == 200
    except httpx.TransportError:
        return False


class Load:
    """Asks without a pause from some threads, and counts what went wrong."""

    def __init__(self, asks: "list[Asking]") -> None:
        self._stop = threading.Event()
        self.failures: list[str] = []
        self.num_answers = 0
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in asks]

    def __enter__(self) -> "Load":
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join(30)

    def _run(self, asking: "Asking") -> None:
        number = 0
        with asking as ask:
            while not self._stop.is_set():
                number += 1
                try:
                    ask(number)
                    self.num_answers += 1
                except Exception as error:
                    self.failures.append(repr(error))


@contextlib.contextmanager
def over_rest(address: str) -> Iterator[Callable[[int], None]]:
    with httpx.Client(base_url=address, timeout=30) as client:

        def ask(number: int) -> None:
            question = examples.REQUESTS["EstimateDecode"] | {"batch_size": number % 200 + 1}
            client.post("/v1/decode:estimate", json=question).raise_for_status()

        yield ask


@contextlib.contextmanager
def over_grpc(replicas: list[RunningService]) -> Iterator[Callable[[int], None]]:
    with Client("ipv4:" + ",".join(each.grpc for each in replicas)) as client:

        def ask(number: int) -> None:
            client.estimate_decode(
                model="llama-3.1-8b", accelerator="h100-sxm", batch_size=number % 200 + 1, context_tokens=1024 + number % 50
            )

        yield ask


def redis_hits(running: RunningService) -> float:
    lines = httpx.get(f"{running.http}/metrics", timeout=30).text.splitlines()
    return sum(
        float(line.split()[-1])
        for line in lines
        if line.startswith("tonnage_cache_requests_total") and "redis" in line and '"hit"' in line
    )


def test_replicas_answer_the_same_and_share_what_they_computed(redis_server: "RedisServer", tmp_path: Path) -> None:
    settings = {"TONNAGE_REDIS_URL": redis_server.url, "TONNAGE_REDIS_TIMEOUT_SECONDS": "5"}
    with (
        running_service(**settings) as first,
        running_service(**settings) as second,
        proxy(tmp_path, [first, second]) as address,
    ):
        for rpc, path in (("FitNode", "/v1/nodes:fit"), ("EstimateDecode", "/v1/decode:estimate")):
            answers = {httpx.post(address + path, json=examples.REQUESTS[rpc], timeout=30).content}
            if rpc == "FitNode":
                until_kept(redis_server)
            answers |= {httpx.post(address + path, json=examples.REQUESTS[rpc], timeout=30).content for _ in range(5)}
            assert 1 == len(answers)
        assert 1 == redis_hits(first) + redis_hits(second)  # the one that did not compute it asked Redis once


def until_kept(server: "RedisServer") -> None:
    """Answers are kept behind the caller's back."""
    deadline = time.monotonic() + 10
    with server.client() as client:
        while not client.dbsize():
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_replica_that_is_killed_costs_nobody_a_request(tmp_path: Path) -> None:
    with running_service() as first, running_service() as second, proxy(tmp_path, [first, second]) as address:
        replicas = [first, second]
        with Load([over_rest(address), over_grpc(replicas), over_grpc(replicas)]) as load:
            time.sleep(LOAD_SECONDS / 2)
            before = load.num_answers
            second.process.kill()
            time.sleep(LOAD_SECONDS)
        assert [] == load.failures
        assert load.num_answers > before > 50


def test_a_rolling_restart_costs_nobody_a_request(tmp_path: Path) -> None:
    with running_service() as first, running_service() as second, running_service() as third:
        replicas = [first, second, third]
        with proxy(tmp_path, replicas) as address, Load([over_rest(address), over_grpc(replicas)]) as load:
            for each in (first, second):
                time.sleep(LOAD_SECONDS / 2)
                each.process.terminate()
                assert 0 == each.process.wait(30)
            time.sleep(LOAD_SECONDS / 2)
        assert [] == load.failures
        assert load.num_answers > 50


SOURCES = """
house:
  title: Our own measurements
  publisher: House
  url: https://example.com/measurements
  date: "2026-11"
  read_as: transcription
"""


def test_two_catalogues_behind_one_redis_never_mix(redis_server: "RedisServer", tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text(SOURCES)
    settings = {"TONNAGE_REDIS_URL": redis_server.url}
    question = examples.REQUESTS["FitNode"]
    with running_service(**settings) as old, running_service(TONNAGE_CATALOGUE_DIR=str(tmp_path), **settings) as new:
        revisions = set()
        for each in (old, new, old, new):
            answer = httpx.post(f"{each.http}/v1/nodes:fit", json=question, timeout=30).json()
            revisions.add(answer["catalogue_revision"])
        assert 2 == len(revisions)
        assert 0 == redis_hits(new)


def test_what_another_secret_signed_is_not_believed(redis_server: "RedisServer") -> None:
    question, settings = examples.REQUESTS["FitNode"], {"TONNAGE_REDIS_URL": redis_server.url}
    with (
        running_service(TONNAGE_REDIS_SECRET="one-secret-of-many", **settings) as one,
        running_service(TONNAGE_REDIS_SECRET="another-secret-here", **settings) as another,
    ):
        answer = httpx.post(f"{one.http}/v1/nodes:fit", json=question, timeout=30).content
        until_kept(redis_server)
        assert answer == httpx.post(f"{another.http}/v1/nodes:fit", json=question, timeout=30).content
        assert 0 == redis_hits(another)
