"""A private, real redis-server for each test, and an observer that counts."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.cache.port import BreakerState, ErrorKind, Tier
from tests.redis_process import RedisServer


class Tally:
    """An observer that counts what happened by outcome, and remembers where the breaker went."""

    def __init__(self) -> None:
        self.redis: Counter[str] = Counter()
        self.states: list[BreakerState] = []

    def hit(self, tier: Tier, rpc: str) -> None:
        self.redis["hit"] += tier == "redis"

    def miss(self, tier: Tier, rpc: str) -> None:
        self.redis["miss"] += tier == "redis"

    def error(self, tier: Tier, rpc: str, kind: ErrorKind) -> None:
        self.redis[kind] += tier == "redis"

    def breaker_changed(self, state: BreakerState) -> None:
        self.states.append(state)

    def counts(self) -> dict[str, int]:
        """What was counted at all."""
        return {name: count for name, count in self.redis.items() if count}


@pytest.fixture
def idle_redis_server() -> Iterator[RedisServer]:
    """A server that was not started yet."""
    # Not pytest's tmp_path: a Unix socket's path may have about 100 characters.
    with tempfile.TemporaryDirectory(prefix="redis-") as directory:
        server = RedisServer(Path(directory))
        yield server
        server.stop()


@pytest.fixture
def redis_server(idle_redis_server: RedisServer) -> RedisServer:
    """A server that answers."""
    idle_redis_server.start()
    return idle_redis_server


@pytest.fixture
def tally() -> Tally:
    """An observer that counts."""
    return Tally()
