"""Plans of fleets over a real Redis: many who ask for one at once wait for one search, and other processes find its answer."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx

from tests.api.test_deadlines import LARGE, WORKLOADS
from tests.integration.test_service_with_redis import ask, hits
from tests.service_process import RunningService, running_service

if TYPE_CHECKING:
    from tests.redis_process import RedisServer

PLAN = "/v1/fleets:plan"
#: A second's work, so that those who ask at once do so while it is made.
QUESTION = LARGE | {"workloads": WORKLOADS[:2]}


def plans_made(running: RunningService) -> float:
    text = httpx.get(f"{running.http}/metrics").text
    found = re.findall(r'^tonnage_planning_seconds_count\{rpc="PlanFleet"\} (\S+)$', text, re.MULTILINE)
    return float(found[0])


def test_a_plan_is_made_once_for_all_who_ask_and_for_all_processes(redis_server: "RedisServer") -> None:
    with running_service(TONNAGE_REDIS_URL=redis_server.url) as first, ThreadPoolExecutor(6) as callers:
        answers = list(callers.map(lambda _: ask(first, PLAN, QUESTION), range(6)))
        assert 1 == len(set(answers))
        assert 1 == plans_made(first)
    with running_service(TONNAGE_REDIS_URL=redis_server.url) as second:
        assert answers[0] == ask(second, PLAN, QUESTION)
        assert (1, 0) == (hits(second, "PlanFleet"), plans_made(second))
