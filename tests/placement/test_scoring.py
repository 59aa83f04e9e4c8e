"""NodeResourcesFit's scores, worked by hand."""

import numpy as np
import pytest

from service.placement.cluster import CPU, MEMORY, NVIDIA_GPU
from service.placement.policies import Policy
from service.placement.scoring import Scoring, ScoringPolicy, ShapePoint, node_scores
from tests.placement.clusters import GIB, job, node, node_object, outcome_of, pod_object, simulated

LEAST, MOST, RATIO = Scoring.LEAST_ALLOCATED, Scoring.MOST_ALLOCATED, Scoring.REQUESTED_TO_CAPACITY_RATIO
STEEP = (ShapePoint(20, 0), ShapePoint(50, 4), ShapePoint(80, 10))
FALLING = (ShapePoint(0, 10), ShapePoint(100, 0))


def score(
    strategy: Scoring,
    requested: dict[str, int],
    allocatable: dict[str, int],
    weights: dict[str, int],
    shape: tuple[ShapePoint, ...] = (ShapePoint(0, 0), ShapePoint(100, 10)),
    not_asked: tuple[str, ...] = (),
) -> int:
    resources = list(allocatable)
    scores = node_scores(
        ScoringPolicy(strategy, weights, shape),
        resources,
        np.array([[requested[each]] for each in resources]),
        np.array([[allocatable[each]] for each in resources]),
        [each not in not_asked for each in resources],
    )
    return int(scores[0])


HALF = {CPU: 2000, MEMORY: 3 * GIB}
NODE = {CPU: 4000, MEMORY: 10 * GIB}
EVEN = {CPU: 1, MEMORY: 1}


@pytest.mark.parametrize(
    ("strategy", "weights", "expected"),
    [
        (LEAST, EVEN, 60),  # (4000 − 2000)·100/4000 = 50; (10 − 3)·100/10 = 70; (50 + 70)/2
        (LEAST, {CPU: 3, MEMORY: 1}, 55),  # (3·50 + 70)/4
        (LEAST, {CPU: 1}, 50),
        (MOST, EVEN, 40),  # 50 and 30
        (MOST, {CPU: 3, MEMORY: 1}, 45),  # (150 + 30)/4
        (MOST, {CPU: 2, MEMORY: 1}, 43),  # (100 + 30)/3 = 43.3
    ],
)
def test_two_resources(strategy: Scoring, weights: dict[str, int], expected: int) -> None:
    assert expected == score(strategy, HALF, NODE, weights)


def test_each_division_drops_its_remainder() -> None:
    assert 66 == score(LEAST, {CPU: 1000}, {CPU: 3000}, {CPU: 1})  # 66.67
    assert 33 == score(MOST, {CPU: 1000}, {CPU: 3000}, {CPU: 1})
    assert 62 == score(LEAST, {NVIDIA_GPU: 3}, {NVIDIA_GPU: 8}, {NVIDIA_GPU: 5})  # 62.5
    assert 37 == score(MOST, {NVIDIA_GPU: 3}, {NVIDIA_GPU: 8}, {NVIDIA_GPU: 5})


def test_more_than_there_is_counts_as_nothing_left_and_as_all_of_it() -> None:
    assert 0 == score(LEAST, {CPU: 5000}, {CPU: 4000}, {CPU: 1})
    assert 100 == score(MOST, {CPU: 5000}, {CPU: 4000}, {CPU: 1})
    assert 100 == score(RATIO, {CPU: 5000}, {CPU: 4000}, {CPU: 1})


def test_what_a_node_lacks_or_a_pod_does_not_ask_for_does_not_count() -> None:
    weights = {CPU: 1, NVIDIA_GPU: 5}
    assert 50 == score(LEAST, {CPU: 2000, NVIDIA_GPU: 0}, {CPU: 4000, NVIDIA_GPU: 0}, weights)
    assert 50 == score(MOST, {CPU: 2000, NVIDIA_GPU: 8}, {CPU: 4000, NVIDIA_GPU: 8}, weights, not_asked=(NVIDIA_GPU,))
    assert (50 + 5 * 100) // 6 == score(MOST, {CPU: 2000, NVIDIA_GPU: 8}, {CPU: 4000, NVIDIA_GPU: 8}, weights)
    assert 0 == score(LEAST, {NVIDIA_GPU: 1}, {NVIDIA_GPU: 8}, EVEN)  # nothing that is weighed


@pytest.mark.parametrize(
    ("shape", "used", "expected"),
    [
        ((ShapePoint(0, 0), ShapePoint(100, 10)), 37, 37),
        (FALLING, 37, 63),
        (STEEP, 10, 0),  # level before the first point
        (STEEP, 20, 0),
        (STEEP, 37, 22),  # 40·17/30 = 22.67
        (STEEP, 50, 40),
        (STEEP, 65, 70),  # 40 + 60·15/30
        (STEEP, 95, 100),  # level after the last
        ((ShapePoint(0, 10), ShapePoint(30, 0)), 17, 44),  # 100 − 100·17/30 = 100 − 56.67, dropped towards zero: 100 − 56
    ],
)
def test_along_the_shape(shape: tuple[ShapePoint, ...], used: int, expected: int) -> None:
    assert expected == score(RATIO, {CPU: used * 100}, {CPU: 10_000}, {CPU: 1}, shape)


def test_the_ratio_rounds_and_leaves_out_what_scores_nothing() -> None:
    # 37 and 22: 59/2 = 29.5 rounds up, where the other strategies would drop the half.
    assert 30 == score(RATIO, {CPU: 37, MEMORY: 22}, {CPU: 100, MEMORY: 100}, EVEN)
    assert 40 == score(RATIO, {CPU: 0, MEMORY: 40}, {CPU: 100, MEMORY: 100}, EVEN)  # and not 20


def test_silent_containers_score_as_100m_and_200mi_each_but_ask_for_nothing() -> None:
    silent = [{"name": "a"}, {"name": "b"}]
    found = outcome_of(node_object("n", allocatable={"cpu": "1", "memory": "2000Mi"}), pod_object("p", containers=silent))
    (bound,) = (step for step in found.steps if step.node)
    assert (80 + 80) // 2 == bound.score  # (1000 − 200)/1000, (2000 − 400)/2000
    many = [pod_object(f"p-{number}", containers=silent) for number in range(20)]  # 4 CPUs if they asked for them
    assert 20 == len(outcome_of(node_object("n", allocatable={"cpu": "1", "memory": "2000Mi"}), *many).jobs)
    assert all(each.num_pods_placed for each in outcome_of(node_object("n", allocatable={"cpu": "1"}), *many).jobs)


def test_the_default_does_not_pack_devices() -> None:
    """By CPUs and memory the emptier node is better; only weighed devices fill the other one."""
    held = job("held", 4)
    small = job("small", 1)
    nodes = [node("n-1"), node("n-2")]
    spread = simulated(nodes, [held, small])
    assert {"n-1", "n-2"} == {each.placements[0].node for each in spread.jobs}
    packed = simulated(nodes, [held, small], Policy(scoring=ScoringPolicy(MOST, {NVIDIA_GPU: 5})))
    assert {"n-1"} == {each.placements[0].node for each in packed.jobs}
