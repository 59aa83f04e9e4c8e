"""KEDA's external scaler: what a ScaledObject is told, and that nothing that Prometheus does scales anything to zero."""

import asyncio
from collections.abc import Callable

import pytest

from service.api.autoscalers.deployment import from_metadata
from service.api.autoscalers.deployment_keys import IN_METADATA
from service.api.autoscalers.keda import METRIC, KedaScaler
from service.api.autoscalers.readings import MOST_AGE_SECONDS
from service.api.errors import Unavailable, Unreadable
from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.fleet.requests import Certainty, Percentile
from service.planning.fleet.results import PoolRole
from service.planning.replicas import ReplicaPlanner, replicas_needed
from tests.api.autoscalers import fake_prometheus as told
from tests.api.autoscalers.fake_prometheus import FakePrometheus
from tests.api.autoscalers.keda_calls import (
    ASKED,
    CONTEXT,
    FIXED,
    Clock,
    metrics_request,
    reference,
    replicas_of,
    settled_outcome,
)
from tests.api.autoscalers.raw_messages import field, fields

# -- what is told -----------------------------------------------------------------------------------------------------


async def test_the_metric_is_the_number_of_replicas(scaler: KedaScaler, replica_planner: ReplicaPlanner) -> None:
    deployment = from_metadata(FIXED)
    (pool,) = replica_planner.pools(deployment.spec, 1024, 256)
    expected = replicas_needed(100.0, pool.rate, deployment.rule)
    assert expected > 1
    assert expected == replicas_of(await scaler.get_metrics(metrics_request(FIXED), CONTEXT))
    assert [(1, 1)] == fields(await scaler.is_active(reference(FIXED), CONTEXT))


async def test_the_target_is_one_in_both_forms(scaler: KedaScaler) -> None:
    ((number, spec),) = fields(await scaler.get_metric_spec(reference(FIXED), CONTEXT))
    assert 1 == number
    assert isinstance(spec, bytes)
    assert [(1, METRIC.encode()), (2, 1), (3, 1.0)] == fields(spec)


async def test_prompts_and_answers_are_two_scaled_objects(scaler: KedaScaler) -> None:
    numbers = {}
    for role in ("prefill", "decode"):
        metadata = FIXED | {"role": role, "ttftSeconds": "1", "requestsPerSecond": "400"}
        numbers[role] = replicas_of(await scaler.get_metrics(metrics_request(metadata, role), CONTEXT))
    assert numbers["prefill"] != numbers["decode"]
    assert min(numbers.values()) >= 1


async def test_minimum_maximum_and_headroom(scaler: KedaScaler) -> None:
    async def number(**rest: str) -> int:
        return replicas_of(await scaler.get_metrics(metrics_request(FIXED | rest), CONTEXT))

    plain = await number()
    assert plain + 5 == await number(minReplicas=str(plain + 5))
    assert 2 == await number(maxReplicas="2")
    assert await number(headroomRatio="1") in (2 * plain - 1, 2 * plain)
    assert await number(certainty="cautious") > plain
    assert await number(percentile="p99") >= plain


async def test_lengths_may_be_read_too(scaler: KedaScaler, prometheus: FakePrometheus, asks: dict[str, str]) -> None:
    prometheus.answers |= {"demand": "100", "prompts": "1023.7", "answers": "255.2"}
    asks = {key: value for key, value in asks.items() if key not in ("inputTokens", "outputTokens")}
    asks |= {"inputTokensQuery": "prompts", "outputTokensQuery": "answers"}
    read = await settled_outcome(scaler, asks)
    assert replicas_of(await scaler.get_metrics(metrics_request(FIXED), CONTEXT)) == read
    assert ["demand", "prompts", "answers"] == [prometheus.asked[0], *sorted(prometheus.asked[1:], reverse=True)]


