"""The service over a real Redis: who shares answers, and that nobody notices when it is gone."""

import re
from typing import TYPE_CHECKING, Any

import httpx

from service.api import examples
from tests.service_process import RunningService, running_service

if TYPE_CHECKING:
    from tests.redis_process import RedisServer

FIT, DECODE = "/v1/nodes:fit", "/v1/decode:estimate"


def ask(running: RunningService, path: str, question: dict[str, Any]) -> bytes:
    response = httpx.post(running.http + path, json=question, timeout=30)
    assert 200 == response.status_code
    return response.content


def hits(running: RunningService, rpc: str) -> float:
    """How often Redis had the answer of this RPC."""
    line = f'tonnage_cache_requests_total{{outcome="hit",rpc="{rpc}",tier="redis"}}'
    text = httpx.get(f"{running.http}/metrics").text
    return float(re.findall(rf"^{re.escape(line)} (\S+)$", text, re.MULTILINE)[0])


def test_what_is_heavy_is_computed_once_for_all_processes(redis_server: "RedisServer") -> None:
    question = examples.REQUESTS["FitNode"]
    with running_service(TONNAGE_REDIS_URL=redis_server.url) as first:
        planned = ask(first, FIT, question)
        assert 0 == hits(first, "FitNode")
    with running_service(TONNAGE_REDIS_URL=redis_server.url) as second:
        assert planned == ask(second, FIT, question)
        assert 1 == hits(second, "FitNode")
        ask(second, DECODE, examples.REQUESTS["EstimateDecode"])
        assert 0 == hits(second, "EstimateDecode")
    with redis_server.client() as client:
        (key,) = client.keys("*")
    assert re.fullmatch(rb"tonnage:1:\w+:[\w.-]+:FitNode:\w+", key)


def test_a_setting_widens_redis_to_every_rpc(redis_server: "RedisServer") -> None:
    question = examples.REQUESTS["EstimateDecode"]
    settings = {"TONNAGE_REDIS_URL": redis_server.url, "TONNAGE_REDIS_ALL_RPCS": "true"}
    with running_service(**settings) as first, running_service(**settings) as second:
        assert ask(first, DECODE, question) == ask(second, DECODE, question)
        assert 1 == hits(second, "EstimateDecode")


def test_nobody_notices_that_redis_is_gone(redis_server: "RedisServer") -> None:
    with running_service(TONNAGE_REDIS_URL=redis_server.url) as running:
        question = examples.REQUESTS["FitNode"]
        before = ask(running, FIT, question | {"concurrency": 3})
        redis_server.kill()
        assert before == ask(running, FIT, question | {"concurrency": 3})
        for number in range(8):
            ask(running, FIT, question | {"concurrency": 4 + number})
        assert 200 == httpx.get(f"{running.http}/readyz").status_code


def test_a_redis_that_never_was_there_delays_no_start(idle_redis_server: "RedisServer") -> None:
    with running_service(TONNAGE_REDIS_URL=idle_redis_server.url) as running:
        ask(running, FIT, examples.REQUESTS["FitNode"])
