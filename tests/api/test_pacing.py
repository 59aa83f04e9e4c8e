"""Long work gives way to small requests: when it pauses, for how long, and what ends the pause. Time is the tests' own."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from service.api.pacing import SEARCH_PAUSE_RATIO, STREAM_PAUSE_RATIO, Pace
from service.api.schema import RPCS
from service.api.servicers import servicers
from service.cache.cache import Cache
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.catalogue.loader import load
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, ModelSpec
from service.planning.streams import Stop
from service.planning.sweep.requests import Kind, RunSweepRequest
from service.planning.sweep.results import RunSweepResponse
from service.planning.sweep.run import CHUNK_POINTS, SMALL_CHUNK_POINTS
from service.settings import specs_dir
from service.telemetry import RpcName, Telemetry

STEP = 0.001


@dataclass
class Scene:
    """A thread that works, a millisecond at a time, and small requests that may come in meanwhile."""

    num_small: int = 0
    now: float = 1000.0
    worked: float = 50.0
    pauses: list[float] = field(default_factory=list)
    stop: Stop = field(init=False)

    def __post_init__(self) -> None:
        scene = self

        class Told(Stop):
            def wait(self, seconds: float) -> None:
                scene.pauses.append(seconds)
                scene.now += seconds

        self.stop = Told(Pace(lambda: self.num_small, STREAM_PAUSE_RATIO, lambda: self.now, lambda: self.worked))

    def work(self, seconds: float = STEP, *, small: int = 0) -> list[float]:
        """Works so long, while so many small requests come in; the pauses at the look after it."""
        self.now += seconds
        self.worked += seconds
        self.num_small += small
        self.pauses.clear()
        self.stop.look()
        return list(self.pauses)


def test_alone_it_never_pauses() -> None:
    scene = Scene()
    assert [[]] * 1000 == [scene.work() for _ in range(1000)]
    assert not scene.stop.is_beside_others


def test_beside_small_requests_it_pauses_as_long_as_it_is_told_for_what_it_worked() -> None:
    scene = Scene()
    scene.work()
    for _ in range(100):
        assert [pytest.approx(STREAM_PAUSE_RATIO * STEP)] == scene.work(small=1)
        assert scene.stop.is_beside_others


def test_its_share_is_kept_however_many_small_requests_come() -> None:
    scene = Scene()
    scene.work()
    begun, worked = scene.now, scene.worked
    for _ in range(1000):
        scene.work(small=100)
    assert pytest.approx(1 / (1 + STREAM_PAUSE_RATIO)) == (scene.worked - worked) / (scene.now - begun)


def test_a_long_step_is_followed_by_no_longer_pause_than_the_longest() -> None:
    scene = Scene()
    scene.work()
    scene.work(small=1)
    assert [0.02] == scene.work(0.2, small=1)


def test_time_on_other_threads_is_not_paused_for() -> None:
    scene = Scene()
    scene.work()
    scene.now += 0.1  # the thread had no turn
    assert [pytest.approx(STREAM_PAUSE_RATIO * STEP)] == scene.work(small=1)


def test_a_while_after_the_last_small_request_it_goes_on_at_full_speed() -> None:
    scene = Scene()
    scene.work()
    scene.work(small=1)
    begun = scene.now
    while scene.work():
        pass
    assert 0.24 < scene.now - begun < 0.26
    assert not scene.stop.is_beside_others
    assert [] == scene.work()


def test_what_came_while_nothing_was_worked_on_is_past() -> None:
    scene = Scene()
    scene.work()
    scene.now += 10
    assert [] == scene.work(small=5)
    assert [] != scene.work(small=1)


def test_looks_that_follow_each_other_closely_cost_no_counting() -> None:
    counted = itertools.count()
    stop = Stop(Pace(lambda: next(counted), 1.0, lambda: 1000.0))
    assert [False] * 1000 == [stop.look() for _ in range(1000)]
    assert 1 == next(counted)


def test_who_is_stopped_neither_pauses_nor_goes_on_pausing() -> None:
    pausing = threading.Event()

    def pause_for_an_hour(stop: Stop) -> bool:
        pausing.set()
        stop.wait(3600)
        return True

    stop = Stop(pause_for_an_hour)
    with ThreadPoolExecutor(1) as executor:
        looked = executor.submit(stop.look)
        assert pausing.wait(60)
        stop.ask()
        assert looked.result(60)
    pausing.clear()
    assert stop.look()
    assert not pausing.is_set()


SWEEP = RunSweepRequest(
    Kind.DECODE,
    (ModelSpec(name="llama-3.1-8b"),),
    (AcceleratorSpec(name="h100-sxm"),),
    batch_sizes=tuple(range(1, 101)),
    context_tokens=tuple(range(1, 401)),
)


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(load(specs_dir()))


def test_a_sweep_makes_small_parts_while_others_ask_and_all_its_points(planner: Planner) -> None:
    others: list[bool] = [False, False, True, True, True, False]
    stop = Stop(lambda _: others.pop(0) if others else False)
    parts = list(planner.run_sweep(SWEEP, stop))

    sizes = [len(part.chunk.decode.fits) for part in parts if part.chunk is not None and part.chunk.decode is not None]
    assert [CHUNK_POINTS, CHUNK_POINTS] == sizes[:2]
    assert SMALL_CHUNK_POINTS in sizes
    assert 40_000 == sum(sizes)
    alone = list(planner.run_sweep(SWEEP))
    for name in ("batch_size_index", "context_tokens_index", "step_seconds"):
        assert _column(alone, name) == _column(parts, name)


def _column(parts: list[RunSweepResponse], name: str) -> list[float]:
    columns = [getattr(part.chunk.decode, name) for part in parts if part.chunk is not None]
    return [value for column in columns for value in column.tolist()]


def test_only_requests_answered_without_the_planning_thread_are_given_way_to(planner: Planner) -> None:
    telemetry = Telemetry([RpcName(rpc.service, rpc.name) for rpc in RPCS], version="v")
    cache = Cache(keys=KeySpace(catalogue_revision="r", code_version="c"), local=LocalTier(max_bytes=0, max_entries=0))
    with ThreadPoolExecutor(1) as executor:
        (searching,) = (
            each
            for each in servicers(planner, cache, telemetry, executor, redis_for_every_rpc=False)
            if each.rpc.name == "PlanFleet"
        )
    by_name = {rpc.name: rpc for rpc in RPCS}

    def counted() -> int:
        return searching._pace._num_small()

    for name, small in (("EstimateDecode", 1), ("PlanFleet", 0), ("RunSweep", 0), ("ListModels", 1)):
        rpc, before = by_name[name], counted()
        telemetry.rpc(rpc.path).begin()
        assert before + small == counted()
        telemetry.route(rpc.http.method, rpc.http.template).begin()
        assert before + 2 * small == counted()
    assert STREAM_PAUSE_RATIO >= SEARCH_PAUSE_RATIO > 0