async def test_a_key_may_come_out_of_the_environment(scaler: KedaScaler) -> None:
    given = {key: value for key, value in FIXED.items() if key != "model"} | {"modelFromEnv": "llama-3.1-8b"}
    assert await settled_outcome(scaler, given) == await settled_outcome(scaler, FIXED)
    both = await settled_outcome(scaler, FIXED | {"modelFromEnv": "llama-3.1-8b"})
    assert isinstance(both, InvalidRequest)


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "key", "told_too"),
    [
        ({"tpotSecond": "0.03"}, "tpotSecond", "did you mean tpotSeconds?"),
        ({"model_name": "x"}, "model_name", "known are accelerator,"),
        ({"tpotSeconds": "30 ms"}, "tpotSeconds", "not a number"),
        ({"tpotSeconds": "NaN"}, "tpotSeconds", "not a number"),
        ({"tpotSeconds": "-1"}, "tpotSeconds", "above 0"),
        ({"tensor": "1.5"}, "tensor", "not a whole number"),
        ({"tensor": "0"}, "tensor", "from 1"),
        ({"scaleToZero": "yes"}, "scaleToZero", "true or false"),
        ({"percentile": "P95"}, "percentile", "P50, P90, P99"),
        ({"role": "both"}, "role", "prefill, decode"),
        ({"requestsPerSecond": "1e9"}, "requestsPerSecond", "out of bounds"),
        ({"minReplicas": "5", "maxReplicas": "3"}, "minReplicas", "more than maxReplicas"),
        ({"query": "up"}, "requestsPerSecond", "exactly one of requestsPerSecond or query"),
        ({"prometheusServer": "http://p:9090"}, "query", "nothing to ask it"),
        ({"inputTokensQuery": "x", "prometheusServer": "http://p:9090"}, "inputTokens", "exactly one of"),
        ({"model": ""}, "model", "empty"),
        ({"model": "x" * 9000}, "model", "longer than"),
    ],
)
async def test_metadata_that_is_wrong_is_told_by_its_key(
    scaler: KedaScaler, change: dict[str, str], key: str, told_too: str
) -> None:
    for ask in (scaler.get_metric_spec, scaler.is_active):
        with pytest.raises(InvalidRequest) as refusal:
            await ask(reference(FIXED | change), CONTEXT)
        found = {each.field: f"{each.reason}; {each.remedy}" for each in refusal.value.violations}
        assert told_too in found[key]


