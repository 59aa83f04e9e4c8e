"""KEDA's external scaler: streams, and many ScaledObjects at once."""

import asyncio

import pytest

from service.api.autoscalers import readings as readings_module
from service.api.autoscalers.keda import KedaScaler
from service.api.autoscalers.readings import Readings
from service.planning.errors import InvalidRequest
from tests.api.autoscalers.fake_prometheus import FakePrometheus
from tests.api.autoscalers.keda_calls import CONTEXT, FIXED, Clock, metrics_request, reference, replicas_of, settled_outcome
from tests.api.autoscalers.raw_messages import fields


async def test_a_stream_tells_changes_and_nothing_in_doubt(
    scaler: KedaScaler, prometheus: FakePrometheus, asks: dict[str, str], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.autoscalers.keda.REFRESH_SECONDS", 0.01)
    asks |= {"scaleToZero": "true", "downscaleWindowSeconds": "0"}
    stream = scaler.stream_is_active(reference(asks), CONTEXT)
    seen: list[bool] = []

    async def listen() -> None:
        async for part in stream:
            told_now = bool(fields(part))
            seen.append(told_now)

    listening = asyncio.create_task(listen())
    for answer, expected in (("5", [True]), ("NaN", [True]), ("0", [True, False]), ("5", [True, False, True])):
        prometheus.answers["demand"] = answer
        clock.seconds += 10
        await asyncio.sleep(0.3)
        assert expected == seen, answer
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


async def test_a_stream_of_what_can_never_be_ends(scaler: KedaScaler) -> None:
    with pytest.raises(InvalidRequest):
        await anext(scaler.stream_is_active(reference(FIXED | {"tensor": "x"}), CONTEXT))


async def test_one_question_of_many_scaled_objects_is_asked_once(
    scaler: KedaScaler, prometheus: FakePrometheus, asks: dict[str, str]
) -> None:
    prometheus.answers["demand"] = "100"
    await settled_outcome(scaler, asks)
    requests = [metrics_request(asks, name=f"object-{number}") for number in range(100)]
    answers = await asyncio.gather(*(scaler.get_metrics(each, CONTEXT) for each in requests))
    assert 1 == len(set(map(replicas_of, answers)))
    assert 1 == len(prometheus.asked)


async def test_what_is_kept_is_bounded(scaler: KedaScaler, readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings_module, "MOST_KEPT", 10)
    monkeypatch.setattr("service.api.autoscalers.keda._MOST_HELD", 10)
    for number in range(30):
        metadata = FIXED | {"requestsPerSecond": str(100 + number)}
        assert isinstance(await settled_outcome(scaler, metadata), int)
    assert 10 == len(readings._kept) == len(scaler._held)
