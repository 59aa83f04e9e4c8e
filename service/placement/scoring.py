"""How a scheduler ranks the nodes that a pod fits: NodeResourcesFit, number for number.

Source: kubernetes/kubernetes ``pkg/scheduler/framework/plugins/noderesources`` (resource_allocation, least_allocated,
most_allocated, requested_to_capacity_ratio). All of it is arithmetic in whole numbers; each division drops its remainder but
the last of RequestedToCapacityRatio, which rounds.

Scores judge CPU and memory by requests in which a silent container counts as 100m and 200Mi, everything else by real requests.
A resource that a node has none of does not count, nor an extended one that the pod does not ask for: neither its score nor its
weight.
"""

import itertools
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from service.placement.cluster import CPU, MEMORY

Amounts = NDArray[np.int64]

MAX_SCORE: Final = 100
_SHAPE_SCALE: Final = 10  # points of a shape say 0–10, scores 0–100
#: What the scheduler weighs where its configuration does not say: CPU and memory, and no GPU.
DEFAULT_WEIGHTS: Final[Mapping[str, int]] = {CPU: 1, MEMORY: 1}


class Scoring(StrEnum):
    """The strategies of NodeResourcesFit."""

    LEAST_ALLOCATED = "LEAST_ALLOCATED"
    MOST_ALLOCATED = "MOST_ALLOCATED"
    REQUESTED_TO_CAPACITY_RATIO = "REQUESTED_TO_CAPACITY_RATIO"


class ShapePoint(Struct, frozen=True):
    """A corner of the line that RequestedToCapacityRatio scores by: at this per cent of use, this score of 0 to 10."""

    utilization: int
    score: int


class ScoringPolicy(Struct, frozen=True):
    """A strategy, the weight of each resource that it looks at, and, for the ratio, its shape."""

    strategy: Scoring = Scoring.LEAST_ALLOCATED
    weights: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_WEIGHTS))
    shape: tuple[ShapePoint, ...] = (ShapePoint(0, 0), ShapePoint(100, 10))


def node_scores(
    policy: ScoringPolicy, resources: Sequence[str], requested: Amounts, allocatable: Amounts, counted: Sequence[bool]
) -> Amounts:
    """The score of each node, 0 to 100.

    Args:
        policy: strategy, weights and shape.
        resources: what the rows hold.
        requested: resources × nodes: what the node's pods ask for, that to be placed included.
        allocatable: resources × nodes.
        counted: for each resource whether it counts for this pod (see above; the node's side is seen to here).
    """
    total = np.zeros(requested.shape[1], np.int64)
    weight_sum = np.zeros(requested.shape[1], np.int64)
    for row, resource in enumerate(resources):
        weight = policy.weights.get(resource, 0)
        if not weight or not counted[row]:
            continue
        score = _resource_scores(policy, requested[row], allocatable[row])
        has = allocatable[row] > 0
        if policy.strategy is Scoring.REQUESTED_TO_CAPACITY_RATIO:
            has &= score > 0  # the scheduler leaves out what scores nothing, weight and all
        total += np.where(has, score * weight, 0)
        weight_sum += np.where(has, weight, 0)
    divisor = np.maximum(weight_sum, 1)
    if policy.strategy is Scoring.REQUESTED_TO_CAPACITY_RATIO:
        total, divisor = 2 * total + divisor, 2 * divisor  # rounds halves up, as Go's math.Round does above zero
    scores: Amounts = total // divisor
    return scores


def _resource_scores(policy: ScoringPolicy, requested: Amounts, allocatable: Amounts) -> Amounts:
    capacity = np.maximum(allocatable, 1)
    if policy.strategy is Scoring.LEAST_ALLOCATED:
        left: Amounts = np.maximum(allocatable - requested, 0) * MAX_SCORE // capacity
        return left
    used: Amounts = np.minimum(requested, allocatable) * 100 // capacity
    return used if policy.strategy is Scoring.MOST_ALLOCATED else _along(policy.shape, used)


def _along(shape: Sequence[ShapePoint], utilization: Amounts) -> Amounts:
    """The broken line through the points, level before the first and after the last."""
    score: Any = np.full_like(utilization, shape[-1].score * _SHAPE_SCALE)
    for left, right in reversed(list(itertools.pairwise(shape))):
        rise = (right.score - left.score) * _SHAPE_SCALE * (utilization - left.utilization)
        run = right.utilization - left.utilization
        # Go drops the remainder towards zero, also on a falling line.
        between = left.score * _SHAPE_SCALE + np.sign(rise) * (np.abs(rise) // run)
        score = np.where(utilization <= right.utilization, between, score)
    first: Amounts = np.where(utilization <= shape[0].utilization, shape[0].score * _SHAPE_SCALE, score)
    return first