@pytest.mark.parametrize("missing", ["model", "accelerator", "engine", "tpotSeconds", "inputTokens", "requestsPerSecond"])
async def test_what_is_missing_is_told(scaler: KedaScaler, missing: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await scaler.get_metric_spec(reference({key: value for key, value in FIXED.items() if key != missing}), CONTEXT)
    assert [missing] == [each.field for each in refusal.value.violations]


async def test_everything_that_is_wrong_is_told_at_once(scaler: KedaScaler) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await scaler.is_active(reference({"tensor": "x", "Modell": "y"}), CONTEXT)
    assert {"tensor", "Modell"} == {each.field for each in refusal.value.violations}


async def test_names_and_servers_that_are_not_known(scaler: KedaScaler, prometheus: FakePrometheus) -> None:
    with pytest.raises(NotFound, match=r"llama-3\.1-8b"):
        await scaler.get_metric_spec(reference(FIXED | {"model": "llama-3.1-8c"}), CONTEXT)
    elsewhere = ASKED | {"prometheusServer": "http://169.254.169.254", "query": "up"}
    for ask in (scaler.get_metric_spec, scaler.is_active):
        with pytest.raises(Unanswerable, match="not among the servers"):
            await ask(reference(elsewhere), CONTEXT)
    for server in ("prometheus:9090", f"{prometheus.url}/?x", "http://u:p@h"):
        with pytest.raises(InvalidRequest, match="no address"):
            await scaler.get_metric_spec(reference(elsewhere | {"prometheusServer": server}), CONTEXT)
    assert [] == prometheus.asked


async def test_a_service_level_out_of_reach_is_an_error_and_no_large_number(scaler: KedaScaler) -> None:
    for change in (
        {"tpotSeconds": "0.0001"},
        {"ttftSeconds": "0.0001"},
        {"accelerator": "tpu-v5e"},
        {"model": "llama-3.1-405b"},
    ):
        outcome = await settled_outcome(scaler, FIXED | change)
        assert isinstance(outcome, Unanswerable), change
        with pytest.raises(Unanswerable):
            await scaler.is_active(reference(FIXED | change), CONTEXT)


async def test_bytes_that_are_no_message_and_a_metric_that_is_not_ours(scaler: KedaScaler) -> None:
    for broken in (b"\xff", field(3, b"\x08"), reference(FIXED)[:-3]):
        for ask in (scaler.is_active, scaler.get_metric_spec, scaler.get_metrics):
            with pytest.raises((Unreadable, InvalidRequest)):
                await ask(broken, CONTEXT)
    with pytest.raises(InvalidRequest, match="metricName"):
        await scaler.get_metrics(metrics_request(FIXED, metric="queue-length"), CONTEXT)


def test_every_key_is_spelled_in_one_way() -> None:
    assert "requestsPerSecond" in IN_METADATA
    assert "prometheusServer" in IN_METADATA
    assert all(key.isalpha() and key[0].islower() for key in IN_METADATA)
    deployment = from_metadata(FIXED | {"certainty": "CAUTIOUS", "percentile": "p50", "role": "decode"})
    assert Certainty.CAUTIOUS is deployment.spec.certainty
    assert Percentile.P50 is deployment.spec.service_level.percentile
    assert PoolRole.DECODE is deployment.role


# -- never to zero by mistake -----------------------------------------------------------------------------------------

BAD_ANSWERS = [
    told.SILENT,
    told.ENDLESS,
    told.REDIRECT,
    told.CLOSED,
    told.GARBAGE,
    told.ERROR,
    told.EMPTY,
    told.SEVERAL,
    told.PARTIAL,
    told.TRUNCATED,
    "NaN",
    "+Inf",
    "-Inf",
    "-1",
    "1e300",
    "1e9",
    "zero",
]


@pytest.mark.parametrize("answer", BAD_ANSWERS)
async def test_a_prometheus_that_fails_is_an_error_and_never_zero(
    scaler: KedaScaler, prometheus: FakePrometheus, asks: dict[str, str], clock: Clock, answer: str
) -> None:
    asks |= {"scaleToZero": "true", "downscaleWindowSeconds": "0"}
    prometheus.answers["demand"] = "100"
    good = await settled_outcome(scaler, asks)
    assert isinstance(good, int)
    assert good > 1
    prometheus.answers["demand"] = answer
    clock.seconds += 10
    outcomes = await until_an_error(scaler, asks)
    assert set(outcomes[:-1]) <= {good}  # the reading before, for as long as the next is under way
    assert "the demand is not known" in str(outcomes[-1])
    with pytest.raises(Unavailable):
        await scaler.is_active(reference(asks), CONTEXT)
    prometheus.answers["demand"] = "100"
    clock.seconds += 10
    assert good == await eventually(scaler, asks, lambda outcome: outcome == good)


async def until_an_error(scaler: KedaScaler, metadata: dict[str, str]) -> list[int | Exception]:
    """Everything that is told, to the first error."""
    outcomes: list[int | Exception] = []
    for _ in range(60):
        outcomes.append(await settled_outcome(scaler, metadata))
        if isinstance(outcomes[-1], Exception):
            break
        await asyncio.sleep(0.05)
    return outcomes


async def eventually(scaler: KedaScaler, metadata: dict[str, str], holds: Callable[[int | Exception], bool]) -> int | Exception:
    outcome: int | Exception = -1
    for _ in range(60):
        outcome = await settled_outcome(scaler, metadata)
        if holds(outcome):
            break
        await asyncio.sleep(0.05)
    return outcome


async def test_what_was_read_long_ago_says_nothing(
    scaler: KedaScaler, prometheus: FakePrometheus, asks: dict[str, str], clock: Clock
) -> None:
    prometheus.answers["demand"] = "100"
    assert isinstance(await settled_outcome(scaler, asks), int)
    prometheus.answers["demand"] = told.SILENT
    clock.seconds += MOST_AGE_SECONDS + 1
    with pytest.raises(Unavailable, match="too long to go by"):
        await scaler.get_metrics(metrics_request(asks), CONTEXT)


async def test_a_slow_server_is_waited_for_in_the_background(
    scaler: KedaScaler, prometheus: FakePrometheus, asks: dict[str, str], clock: Clock
) -> None:
    prometheus.answers["demand"], prometheus.delay_seconds = "100", 0.5
    begun = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable, match="for the first time"):
        await scaler.get_metrics(metrics_request(asks), CONTEXT)
    assert asyncio.get_running_loop().time() - begun < 0.4
    first = await settled_outcome(scaler, asks)
    assert isinstance(first, int)
    clock.seconds += 10
    prometheus.answers["demand"] = "1000"
    assert first == replicas_of(await scaler.get_metrics(metrics_request(asks), CONTEXT))  # the one before
    assert isinstance(await eventually(scaler, asks, lambda outcome: outcome != first), int)
    assert 2 == len(prometheus.asked)


