"""Whole answers of the REST door, as they were last looked at. ``make golden`` writes them anew, in a commit of its own."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.service_process import RunningService

HERE = Path(__file__).parent
SCENARIOS: dict[str, dict[str, Any]] = json.loads((HERE / "scenarios.json").read_text())


@pytest.mark.parametrize("name", SCENARIOS)
def test_golden(service: RunningService, check_golden: Callable[[Path, str], None], name: str) -> None:
    scenario = SCENARIOS[name]
    request = urllib.request.Request(
        service.http + scenario["path"], json.dumps(scenario["body"]).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as response:
            answer: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as refusal:
        answer = json.load(refusal)
    # The revision moves with every edit of the catalogue, of whatever entry.
    answer.pop("catalogue_revision", None)
    if "details" in answer:  # and the id of a request with every request
        answer["details"] = [each for each in answer["details"] if not each["@type"].endswith(".RequestInfo")]
    check_golden(HERE / "answers" / f"{name}.json", json.dumps(answer, indent=1, ensure_ascii=False) + "\n")
