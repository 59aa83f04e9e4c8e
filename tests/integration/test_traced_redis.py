"""Look-ups in a real Redis as parts of traces: what is recorded of them, and nothing of keys, answers and credentials."""

import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan

from service.api import examples
from service.api.traced_redis import TracedRedis
from service.cache.redis_tier import RedisSettings
from service.request_context import CURRENT, RequestContext
from tests.service_process import running_service
from tests.test_tracing import SPAN, Collector, Recorded

if TYPE_CHECKING:
    from tests.integration.conftest import Tally
    from tests.redis_process import RedisServer

RPC, KEY, ANSWER, PASSWORD = "FitNode", b"key-of-a-caller", b"answer-to-a-caller", "hunter2"
SECRETS = (KEY.decode(), ANSWER.decode(), PASSWORD)


def url_of(server: "RedisServer") -> str:
    """With a password, which a Redis that has none takes too."""
    return server.url.replace("//", f"//default:{PASSWORD}@")


class Traced:
    """Tiers over one Redis whose spans stay in memory."""

    def __init__(self, server: "RedisServer", tally: "Tally") -> None:
        self.recorded = Recorded()
        self._server, self._tally = server, tally
        self.tiers: list[TracedRedis] = []

    def tier(self, timeout_seconds: float = 10.0) -> TracedRedis:
        """A tier of its own. It waits for longer than any machine is busy, unless it is told otherwise."""
        settings = RedisSettings(
            url=url_of(self._server),
            connect_timeout_seconds=timeout_seconds,
            answer_timeout_seconds=timeout_seconds,
            close_timeout_seconds=10,
        )
        self.tiers.append(TracedRedis(self.recorded.tracing, settings, observer=self._tally))
        return self.tiers[-1]

    async def request(self, tier: TracedRedis) -> tuple[bytes | None, ReadableSpan]:
        """What a request finds, which then has its answer written, and the one span below it."""
        token = CURRENT.set(RequestContext("mine"))
        try:
            self.recorded.tracing.begin("whole", {})
            found = await tier.get(RPC, KEY)
            tier.put_soon(RPC, KEY, ANSWER)
            self.recorded.tracing.end("OK")
        finally:
            CURRENT.reset(token)
        await tier.close()
        look_up, whole = self.recorded.exporter.get_finished_spans()
        self.recorded.exporter.clear()
        assert look_up.parent is not None
        assert (whole.context.span_id, "UNSET") == (look_up.parent.span_id, whole.status.status_code.name)
        return found, look_up


@pytest.fixture
async def traced(redis_server: "RedisServer", tally: "Tally") -> AsyncIterator[Traced]:
    made = Traced(redis_server, tally)
    yield made
    for tier in made.tiers:
        await tier.close()


async def test_a_look_up_is_a_span_that_says_whether_it_found_something_and_a_write_is_none(
    traced: Traced, tally: "Tally"
) -> None:
    for expected in (None, ANSWER):
        found, span = await traced.request(traced.tier())
        assert expected == found
        assert ("cache.redis", "UNSET") == (span.name, span.status.status_code.name)
        assert {"cache.hit": expected is not None} == span.attributes
    assert {"miss": 1, "hit": 1} == tally.counts()


def poison(server: "RedisServer") -> None:
    with server.client() as client:
        client.set(KEY, ANSWER)


def put_a_list_there(server: "RedisServer") -> None:
    with server.client() as client:
        client.rpush(KEY, ANSWER)


def forbid(server: "RedisServer") -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-get", "-set")


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lambda server: server.kill(), "connection"),
        (lambda server: server.pause(), "timeout"),
        (forbid, "refused"),
        (poison, "corrupt"),
        (put_a_list_there, "corrupt"),
    ],
    ids=["gone", "stalled", "forbidden", "poisoned", "of another type"],
)
async def test_a_look_up_that_fails_is_an_error_of_its_kind_and_none_to_the_caller(
    traced: Traced,
    redis_server: "RedisServer",
    tally: "Tally",
    caplog: pytest.LogCaptureFixture,
    spoil: "Callable[[RedisServer], object]",
    kind: str,
) -> None:
    spoil(redis_server)
    found, span = await traced.request(traced.tier(timeout_seconds=0.2 if kind == "timeout" else 10.0))
    assert found is None
    assert ("cache.redis", "ERROR", None) == (span.name, span.status.status_code.name, span.status.description)
    assert {"cache.hit": False, "error.type": kind} == span.attributes
    assert not span.events  # an exception's words may hold the key
    assert not [secret for secret in SECRETS if secret in span.to_json()]
    assert tally.counts()[kind] >= 1
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]  # as of a write, told too late


async def test_outside_a_request_nothing_is_recorded_and_a_failure_hurts_nobody(
    traced: Traced, redis_server: "RedisServer", tally: "Tally"
) -> None:
    redis_server.kill()
    assert await traced.tier().get(RPC, KEY) is None
    assert () == traced.recorded.exporter.get_finished_spans()
    assert {"connection": 1, "miss": 1} == tally.counts()


def test_the_service_sends_it_below_the_span_of_the_rpc(redis_server: "RedisServer") -> None:
    trace_id = "f" * 32
    with Collector() as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        settings = {"TONNAGE_TRACES": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        with running_service(TONNAGE_REDIS_URL=url_of(redis_server), **settings) as running:
            headers = {"traceparent": f"00-{trace_id}-{SPAN}-01"}
            question = examples.REQUESTS["FitNode"]
            assert 200 == httpx.post(f"{running.http}/v1/nodes:fit", json=question, headers=headers, timeout=30).status_code
            spans = collector.with_trace(trace_id, 4)
        collector.shutdown()
    look_up = spans["cache.redis"]
    assert spans["tonnage.v1.CapacityService/FitNode"].span_id == look_up.parent_span_id
    assert [("cache.hit", False)] == [(each.key, each.value.bool_value) for each in look_up.attributes]
    assert PASSWORD not in str(spans)
