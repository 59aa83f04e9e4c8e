"""Every command and snippet of README and guides: run against the service, or read where it would start something."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import click
import pytest
import yaml

from service.api.autoscalers.deployments_file import read_deployments
from service.settings import _CLIENT_VARIABLES, Settings
from tests.docs.guides import PAGES, ROOT, Block, all_blocks, blocks
from tests.ready_commands import ready_command
from tests.service_process import RunningService
from tonnage import cli

RUN = {("sh", ""), ("python", "")}
READ = {("sh", "starts"), ("sh", "cluster"), ("json", ""), ("yaml", "")}
#: What the pages call the service's addresses.
HTTP, GRPC = "localhost:8080", "localhost:50051"
#: A curl that is answered with a refusal, or not at all, ends the script as any other failure does.
CURL_SETTINGS = "fail-with-body\nshow-error\nmax-time = 60\n"


def of_kind(*kinds: tuple[str, str]) -> list[Block]:
    return [block for block in all_blocks() if (block.language, block.mark) in kinds]


def test_no_block_is_left_out() -> None:
    assert [] == [block.place for block in all_blocks() if (block.language, block.mark) not in RUN | READ]
    assert {
        "README.md",
        "api.md",
        "autoscaler.md",
        "chatbot.md",
        "formulas.md",
        "model.md",
        "operator.md",
        "procurement.md",
    } <= {page.name for page in PAGES}


@pytest.fixture(scope="module")
def tonnage() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder, ready_command(Path(folder)) as program:
        yield program


@pytest.fixture
def checkout(tmp_path: Path, tonnage: Path) -> Path:
    """A folder in which the pages' commands find what they name; what they write stays there."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "tonnage").symlink_to(tonnage)
    service = programs / "tonnage-service"
    service.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m service "$@"\n')
    service.chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    (tmp_path / ".curlrc").write_text(CURL_SETTINGS)
    return tmp_path


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block.language == "sh" for block in blocks(page))], ids=lambda page: page.name
)
def test_commands_run(page: Path, checkout: Path, service: RunningService) -> None:
    if shutil.which("bash") is None or shutil.which("curl") is None:
        pytest.skip("no bash or curl")
    runnable = [block for block in blocks(page) if ("sh", "") == (block.language, block.mark)]
    script = "set -eo pipefail\n" + "".join(f"echo '@@ {block.place}' >&2\n{block.text}" for block in runnable)
    script = script.replace(HTTP, service.http.removeprefix("http://")).replace(GRPC, service.grpc)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TONNAGE_")}
    environment |= {"TONNAGE_SERVER": service.grpc, "CURL_HOME": str(checkout)}

    ran = subprocess.run(
        ["bash", "-c", script], cwd=checkout, env=environment, capture_output=True, text=True, timeout=240, check=False
    )

    assert 0 == ran.returncode, f"{ran.stderr.rpartition('@@')[2]}\n{ran.stdout[-1500:]}"
    said = [line for line in ran.stderr.splitlines() if line and not line.startswith(("@@", "tonnage: ", "  "))]
    assert [] == said
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("block", of_kind(("python", "")), ids=lambda block: block.place)
def test_python_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: RunningService) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "key").write_text("0123456789abcdef\n")
    printed = io.StringIO()

    with redirect_stdout(printed):
        moved = block.text.replace(GRPC, service.grpc).replace(f"http://{HTTP}", service.http)
        exec(compile(moved, block.place, "exec"), {})

    assert printed.getvalue().strip()


@pytest.mark.parametrize("block", of_kind(("sh", "starts"), ("sh", "cluster")), ids=lambda block: block.place)
def test_what_would_start_something_is_well_formed(block: Block) -> None:
    checked = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True, check=False)
    assert (0, "") == (checked.returncode, checked.stderr)
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        for place, word in enumerate(words):
            if word.startswith("deploy/"):
                assert (ROOT / word).exists(), word
            if word.endswith("bin/tonnage"):
                understood(words[place + 1 :])
            if word == "make":
                targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
                assert set(words[place + 1 :]) <= set(targets)


def understood(words: list[str]) -> None:
    """Fails where the command line has no such command or option."""
    command = cli.tonnage.commands[words[0]]
    with click.Context(command, info_name=words[0], resilient_parsing=True) as context:
        command.make_parser(context).parse_args(list(words[1:]))


@pytest.mark.parametrize("block", of_kind(("json", ""), ("yaml", "")), ids=lambda block: block.place)
def test_files_are_what_their_readers_take(block: Block, tmp_path: Path) -> None:
    content = json.loads(block.text) if block.language == "json" else yaml.safe_load(block.text)
    assert isinstance(content, dict)
    if "deployments" in content:
        file = tmp_path / "deployments.yaml"
        file.write_text(block.text)
        assert set(content["deployments"]) == set(read_deployments(file, lambda _: None))
    else:
        assert {"mcpServers"} == set(content)  # what chatbots are configured by; its address is asked above


def test_every_variable_is_a_setting() -> None:
    known = {f"TONNAGE_{name.upper()}" for name in Settings.__dataclass_fields__} | set(_CLIENT_VARIABLES)
    for page in PAGES:
        named = set(re.findall(r"\bTONNAGE_[A-Z_]+[A-Z]\b", page.read_text()))
        assert named <= known, page.name


def test_every_command_named_is_one() -> None:
    for page in PAGES:
        for name in re.findall(r"`(?:\.venv/bin/)?tonnage ([a-z][a-z-]*)", page.read_text()):
            assert name in cli.tonnage.commands, page.name
