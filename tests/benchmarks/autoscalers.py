"""How long KEDA and Dynamo Planner wait for an answer: over real ports, one after another and a hundred at once.

``python -m tests.benchmarks.autoscalers`` prints a row for each. KEDA sets no deadline, so an answer is to come within 100 ms
whatever Prometheus does.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc

from service.api.autoscalers.readings import REFRESH_SECONDS
from tests.api.autoscalers import fake_prometheus as told
from tests.api.autoscalers.fake_prometheus import FakePrometheus, fake_prometheus
from tests.api.autoscalers.keda_calls import ASKED, FIXED, metrics_request
from tests.api.autoscalers.test_dynamo import request, traffic
from tests.service_process import free_port, running_service

OBJECTS = 100
DEPLOYMENTS = """
deployments:
  agent: {model: llama-3.1-70b, accelerator: h100-sxm, engine: vllm, tensor: 4, disaggregated: true, ttft_seconds: 1,
          tpot_seconds: 0.03, max_replicas: 40, dynamo_port: 0}
"""

Call = Callable[[bytes], Awaitable[bytes]]


async def timed(call: Call, message: bytes) -> tuple[float, bool]:
    """Seconds to the answer, and whether it was a number."""
    begun = time.perf_counter()
    try:
        await call(message)
    except grpc.aio.AioRpcError:
        return time.perf_counter() - begun, False
    return time.perf_counter() - begun, True


async def one_after_another(call: Call, messages: list[bytes]) -> list[tuple[float, bool]]:
    return [await timed(call, message) for message in messages]


async def all_at_once(call: Call, messages: list[bytes]) -> list[tuple[float, bool]]:
    return await asyncio.gather(*(timed(call, message) for message in messages))


def row(title: str, results: list[tuple[float, bool]]) -> None:
    seconds = sorted(each for each, _ in results)
    numbers = sum(is_number for _, is_number in results)
    p50, p99 = seconds[len(seconds) // 2], seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)]
    print(f"{title:<62} p50 {p50 * 1e3:6.1f} ms  p99 {p99 * 1e3:6.1f} ms  most {seconds[-1] * 1e3:6.1f} ms  {numbers} numbers")


def objects(prometheus: FakePrometheus, prefix: str) -> list[bytes]:
    """GetMetrics of a hundred ScaledObjects, each with a query and a length of its own."""
    metadata = [
        ASKED | {"prometheusServer": prometheus.url, "query": f"{prefix} {at}", "outputTokens": str(100 + at)}
        for at in range(OBJECTS)
    ]
    return [metrics_request(each, f"object-{at}") for at, each in enumerate(metadata)]


async def measured(prometheus: FakePrometheus, keda: str, dynamo: str) -> None:
    """Prints the table."""
    async with grpc.aio.insecure_channel(keda) as channel:
        get = channel.unary_unary("/externalscaler.ExternalScaler/GetMetrics", None, None)
        row("KEDA, a fixed rate, the first time", await one_after_another(get, [metrics_request(FIXED)]))
        row("KEDA, a fixed rate", await one_after_another(get, [metrics_request(FIXED)] * 1000))
        asked = objects(prometheus, "demand")
        row("KEDA, 100 ScaledObjects at once, Prometheus answers, the first", await all_at_once(get, asked))
        await asyncio.sleep(1)
        row("KEDA, the same again", await all_at_once(get, asked))
        await asyncio.sleep(REFRESH_SECONDS + 1)
        row("KEDA, the same when every reading is due", await all_at_once(get, asked))
        prometheus.otherwise = told.SILENT
        row("KEDA, 100 new ones at once, Prometheus is silent", await all_at_once(get, objects(prometheus, "silent")))
        await asyncio.sleep(REFRESH_SECONDS + 1)
        row("KEDA, known ones when every reading is due, silent", await all_at_once(get, asked))
        row("KEDA, one after another, Prometheus is silent", await one_after_another(get, asked))
    async with grpc.aio.insecure_channel(dynamo) as channel:
        propose = channel.unary_unary("/dynamo.planner.plugin.v1.ProposePlugin/Propose", None, None)
        new = [request(traffic(isl=1000.0 + 97 * at)) for at in range(100)]
        row("Dynamo, Propose, lengths that are new", await one_after_another(propose, new))
        row("Dynamo, Propose, lengths that are known", await one_after_another(propose, new))


def main() -> None:
    """Runs the service with a Prometheus that is told how to behave."""
    keda, dynamo = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder, fake_prometheus() as prometheus:
        deployments = Path(folder) / "deployments.yaml"
        deployments.write_text(DEPLOYMENTS.replace("dynamo_port: 0", f"dynamo_port: {dynamo}"))
        settings = {
            "TONNAGE_KEDA_PORT": str(keda),
            "TONNAGE_DEPLOYMENTS_FILE": str(deployments),
            "TONNAGE_PROMETHEUS_HOSTS": prometheus.url,
        }
        with running_service(**settings):
            asyncio.run(measured(prometheus, f"127.0.0.1:{keda}", f"127.0.0.1:{dynamo}"))


if __name__ == "__main__":
    main()
