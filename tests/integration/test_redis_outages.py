"""The cache over a real Redis that is down, dies, or stalls: every answer is right, none is an error, and it recovers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from service.cache.breaker import BreakerSettings
from service.cache.cache import Cache
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.cache.port import BreakerState
from service.cache.redis_tier import RedisSettings, RedisTier

if TYPE_CHECKING:
    from tests.integration.conftest import Tally
    from tests.redis_process import RedisServer

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN

#: The service runs on uvloop; whoever embeds the cache may not.
RUNNERS: list[Callable[[Coroutine[Any, Any, None]], None]] = [asyncio.run, uvloop.run]
on_both_loops = pytest.mark.parametrize("run", RUNNERS, ids=["asyncio", "uvloop"])

#: A backoff that no test outlives, and one that every test does.
STAYS_OPEN = BreakerSettings(max_consecutive_failures=5, min_backoff_seconds=600.0, max_backoff_seconds=600.0)
REOPENS = BreakerSettings(max_consecutive_failures=5, min_backoff_seconds=0.05, max_backoff_seconds=0.1)


def _tier(server: "RedisServer", tally: "Tally", breaker: BreakerSettings, timeout_seconds: float) -> RedisTier:
    settings = RedisSettings(
        url=server.url,
        connect_timeout_seconds=timeout_seconds,
        answer_timeout_seconds=timeout_seconds,
        close_timeout_seconds=0.2,
        breaker=breaker,
    )
    return RedisTier(settings, observer=tally)


def _cache(tier: RedisTier, tally: "Tally") -> Cache:
    return Cache(
        keys=KeySpace(catalogue_revision="c0ffee", code_version="1.2.0"),
        local=LocalTier(max_bytes=1_000_000, max_entries=1_000),
        redis=tier,
        observer=tally,
    )


def _answer_to(request: bytes) -> bytes:
    return b"answer to " + request


def _compute(request: bytes) -> Callable[[], Awaitable[bytes]]:
    async def compute() -> bytes:
        await asyncio.sleep(0)
        return _answer_to(request)

    return compute


async def _ask(cache: Cache, number: int) -> None:
    request = number.to_bytes(4, "big")
    assert _answer_to(request) == await cache.get_or_compute("FitNode", request, _compute(request))


async def _ask_until(cache: Cache, wanted: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not wanted():
            await _ask(cache, 0)
            await asyncio.sleep(0.01)


@on_both_loops
def test_down_at_start_costs_a_few_tries_and_then_none(
    run: Callable[[Coroutine[Any, Any, None]], None], idle_redis_server: "RedisServer", tally: "Tally"
) -> None:
    async def main() -> None:
        cache = _cache(_tier(idle_redis_server, tally, STAYS_OPEN, 10), tally)
        for number in range(200):
            await _ask(cache, number)
        await cache.close()

    run(main())
    assert [OPEN] == tally.states
    # A failed write counts towards the breaker as a failed read does, and one may be under way as it opens.
    assert 5 <= tally.redis["connection"] <= 7
    assert 200 == tally.redis["miss"]
    assert tally.redis["write_dropped"] >= 190


@on_both_loops
def test_down_at_start_and_up_later_is_found(
    run: Callable[[Coroutine[Any, Any, None]], None], idle_redis_server: "RedisServer", tally: "Tally"
) -> None:
    async def main() -> None:
        cache = _cache(_tier(idle_redis_server, tally, REOPENS, 10), tally)
        await _ask_until(cache, lambda: OPEN in tally.states)
        idle_redis_server.start()
        await _ask_until(cache, lambda: tally.redis["hit"] > 0)
        await cache.close()

    run(main())
    assert CLOSED is tally.states[-1]


@on_both_loops
def test_killed_under_load_no_answer_is_wrong_and_after_a_restart_it_is_used_again(
    run: Callable[[Coroutine[Any, Any, None]], None], redis_server: "RedisServer", tally: "Tally"
) -> None:
    async def load(cache: Cache, worker: int, until: asyncio.Event) -> int:
        num_answered = 0
        while not until.is_set():
            await _ask(cache, (worker * 7 + num_answered) % 50)
            await asyncio.sleep(0)
            num_answered += 1
        return num_answered

    async def main() -> None:
        cache, until = _cache(_tier(redis_server, tally, REOPENS, 10), tally), asyncio.Event()
        async with asyncio.timeout(120):
            workers = [asyncio.create_task(load(cache, worker, until)) for worker in range(20)]
            await _ask_until(cache, lambda: tally.redis["hit"] > 100)
            assert [] == tally.states
            redis_server.kill()
            await _ask_until(cache, lambda: OPEN in tally.states)
            redis_server.start()
            num_hits_before = tally.redis["hit"]
            await _ask_until(cache, lambda: CLOSED in tally.states and tally.redis["hit"] > num_hits_before + 100)
            until.set()
            assert all(num_answered > 0 for num_answered in await asyncio.gather(*workers))
        await cache.close()

    run(main())
    assert [OPEN, HALF_OPEN] == tally.states[:2]
    assert CLOSED is tally.states[-1]
    assert 0 == tally.redis["unexpected"]


@on_both_loops
def test_stalled_each_look_up_is_bounded_and_soon_there_are_none(
    run: Callable[[Coroutine[Any, Any, None]], None], redis_server: "RedisServer", tally: "Tally"
) -> None:
    async def main() -> None:
        cache = _cache(_tier(redis_server, tally, STAYS_OPEN, 0.1), tally)
        redis_server.pause()
        began_seconds = time.monotonic()
        for number in range(500):
            await _ask(cache, number)
        # Ten timeouts at the very most, one for each of five look-ups and writes; 500 of them would take 50 s.
        assert time.monotonic() - began_seconds < 10
        await cache.close()

    run(main())
    assert [OPEN] == tally.states
    assert 5 <= tally.redis["timeout"] <= 7
    assert 500 == tally.redis["miss"]


@on_both_loops
def test_stalled_while_connected_and_going_on_it_is_used_again(
    run: Callable[[Coroutine[Any, Any, None]], None], redis_server: "RedisServer", tally: "Tally"
) -> None:
    async def main() -> None:
        cache = _cache(_tier(redis_server, tally, REOPENS, 0.1), tally)
        await _ask_until(cache, lambda: tally.redis["hit"] > 10)
        redis_server.pause()
        await _ask_until(cache, lambda: tally.states.count(OPEN) >= 2)
        redis_server.resume()
        num_hits_before = tally.redis["hit"]
        await _ask_until(cache, lambda: tally.redis["hit"] > num_hits_before + 10)
        await cache.close()

    run(main())
    assert (HALF_OPEN, OPEN) in pairwise(tally.states), "a probe failed"
    assert CLOSED is tally.states[-1]


@on_both_loops
def test_stalled_pending_writes_stay_bounded_and_closing_does_not_wait_for_them(
    run: Callable[[Coroutine[Any, Any, None]], None], redis_server: "RedisServer", tally: "Tally"
) -> None:
    async def main() -> None:
        tier = _tier(redis_server, tally, STAYS_OPEN, 600)
        redis_server.pause()
        num_tasks_before = len(asyncio.all_tasks())
        for number in range(1_000):
            tier.put_soon("FitNode", b"key %d" % number, b"message")
            if number % 100 == 0:
                await asyncio.sleep(0)
        assert 256 == tier.num_pending_writes
        assert 2 == len(asyncio.all_tasks()) - num_tasks_before
        async with asyncio.timeout(60):
            await tier.close()
        assert num_tasks_before == len(asyncio.all_tasks())
        assert 0 == tier.num_pending_writes

    run(main())
    assert {"write_dropped": 1_000 - 2} == tally.counts(), "two were being written"


@on_both_loops
def test_stalled_pending_writes_are_bounded_in_bytes_too(
    run: Callable[[Coroutine[Any, Any, None]], None], redis_server: "RedisServer", tally: "Tally"
) -> None:
    async def main() -> None:
        tier = _tier(redis_server, tally, STAYS_OPEN, 600)
        redis_server.pause()
        for number in range(100):
            tier.put_soon("FitNode", b"key %d" % number, b"m" * (1 << 20))
        assert 16 == tier.num_pending_writes
        await tier.close()

    run(main())
    assert {"write_dropped": 100 - 2} == tally.counts(), "two were being written"


@on_both_loops
def test_closing_finishes_the_writes_and_leaves_look_ups_in_flight_unharmed(
    run: Callable[[Coroutine[Any, Any, None]], None], redis_server: "RedisServer", tally: "Tally"
) -> None:
    async def main() -> None:
        cache = _cache(_tier(redis_server, tally, STAYS_OPEN, 10), tally)
        for number in range(100):
            await _ask(cache, number)
        in_flight = [asyncio.create_task(_ask(cache, number)) for number in range(30)]
        await asyncio.sleep(0)
        await cache.close()
        await asyncio.gather(*in_flight)
        await _ask(cache, 0)

    run(main())
    with redis_server.client() as client:
        assert 100 == client.dbsize()
