"""Calls of KEDA by field numbers, and what comes of them."""

import asyncio
from typing import Any

from service.api.autoscalers.keda import METRIC, KedaScaler
from service.api.errors import Unavailable
from service.planning.errors import PlanningError
from tests.api.autoscalers.raw_messages import field, fields
from tests.api.autoscalers.wire_format import mapping

CONTEXT: Any = None  # a scaler looks at the request alone
FIXED = {
    "scalerAddress": "tonnage-keda.tonnage:50062",
    "model": "llama-3.1-8b",
    "accelerator": "h100-sxm",
    "engine": "vllm",
    "tpotSeconds": "0.03",
    "inputTokens": "1024",
    "outputTokens": "256",
    "requestsPerSecond": "100",
}
ASKED = {key: value for key, value in FIXED.items() if key != "requestsPerSecond"}


def reference(metadata: dict[str, str], name: str = "chat") -> bytes:
    """A ScaledObjectRef by its field numbers."""
    return field(1, name) + field(2, "serving") + mapping(3, metadata)


def metrics_request(metadata: dict[str, str], name: str = "chat", metric: str = METRIC) -> bytes:
    return field(1, reference(metadata, name)) + field(2, metric)


def replicas_of(answer: bytes) -> int:
    """The number in a GetMetricsResponse by its field numbers, the same in both of its forms."""
    ((number, value),) = fields(answer)
    assert 1 == number
    assert isinstance(value, bytes)
    found = dict(fields(value))
    assert METRIC.encode() == found[1]
    whole, real = found.get(2, 0), found.get(3, 0.0)  # what is zero is not sent
    assert isinstance(whole, int)
    assert float(whole) == real
    return whole


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


async def settled_outcome(scaler: KedaScaler, metadata: dict[str, str]) -> int | Exception:
    """What KEDA is told once the reading that it caused has come to its end."""
    for _ in range(100):
        try:
            return replicas_of(await scaler.get_metrics(metrics_request(metadata), CONTEXT))
        except Unavailable as error:
            if "for the first time" not in str(error):
                return error
        except PlanningError as error:
            return error
        await asyncio.sleep(0.03)
    raise AssertionError("the reading never ends")
