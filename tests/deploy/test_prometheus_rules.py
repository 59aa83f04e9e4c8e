"""The alerting rules, by Prometheus' own test runner; and each alert has its line of the runbook."""

import re
import subprocess
from pathlib import Path

import yaml

from tests.programs import program

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def test_the_rules_do_what_they_say() -> None:
    ran = subprocess.run(
        [program("promtool"), "test", "rules", "rules_test.yaml"], cwd=DEPLOY / "prometheus", capture_output=True, text=True
    )
    assert 0 == ran.returncode, ran.stdout + ran.stderr


def alerts() -> list[dict[str, object]]:
    groups = yaml.safe_load((DEPLOY / "prometheus/rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def test_every_alert_is_tested_and_has_a_line_of_the_runbook() -> None:
    tested = (DEPLOY / "prometheus/rules_test.yaml").read_text()
    headings = {re.sub(r"[^a-z0-9]", "", each.lower()) for each in re.findall(r"^#+ (.+)$", readme(), re.MULTILINE)}
    for alert in alerts():
        name = str(alert["alert"])
        annotations = alert["annotations"]
        assert isinstance(annotations, dict)
        assert f"alertname: {name}" in tested
        assert f"deploy/README.md#{name.lower()}" == annotations["runbook"]
        assert name.lower() in headings


def readme() -> str:
    return (DEPLOY / "README.md").read_text()
