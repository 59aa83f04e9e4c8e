"""Models that no node holds: one excuse says what is short and which replica over several nodes would hold it."""

import pytest

from service.planning.fleet.results import ExcuseReason, FleetExcuse, PlanFleetResponse
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.serving.places import asked_places
from tests.planning.fleet_questions import fleet, workload

H100, A100 = "aws-p5.48xlarge", "aws-p4de.24xlarge"


def misfit(answer: PlanFleetResponse, node: str) -> FleetExcuse:
    (found,) = (each for each in answer.excuses if each.node_type == node)
    assert ExcuseReason.DOES_NOT_FIT is found.reason
    assert found.parallelism is None
    return found


@pytest.mark.parametrize(
    ("model", "node", "weights", "nodes"),
    [
        ("deepseek-r1", H100, None, 2),  # 671e9 bytes of FP8 over 8 × 80 GB
        ("deepseek-r1", H100, "bf16", 3),  # 1.34e12 bytes: two nodes have 1.28e12 in all
        ("llama-3.1-405b", A100, "bf16", 2),  # 812e9 bytes over 8 × 80 GB
        ("llama-3.1-405b", "aws-p4d.24xlarge", "bf16", 3),  # … over 8 × 40 GB
    ],
)
def test_the_smallest_replica_over_nodes_is_named(
    planner: Planner, model: str, node: str, weights: str | None, nodes: int
) -> None:
    answer = planner.plan_fleet(fleet(model, workload(5.0), nodes=(node,), precision=Precision(weights=weights)))
    found = misfit(answer, node)
    assert (Parallelism(tensor=8, pipeline=nodes), nodes) == (found.fitting_parallelism, found.fitting_num_nodes)
    assert f"tensor 8 × pipeline {nodes} over {nodes} nodes" in found.text
    assert "GB of weights on each device" in found.text
    assert "network" in found.text
    assert () == answer.plans


@pytest.mark.parametrize(
    ("model", "node"), [("deepseek-r1", H100), ("llama-3.1-405b", A100), ("llama-3.1-405b", "gcp-g4-standard-48")]
)
def test_what_is_named_holds_a_request_and_one_node_less_does_not(planner: Planner, model: str, node: str) -> None:
    found = misfit(planner.plan_fleet(fleet(model, workload(5.0), nodes=(node,))), node)
    shape, nodes = found.fitting_parallelism, found.fitting_num_nodes
    assert shape is not None
    assert nodes is not None

    def held(split: Parallelism) -> float:
        deployed = planner.serving.deployment(
            ModelSpec(model), AcceleratorSpec(found.accelerator), EngineSpec("vllm"), Precision(), split
        )
        return asked_places(deployed.split, deployed.plan, EngineSpec("vllm"), None, 2250.0)[0].most

    assert held(shape) >= 1
    assert held(Parallelism(shape.tensor, shape.pipeline * (nodes - 1) // nodes)) < 1


def test_nodes_that_hold_it_are_planned_beside_those_that_do_not(planner: Planner) -> None:
    answer = planner.plan_fleet(fleet("deepseek-r1", workload(5.0), nodes=(H100, "aws-p5en.48xlarge")))
    assert ["aws-p5en.48xlarge"] == [plan.node_type for plan in answer.plans]
    assert 2 == misfit(answer, H100).fitting_num_nodes


def test_an_asked_share_of_the_memory_is_kept_to(planner: Planner) -> None:
    wide, narrow = (
        misfit(planner.plan_fleet(fleet("deepseek-r1", nodes=(H100,), memory_utilization_ratio=ratio)), H100)
        for ratio in (0.95, 0.5)
    )
    assert (2, 3) == (wide.fitting_num_nodes, narrow.fitting_num_nodes)  # half of 85.5 GB less 5.3 GB, 671 GB of weights


def test_one_device_of_a_small_node_says_that_no_number_of_them_is_planned(planner: Planner) -> None:
    found = misfit(planner.plan_fleet(fleet("llama-3.1-405b", nodes=("gcp-g2-standard-4",))), "gcp-g2-standard-4")
    assert (None, None) == (found.fitting_parallelism, found.fitting_num_nodes)
    assert "no replica over up to 16 nodes" in found.text


def test_trays_of_one_rack_are_said_to_be_joined_and_the_remedy_plans(planner: Planner) -> None:
    """A GB200 tray has four devices of the 72 that NVLink joins; two trays hold 405 billion weights in BF16."""
    found = misfit(planner.plan_fleet(fleet("llama-3.1-405b", nodes=("gcp-a4x-highgpu-4g",))), "gcp-a4x-highgpu-4g")
    assert "joins 72 devices over nodes: ask for accelerators gb200 with devices_per_node 8" in found.text
    answer = planner.plan_fleet(fleet("llama-3.1-405b", nodes=(), accelerators=("gb200",), devices_per_node=8))
    assert 8 == answer.plans[0].pools[0].num_devices_per_replica
