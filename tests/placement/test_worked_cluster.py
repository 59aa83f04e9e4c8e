"""Section E of the worked figures by hand, at the engine: every number follows from the lines above it."""

import pytest

from service.placement.policies import Action, JobState, Policy, WaitForPodsReady
from service.placement.remedies import Question, remedies
from service.placement.results import Remedy, RemedyKind
from tests.placement.clusters import PACKING, job, node, nodes_of, simulated, states

CLUSTER = [node(f"node-{number}") for number in (1, 2, 3)]
JOBS = [job("a", 4), job("b", 4), job("T16", 8, 2), job("T8", 8)]
ALL, NONE = 24, 0


def test_e1_spreading_leaves_two_halves_and_half_a_gang() -> None:
    found = simulated(CLUSTER, JOBS)
    # a: 40 of 96 CPUs, 400 of 960 GiB; the other nodes are emptier for b; T16's first pod needs a whole node: the third.
    assert (ALL, 4 + 4, 8, 4 + 4) == (
        found.num_devices,
        found.num_devices_working,
        found.num_devices_held_idle,
        found.num_devices_free,
    )
    assert [["node-1"], ["node-2"], ["node-3"], []] == [nodes_of(found, each.name) for each in JOBS]
    assert JobState.WAITING_PARTIAL is states(found)["T16"]
    assert JobState.WAITING is states(found)["T8"]
    assert () == found.deadlocks
    assert 4 + 4 == found.num_devices_stranded  # no 8-GPU pod can use either half


def test_e2_each_holds_what_the_other_waits_for() -> None:
    jobs = [*JOBS[:3], job("U16", 8, 2)]
    found = simulated(CLUSTER, jobs, Policy(scoring=PACKING, interleave_pods=True))
    assert ["node-1"] == nodes_of(found, "a") == nodes_of(found, "b")
    assert (["node-2"], ["node-3"]) == (nodes_of(found, "T16"), nodes_of(found, "U16"))
    assert (8, 16) == (found.num_devices_working, found.num_devices_held_idle)
    (deadlock,) = found.deadlocks
    assert [("T16", 1, 2, 8, ("U16",)), ("U16", 1, 2, 8, ("T16",))] == [
        (each.job, each.num_pods_placed, each.min_pods, each.num_devices_held, each.waits_for) for each in deadlock.jobs
    ]
    # In order of arrival, without turns, the first takes both nodes and nobody waits half placed.
    in_order = simulated(CLUSTER, jobs, Policy(scoring=PACKING))
    assert (24, 0, ()) == (in_order.num_devices_working, in_order.num_devices_held_idle, in_order.deadlocks)


def test_e3_a_gang_that_does_not_fit_holds_nothing_up() -> None:
    found = simulated(CLUSTER, JOBS, Policy(gang=True))
    assert (16, 0) == (found.num_devices_working, found.num_devices_held_idle)
    assert ["node-3"] == nodes_of(found, "T8")
    assert JobState.WAITING is states(found)["T16"]


def test_e3_without_backfill_it_does() -> None:
    found = simulated(CLUSTER, JOBS, Policy(gang=True, backfill=False))
    assert 8 == found.num_devices_working
    assert JobState.WAITING is states(found)["T8"]


def test_e4_packed_everything_works() -> None:
    found = simulated(CLUSTER, JOBS, Policy(gang=True, scoring=PACKING))
    assert (ALL, NONE, NONE) == (found.num_devices_working, found.num_devices_held_idle, found.num_devices_free)
    assert ["node-1"] == nodes_of(found, "a") == nodes_of(found, "b")
    assert ["node-2", "node-3"] == nodes_of(found, "T16")
    assert JobState.WAITING is states(found)["T8"]


def test_e6_eviction_breaks_the_deadlock_and_puts_the_job_back() -> None:
    jobs = [*JOBS[:3], job("U16", 8, 2)]
    policy = Policy(scoring=PACKING, interleave_pods=True, wait_for_pods_ready=WaitForPodsReady(), horizon_seconds=1000)
    found = simulated(CLUSTER, jobs, policy)
    # At 300 s one of the two is thrown out; the other then has both nodes and runs.
    evicted = [(step.seconds, step.job) for step in found.steps if step.action is Action.EVICTED]
    assert [(300, "T16")] == evicted
    assert [(360, "T16")] == [(step.seconds, step.job) for step in found.steps if step.action is Action.REQUEUED]
    assert (JobState.WAITING, JobState.RUNNING) == (states(found)["T16"], states(found)["U16"])
    assert (24, 0, ()) == (found.num_devices_working, found.num_devices_held_idle, found.deadlocks)


@pytest.mark.parametrize("min_pods", [1, 2])
def test_e6_as_many_as_min_member_start_together(min_pods: int) -> None:
    found = simulated(CLUSTER[:1], [job("v", 8, 2, min_pods)], Policy(gang=True))
    assert {1: ["node-1"], 2: []}[min_pods] == nodes_of(found, "v")
    assert {1: JobState.RUNNING, 2: JobState.WAITING}[min_pods] is states(found)["v"]


def test_every_remedy_is_what_a_simulation_of_it_shows() -> None:
    question = Question(CLUSTER, [], JOBS, Policy())
    simulation = question.simulated()
    found = simulated(CLUSTER, JOBS)
    told: dict[RemedyKind, Remedy] = {
        each.kind: each for each in remedies(question, simulation, found) if each.kind is not RemedyKind.ADD_NODES
    }
    for kind, policy in (
        (RemedyKind.GANG, Policy(gang=True)),
        (RemedyKind.BIN_PACKING, Policy(scoring=PACKING)),
        (RemedyKind.GANG_AND_BIN_PACKING, Policy(gang=True, scoring=PACKING)),
        (RemedyKind.EVICTION, Policy(wait_for_pods_ready=WaitForPodsReady())),
    ):
        then = simulated(CLUSTER, JOBS, policy)
        assert (then.num_devices_working, then.num_devices_held_idle) == (
            told[kind].num_devices_working,
            told[kind].num_devices_held_idle,
        )
    assert 24 == told[RemedyKind.DRAIN_NODE].num_devices_working  # the small jobs share a node then
