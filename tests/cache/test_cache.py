"""What the doors see, with the in-process tier alone: a cache without Redis is the default."""

import asyncio
from collections import Counter

import pytest

from service.cache.cache import Cache
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.cache.port import BreakerState, ErrorKind, Tier


class Tally:
    """An observer that counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def hit(self, tier: Tier, rpc: str) -> None:
        self.counts[f"{tier} {rpc} hit"] += 1

    def miss(self, tier: Tier, rpc: str) -> None:
        self.counts[f"{tier} {rpc} miss"] += 1

    def error(self, tier: Tier, rpc: str, kind: ErrorKind) -> None:
        self.counts[f"{tier} {rpc} {kind}"] += 1

    def breaker_changed(self, state: BreakerState) -> None:
        self.counts[f"breaker {state}"] += 1


def _cache(local: LocalTier, *, catalogue_revision: str = "c0ffee", observer: Tally | None = None) -> Cache:
    keys = KeySpace(catalogue_revision=catalogue_revision, code_version="1.2.0")
    return Cache(keys=keys, local=local, observer=observer)


@pytest.fixture
def local() -> LocalTier:
    return LocalTier(max_bytes=1_000_000, max_entries=1_000)


def test_an_answer_stored_is_found_under_its_rpc_flavour_and_request_only(local: LocalTier) -> None:
    tally = Tally()
    cache = _cache(local, observer=tally)
    cache.store("FitNode", "protobuf", b"request", b"answer")
    assert b"answer" == cache.peek("FitNode", "protobuf", b"request")
    assert cache.peek("FitNode", "json", b"request") is None
    assert cache.peek("FitNode", "protobuf", b"another") is None
    assert cache.peek("PlanFleet", "protobuf", b"request") is None
    assert {"local FitNode hit": 1, "local FitNode miss": 2, "local PlanFleet miss": 1} == dict(tally.counts)


def test_each_flavour_keeps_its_own_rendering(local: LocalTier) -> None:
    cache = _cache(local)
    cache.store("FitNode", "protobuf", b"{}", b"\x08\x01")
    cache.store("FitNode", "json", b"{}", b'{"fits":true}')
    assert b"\x08\x01" == cache.peek("FitNode", "protobuf", b"{}")
    assert b'{"fits":true}' == cache.peek("FitNode", "json", b"{}")


def test_another_catalogue_never_finds_the_answer_even_in_the_same_tier(local: LocalTier) -> None:
    _cache(local).store("FitNode", "protobuf", b"request", b"answer")
    assert _cache(local, catalogue_revision="decade").peek("FitNode", "protobuf", b"request") is None


def test_a_request_too_large_to_be_kept_is_neither_hashed_nor_stored(local: LocalTier) -> None:
    cache = _cache(local)
    cache.store("FitNode", "protobuf", b"r" * local.max_entry_bytes, b"answer")
    assert cache.peek("FitNode", "protobuf", b"r" * local.max_entry_bytes) is None
    assert cache.peek("FitNode", "protobuf", b"r" * (local.max_entry_bytes + 1)) is None
    assert 0 == len(cache.local)


async def test_without_redis_the_answer_is_computed_once_for_all_who_ask(local: LocalTier) -> None:
    cache = _cache(local)
    num_computed = 0

    async def compute() -> bytes:
        nonlocal num_computed
        num_computed += 1
        await asyncio.sleep(0.01)
        return b"answer"

    for rpc in ("FitNode", "EstimateDecode"):
        answers = await asyncio.gather(*(cache.get_or_compute(rpc, b"request", compute) for _ in range(5)))
        assert [b"answer"] * 5 == answers
    assert 2 == num_computed, "once an RPC"
    await cache.close()


async def test_errors_are_raised_and_never_kept(local: LocalTier) -> None:
    cache = _cache(local)

    async def fail() -> bytes:
        raise LookupError("no such model")

    async def compute() -> bytes:
        return b"answer"

    with pytest.raises(LookupError, match="no such model"):
        await cache.get_or_compute("FitNode", b"request", fail)
    assert b"answer" == await cache.get_or_compute("FitNode", b"request", compute)
