"""What is large beside what is small: plans and sweeps run on a thread, block nobody and hold little memory."""

import subprocess
import sys
import threading
import time

from service.api.examples import REQUESTS
from tests.api.asking import Doors
from tests.api.test_deadlines import LARGE, WORKLOADS

_TEN_MILLION = """
import resource

from service.api.wire import wire_writer
from service.catalogue.loader import load
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, ModelSpec
from service.planning.sweep.requests import Kind, RunSweepRequest
from service.planning.sweep.results import RunSweepResponse
from service.settings import specs_dir
from tonnage.v1 import sweep_service_pb2

write = wire_writer(sweep_service_pb2.RunSweepResponse, RunSweepResponse)
asked = RunSweepRequest(
    Kind.DECODE,
    (ModelSpec("llama-3.1-8b"),),
    (AcceleratorSpec("h100-sxm"),),
    batch_sizes=tuple(range(1, 1001)),
    context_tokens=tuple(range(1, 10_001)),
)
sent = sum(len(write(part)) for part in Planner(load(specs_dir())).run_sweep(asked))
print(sent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_ten_million_points_take_less_than_a_gibibyte() -> None:
    done = subprocess.run([sys.executable, "-c", _TEN_MILLION], capture_output=True, text=True, check=True)
    sent, most = map(int, done.stdout.split())
    assert sent > 1e9
    assert most < 2**30


def test_small_requests_are_answered_while_a_plan_is_made(doors: Doors) -> None:
    asked = LARGE | {"workloads": WORKLOADS[:2]}  # a second's work, and no other test's, so that no cache answers
    ended: list[float] = []

    def plan() -> None:
        assert 200 == doors.post("PlanFleet", asked).status_code
        ended.append(time.monotonic())

    under_way = threading.Thread(target=plan)
    under_way.start()
    answered: list[float] = []
    while under_way.is_alive():
        question = REQUESTS["EstimateDecode"] | {"context_tokens": 5000 + len(answered)}
        assert 200 == doors.post("EstimateDecode", question).status_code
        answered.append(time.monotonic())
    under_way.join()
    assert sum(at < ended[0] for at in answered) > 5
