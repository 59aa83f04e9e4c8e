"""Whether fleets keep what they promise: 200 random demands planned, and a replica of each simulated.

``python -m tests.benchmarks.fleets [count]``. Fails where one attains more than five points less than it promises. Requests of
a run go together, so that two runs of a fleet near its limit differ by some points: one that falls short by more than two is
simulated again, ten times as long, and that counts.
"""

import statistics
import sys
import time
from random import Random
from typing import Final

from service.catalogue.loader import load
from service.planning.planner import Planner
from tests.calibration.calibrate import SPECS
from tests.simulation.fleets import Attained, attained, random_request, told

_COUNT: Final = 200
_REQUESTS: Final = 20_000
_ALLOWED: Final = 0.05
_DOUBTFUL: Final = 0.02
_LONGER: Final = 10
_SHOWN: Final = 5


def main() -> None:
    """Prints the fleets that fall shortest and how far all lie from their promise."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else _COUNT
    planner, begun = Planner(load(SPECS)), time.perf_counter()
    results: list[Attained] = []
    seed = out_of_reach = 0
    while len(results) < count:
        random = Random(1000 + seed)
        seed += 1
        request = random_request(random)
        result = attained(planner, request, random, _REQUESTS)
        if result is not None and result.shortfall > _DOUBTFUL:
            result = attained(planner, request, random, _LONGER * _REQUESTS)
        if result is None:
            out_of_reach += 1
        else:
            results.append(result)
    results.sort(key=lambda each: -each.shortfall)
    for each in results[:_SHOWN]:
        print(f"{-100 * each.shortfall:+.1f} points: {told(each)}")
    short = sum(each.shortfall > _ALLOWED for each in results)
    middle = statistics.median(each.shortfall for each in results)
    print(
        f"{count} fleets, {out_of_reach} service levels out of reach: {short} more than 5 points short, median "
        f"{-100 * middle:+.1f} points, {time.perf_counter() - begun:.0f} s"
    )
    sys.exit(short > 0)


if __name__ == "__main__":
    main()
