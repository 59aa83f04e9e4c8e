"""Which RPCs go to Redis, by default and when widened."""

import pytest

from service.cache.policy import COST_CLASSES, CostClass, uses_redis


@pytest.mark.parametrize("rpc", ["FitNode", "PlanFleet", "CompareAccelerators", "SimulatePlacement", "FitCluster"])
def test_searches_go_to_redis(rpc: str) -> None:
    assert uses_redis(rpc)


@pytest.mark.parametrize("rpc", ["EstimateDecode", "EstimateKvMemory", "ComputeUtilization", "ListAccelerators"])
def test_points_and_the_catalogue_stay_in_the_process(rpc: str) -> None:
    assert not uses_redis(rpc)


def test_the_setting_widens_redis_to_every_rpc_that_is_kept_at_all() -> None:
    kept = [rpc for rpc, cost in COST_CLASSES.items() if cost is not CostClass.STREAM]
    assert all(uses_redis(rpc, every_rpc=True) for rpc in [*kept, "NotInTheTable"])


def test_what_streams_is_kept_nowhere() -> None:
    assert not uses_redis("RunSweep")
    assert not uses_redis("RunSweep", every_rpc=True)


def test_an_rpc_without_a_row_stays_in_the_process() -> None:
    assert not uses_redis("NotInTheTable")


def test_every_row_is_a_cost_class() -> None:
    assert set(CostClass) == set(COST_CLASSES.values())
