"""The guide for chatbots: each command runs as it is printed, and answers what is printed below it."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from service.settings import Settings
from tests.service_process import RunningService

GUIDE = (Path(__file__).resolve().parents[3] / "specs/guides/chatbot.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```sh\n(.*?)^```$\n\n?((?:^>[^\n]*\n)*)", GUIDE, re.MULTILINE | re.DOTALL)


def quoted(text: str) -> str:
    return " ".join(text.replace("\n>", "\n").removeprefix(">").split())


@pytest.mark.parametrize(("command", "printed"), COMMANDS)
def test_a_command_answers_what_is_printed(service: RunningService, command: str, printed: str) -> None:
    assert "localhost:8080" in command
    moved = command.replace("localhost:8080", service.http.removeprefix("http://"))
    ran = subprocess.run(["bash", "-c", moved], capture_output=True, text=True, timeout=60, check=True)
    result = json.loads(ran.stdout)["result"]
    if printed:
        assert quoted(printed) == result["structuredContent"]["summary"]
    else:
        assert all(f"| `{tool['name']}` |" in GUIDE for tool in result["tools"])
        assert len(result["tools"]) == len(re.findall(r"^\| `[a-z_]+` \|", GUIDE, re.MULTILINE))


def test_three_conversations_are_printed_with_their_answers() -> None:
    assert 3 == sum(bool(printed) for _, printed in COMMANDS)


def test_the_configuration_for_clients_is_json() -> None:
    [block] = re.findall(r"^```json\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert json.loads(block)["mcpServers"]["tonnage"]["url"].endswith(":8080/mcp")


def test_the_settings_that_it_names_exist() -> None:
    known = Settings.describe()
    for name in set(re.findall(r"TONNAGE_[A-Z_]+", GUIDE)):
        assert name in known
