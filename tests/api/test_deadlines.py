"""A call's deadline reaches the planning of fleets: its asker is told in time, and nothing goes on for nobody."""

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from msgspec.structs import replace

from service.api.schema import RPCS
from service.api.servicers import Servicer, servicers
from service.cache.cache import Cache
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.catalogue.loader import load
from service.planning.errors import OutOfTime
from service.planning.planner import Planner
from service.planning.streams import Stop
from service.settings import specs_dir
from service.telemetry import RpcName, Telemetry
from tests.api.asking import BY_NAME, Doors, message_of, refusal_of

LEVEL = {"ttft_seconds": 1.0, "tpot_seconds": 0.05}
WORKLOADS = [
    {"input_tokens": inputs, "output_tokens": outputs, "requests_per_second": {"mid": 5.0}}
    for inputs, outputs in ((2000, 500), (4000, 300), (400, 300), (100, 900))
]
LARGE = {
    "model": {"name": "deepseek-v3"},
    "workloads": [*WORKLOADS, *({**each, "prefix_cache_hit_ratio": 0.5} for each in WORKLOADS)],
    "service_level": LEVEL,
    "engines": [{"name": "vllm"}, {"name": "sglang"}, {"name": "tensorrt-llm"}],
}
SMALL = {
    "model": {"name": "llama-3.1-8b"},
    "node_types": ["aws-p5.48xlarge"],
    "workloads": WORKLOADS[:1],
    "service_level": LEVEL,
}


def test_a_plan_that_takes_longer_than_the_call_is_refused_in_time_and_in_words(doors: Doors) -> None:
    send: Any = doors.channel.unary_unary(BY_NAME["PlanFleet"].path, None, None)
    with pytest.raises(grpc.RpcError) as refused:
        send(message_of("PlanFleet", LARGE).SerializeToString(), timeout=1.0)
    assert grpc.StatusCode.DEADLINE_EXCEEDED is refused.value.code()
    assert re.search(r"the answer takes longer than the 0\.[5-8]\d* s", refusal_of(refused.value).message)
    # The one thread that plans is free again, long before the plan would have been done.
    assert send(message_of("PlanFleet", SMALL).SerializeToString(), timeout=5)


def test_a_plan_goes_on_for_as_long_as_somebody_waits_for_it() -> None:
    begun: list[Stop] = []

    def plan(_: object, stop: Stop) -> object:
        begun.append(stop)
        while not stop.is_asked:
            time.sleep(0.001)
        raise OutOfTime("stopped")

    async def ask(servicer: Servicer) -> None:
        message = message_of("PlanFleet", SMALL)
        first, second = (asyncio.ensure_future(servicer.shared(message, None, seconds)) for seconds in (0.1, 0.3))
        with pytest.raises(OutOfTime, match=r"longer than the 0\.1 s"):
            await first
        assert begun[0].is_asked
        with pytest.raises(OutOfTime, match=r"longer than the 0\.3 s"):
            await second
        assert 2 == len(begun)  # it was begun anew for the one that was left
        assert begun[1].is_asked

    with ThreadPoolExecutor(1) as executor:
        asyncio.run(ask(replace(_servicer(executor), _ask=plan)))


def _servicer(executor: ThreadPoolExecutor) -> Servicer:
    cache = Cache(keys=KeySpace(catalogue_revision="r", code_version="c"), local=LocalTier(max_bytes=0, max_entries=0))
    planner, telemetry = Planner(load(specs_dir())), Telemetry([RpcName(rpc.service, rpc.name) for rpc in RPCS], version="v")
    made = servicers(planner, cache, telemetry, executor, redis_for_every_rpc=False)
    return next(each for each in made if each.rpc.name == "PlanFleet")
