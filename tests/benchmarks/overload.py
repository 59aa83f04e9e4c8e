"""Ten times what the service can do: what it sheds and how, how long the rest waits, how soon it is itself again.

    python -m tests.benchmarks.overload [--times 10] [--seconds 20]

Searches, each asked once, so that no cache helps: what one core sustains of them is measured first. Before, during and after
the overload a few estimates a second are asked as well, as an autoscaler would. Fails where anything is answered but an answer
or RESOURCE_EXHAUSTED / 429 with a time to come back, where half of what is admitted waits longer than twice as long as it takes
to answer all who have a place, or where it takes longer than five seconds to be as quick as before.
"""

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import uvloop

from tests.benchmarks.load import OK, Answer, Caller, Kind, Question, Questions, Seen, caller, capacity, offer
from tests.benchmarks.servers import Server, service

SHED: Final = ("429", "RESOURCE_EXHAUSTED")
HEAVY: Final = (
    Kind("FitNode", 8, ("context_tokens",), 1, 100_000, (OK, *SHED)),
    Kind("CompareAccelerators", 2, ("input_tokens",), 1, 100_000, (OK, *SHED)),
)
LIGHT: Final = (Kind("EstimateDecode", 1, ("context_tokens",), 1, 100_000),)
_LIGHT_PER_SECOND: Final = 20
_MODEST: Final = 0.4
_CALM_SECONDS: Final = 5
_CAPACITY_SECONDS: Final = 6
_MOST_IN_FLIGHT: Final = 900  # below the limit on connections, which is another matter
#: The default of TONNAGE_MAX_CONCURRENT_REQUESTS.
_ADMITTED: Final = 256
_WINDOW_SECONDS: Final = 0.5
_MOST_RECOVERY_SECONDS: Final = 5.0


@dataclass
class Shedding:
    """What became of searches, and when."""

    seen: Seen = field(default_factory=Seen)
    admitted: Seen = field(default_factory=Seen)
    num_shed: int = 0
    num_without_retry: int = 0
    answers: list[tuple[float, bool, float]] = field(default_factory=list)  # at, was shed, seconds

    def note(self, question: Question, answer: Answer, took: float) -> None:
        """One answer."""
        is_shed = answer.code in SHED
        if is_shed:
            self.num_shed += 1
            self.num_without_retry += not answer.retry_after
        elif answer.code == OK:
            self.admitted.seconds.append(took)
        self.answers.append((time.perf_counter(), is_shed, took))


async def phase(
    made: Caller, questions: Iterator[Question], light: Iterator[Question], per_second: float, seconds: float
) -> tuple[Shedding, Seen]:
    """Searches at a rate for so long, and estimates beside them."""
    heavy, estimates = Shedding(), Seen()
    await asyncio.gather(
        offer(
            made,
            questions,
            heavy.seen,
            per_second=per_second,
            seconds=seconds,
            most_in_flight=_MOST_IN_FLIGHT,
            each=heavy.note,
        ),
        offer(made, light, estimates, per_second=_LIGHT_PER_SECOND, seconds=seconds, most_in_flight=200),
    )
    return heavy, estimates


def recovered_after(after: Shedding, begun: float, seconds: float, calm_p99: float) -> float:
    """Seconds until the end of the last window that shed, or whose median was slower than twice the calm 99th percentile."""
    last = 0.0
    for number in itertools.count():
        start = begun + number * _WINDOW_SECONDS
        if start - begun >= seconds:
            return last
        window = [each for each in after.answers if start <= each[0] < start + _WINDOW_SECONDS]
        ordered = sorted(took for _, _, took in window)
        if any(is_shed for _, is_shed, _ in window) or (ordered and ordered[len(ordered) // 2] > 2 * calm_p99):
            last = start + _WINDOW_SECONDS - begun
    raise AssertionError("never here")


def line(name: str, heavy: Shedding, light: Seen, seconds: float) -> str:
    """A phase in one line."""
    admitted = heavy.admitted
    return (
        f"{name:9} searches {len(heavy.answers) / seconds:6,.0f}/s, answered {len(admitted.seconds) / seconds:5,.0f}/s "
        f"(p50 {admitted.percentile(0.5) * 1e3:5.0f} ms, p99 {admitted.percentile(0.99) * 1e3:5.0f} ms), "
        f"shed {heavy.num_shed:,} ({heavy.num_without_retry:,} without retry-after); "
        f"estimates p50 {light.percentile(0.5) * 1e3:5.1f} ms, p99 {light.percentile(0.99) * 1e3:5.1f} ms, {dict(light.codes)}"
    )


async def run(server: Server, times: float, seconds: float) -> list[str]:
    """Runs all phases and prints them; returns what does not hold."""
    async with caller(server) as made:
        heavy, light = iter(Questions(HEAVY)), iter(Questions(LIGHT, seed=2))
        sustained = await capacity(server, made, heavy, _CAPACITY_SECONDS)
        print(f"one core sustains {sustained:,.0f} searches/s", flush=True)
        calm, calm_light = await phase(made, heavy, light, _MODEST * sustained, _CALM_SECONDS)
        print(line("calm", calm, calm_light, _CALM_SECONDS), flush=True)
        over, over_light = await phase(made, heavy, light, times * sustained, seconds)
        print(line(f"{times:g} ×", over, over_light, seconds), flush=True)
        begun = time.perf_counter()
        after, after_light = await phase(made, heavy, light, _MODEST * sustained, 2 * _CALM_SECONDS)
        print(line("after", after, after_light, 2 * _CALM_SECONDS))
    recovery = recovered_after(after, begun, 2 * _CALM_SECONDS, calm.admitted.percentile(0.99))
    print(f"as before after {recovery:.1f} s; {server.resident_bytes() / 2**20:.0f} MiB resident")
    found = [each for part in (calm, over, after) for each in part.seen.unexpected.items()]
    found += [each for part in (calm_light, over_light, after_light) for each in part.unexpected.items()]
    wrong = [f"{count} × {what}" for what, count in found]
    if not over.num_shed or over.num_without_retry:
        wrong.append(f"{over.num_shed} shed, {over.num_without_retry} without a time to come back")
    if over.admitted.percentile(0.5) > 2 * _ADMITTED * seconds / max(1, len(over.admitted.seconds)):
        wrong.append("half of what was admitted waited longer than twice what it takes to answer all who have a place")
    if recovery > _MOST_RECOVERY_SECONDS:
        wrong.append(f"as before only after {recovery:.1f} s")
    return wrong


async def main(times: float, seconds: float) -> list[str]:
    """Starts the service and runs all phases."""
    with service() as server:
        return await run(server, times, seconds)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--times", type=float, default=10)
    arguments.add_argument("--seconds", type=float, default=20)
    given = arguments.parse_args()
    problems = uvloop.run(main(given.times, given.seconds))
    for problem in problems:
        print(f"FAILED: {problem}")
    sys.exit(bool(problems))