async def read_again(scaler: KedaScaler, metadata: dict[str, str], clock: Clock, seconds: float) -> int:
    clock.seconds += seconds
    outcome = await settled_outcome(scaler, metadata)
    assert isinstance(outcome, int)
    return outcome


async def test_to_zero_only_where_it_is_allowed_known_and_lasting(
    scaler: KedaScaler, prometheus: FakePrometheus, asks: dict[str, str], clock: Clock
) -> None:
    allowed = asks | {"scaleToZero": "true", "downscaleWindowSeconds": "60"}
    prometheus.answers["demand"] = "1"
    assert [1, 1] == [await read_again(scaler, each, clock, 0) for each in (asks, allowed)]
    prometheus.answers["demand"] = "0"
    for expected in (1, 1, 1, 0):  # at 20 s, 40 s, 60 s, and 80 s, a minute after the first
        assert 1 == await read_again(scaler, asks, clock, 20)
        assert expected == await read_again(scaler, allowed, clock, 0)
    assert [(1, 1)] == fields(await scaler.is_active(reference(asks), CONTEXT))
    assert [] == fields(await scaler.is_active(reference(allowed), CONTEXT))  # false is not sent
    prometheus.answers["demand"] = "0.01"
    assert 1 == await read_again(scaler, allowed, clock, 20)


async def test_lengths_are_not_asked_for_where_nothing_is(
    scaler: KedaScaler, prometheus: FakePrometheus, asks: dict[str, str]
) -> None:
    prometheus.answers |= {"demand": "0", "prompts": "NaN"}
    asks.pop("inputTokens")
    asks["inputTokensQuery"] = "prompts"
    assert 1 == await settled_outcome(scaler, asks)
    assert ["demand"] == prometheus.asked


@pytest.mark.parametrize("answer", ["NaN", "0", told.EMPTY, "1e12"])
async def test_lengths_that_are_not_known_are_an_error(
    scaler: KedaScaler, prometheus: FakePrometheus, asks: dict[str, str], answer: str
) -> None:
    prometheus.answers |= {"demand": "10", "prompts": answer}
    asks.pop("inputTokens")
    asks["inputTokensQuery"] = "prompts"
    outcome = await settled_outcome(scaler, asks)
    assert isinstance(outcome, Unavailable)
    assert "the length of prompts is not known" in str(outcome)


async def test_down_only_after_the_window_and_each_scaled_object_by_itself(
    scaler: KedaScaler, prometheus: FakePrometheus, asks: dict[str, str], clock: Clock
) -> None:
    prometheus.answers["demand"] = "200"
    high = await read_again(scaler, asks, clock, 0)
    prometheus.answers["demand"] = "20"
    clock.seconds += 15
    fresh = replicas_of(await scaler.get_metrics(metrics_request(asks, name="other"), CONTEXT))
    assert fresh < high
    assert high == await read_again(scaler, asks, clock, 0)
    for _ in range(7):
        assert high == await read_again(scaler, asks, clock, 15)
    assert await read_again(scaler, asks, clock, 15) < high
    prometheus.answers["demand"] = "200"
    assert high == await read_again(scaler, asks, clock, 15)
