"""Time and queues, by hand: arrivals, durations, priorities, eviction and return, deadlocks of three."""

import pytest
from msgspec.structs import replace

from service.placement.cluster import NVIDIA_GPU, Pod
from service.placement.errors import TooMany
from service.placement.policies import Action, Job, JobState, Policy, QueueOrder, WaitForPodsReady
from service.placement.remedies import MAX_REMEDY_WORK, Question, is_small
from service.placement.results import Outcome
from service.placement.simulate import MAX_NODES, MAX_PODS, MAX_STEPS, Simulation, check_size
from service.placement.state import ClusterState, natural_order
from tests.placement.clusters import PACKING, job, node, nodes_of, simulated, states

ONE = [node("n-1")]


def happened(found: Outcome, *actions: Action) -> list[tuple[float, str, str]]:
    return [(step.seconds, str(step.action), step.job) for step in found.steps if step.action in actions]


def test_a_job_starts_when_another_ends() -> None:
    found = simulated(ONE, [job("a", 8, duration_seconds=100), job("b", 8, duration_seconds=50), job("c", 8)])
    assert [0, 100, 150] == [each.started_seconds for each in found.jobs]
    assert [JobState.FINISHED, JobState.FINISHED, JobState.RUNNING] == list(states(found).values())
    assert 150 == found.end_seconds


def test_the_horizon_ends_the_look() -> None:
    asked = [job("a", 8, duration_seconds=100), job("b", 8), job("late", 1, arrival_seconds=500)]
    found = simulated(ONE, asked, Policy(horizon_seconds=99))
    assert [JobState.RUNNING, JobState.WAITING, JobState.NOT_ARRIVED] == list(states(found).values())


def test_priority_goes_first_and_does_not_preempt() -> None:
    asked = [job("low", 8, duration_seconds=10), job("mid", 8, priority=1), job("high", 8, priority=2, arrival_seconds=5)]
    by_arrival = simulated(ONE, asked)
    by_priority = simulated(ONE, asked, Policy(queue_order=QueueOrder.PRIORITY))
    assert [0, 10, None] == [each.started_seconds for each in by_arrival.jobs]
    assert [None, 0, None] == [each.started_seconds for each in by_priority.jobs]


def test_without_backfill_the_first_that_does_not_fit_holds_up_the_rest() -> None:
    asked = [job("a", 4), job("large", 8), job("small", 4)]
    assert JobState.RUNNING is states(simulated(ONE, asked))["small"]
    assert JobState.WAITING is states(simulated(ONE, asked, Policy(backfill=False)))["small"]


def test_min_pods_start_together_and_the_rest_comes_later() -> None:
    asked = [job("a", 4, duration_seconds=10), job("v", 4, 3, min_pods=1)]
    found = simulated(ONE, asked, Policy(gang=True))
    v = found.jobs[1]
    assert (JobState.RUNNING, 0, 2) == (v.state, v.started_seconds, v.num_pods_placed)
    assert v.reason.startswith("1 of 3 pods waits")
    assert [10, 10] == [seconds for seconds, _, _ in happened(found, Action.BOUND, Action.FINISHED)][-2:]


def test_eviction_returns_after_a_backoff_that_doubles_up_to_its_maximum() -> None:
    policy = Policy(wait_for_pods_ready=WaitForPodsReady(100, 10, 30, 3), horizon_seconds=10_000)
    found = simulated(ONE, [job("g", 8, 2)], policy)
    # Each time it holds one pod for 100 s; it returns after 10, 20 and 30 (not 40) s, and the fourth eviction is the last.
    assert [
        (100, "EVICTED", "g"),
        (110, "REQUEUED", "g"),
        (210, "EVICTED", "g"),
        (230, "REQUEUED", "g"),
        (330, "EVICTED", "g"),
        (360, "REQUEUED", "g"),
        (460, "EVICTED", "g"),
        (460, "GIVEN_UP", "g"),
    ] == happened(found, Action.EVICTED, Action.REQUEUED, Action.GIVEN_UP)
    (g,) = found.jobs
    assert (JobState.EVICTED, 4, 0) == (g.state, g.num_evictions, g.num_devices_held)
    assert "given up" in g.reason


def test_what_one_eviction_frees_may_save_the_next() -> None:
    nodes = [node("n-1"), node("n-2")]
    policy = Policy(interleave_pods=True, wait_for_pods_ready=WaitForPodsReady(100, 1000), horizon_seconds=200)
    found = simulated(nodes, [job("a", 8, 2), job("b", 8, 2)], policy)
    assert [(100, "EVICTED", "a"), (100, "STARTED", "b")] == happened(found, Action.EVICTED, Action.STARTED)


