"""REST against its own OpenAPI document, for as long as one likes: what it allows, what it forbids, on every operation."""

import itertools
import random
import time
from typing import Any, Final

from hypothesis import HealthCheck, given, seed, settings
from schemathesis.generation import GenerationMode

from tests.api.test_openapi_document import OPERATIONS, check_conformance
from tests.service_process import running_service

_CASES_AT_A_TIME: Final = 10
#: What the service's log must not hold, whatever it is asked.
_BAD_LINES: Final = ("Traceback", " ERROR ")


def search(seconds: float, first_seed: int = 1) -> int:
    """Sends generated requests until the time is over; returns how many.

    Raises:
        AssertionError: an answer that the document does not know (a 500 is one), or a bug in the service's log.
    """
    num_cases = 0
    with running_service(TONNAGE_LOG_LEVEL="warning") as service:
        end = time.monotonic() + seconds
        for number in itertools.count(first_seed):
            pairs = list(itertools.product(OPERATIONS.values(), GenerationMode))
            random.Random(number).shuffle(pairs)
            for operation, mode in pairs:
                if time.monotonic() > end:
                    log = service.log.read_text(errors="replace")
                    assert not any(bad in log for bad in _BAD_LINES), log
                    print(f"{num_cases} requests, each answered as the document says")
                    return num_cases
                num_cases += _some_cases(operation, mode, service.http, number)
    raise AssertionError("never here")


def _some_cases(operation: Any, mode: GenerationMode, address: str, number: int) -> int:
    """Asks one operation so many times; the seed makes a finding repeatable."""
    num_cases = 0

    @seed(number)
    @settings(max_examples=_CASES_AT_A_TIME, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        nonlocal num_cases
        num_cases += 1
        check_conformance(case, address)

    ask()
    return num_cases
