"""Limits per caller, on a clock that the test turns."""

import pytest

from service.api.access.callers import Caller
from service.api.access.limits import Limits
from service.api.errors import CallerLimited


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def caller(name: str, rate: float | None = None, concurrent: int | None = None) -> Caller:
    return Caller(name, frozenset({"read"}), rate, concurrent)


def ask(limits: Limits, who: Caller) -> None:
    limits.enter(who)
    limits.leave(who)


def test_a_rate_lets_a_seconds_worth_through_and_then_says_how_long_to_wait() -> None:
    clock = Clock()
    limits = Limits(max_concurrent_requests=100, requests_per_second=2, clock=clock)
    ask(limits, caller("a"))
    ask(limits, caller("a"))
    with pytest.raises(CallerLimited, match="a asks more than 2 requests per second, which is its limit; try again in 1 s"):
        ask(limits, caller("a"))
    ask(limits, caller("b"))  # whose bucket is its own
    clock.now += 0.5
    ask(limits, caller("a"))
    with pytest.raises(CallerLimited):
        ask(limits, caller("a"))


def test_a_slow_rate_still_lets_one_through() -> None:
    clock = Clock()
    limits = Limits(max_concurrent_requests=100, clock=clock)
    ask(limits, caller("a", rate=0.1))
    with pytest.raises(CallerLimited) as refused:
        ask(limits, caller("a", rate=0.1))
    assert 10 == refused.value.retry_seconds


def test_requests_at_once() -> None:
    limits = Limits(max_concurrent_requests=100, max_concurrent_per_caller=2)
    limits.enter(caller("a"))
    limits.enter(caller("a"))
    with pytest.raises(CallerLimited, match="a has 2 requests in flight"):
        limits.enter(caller("a"))
    limits.enter(caller("own", concurrent=1))
    with pytest.raises(CallerLimited, match="own has 1 requests in flight"):
        limits.enter(caller("own", concurrent=1))
    limits.leave(caller("a"))
    limits.enter(caller("a"))


def test_who_asks_much_leaves_room_for_who_asks_little() -> None:
    limits = Limits(max_concurrent_requests=10)
    for _ in range(5):
        limits.enter(caller("greedy"))
    for _ in range(5):  # alone, it may have all places
        limits.enter(caller("greedy"))
    for _ in range(4):
        limits.leave(caller("greedy"))
    limits.enter(caller("modest"))  # now there are two, and half of the places are five each
    with pytest.raises(CallerLimited, match="greedy has its share of 5"):
        limits.enter(caller("greedy"))
    for _ in range(4):
        limits.enter(caller("modest"))


def test_callers_that_come_by_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.access.limits._MAX_CALLERS", 3)
    limits = Limits(max_concurrent_requests=100, requests_per_second=1)
    limits.enter(caller("stays"))
    for number in range(50):
        ask(limits, caller(f"address-{number}"))
    assert 3 == len(limits._uses)
    limits.leave(caller("stays"))
