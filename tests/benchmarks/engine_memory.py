"""What engines logged at start-up beside what we predict, line by line, and how well each fitted constant carries over.

    python -m tests.benchmarks.engine_memory

A log of which all is known is predicted from model, GPU, release and flags alone. Where only parts are known, the pool or
what was free is taken from the log, and only what the pool holds is predicted. The rest is listed with what is missing.
"""

import statistics
from collections.abc import Iterable
from pathlib import Path

from service.catalogue.engines import parse_version
from service.catalogue.loader import load
from tests.benchmarks.engine_memory_fit import left_out_cache_errors, left_out_errors
from tests.planning.engine_logs import Log, cache_error, error, logs, predict, predicted_lines

SPECS = Path(__file__).parents[2] / "specs"
#: Before this release memory outside torch rests on two reports that disagree.
FROM = (0, 8)


def percentile_90(errors: Iterable[float]) -> float:
    ordered = sorted(errors)
    return statistics.quantiles(ordered, n=10, method="inclusive")[-1] if len(ordered) > 1 else ordered[0]


def summary(name: str, errors: list[float]) -> str:
    return f"{name}: {len(errors)} logs, median {statistics.median(errors):.2%}, 90th percentile {percentile_90(errors):.2%}"


def show(row: Log, predicted: dict[str, float], outcome: str) -> None:
    print(f"{row.id}: {row.engine} {row.version}, {row.model} on {row.accelerator or 'a GPU not named'}, given: {row.given}")
    if "outcome" in row.logged:
        print(f"    {'outcome':20} {outcome:>24} | {row.logged['outcome']}")
    for name, logged in row.logged.items():
        if name in predicted:
            share = f"{(predicted[name] - logged) / abs(logged):+.1%}" if logged else ""
            print(f"    {name:20} {predicted[name]:24,.2f} | {logged:<14,.6g} {share}")
    if row.why:
        print(f"    note: {row.why}")


def main() -> None:
    """Prints the table, the summary, what cannot be compared, and the errors of the fitted constants."""
    catalogue = load(SPECS)
    cache: list[float] = []
    parts: list[float] = []
    weights: list[float] = []
    right = outcomes = 0
    for row in logs("all", "parts"):
        answer = predict(catalogue, row)
        predicted = predicted_lines(row, answer)
        show(row, predicted, answer.outcome)
        if "outcome" in row.logged:
            outcomes += 1
            right += (answer.outcome == "STARTS") == (row.logged["outcome"] == "STARTS")
        if "weights_gib" in row.logged and row.given == "all":
            weights.append(error(predicted["weights_gib"], row.logged["weights_gib"]))
        deviation = cache_error(row, predicted)
        if deviation is not None:
            (cache if row.given == "all" else parts).append(deviation)
    print("\nNot compared:")
    for row in logs("none"):
        print(f"    {row.id}: {row.why}")
    print("\nEvery figure of the cache predicted:", summary("KV tokens, concurrency or pool", cache))
    print("The pool taken from the log:", summary("KV tokens or concurrency", parts))
    print(summary("weights", weights))
    print(f"started or refused: {right} of {outcomes} right")
    print("\nFitted constants, each predicted from the other models' logs alone (median, largest error of the figure it sets):")
    for line in left_out_errors(catalogue):
        print("    " + line)
    left_out = left_out_cache_errors(catalogue)
    print("All of them at once:", summary("KV tokens, concurrency or pool", [each for _, each in left_out]))
    newer = [each for row, each in left_out if (parse_version(row.version or "") or ()) >= FROM]
    print("Of those, from 0.8 on:", summary("KV tokens, concurrency or pool", newer))


if __name__ == "__main__":
    main()
