"""A service that the command line starts itself: answers, on a free port, and is gone however the command ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from tests.client.conftest import Run
from tests.service_process import free_port
from tonnage.cli import local_service
from tonnage.cli.exits import Exit

TONNAGE = [sys.executable, "-c", "from tonnage.cli import main; main()"]
DECODE = ("decode", "llama-3.1-8b", "h100-sxm", "--context-tokens", "4096")
#: A grid that would take far longer than any test.
LONG = (
    *("sweep", "--model", "llama-3.1-70b,llama-3.1-8b,mixtral-8x7b,qwen3-32b", "--accelerator", "h100-sxm,h200-sxm,b200"),
    *("--shape", "tp1,tp2,tp4,tp8", "--batch-size", "1:1000", "--context-tokens", "128:16000:128", "--timeout", "300"),
)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "Z" != Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def is_gone(pid: int, within_seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + within_seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


def test_one_call_and_nothing_is_left(run_against: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONNAGE_HTTP_PORT", "1")  # what is set for other services does not reach this one
    before = children(os.getpid())

    code, shown, said = run_against(f"127.0.0.1:{free_port()}", "--local", *DECODE, "--json")

    assert (Exit.ANSWERED, "") == (code, said)
    assert json.loads(shown)["fits"]
    assert before == children(os.getpid())


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the child in /proc")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_however_the_command_ends_the_service_ends(ending: signal.Signals, tmp_path: Path) -> None:
    output = tmp_path / "sweep.csv"
    with subprocess.Popen(
        [*TONNAGE, *LONG, "--local", "--output", str(output)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        deadline = time.monotonic() + 40
        while not (output.exists() and output.stat().st_size) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        [service] = children(process.pid)
        process.send_signal(ending)
        _, said = process.communicate(timeout=40)

    assert is_gone(service)
    assert b"Traceback" not in said
    assert {signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[ending] == process.returncode


def test_the_client_alone_says_what_it_takes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)

    for arguments in (("serve",), ("models", "--local")):
        code, _, said = run(*arguments)
        assert Exit.BAD_REQUEST == code
        assert "pip install tonnage-service" in said


def test_a_service_that_does_not_start_says_why_in_a_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONNAGE_SWEEP_MAX_POINTS", "none")
    code, _, said = run("models", "--local")

    assert Exit.SERVICE_FAILED == code
    assert "TONNAGE_SWEEP_MAX_POINTS: 'none' is not a whole number" in said

    monkeypatch.setattr(local_service, "COMMAND", (sys.executable, "-c", "raise ValueError('broken')"))
    code, _, said = run("models", "--local")

    assert Exit.SERVICE_FAILED == code
    assert "ValueError: broken" in said
    assert "Traceback" not in said


def test_serve_is_the_service_itself(run_against: Run) -> None:
    environment = os.environ | {"TONNAGE_MCP": "false"}
    command = [*TONNAGE, "serve", "--http-port", "0", "--grpc-port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            raise AssertionError
        address = next(line.split()[1] for line in process.stdout if line.strip().startswith("gRPC"))
        code, _, said = run_against(address, *DECODE)
        process.terminate()
        process.communicate(timeout=30)

    assert (Exit.ANSWERED, "") == (code, said)
    assert 0 == process.returncode
