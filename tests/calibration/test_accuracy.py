"""The estimates stay as right as they were, and the calibrations are what the fit writes."""

import json

import pytest
from msgspec.structs import asdict

from service.catalogue.entries import Catalogue
from service.catalogue.loader import load
from service.planning.planner import Planner
from tests.calibration.accuracy import bound_of, estimates_of
from tests.calibration.calibrate import SPECS
from tests.calibration.knowledge import knowledge
from tests.calibration.report import GROUPINGS, Estimates, summary
from tests.calibration.runs import DATA, Reader
from tests.calibration.stages import calibrate, prepared

#: How much worse the median may get before somebody has to look: overall, and in a part.
_OVERALL, _PART = 1.05, 1.10


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load(SPECS)


@pytest.fixture(scope="module")
def estimates(catalogue: Catalogue) -> Estimates:
    """Every serving run through the call that callers make."""
    answered, unanswered = estimates_of(
        Planner(catalogue), Reader(catalogue, knowledge().kv_cache()), DATA / "serving_measured.csv"
    )
    assert [] == unanswered
    return answered


def test_the_medians_are_as_they_were(estimates: Estimates) -> None:
    baseline = json.loads((DATA / "baseline.json").read_text())
    worse = {
        name: (median, baseline[name])
        for name, median in medians(estimates).items()
        if median > baseline[name] * (_OVERALL if name == "all" else _PART)
    }
    assert {} == worse


def medians(of: Estimates) -> dict[str, float]:
    """The median error overall and of every part."""
    found = {"all": summary(of)["tpot_median"]}
    for name, group_of in GROUPINGS.items():
        groups = [group_of(run) for run in of.runs]
        for group in sorted(set(groups)):
            found[f"{name} {group}"] = summary(of, [each == group for each in groups])["tpot_median"]
    return found


def test_no_run_beats_its_bound(catalogue: Catalogue, estimates: Estimates) -> None:
    planner = Planner(catalogue)
    beaten = [run for run in estimates.runs if run.inter_token_seconds < bound_of(planner, run)]
    assert [] == beaten


def test_ranges_cover_what_they_say(estimates: Estimates) -> None:
    assert 0.75 <= summary(estimates)["coverage"] <= 0.9


def test_the_files_are_what_the_fit_writes(catalogue: Catalogue) -> None:
    known = knowledge()
    reader = Reader(catalogue, known.kv_cache())
    hierarchy, serving = prepared(reader.serving(DATA / "serving_measured.csv")[0], known)
    _, batches = prepared(reader.decode(DATA / "decode_measured.csv")[0], known)
    fitted = calibrate(hierarchy, serving, batches)
    for name in ("vllm", "sglang", "tensorrt-llm", "gpt-fast"):
        for generation in catalogue.calibrations[name].generations:
            like = known.generations[generation.generation].get("like", generation.generation)
            again = hierarchy.parameters(fitted.vector, name, like)
            assert asdict(generation.parameters) == pytest.approx(asdict(again), rel=0.02), (name, generation.generation)
