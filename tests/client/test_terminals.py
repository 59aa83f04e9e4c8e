"""What differs on a terminal: colour, progress, signs of life; and what a shell completes."""

import os
import pty
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.client.conftest import Run, ScriptedServer
from tests.ready_commands import ready_command
from tests.service_process import RunningService

TONNAGE = [sys.executable, "-c", "from tonnage.cli import main; main()"]
FITS_NOT = ("decode", "h100-sxm", "--num-parameters", "7e12")
SWEEP = (
    *("sweep", "--model", "llama-3.1-8b", "--accelerator", "h100-sxm"),
    *("--batch-size", "1:200", "--context-tokens", "128:8000:128", "--output", os.devnull),
)
ESCAPE = "\x1b["


def on_a_terminal(service: RunningService, *arguments: str, **environment: str) -> str:
    """What a terminal gets, from both streams."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLORTERM")}
    variables = inherited | {"TERM": "xterm-256color", "TONNAGE_SERVER": service.grpc, "COLUMNS": "140", **environment}
    ours, theirs = pty.openpty()
    with subprocess.Popen([*TONNAGE, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=variables) as process:
        os.close(theirs)
        received: list[bytes] = []

        def listen() -> None:
            while True:
                try:
                    data = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    return
                if not data:
                    return
                received.append(data)

        listener = threading.Thread(target=listen)
        listener.start()
        process.wait(60)
        listener.join(10)
    os.close(ours)
    return b"".join(received).decode()


def colours(text: str) -> list[str]:
    """Every setting of a style or colour."""
    return re.findall(r"\x1b\[[0-9;]+m", text)


def test_colour_on_a_terminal_only(service: RunningService, run_for_real: Run) -> None:
    assert colours(on_a_terminal(service, *FITS_NOT))
    assert ESCAPE not in run_for_real(*FITS_NOT)[1]


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_none_where_it_is_not_wanted(service: RunningService, variables: dict[str, str]) -> None:
    shown = on_a_terminal(service, *FITS_NOT, **variables)

    assert "It does not fit." in shown
    assert not colours(shown)


def test_a_sweep_shows_its_progress_on_a_terminal_only(service: RunningService, run_for_real: Run) -> None:
    shown = on_a_terminal(service, *SWEEP)

    assert "━" in shown
    assert re.search(r"\d+%", shown)
    assert "12,400 of 12,400 points" in shown
    assert "━" not in run_for_real(*SWEEP)[2]


def test_bash_completes(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    script = """
        eval "$(tonnage completion bash)"
        complete_words() {
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            "$(complete -p tonnage | sed 's/.*-F \\([^ ]*\\).*/\\1/')" tonnage
            printf '%s ' "${COMPREPLY[@]}"; echo
        }
        complete_words tonnage dec
        complete_words tonnage decode --batch
        complete_words tonnage plan m --percentile p
        complete_words tonnage claim --format ''
    """
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}

    with ready_command(tmp_path):
        ran = subprocess.run([bash, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert "" == ran.stderr
    assert [["decode"], ["--batch-size"], ["p50", "p90", "p99"], ["table", "json", "yaml"]] == [
        line.split() for line in ran.stdout.splitlines()
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_what_their_shells_read(run: Run, shell: str, tmp_path: Path) -> None:
    code, shown, said = run("completion", shell)

    assert (0, "") == (code, said)
    assert "_TONNAGE_COMPLETE" in shown
    if found := shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(shown)
        assert 0 == subprocess.run([found, "-n", str(script)], check=False, timeout=20).returncode


def test_completing_asks_nobody(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("_TONNAGE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "tonnage kv --con")
    monkeypatch.setenv("COMP_CWORD", "2")

    _, shown, _ = run()

    assert {"plain,--context-tokens", "plain,--config", "plain,--context-length"} <= set(shown.split())
    assert [] == scripted.requests
