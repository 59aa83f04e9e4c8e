"""The commands of deploy/README.md for one machine, run as they are written, in a copy of what they need."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

from tests.programs import program

ROOT = Path(__file__).resolve().parents[2]
#: What the page names stands for a port that nobody else has here.
PORTS = {"8080": "18080", "9464": "19464", "9090": "19090"}


def steps() -> list[str]:
    text = (ROOT / "deploy/README.md").read_text()
    return re.findall(r"^```sh\n(.*?)^```$", text[: text.index("## With containers")], re.MULTILINE | re.DOTALL)


def moved(text: str) -> str:
    return re.sub("|".join(PORTS), lambda found: PORTS[found[0]], text)


def test_from_nothing_to_a_scraped_service_with_tls_and_keys(tmp_path: Path) -> None:
    program("prometheus")
    shutil.copytree(ROOT / "deploy/prometheus", tmp_path / "deploy/prometheus")
    target = tmp_path / "deploy/prometheus/one-machine.yaml"
    target.write_text(moved(target.read_text()))
    (tmp_path / ".venv/bin").mkdir(parents=True)
    service = tmp_path / ".venv/bin/tonnage-service"
    service.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m service\n')
    service.chmod(0o755)
    (tmp_path / "Makefile").write_text(".venv/.runtime:\n\ttouch $@\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TONNAGE_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "clients/python")])
    environment["TONNAGE_HTTP_PORT"], environment["TONNAGE_GRPC_PORT"] = PORTS["8080"], "0"
    script = "set -e\n" + "\n".join(map(moved, steps())) + "\necho; echo pids $(jobs -p)\n"
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    pids = [int(each) for each in re.findall(r"\d+", ran.stdout.rpartition("pids")[2])]
    try:
        assert 0 == ran.returncode, ran.stderr + (tmp_path / "run/service.log").read_text()
        assert '"name":"h100-sxm"' in ran.stdout.replace(" ", "")
        assert 2 == len(pids)
        assert [["1"]] == scraped(f"http://127.0.0.1:{PORTS['9090']}/api/v1/query?" + urllib.parse.urlencode({"query": "up"}))
    finally:
        for pid in pids:
            os.kill(pid, 15)


def scraped(address: str) -> list[list[str]]:
    deadline = time.monotonic() + 30
    while True:
        with urllib.request.urlopen(address, timeout=10) as answer:
            found = [each["value"][1:] for each in json.load(answer)["data"]["result"]]
        if found == [["1"]] or time.monotonic() > deadline:
            return found
        time.sleep(0.5)
