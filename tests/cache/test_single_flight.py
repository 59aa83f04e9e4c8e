"""Concurrent callers share one computation, and neither errors nor cancellations stay with the wrong one."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from service.cache.single_flight import SingleFlight


class Work:
    """Work that waits to be released, and counts how often it was begun."""

    def __init__(self, result: bytes = b"answer", error: Exception | None = None) -> None:
        self.num_begun = 0
        self.release = asyncio.Event()
        self._result = result
        self._error = error

    async def __call__(self) -> bytes:
        self.num_begun += 1
        await self.release.wait()
        if self._error is not None:
            raise self._error
        return self._result


async def _started(flights: SingleFlight, *works: Callable[[], Awaitable[bytes]]) -> list[asyncio.Task[bytes]]:
    """One task a work, all for the same key, each as far as it gets by itself."""
    tasks = [asyncio.create_task(flights.run("key", work)) for work in works]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_concurrent_callers_compute_once() -> None:
    flights, work = SingleFlight(), Work()
    tasks = await _started(flights, *[work] * 10)
    work.release.set()
    assert [b"answer"] * 10 == await asyncio.gather(*tasks)
    assert 1 == work.num_begun
    assert 0 == len(flights)


async def test_other_keys_do_not_wait() -> None:
    flights, slow = SingleFlight(), Work()
    (waiting,) = await _started(flights, slow)

    async def quick() -> bytes:
        return b"quick"

    assert b"quick" == await flights.run("another key", quick)
    slow.release.set()
    assert b"answer" == await waiting


async def test_an_empty_answer_is_shared_like_any_other() -> None:
    flights, work = SingleFlight(), Work(result=b"")
    tasks = await _started(flights, work, work)
    work.release.set()
    assert [b"", b""] == await asyncio.gather(*tasks)
    assert 1 == work.num_begun


async def test_an_exception_reaches_everyone_and_is_not_remembered() -> None:
    flights, work = SingleFlight(), Work(error=LookupError("no such model"))
    tasks = await _started(flights, work, work, work)
    work.release.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [LookupError] * 3 == [type(result) for result in results]
    assert 1 == work.num_begun
    with pytest.raises(LookupError, match="no such model"):
        await flights.run("key", work)
    assert 2 == work.num_begun
    assert 0 == len(flights)


async def test_when_the_leader_is_cancelled_one_of_the_others_takes_over() -> None:
    flights, led, followed = SingleFlight(), Work(), Work(result=b"by a follower")
    leader, *followers = await _started(flights, led, followed, followed, followed)
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    followed.release.set()
    async with asyncio.timeout(10):
        assert [b"by a follower"] * 3 == await asyncio.gather(*followers)
    assert (1, 1) == (led.num_begun, followed.num_begun)


async def test_when_one_leader_after_another_is_cancelled_the_last_one_still_answers() -> None:
    flights = SingleFlight()
    works = [Work(result=bytes([index])) for index in range(5)]
    tasks = await _started(flights, *works)
    for task in tasks[:-1]:
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    works[-1].release.set()
    async with asyncio.timeout(10):
        assert bytes([4]) == await tasks[-1]
    assert all(task.cancelled() for task in tasks[:-1])
    assert 0 == len(flights)


async def test_a_leader_out_of_time_does_not_time_the_others_out() -> None:
    flights, led, followed = SingleFlight(), Work(), Work(result=b"by a follower")

    async def lead() -> bytes:
        async with asyncio.timeout(0.01):
            return await flights.run("key", led)

    leader = asyncio.create_task(lead())
    await asyncio.sleep(0)
    (follower,) = await _started(flights, followed)
    with pytest.raises(TimeoutError):
        await leader
    followed.release.set()
    assert b"by a follower" == await follower


async def test_a_cancelled_follower_disturbs_nobody() -> None:
    flights, work = SingleFlight(), Work()
    leader, cancelled, follower = await _started(flights, work, work, work)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    work.release.set()
    assert [b"answer"] * 2 == list(await asyncio.gather(leader, follower))
    assert 1 == work.num_begun


async def test_a_follower_cancelled_as_the_leader_fails_leaves_no_unseen_exception() -> None:
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
    flights, work = SingleFlight(), Work(error=LookupError("no such model"))
    leader, follower = await _started(flights, work, work)
    work.release.set()
    await asyncio.sleep(0)
    follower.cancel()
    results = await asyncio.gather(leader, follower, return_exceptions=True)
    assert [LookupError, asyncio.CancelledError] == [type(result) for result in results]
    assert [] == unseen
