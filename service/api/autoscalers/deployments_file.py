"""The deployments that the operator names in a file: for plain gauges and for Dynamo.

    deployments:
      chat:
        model: llama-3.1-70b
        accelerator: h100-sxm
        engine: vllm
        tensor: 4
        tpot_seconds: 0.05
        prometheus_server: http://prometheus:9090
        query: sum(rate(vllm:request_success_total{model_name="chat"}[2m]))
        input_tokens: 1000
        output_tokens: 300

Everything that is wrong is told at once, with file and line. While the service runs, a file that changes is read anew; one that
is wrong then is reported and the old one stays in force.
"""

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from service.api.autoscalers.deployment import ScaledDeployment, assembled
from service.api.autoscalers.deployment_keys import IN_FILE, Refusal, unknown
from service.catalogue.documents import DocumentError, Located, parse, plain
from service.planning.errors import InvalidRequest, NotFound, PlanningError, Unanswerable, Violation
from service.telemetry import SERVER_LOG

#: Every deployment is a value of a label of each gauge.
MOST_DEPLOYMENTS: Final = 500
_MOST_BYTES: Final = 2**20
_NAME: Final = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?", re.ASCII)

_logger = logging.getLogger(SERVER_LOG)

#: What is wrong with a deployment besides its form: raises a PlanningError.
Check = Callable[[ScaledDeployment], None]


class DeploymentsError(ValueError):
    """The file cannot be used; ``problems`` has a line for each fault, with file, line and path."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


def read_deployments(path: Path, check: Check) -> dict[str, ScaledDeployment]:
    """The deployments of a file by name. DeploymentsError with every fault."""
    root = _document(path)
    reading = _Reading(path)
    found = reading.deployments(root, check)
    if reading.problems:
        raise DeploymentsError(reading.problems)
    return found


def _document(path: Path) -> Located:
    try:
        content = path.read_bytes()
        text = content.decode()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DeploymentsError([f"{path}: cannot be read: {reason}"]) from None
    except UnicodeDecodeError:
        raise DeploymentsError([f"{path}: is not in UTF-8"]) from None
    if len(content) > _MOST_BYTES:
        raise DeploymentsError([f"{path}: is larger than {_MOST_BYTES} bytes"])
    try:
        return parse(text)
    except DocumentError as error:
        raise DeploymentsError([f"{path}:{error.line}: {error.reason}"]) from None


class _Reading:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.problems: list[str] = []

    def _refuse(self, line: int, at: str, reason: str, remedy: str) -> None:
        self.problems.append(f"{self._path}:{line}: {at}: {reason}; {remedy}")

    def deployments(self, root: Located, check: Check) -> dict[str, ScaledDeployment]:
        listed = root.value.get("deployments") if isinstance(root.value, dict) else None
        if not isinstance(root.value, dict) or listed is None or len(root.value) > 1:
            self._refuse(root.line, "the file", "is no mapping with the one key deployments", "begin it with deployments:")
            return {}
        if not isinstance(listed.value, dict) or not 0 < len(listed.value) <= MOST_DEPLOYMENTS:
            self._refuse(listed.line, "deployments", "is no mapping from names", f"name 1 to {MOST_DEPLOYMENTS} deployments")
            return {}
        found = {}
        for name, item in listed.value.items():
            if not _NAME.fullmatch(name):
                remedy = "letters, digits and - _ . between them, 63 at most"
                self._refuse(item.line, f"deployments.{name[:80]}", "can be no name", remedy)
            elif not isinstance(item.value, dict):
                self._refuse(item.line, f"deployments.{name}", "is no mapping", "say model, accelerator, engine …")
            elif (deployment := self._one(f"deployments.{name}", item.line, item.value, check)) is not None:
                found[name] = deployment
        self._check_ports(found, listed.value)
        return found

    def _one(self, at: str, line: int, given: Mapping[str, Located], check: Check) -> ScaledDeployment | None:
        values: dict[str, Any] = {}
        faults: list[Violation] = []
        for word, located in given.items():
            key = IN_FILE.get(word)
            if key is None:
                faults.append(Violation(word[:120], *unknown(word[:120], IN_FILE)))
                continue
            try:
                values[word] = key.of_value(plain(located))
            except Refusal as refusal:
                faults.append(Violation(word, refusal.reason, refusal.accepted))
        try:
            deployment = assembled(values, str, faults)
            check(deployment)
        except PlanningError as error:
            for each in _violations(error):
                where = given.get(each.field)
                self._refuse(where.line if where else line, f"{at}.{each.field}", each.reason, each.remedy)
            return None
        return deployment

    def _check_ports(self, found: Mapping[str, ScaledDeployment], given: Mapping[str, Located]) -> None:
        by_port: dict[int, str] = {}
        for name, deployment in found.items():
            port = deployment.dynamo_port
            if port and (first := by_port.setdefault(port, name)) != name:
                reason = f"{port} is that of {first} too, and Dynamo does not say which deployment it asks about"
                self._refuse(given[name].line, f"deployments.{name}.dynamo_port", reason, "give each a port of its own")


def _violations(error: PlanningError) -> tuple[Violation, ...]:
    """What is wrong, by the names of keys: planning names a field by its path in a request."""
    if isinstance(error, InvalidRequest):
        return tuple(Violation(_key_of(each.field), each.reason, each.remedy or "see README.md") for each in error.violations)
    if isinstance(error, NotFound):
        nearest = f"nearest are {', '.join(error.nearest)}" if error.nearest else "the catalogue lists what is known"
        return (Violation(_key_of(error.field), f"the catalogue has no {error.kind} called {error.name!r}", nearest),)
    if isinstance(error, Unanswerable):
        return (Violation(_key_of(error.field), error.missing, error.remedy),)
    return (Violation("model", str(error), "choose another"),)


def _key_of(field: str) -> str:
    """``model.name`` is the key model, ``parallelism.tensor`` tensor, ``engine.max_num_seqs`` max_num_seqs."""
    first, _, last = field.partition(".")
    return last if last in IN_FILE else first


class DeploymentsFile:
    """The deployments of a file, and those of its newest good version while it changes.

    Args:
        path: where it is.
        check: what is to be looked at besides the form.

    Raises:
        DeploymentsError: it cannot be used.
    """

    def __init__(self, path: Path, check: Check) -> None:
        self._path = path
        self._check = check
        self._seen = self._state()
        self.deployments: Mapping[str, ScaledDeployment] = read_deployments(path, check)
        self.is_current = True

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def renew(self) -> bool:
        """Reads the file anew where it changed. Whether other deployments hold now. Never raises for what the file says."""
        state = self._state()
        if state == self._seen:
            return False
        self._seen = state  # whatever it holds: a file that is no good is reported once
        try:
            self.deployments = read_deployments(self._path, self._check)
        except DeploymentsError as error:
            self.is_current = False
            _logger.error("the old deployments stay in force: %s", error)
            return False
        self.is_current = True
        _logger.info("%s read anew: %d deployments", self._path, len(self.deployments))
        return True
