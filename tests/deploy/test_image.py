"""The image without a container engine: its Dockerfile is linted, and carried out step by step in a clean folder.

Every absolute path of a step is moved below that folder, so a step that needs something it did not bring fails here too.
What the base image has, a Python, is the interpreter that runs the tests.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.service_process import free_port

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy/Dockerfile"
START_SECONDS = 60.0


def instructions() -> list[tuple[str, str]]:
    """Instruction and arguments, continued lines joined and comments left out."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in joined.splitlines() if line.strip()]


def test_the_linter_has_nothing_to_say() -> None:
    linter = Path(sysconfig.get_path("scripts")) / "hadolint"
    ran = subprocess.run([linter, DOCKERFILE], capture_output=True, text=True)
    assert (0, "") == (ran.returncode, ran.stdout)


def test_the_base_is_named_by_digest_and_nobody_is_root() -> None:
    given = dict(instructions())
    assert re.search(
        r"@sha256:[0-9a-f]{64}$", dict(argument.split("=", 1) for name, argument in instructions() if name == "ARG")["BASE"]
    )
    assert "65532:65532" == given["USER"]
    assert ["tonnage-service"] == json.loads(given["ENTRYPOINT"])
    for secret in ("PASSWORD", "SECRET", "TOKEN"):
        assert secret not in DOCKERFILE.read_text()


@dataclass
class Stage:
    """A folder that stands for the file system of a stage, and what the instructions so far have set."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"

    def below(self, path: str) -> Path:
        return self.root / path.removeprefix("/") if path.startswith("/") else self.root / self.folder.strip("/") / path

    def moved(self, text: str) -> str:
        """The text with /opt and /build below the folder."""
        return re.sub(r"(?<![\w.])/(opt|build)\b", lambda found: str(self.root / found[1]), text)


class Build:
    """Carries instructions out, for those that the Dockerfile has; another one fails the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stages: dict[str, Stage] = {}
        self.current = Stage(folder)

    def carry_out(self) -> Stage:
        for name, arguments in instructions():
            getattr(self, f"do_{name.lower()}")(arguments)
        return self.current

    def do_from(self, arguments: str) -> None:
        name = arguments.split()[-1]
        self.current = self.stages[name] = Stage(self.folder / name)
        self.current.root.mkdir(parents=True)

    def do_workdir(self, arguments: str) -> None:
        self.current.folder = arguments
        self.current.below(arguments).mkdir(parents=True, exist_ok=True)

    def do_env(self, arguments: str) -> None:
        self.current.environment |= dict(each.split("=", 1) for each in shlex.split(arguments))

    def do_copy(self, arguments: str) -> None:
        *sources, target = arguments.split()
        origin = ROOT
        if sources[0].startswith("--from="):
            origin = self.stages[sources.pop(0).removeprefix("--from=")].root
        for source in sources:
            found = origin / source.strip("/")
            to = self.current.below(target.rstrip("/"))
            to.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                shutil.copytree(
                    found, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__") if origin == ROOT else None
                )
            else:
                shutil.copy(found, to / found.name)

    def do_run(self, arguments: str) -> None:
        stage = self.current
        command = stage.moved(arguments)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TONNAGE_", "PYTHON", "VIRTUAL_ENV"))}
        base = str(Path(sys.base_prefix) / "bin")
        environment = kept | stage.environment | {"PATH": f"{base}:/usr/bin:/bin", "HOME": str(stage.root)}
        ran = subprocess.run(
            ["sh", "-c", command], cwd=stage.below(stage.folder), env=environment, capture_output=True, text=True
        )
        assert 0 == ran.returncode, f"{command}\n{ran.stdout}\n{ran.stderr}"

    def nothing_to_do(self, arguments: str) -> None:
        """Says something of the image, not of what is in it."""

    do_arg = do_label = do_user = do_expose = do_stopsignal = do_healthcheck = do_entrypoint = nothing_to_do


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment that the last stage holds, where the first stage made it: its paths are absolute."""
    build = Build(tmp_path_factory.mktemp("image"))
    build.carry_out()
    environment = build.stages["build"].root / "opt/tonnage"
    copied = build.stages["serve"].root / "opt/tonnage"
    assert sorted(each.name for each in environment.iterdir()) == sorted(each.name for each in copied.iterdir())
    return environment


def test_it_serves_from_folders_that_nobody_may_write(image: Path, tmp_path: Path) -> None:
    for unwanted in ("pip", "pytest", "ruff", "grpc_tools", "scipy"):
        assert not list(image.glob(f"lib/python3*/site-packages/{unwanted}"))
    assert list(image.glob("lib/python3*/site-packages/mcp"))
    assert list(image.glob("lib/python3*/site-packages/service/specs/__pycache__/documents.jsonl"))
    subprocess.run(["chmod", "-R", "a-w", str(image)], check=True)
    port = free_port()
    settings = {"TONNAGE_HTTP_PORT": str(port), "TONNAGE_GRPC_PORT": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [image / "bin/tonnage-service"], cwd=tmp_path, env={"PATH": "/usr/bin:/bin", **settings}, stdout=log, stderr=log
        )
    try:
        assert {"status": "ready"} == until_ready(f"http://127.0.0.1:{port}/readyz", process, tmp_path / "log")
    finally:
        process.terminate()
        assert 0 == process.wait(30)
        subprocess.run(["chmod", "-R", "u+w", str(image)], check=True)


def until_ready(address: str, process: "subprocess.Popen[bytes]", log: Path) -> object:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=2) as answer:
                return json.load(answer)
        except OSError:
            time.sleep(0.05)
    raise AssertionError(log.read_text())