def test_a_circle_of_three_is_one_deadlock() -> None:
    nodes = [node(f"n-{number}", labels={"slot": str(number % 3)}) for number in range(3)]
    whole = {NVIDIA_GPU: 8}

    def between(name: str, *slots: int) -> Job:
        pods = tuple(Pod("d", f"{name}-{slot}", whole, whole, node_selector={"slot": str(slot)}) for slot in slots)
        return replace(job(name, 8, 2), pods=pods)

    asked = [between("a", 0, 1), between("b", 1, 2), between("c", 2, 0)]
    (deadlock,) = simulated(nodes, asked, Policy(interleave_pods=True)).deadlocks
    assert {"a": ("b",), "b": ("c",), "c": ("a",)} == {each.job: each.waits_for for each in deadlock.jobs}


def test_two_circles_are_two_deadlocks_and_a_bystander_is_none() -> None:
    nodes = [node(f"n-{number}", labels={"half": str(number // 2)}) for number in range(4)]
    asked = [job(f"{half}{place}", 8, 2, node_selector={"half": half}) for half in "01" for place in "xy"]
    found = simulated(nodes, [*asked, job("bystander", 8, 2)], Policy(interleave_pods=True))
    assert [["0x", "0y"], ["1x", "1y"]] == [[each.job for each in deadlock.jobs] for deadlock in found.deadlocks]
    assert JobState.WAITING is states(found)["bystander"]


def test_a_gang_of_unlike_pods_is_tried_largest_first_as_well() -> None:
    nodes = [node("n-1", 4), node("n-2", 8)]
    small, large = job("s", 4, 1).pods[0], job("l", 8, 1).pods[0]
    gang = replace(job("g", 8, 2), pods=(small, large))
    # In its order the small one would spread to the larger node, where the large one then finds no room.
    found = simulated(nodes, [gang], Policy(gang=True))
    assert ["n-1", "n-2"] == nodes_of(found, "g")


def test_a_whole_device_job_takes_no_slices_unless_it_says_so() -> None:
    shared = [node("n-1", num_shares_per_device=4)]
    assert JobState.WAITING is states(simulated(shared, [job("j", 1)]))["j"]
    assert JobState.RUNNING is states(simulated(shared, [job("j", 1, takes_shared_devices=True)]))["j"]


def test_names_are_compared_by_their_numbers() -> None:
    names = ["n-10", "n-9", "n-1", "m-2", "n-1a", "n-01"]
    assert ["m-2", "n-01", "n-1", "n-1a", "n-9", "n-10"] == sorted(names, key=natural_order)
    found = simulated([node(f"n-{number}") for number in (10, 9, 2)], [job("a", 8)])
    assert ["n-2"] == nodes_of(found, "a")


# -------------------------------------------------------------------------------------------------------------- bounds


def test_bounds() -> None:
    check_size(MAX_NODES, MAX_PODS)
    with pytest.raises(TooMany, match=f"{MAX_NODES + 1} nodes, which is more than {MAX_NODES}"):
        check_size(MAX_NODES + 1, 1)
    with pytest.raises(TooMany, match=f"{MAX_PODS + 1} pods"):
        check_size(1, MAX_PODS + 1)


def test_work_is_bounded() -> None:
    asked = [job(f"j-{number}", 8, duration_seconds=1 + number) for number in range(200)]
    simulation = Simulation(ONE, [], asked, Policy())
    simulation.run()
    with pytest.raises(TooMany, match="units of work"):
        Simulation(ONE, [], asked, Policy(), max_work=simulation.work // 2).run()
    assert is_small(Question(ONE, [], asked, Policy()), simulation)
    simulation.state.work = MAX_REMEDY_WORK + 1
    assert not is_small(Question(ONE, [], asked, Policy()), simulation)


def test_time_is_checked() -> None:
    class Over(Exception):
        pass

    def over() -> None:
        raise Over

    with pytest.raises(Over):
        Simulation(ONE, [], [job("a", 8)], Policy(), check_time=over).run()


def test_scores_that_are_dropped_are_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node(f"n-{number}") for number in range(6)]
    asked = [job(f"j-{number}", 1 + number % 5, 3) for number in range(9)]
    kept = simulated(nodes, asked, Policy(scoring=PACKING))
    monkeypatch.setattr("service.placement.state._MAX_KEPT_SCORES", 2 * len(nodes))
    assert kept == simulated(nodes, asked, Policy(scoring=PACKING))
    state = ClusterState(nodes, [each.pods[0] for each in asked], PACKING)
    kinds = [state.kind(each.pods[0]) for each in asked[:5]]
    for kind in kinds:
        state.best(kind, kind.pod)
    assert [False, False, False, True, True] == [kind.scores is not None for kind in kinds]


def test_only_the_first_steps_are_listed() -> None:
    found = simulated([node(f"n-{number}") for number in range(80)], [job(f"j-{number}", 1) for number in range(600)])
    assert (MAX_STEPS, 1200) == (len(found.steps), found.num_steps)
    assert any("the first 1000 are listed" in note for note in found.notes)
