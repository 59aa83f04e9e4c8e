"""The cache over a real Redis that answers: what is shared, what is never shared, and what is not believed."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import pytest
import redis
from msgspec import structs

from service.cache.cache import Cache
from service.cache.envelope import Envelope
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.cache.port import BreakerState
from service.cache.redis_tier import RedisSettings, RedisTier

if TYPE_CHECKING:
    from tests.integration.conftest import Tally
    from tests.redis_process import RedisServer

KEYS = KeySpace(catalogue_revision="c0ffee", code_version="1.2.0")
REQUEST = b"request"
ANSWER = b"answer"


class Compute:
    """Computes the answer, and counts how often."""

    def __init__(self, answer: bytes = ANSWER) -> None:
        self.num_computed = 0
        self._answer = answer

    async def __call__(self) -> bytes:
        self.num_computed += 1
        await asyncio.sleep(0)
        return self._answer


class Opener:
    """Opens caches as separate processes would: each with its own tiers, over the same Redis."""

    def __init__(self, server: "RedisServer", tally: "Tally") -> None:
        # Patient where nothing is to time out: the machine may be busy.
        self.settings = RedisSettings(url=server.url, connect_timeout_seconds=10, answer_timeout_seconds=10)
        self._tally = tally
        self.caches: list[Cache] = []

    def __call__(self, *, keys: KeySpace = KEYS, every_rpc: bool = False, **settings: object) -> Cache:
        changed: Callable[..., RedisSettings] = dataclasses.replace
        tier = RedisTier(changed(self.settings, **settings), observer=self._tally)
        local = LocalTier(max_bytes=1_000_000, max_entries=1_000)
        cache = Cache(keys=keys, local=local, redis=tier, observer=self._tally, redis_for_every_rpc=every_rpc)
        self.caches.append(cache)
        return cache


@pytest.fixture
async def open_cache(redis_server: "RedisServer", tally: "Tally") -> AsyncIterator[Opener]:
    opener = Opener(redis_server, tally)
    yield opener
    for cache in opener.caches:
        await cache.close()


async def _answered_then_closed(cache: Cache, rpc: str = "FitNode", request: bytes = REQUEST) -> int:
    """Ask, check the answer, and close, which finishes the write; how often it was computed."""
    compute = Compute()
    assert ANSWER == await cache.get_or_compute(rpc, request, compute)
    await cache.close()
    return compute.num_computed


@pytest.mark.parametrize("secret", [None, b"secret"])
async def test_what_one_process_computed_another_reads(open_cache: Opener, tally: "Tally", secret: bytes | None) -> None:
    assert 1 == await _answered_then_closed(open_cache(secret=secret))
    assert {"miss": 1} == tally.counts()
    assert 0 == await _answered_then_closed(open_cache(secret=secret))
    assert {"miss": 1, "hit": 1} == tally.counts()


async def test_a_unix_socket_serves_as_well(open_cache: Opener, redis_server: "RedisServer", tally: "Tally") -> None:
    for expected in (1, 0):
        assert expected == await _answered_then_closed(open_cache(url=redis_server.unix_url))
    assert {"miss": 1, "hit": 1} == tally.counts()


async def test_another_code_version_or_catalogue_never_reads_the_answer(open_cache: Opener) -> None:
    assert 1 == await _answered_then_closed(open_cache())
    for keys in (
        structs.replace(KEYS, code_version="1.2.1"),
        structs.replace(KEYS, catalogue_revision="decade"),
    ):
        assert 1 == await _answered_then_closed(open_cache(keys=keys))


async def test_a_cheap_rpc_leaves_redis_alone_unless_it_is_widened(
    open_cache: Opener, redis_server: "RedisServer", tally: "Tally"
) -> None:
    assert 1 == await _answered_then_closed(open_cache(), "EstimateDecode")
    assert {} == tally.counts()
    with redis_server.client() as client:
        assert 0 == client.dbsize()
    for expected in (1, 0):
        assert expected == await _answered_then_closed(open_cache(every_rpc=True), "EstimateDecode")


async def test_concurrent_requests_ask_redis_and_compute_once(open_cache: Opener, tally: "Tally") -> None:
    cache, compute = open_cache(), Compute()
    answers = await asyncio.gather(*(cache.get_or_compute("FitNode", REQUEST, compute) for _ in range(50)))
    assert [ANSWER] * 50 == answers
    assert 1 == compute.num_computed
    assert {"miss": 1} == tally.counts()


async def test_lifetimes_are_spread_by_a_tenth(open_cache: Opener, redis_server: "RedisServer") -> None:
    cache = open_cache(time_to_live_seconds=1000.0)
    for index in range(40):
        await cache.get_or_compute("FitNode", bytes([index]), Compute())
    await cache.close()
    with redis_server.client() as client:
        lifetimes_milliseconds = [int(str(client.pttl(key))) for key in client.scan_iter()]
    assert 40 == len(lifetimes_milliseconds)
    assert max(lifetimes_milliseconds) <= 1_100_000
    assert min(lifetimes_milliseconds) >= 900_000 - 60_000, "a minute for a slow machine"
    assert len(set(lifetimes_milliseconds)) > 20


def _sealed(request: bytes = REQUEST, secret: bytes | None = None, message: bytes = b"wrong") -> bytes:
    key = KEYS.redis_key("FitNode", request)
    return Envelope(secret).seal(key, message)


POISONS = {
    "garbage": b"\xff\x00garbage that is longer than any header would be",
    "nothing": b"",
    "half a header": _sealed()[:12],
    "no message": _sealed()[:26],
    "a truncated message": _sealed()[:-1],
    "a wrong checksum": _sealed()[:25] + b"\0" + _sealed()[26:],
    "another message under the right header": _sealed(message=b"right")[:26] + b"wrong",
    "another key's value": _sealed(request=b"another request"),
    "another secret's value": _sealed(secret=b"another secret"),
    "something too large": _sealed(message=b"w" * 2_000_000),
}


@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS.keys())
@pytest.mark.parametrize("secret", [None, b"secret"])
async def test_a_value_that_does_not_verify_is_a_miss_and_is_overwritten(
    open_cache: Opener, redis_server: "RedisServer", tally: "Tally", poison: bytes, secret: bytes | None
) -> None:
    with redis_server.client() as client:
        client.set(KEYS.redis_key("FitNode", REQUEST), poison)
    assert 1 == await _answered_then_closed(open_cache(secret=secret))
    assert {"miss": 1, "corrupt": 1} == tally.counts()
    assert 0 == await _answered_then_closed(open_cache(secret=secret))
    assert {"miss": 1, "corrupt": 1, "hit": 1} == tally.counts()
    assert [] == tally.states


async def test_a_checksum_that_anyone_can_compute_is_not_believed_where_there_is_a_secret(
    open_cache: Opener, redis_server: "RedisServer", tally: "Tally"
) -> None:
    with redis_server.client() as client:
        client.set(KEYS.redis_key("FitNode", REQUEST), _sealed())
    assert 1 == await _answered_then_closed(open_cache(secret=b"secret"))
    assert {"miss": 1, "corrupt": 1} == tally.counts()


async def test_a_key_of_another_type_is_a_miss_and_is_overwritten(
    open_cache: Opener, redis_server: "RedisServer", tally: "Tally"
) -> None:
    with redis_server.client() as client:
        client.rpush(KEYS.redis_key("FitNode", REQUEST), "a list")
    assert 1 == await _answered_then_closed(open_cache())
    assert {"miss": 1, "corrupt": 1} == tally.counts()
    assert 0 == await _answered_then_closed(open_cache())
    assert [] == tally.states


def _refuses(message: bytes) -> bool:
    return message == ANSWER


def _raises(message: bytes) -> bool:
    if message != ANSWER:
        raise ValueError("cannot be parsed")
    return True


@pytest.mark.parametrize("validate", [_refuses, _raises])
async def test_a_sealed_message_that_the_caller_cannot_use_is_a_miss_and_is_overwritten(
    open_cache: Opener, redis_server: "RedisServer", tally: "Tally", validate: Callable[[bytes], bool]
) -> None:
    with redis_server.client() as client:
        client.set(KEYS.redis_key("FitNode", REQUEST), _sealed())
    for expected in (1, 0):
        cache, compute = open_cache(), Compute()
        assert ANSWER == await cache.get_or_compute("FitNode", REQUEST, compute, validate=validate)
        assert expected == compute.num_computed
        await cache.close()
    assert {"miss": 1, "corrupt": 1, "hit": 1} == tally.counts()


@pytest.mark.parametrize("command", [("CONFIG", "SET", "maxmemory", "1"), ("REPLICAOF", "127.0.0.1", "1")])
async def test_a_full_or_read_only_redis_is_still_read_and_no_error_to_anyone(
    open_cache: Opener, redis_server: "RedisServer", tally: "Tally", command: tuple[str, ...]
) -> None:
    assert 1 == await _answered_then_closed(open_cache(), request=b"before")
    with redis_server.client() as client:
        client.execute_command(*command)
        cache = open_cache()
        for index in range(40):  # enough to fill the breaker's window
            assert ANSWER == await cache.get_or_compute("FitNode", bytes([index]), Compute())
            async with asyncio.timeout(30):
                while tally.redis["refused"] <= index:
                    await asyncio.sleep(0.001)
        assert 0 == await _answered_then_closed(cache, request=b"before")
    assert {"miss": 41, "refused": 40, "hit": 1} == tally.counts()
    assert [] == tally.states


async def test_an_answer_over_the_limit_is_not_written(open_cache: Opener, redis_server: "RedisServer", tally: "Tally") -> None:
    cache, large = open_cache(max_message_bytes=100), Compute(b"l" * 101)
    assert b"l" * 101 == await cache.get_or_compute("FitNode", REQUEST, large)
    await cache.close()
    assert {"miss": 1, "too_large": 1} == tally.counts()
    with redis_server.client() as client:
        assert 0 == client.dbsize()


async def test_a_connection_that_was_closed_while_idle_is_replaced_unnoticed(
    open_cache: Opener, redis_server: "RedisServer", tally: "Tally"
) -> None:
    assert 1 == await _answered_then_closed(open_cache())
    cache = open_cache()
    for _ in range(5):
        assert ANSWER == await cache.get_or_compute("FitNode", REQUEST, Compute())
        with redis_server.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        await asyncio.sleep(0.05)
    assert {"miss": 1, "hit": 5} == tally.counts()


async def test_with_every_connection_busy_a_look_up_is_a_miss_rather_than_a_wait(open_cache: Opener, tally: "Tally") -> None:
    cache = open_cache(max_connections=1, num_writers=0)
    answers = await asyncio.gather(*(cache.get_or_compute("FitNode", bytes([n]), Compute()) for n in range(10)))
    assert [ANSWER] * 10 == answers
    assert {"miss": 10, "pool_exhausted": 9} == tally.counts()
    assert [] == tally.states


async def test_a_password_opens_redis_and_a_wrong_one_is_not_logged(
    open_cache: Opener, redis_server: "RedisServer", tally: "Tally", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    with redis_server.client() as client:
        client.config_set("requirepass", "hunter2")
    for expected in (1, 0):
        url = f"redis://:hunter2@127.0.0.1:{redis_server.port}"
        assert expected == await _answered_then_closed(open_cache(url=url))
    cache = open_cache(url=f"redis://planner:hunter3@127.0.0.1:{redis_server.port}")
    for _ in range(10):
        assert ANSWER == await cache.get_or_compute("FitNode", REQUEST, Compute())
    assert [BreakerState.OPEN] == tally.states
    assert f"127.0.0.1:{redis_server.port}" in caplog.text
    assert "hunter" not in caplog.text


async def test_a_look_up_cancelled_midway_does_not_give_its_reply_to_the_next(
    open_cache: Opener, redis_server: "RedisServer"
) -> None:
    cache = open_cache(max_connections=1)
    for name in (b"first", b"second"):
        assert name == await cache.get_or_compute("FitNode", name, Compute(name))
    await asyncio.sleep(0.1)
    for _ in range(20):
        redis_server.pause()
        cancelled = asyncio.create_task(cache.get_or_compute("FitNode", b"first", Compute(b"first")))
        await asyncio.sleep(0.01)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        redis_server.resume()
        assert b"second" == await cache.get_or_compute("FitNode", b"second", Compute(b"second"))


def test_the_test_can_tell_a_server_from_none(redis_server: "RedisServer") -> None:
    redis_server.kill()
    with redis_server.client() as client, pytest.raises(redis.ConnectionError):
        client.ping()
