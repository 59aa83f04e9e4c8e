"""The breaker's transitions, with a clock that the test moves."""

import pytest

from service.cache.breaker import BreakerSettings, CircuitBreaker
from service.cache.port import BreakerState

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


class Bench:
    """A breaker, its clock, and the changes that it reported. Jitter draws the upper bound."""

    def __init__(self, **settings: float) -> None:
        self.now_seconds = 1000.0
        self.changes: list[BreakerState] = []
        self.draws: list[tuple[float, float]] = []
        num_window_outcomes = int(settings.pop("num_window_outcomes", 50))
        max_consecutive_failures = int(settings.pop("max_consecutive_failures", 3))
        self.breaker = CircuitBreaker(
            BreakerSettings(
                num_window_outcomes=num_window_outcomes,
                max_consecutive_failures=max_consecutive_failures,
                min_backoff_seconds=1.0,
                max_backoff_seconds=8.0,
                **settings,
            ),
            on_change=self.changes.append,
            clock=lambda: self.now_seconds,
            uniform=self._upper,
        )

    def _upper(self, low: float, high: float) -> float:
        self.draws.append((low, high))
        return high

    def permit(self) -> int:
        permit = self.breaker.permit()
        assert permit is not None
        return permit

    def fail(self, times: int = 1) -> None:
        for _ in range(times):
            self.breaker.failed(self.permit())

    def succeed(self) -> None:
        self.breaker.succeeded(self.permit())


def test_it_opens_at_so_many_failures_in_a_row() -> None:
    bench = Bench()
    bench.fail(2)
    bench.succeed()
    bench.fail(2)
    assert CLOSED is bench.breaker.state
    bench.fail()
    assert OPEN is bench.breaker.state
    assert bench.breaker.permit() is None
    assert [OPEN] == bench.changes


def test_it_opens_at_a_share_of_failures_once_the_window_is_full() -> None:
    bench = Bench(num_window_outcomes=10, max_failure_ratio=0.5)
    for _ in range(4):
        bench.fail()
        bench.succeed()
    bench.fail()
    assert CLOSED is bench.breaker.state, "nine outcomes do not fill the window"
    bench.succeed()
    assert CLOSED is bench.breaker.state, "a success opens nothing"
    bench.succeed()
    bench.fail()
    assert OPEN is bench.breaker.state


def test_old_outcomes_leave_the_window() -> None:
    bench = Bench(num_window_outcomes=4, max_failure_ratio=0.75, max_consecutive_failures=100)
    for outcome in "fffss" + "f" + "ss" + "ff":
        assert CLOSED is bench.breaker.state
        if outcome == "f":
            bench.fail()
        else:
            bench.succeed()
    assert CLOSED is bench.breaker.state, "two failures among the last four"
    bench.fail()
    assert OPEN is bench.breaker.state, "three failures among the last four"


def test_after_the_backoff_one_probe_decides() -> None:
    bench = Bench()
    bench.fail(3)
    bench.now_seconds += 0.999
    assert bench.breaker.permit() is None
    bench.now_seconds += 0.001
    probe = bench.permit()
    assert HALF_OPEN is bench.breaker.state
    assert bench.breaker.permit() is None, "one probe at a time"
    bench.breaker.succeeded(probe)
    assert [OPEN, HALF_OPEN, CLOSED] == bench.changes
    bench.fail(2)
    assert CLOSED is bench.breaker.state, "failures before the opening are forgotten"


def test_each_failed_probe_doubles_the_backoff_up_to_the_bound_and_a_success_resets_it() -> None:
    bench = Bench()
    bench.fail(3)
    for backoff_seconds in (1, 2, 4, 8, 8):
        assert (backoff_seconds / 2, backoff_seconds) == bench.draws[-1]
        bench.now_seconds += backoff_seconds
        bench.fail()
        assert OPEN is bench.breaker.state
    bench.now_seconds += 8
    bench.succeed()
    bench.fail(3)
    assert (0.5, 1) == bench.draws[-1]


def test_a_night_without_redis_does_not_overflow_the_backoff() -> None:
    bench = Bench()
    bench.fail(3)
    for _ in range(2_000):
        bench.now_seconds += 8
        bench.fail()
    assert (4, 8) == bench.draws[-1]


def test_an_abandoned_probe_lets_the_next_one_through() -> None:
    bench = Bench()
    bench.fail(3)
    bench.now_seconds += 1
    bench.breaker.abandoned(bench.permit())
    assert HALF_OPEN is bench.breaker.state
    bench.succeed()
    assert CLOSED is bench.breaker.state


@pytest.mark.parametrize("late", ["failed", "succeeded", "abandoned"])
def test_what_started_before_the_opening_does_not_count_after_it(late: str) -> None:
    bench = Bench()
    in_flight = bench.permit()
    bench.fail(3)
    getattr(bench.breaker, late)(in_flight)
    assert OPEN is bench.breaker.state
    bench.now_seconds += 1
    probe = bench.permit()
    getattr(bench.breaker, late)(in_flight)
    assert HALF_OPEN is bench.breaker.state
    assert bench.breaker.permit() is None, "the probe is still out"
    bench.breaker.succeeded(probe)
    assert CLOSED is bench.breaker.state
