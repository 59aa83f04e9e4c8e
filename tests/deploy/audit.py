"""Known vulnerabilities of everything in the locks: python -m tests.deploy.audit [options of pip-audit]. `make audit` runs it.

A package that could not be looked up counts as a failure: pip-audit alone ends well when it reached nobody to ask.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: What the image holds, and what stands on a developer's machine.
LOCKS: Final = ("deploy/requirements.lock", "requirements-dev.lock")
_SHOWN: Final = 3


def problems_of(report: dict[str, Any]) -> list[str]:
    """What is wrong by a report of pip-audit in JSON."""
    found = [
        f"{each['name']} {each['version']}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'nothing yet'}"
        for each in report["dependencies"]
        for known in each.get("vulns", ())
    ]
    skipped = [each for each in report["dependencies"] if "skip_reason" in each]
    if skipped:
        names = ", ".join(each["name"] for each in skipped[:_SHOWN])
        found.append(
            f"not audited: {len(skipped)} of {len(report['dependencies'])} packages ({names}…) could not be looked up; "
            "is the vulnerability service out of reach? Nothing is known of them"
        )
    if not report["dependencies"]:
        found.append("not audited: the lock names no package")
    return found


def report_of(lock: str, options: list[str]) -> dict[str, Any]:
    """What pip-audit says of a lock; RuntimeError where it says nothing."""
    command = [str(Path(sysconfig.get_path("scripts")) / "pip-audit"), "--format", "json", "--progress-spinner", "off"]
    command += ["--disable-pip", "--require-hashes", "--requirement", str(ROOT / lock), *options]
    ran = subprocess.run(command, capture_output=True, text=True)
    try:
        report: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        raise RuntimeError(f"pip-audit gave no report: {ran.stderr.strip()[-500:]}") from None
    return report


def main() -> None:
    """Audits every lock; ends with 1 where something is wrong, or could not be asked."""
    failed = False
    for lock in LOCKS:
        try:
            report = report_of(lock, sys.argv[1:])
            problems = problems_of(report)
        except RuntimeError as error:
            report, problems = {"dependencies": []}, [f"not audited: {error}"]
        failed |= bool(problems)
        print(f"{lock}: {len(report['dependencies'])} packages, " + ("; ".join(problems) or "no known vulnerability"))
    sys.exit(failed)


if __name__ == "__main__":
    main()
