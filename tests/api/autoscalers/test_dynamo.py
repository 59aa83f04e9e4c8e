"""Dynamo Planner's plugin: Propose and Constrain, asked in messages made from field numbers."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from service.api.autoscalers.deployment import ScaledDeployment, assembled
from service.api.autoscalers.dynamo import DynamoPlugin
from service.api.errors import Unavailable, Unreadable
from service.planning.replicas import ReplicaPlanner, replicas_needed, settled
from tests.api.autoscalers.raw_messages import Float32, field, fields
from tests.api.autoscalers.wire_format import data

CONTEXT: Any = None  # a plugin looks at the request alone
SET, AT_LEAST, AT_MOST = 0, 1, 2
VALUES = {
    "model": "llama-3.1-70b",
    "accelerator": "h100-sxm",
    "engine": "vllm",
    "tensor": 4,
    "ttft_seconds": 1.0,
    "tpot_seconds": 0.03,
    "max_replicas": 40,
    "dynamo_port": 0,
}


def deployment(**rest: Any) -> ScaledDeployment:
    return assembled(VALUES | rest, str, [])


APART = deployment(disaggregated=True)
TOGETHER = deployment()


def traffic(num_req: float = 600.0, duration: float = 60.0, isl: float = 2000.0, osl: float = 300.0, **more: float) -> bytes:
    """TrafficMetrics: 1 duration_s, 2 num_req, 3 isl, 4 osl, 5 kv_hit_rate, all of them float."""
    values = {1: duration, 2: num_req, 3: isl, 4: osl} | ({5: more["hit"]} if "hit" in more else {})
    return b"".join(field(number, Float32(value)) for number, value in values.items())


def prediction(**values: float) -> bytes:
    """PredictionData: 1 predicted_num_req, 2 predicted_isl, 3 predicted_osl, 4 source, 5 predicted_kv_hit_rate."""
    numbers = {"num_req": 1, "isl": 2, "osl": 3, "hit": 5}
    return b"".join(field(numbers[name], Float32(value)) for name, value in values.items()) + field(4, "builtin")


def request(
    seen: bytes | None = None, predicted: bytes | None = None, workers: dict[int, int] | None = None, proposal: bytes = b""
) -> bytes:
    """A request of either stage: 1 context {1, 2 ids, 3 observed {1 traffic, 2 fpm, 3 workers}, 4 predictions, 5 proposal}."""
    observations = b"" if seen is None else data(1, seen)
    observations += data(2, data(1, data(1, "engine-0") + data(2, b"\x81\xa1x\x01")))  # forward-pass metrics: passed over
    if workers is not None:
        observations += data(3, b"".join(field(number, count) for number, count in workers.items()))
    context = data(1, "tick-1") + data(2, "decision-1") + data(3, observations)
    if predicted is not None:
        context += data(4, predicted)
    if proposal:
        context += data(5, proposal)
    return data(1, context)


def targets(answer: bytes) -> list[tuple[str, int, int]]:
    """Component, type and replicas of every target of an override; there must be one, with a reason."""
    ((kind, override),) = fields(answer)  # exactly one result, not final
    assert 2 == kind
    assert isinstance(override, bytes)
    found = fields(override)
    (reason,) = [value for number, value in found if number == 2]
    assert isinstance(reason, bytes)
    assert b"requests/s" in reason
    listed = []
    for number, target in found:
        if number == 1:
            assert isinstance(target, bytes)
            values = dict(fields(target))
            component, replicas = values[1], values[3]
            assert isinstance(component, bytes)
            assert isinstance(replicas, int)
            listed.append((component.decode(), int(values.get(4, SET)), replicas))
    assert listed
    return listed


def plugin(replica_planner: ReplicaPlanner, one: ScaledDeployment | None) -> DynamoPlugin:
    return DynamoPlugin(replica_planner, lambda: one)


async def test_propose_sets_prefill_and_decode(replica_planner: ReplicaPlanner) -> None:
    pools = replica_planner.pools(APART.spec, 2000, 300)
    expected = [(str(pool.role).lower(), SET, replicas_needed(10.0, pool.rate, APART.rule)) for pool in pools]
    answer = targets(await plugin(replica_planner, APART).propose(request(traffic()), CONTEXT))
    assert expected == answer
    assert ["prefill", "decode"] == [component for component, *_ in answer]


async def test_workers_that_do_both_count_as_decode(replica_planner: ReplicaPlanner) -> None:
    (pool,) = replica_planner.pools(TOGETHER.spec, 2000, 300)
    answer = targets(await plugin(replica_planner, TOGETHER).propose(request(traffic()), CONTEXT))
    assert [("decode", SET, replicas_needed(10.0, pool.rate, TOGETHER.rule))] == answer


async def test_constrain_knows_at_least_and_at_most_only(replica_planner: ReplicaPlanner) -> None:
    proposed = data(1, data(1, "prefill") + field(3, 1)) + data(1, data(1, "decode") + field(3, 90))
    answer = targets(await plugin(replica_planner, APART).constrain(request(traffic(), proposal=proposed), CONTEXT))
    needed = [replicas_needed(10.0, pool.rate, APART.rule) for pool in replica_planner.pools(APART.spec, 2000, 300)]
    expected = []
    for component, least in zip(("prefill", "decode"), needed, strict=True):
        expected += [(component, AT_LEAST, least), (component, AT_MOST, 40)]
    assert expected == answer


async def test_a_prediction_goes_before_what_was_observed(replica_planner: ReplicaPlanner) -> None:
    asked = plugin(replica_planner, TOGETHER)
    (pool,) = replica_planner.pools(TOGETHER.spec, 4000, 200)
    predicted = prediction(num_req=3000.0, isl=4000.0, osl=200.0)
    expected = [("decode", SET, replicas_needed(50.0, pool.rate, TOGETHER.rule))]
    assert expected == targets(await asked.propose(request(traffic(), predicted), CONTEXT))
    # What is not predicted is as observed.
    (pool,) = replica_planner.pools(TOGETHER.spec, 2000, 300)
    expected = [("decode", SET, replicas_needed(50.0, pool.rate, TOGETHER.rule))]
    assert expected == targets(await asked.propose(request(traffic(), prediction(num_req=3000.0)), CONTEXT))


async def test_a_warm_prefix_cache_needs_no_more_prompts_replicas(replica_planner: ReplicaPlanner) -> None:
    asked = plugin(replica_planner, APART)
    numbers = []
    for hit in (0.0, 0.5, 0.93, 1.0):
        many = traffic(num_req=12000.0, hit=hit)
        numbers.append({component: count for component, _, count in targets(await asked.propose(request(many), CONTEXT))})
    prefill = [each["prefill"] for each in numbers]
    assert sorted(prefill, reverse=True) == prefill
    assert prefill[0] > prefill[-1] >= 1
    halved = replica_planner.pools(replace(APART.spec, prefix_cache_hit_ratio=0.5), 2000, 300)
    assert prefill[1] == replicas_needed(200.0, halved[0].rate, APART.rule)


async def test_down_only_with_room_from_the_workers_there_are(replica_planner: ReplicaPlanner) -> None:
    (pool,) = replica_planner.pools(TOGETHER.spec, 2000, 300)
    asked = plugin(replica_planner, TOGETHER)
    for part in (0.85, 0.95):
        rate = 4 * pool.rate * part
        seen = traffic(num_req=rate * 60.0)
        for workers in ({4: 5}, {2: 5}, {2: 9, 4: 5}):  # 2 ready_decode, 4 expected_decode, which goes before
            ((_, kind, number),) = targets(await asked.propose(request(seen, workers=workers), CONTEXT))
            assert (SET, 4 if part < 0.9 else 5) == (kind, number)
            assert number == settled(5, rate, pool.rate, TOGETHER.rule)


async def test_no_traffic_is_the_minimum_or_none_where_that_is_allowed(replica_planner: ReplicaPlanner) -> None:
    nothing = request(traffic(num_req=0.0, isl=0.0, osl=0.0), workers={3: 3, 4: 7})
    two = deployment(disaggregated=True, min_replicas=2)
    assert [("prefill", SET, 2), ("decode", SET, 2)] == targets(await plugin(replica_planner, two).propose(nothing, CONTEXT))
    none = deployment(disaggregated=True, scale_to_zero=True)
    assert [("prefill", SET, 0), ("decode", SET, 0)] == targets(await plugin(replica_planner, none).propose(nothing, CONTEXT))
    least = targets(await plugin(replica_planner, TOGETHER).constrain(nothing, CONTEXT))
    assert [("decode", AT_LEAST, 1), ("decode", AT_MOST, 40)] == least


async def test_never_more_than_the_maximum(replica_planner: ReplicaPlanner) -> None:
    flood = request(traffic(num_req=1e6))
    for answer in (await plugin(replica_planner, APART).propose(flood, CONTEXT),):
        assert [("prefill", SET, 40), ("decode", SET, 40)] == targets(answer)
    bounds = targets(await plugin(replica_planner, APART).constrain(flood, CONTEXT))
    assert {40} == {number for _, _, number in bounds}


DOUBTS = {
    "no traffic": request(None),
    "an empty context": data(1, b""),
    "nothing at all": b"",
    "no window": request(traffic(duration=0.0)),
    "a negative window": request(traffic(duration=-60.0)),
    "no number": request(traffic(num_req=math.nan)),
    "without end": request(traffic(num_req=math.inf)),
    "fewer than none": request(traffic(num_req=-1.0)),
    "a predicted NaN": request(traffic(), prediction(num_req=math.nan)),
    "more than any": request(traffic(num_req=1e30)),
    "no length": request(traffic(isl=0.0)),
    "a NaN length": request(traffic(osl=math.nan)),
    "a length without end": request(traffic(isl=math.inf)),
    "a hit rate above one": request(traffic(hit=1.5)),
    "a NaN hit rate": request(traffic(hit=math.nan)),
    "a predicted hit rate below none": request(traffic(), prediction(hit=-0.5)),
}


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_on_doubt_it_is_unavailable(replica_planner: ReplicaPlanner, doubt: str) -> None:
    asked = plugin(replica_planner, APART)
    for stage in (asked.propose, asked.constrain):
        with pytest.raises(Unavailable):
            await stage(DOUBTS[doubt], CONTEXT)


@pytest.mark.parametrize(
    "change",
    [
        {"tpot_seconds": 0.0001},  # out of reach
        {"accelerator": "tpu-v5e"},  # not calibrated
        {"tensor": 1},  # does not fit
        {"model": "llama-3.1-70c"},  # gone from the catalogue
    ],
)
async def test_a_deployment_of_which_nothing_can_be_said(replica_planner: ReplicaPlanner, change: dict[str, Any]) -> None:
    asked = plugin(replica_planner, deployment(**change))
    for stage in (asked.propose, asked.constrain):
        with pytest.raises(Unavailable):
            await stage(request(traffic()), CONTEXT)


async def test_a_deployment_that_left_the_file(replica_planner: ReplicaPlanner) -> None:
    with pytest.raises(Unavailable, match="no longer has this deployment"):
        await plugin(replica_planner, None).propose(request(traffic()), CONTEXT)


async def test_bytes_that_are_no_message(replica_planner: ReplicaPlanner) -> None:
    asked = plugin(replica_planner, APART)
    for broken in (b"\xff\xff", request(traffic())[:-2]):
        for stage in (asked.propose, asked.constrain):
            with pytest.raises(Unreadable):
                await stage(broken, CONTEXT)
