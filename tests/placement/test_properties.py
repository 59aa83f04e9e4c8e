"""Whatever the cluster, the jobs and the policy: what a scheduler may never do, and what an independent one does as well."""

import random
from collections import Counter, defaultdict

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from service.placement.cluster import CPU, MEMORY, NVIDIA_GPU, Node, Pod
from service.placement.outcome import outcome
from service.placement.policies import Action, Job, JobState, Policy, QueueOrder, WaitForPodsReady
from service.placement.remedies import Question, remedies
from service.placement.results import Outcome
from service.placement.scoring import Scoring, ScoringPolicy, ShapePoint
from service.placement.simulate import Simulation
from tests.placement.clusters import GIB, simulated
from tests.placement.reference_scheduler import Reference, can_all_be_placed

HOLDING = (JobState.RUNNING, JobState.WAITING_PARTIAL)
POOLS = st.sampled_from([{"pool": "a"}, {"pool": "b"}])
SHAPES = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, max_size=4, unique_by=lambda each: each[0])


@st.composite
def nodes(draw: st.DrawFn, max_nodes: int = 5) -> list[Node]:
    made = []
    for number in range(draw(st.integers(1, max_nodes))):
        devices = draw(st.sampled_from([0, 2, 4, 8]))
        allocatable = {CPU: draw(st.integers(1, 12)) * 8000, MEMORY: draw(st.integers(1, 12)) * 80 * GIB, NVIDIA_GPU: devices}
        made.append(
            Node(f"n-{number}", labels=draw(POOLS), allocatable=allocatable, link_domain=draw(st.sampled_from([None, "x"])))
        )
    return made


@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    asked = {
        CPU: draw(st.integers(1, 40)) * 1000,
        MEMORY: draw(st.integers(1, 400)) * GIB,
        NVIDIA_GPU: draw(st.integers(0, 8)),
    }
    asked = {resource: quantity for resource, quantity in asked.items() if quantity}
    selector = draw(st.one_of(st.just({}), POOLS))
    return Pod("default", name, requests=asked, scored_requests=asked, node_selector=selector)


@st.composite
def jobs(draw: st.DrawFn, *, timed: bool = False, alike: bool = False, linked: bool = False, max_jobs: int = 6) -> list[Job]:
    made = []
    for number in range(draw(st.integers(1, max_jobs))):
        count = draw(st.integers(1, 4))
        first = draw(pods(f"j{number}-0"))
        others = [
            replace(first, name=f"j{number}-{place}") if alike else draw(pods(f"j{number}-{place}"))
            for place in range(1, count)
        ]
        made.append(
            Job(
                name=f"j{number}",
                pods=(first, *others),
                min_pods=draw(st.integers(1, count)),
                device_resource=NVIDIA_GPU,
                priority=draw(st.integers(0, 2)),
                arrival_seconds=draw(st.integers(0, 3)) * 10 if timed else 0,
                duration_seconds=draw(st.sampled_from([None, 10, 15, 40])) if timed else None,
                needs_one_link_domain=linked and draw(st.booleans()),
            )
        )
    return made


@st.composite
def policies(draw: st.DrawFn, *, evicts: bool = True) -> Policy:
    gang = draw(st.booleans())
    resources = st.sampled_from([CPU, MEMORY, NVIDIA_GPU])
    scoring = ScoringPolicy(
        draw(st.sampled_from(Scoring)),
        draw(st.dictionaries(resources, st.integers(1, 100), min_size=1)),
        tuple(ShapePoint(*each) for each in sorted(draw(SHAPES))),
    )
    return Policy(
        gang=gang,
        scoring=scoring,
        queue_order=draw(st.sampled_from(QueueOrder)),
        backfill=draw(st.booleans()),
        interleave_pods=not gang and draw(st.booleans()),
        wait_for_pods_ready=draw(st.sampled_from([None, WaitForPodsReady(20, 5, 40, 3)])) if evicts else None,
        horizon_seconds=draw(st.sampled_from([0, 25, 1000])),
    )


def placed(found: Outcome) -> dict[str, Counter[str]]:
    return {job.name: Counter({each.node: each.num_pods for each in job.placements}) for job in found.jobs}


@given(nodes(), jobs(timed=True, linked=True), policies())
def test_nothing_is_overcommitted_at_any_moment(cluster: list[Node], asked: list[Job], policy: Policy) -> None:
    """Replays the steps."""
    simulation = Simulation(cluster, [], asked, policy)
    simulation.run()
    by_pod = {pod.name: pod for job in asked for pod in job.pods}
    limits = {node.name: node.allocatable for node in cluster}
    held: dict[str, list[tuple[str, Pod]]] = defaultdict(list)
    for step in simulation.steps:
        if step.action is Action.BOUND:
            pod = by_pod[step.pod]
            held[step.job].append((step.node, pod))
            assert next(node for node in cluster if node.name == step.node).labels.items() >= pod.node_selector.items()
        elif step.action in (Action.FINISHED, Action.EVICTED):
            held[step.job].clear()
        for name, allocatable in limits.items():
            for resource in (CPU, MEMORY, NVIDIA_GPU):
                used = sum(pod.requests.get(resource, 0) for each in held.values() for where, pod in each if where == name)
                assert used <= allocatable[resource]
    found = outcome(simulation, [])
    assert {name: Counter(node for node, _ in each) for name, each in held.items() if each} == {
        name: each for name, each in placed(found).items() if each
    }
    assert found.num_devices == found.num_devices_working + found.num_devices_held_idle + found.num_devices_free
    assert 0 <= found.num_devices_stranded <= found.num_devices_free


@given(nodes(), jobs(timed=True, linked=True), policies())
def test_half_a_gang_is_never_bound(cluster: list[Node], asked: list[Job], policy: Policy) -> None:
    found = simulated(cluster, asked, replace(policy, gang=True, interleave_pods=False))
    for job in found.jobs:
        assert 0 == job.num_pods_placed or job.num_pods_placed >= job.min_pods
        assert job.state is not JobState.WAITING_PARTIAL
    assert 0 == found.num_devices_held_idle
    assert () == found.deadlocks


@given(nodes(), jobs(linked=True), policies())
def test_a_job_that_needs_one_link_domain_lies_in_one(cluster: list[Node], asked: list[Job], policy: Policy) -> None:
    domains = {node.name: node.link_domain or node.name for node in cluster}
    needs = {job.name: job.needs_one_link_domain for job in asked}
    for name, where in placed(simulated(cluster, asked, policy)).items():
        assert not needs[name] or len({domains[node] for node in where}) <= 1


@given(nodes(), jobs(timed=True, linked=True), policies(), st.randoms(use_true_random=False))
def test_the_same_question_has_one_answer_and_the_order_of_nodes_does_not_matter(
    cluster: list[Node], asked: list[Job], policy: Policy, dice: random.Random
) -> None:
    found = simulated(cluster, asked, policy)
    assert found == simulated(cluster, asked, policy)
    shuffled = dice.sample(cluster, len(cluster))
    assert found == simulated(shuffled, asked, policy)


@given(nodes(), jobs(timed=True), policies())
def test_what_waits_has_a_reason_and_what_holds_half_is_told_as_such(
    cluster: list[Node], asked: list[Job], policy: Policy
) -> None:
    found = simulated(cluster, asked, policy)
    for job in found.jobs:
        assert job.state not in (JobState.WAITING, JobState.WAITING_PARTIAL, JobState.EVICTED) or job.reason
        assert (job.state in HOLDING) == (job.num_pods_placed > 0)
        assert job.state is not JobState.RUNNING or job.num_pods_placed >= job.min_pods
    for deadlock in found.deadlocks:
        members = {each.job for each in deadlock.jobs}
        assert len(members) >= 2
        assert all(each.waits_for and set(each.waits_for) < members and each.num_pods_placed for each in deadlock.jobs)


@settings(max_examples=40)
@given(nodes(max_nodes=4), jobs(max_jobs=4), policies(evicts=False))
def test_remedies_do_help(cluster: list[Node], asked: list[Job], policy: Policy) -> None:
    question = Question(cluster, [], asked, policy)
    simulation = question.simulated()
    found = outcome(simulation, [])
    for each in remedies(question, simulation, found):
        assert (each.num_devices_working, -each.num_devices_held_idle) > (
            found.num_devices_working,
            -found.num_devices_held_idle,
        )


# ---------------------------------------------------------------------------------------------- an independent scheduler


@settings(max_examples=300)
@given(nodes(), jobs(timed=True, alike=True), policies(evicts=False))
def test_an_independent_scheduler_does_the_same(cluster: list[Node], asked: list[Job], policy: Policy) -> None:
    expected = Reference(cluster, asked, policy)
    found = simulated(cluster, asked, policy)
    assert {each.job.name: Counter(each.where.values()) for each in expected.standings} == placed(found)
    assert [each.started for each in expected.standings] == [job.started_seconds for job in found.jobs]
    assert [each.finished for each in expected.standings] == [job.state is JobState.FINISHED for job in found.jobs]
    working = sum(
        job.pods[place].requests.get(NVIDIA_GPU, 0)
        for each in expected.standings
        for job, where in [(each.job, each.where)]
        for place in where
        if len(where) >= job.min_pods
    )
    assert working == found.num_devices_working


@settings(max_examples=200)
@given(nodes(), jobs(), policies(evicts=False))
def test_also_where_the_pods_of_a_job_differ(cluster: list[Node], asked: list[Job], policy: Policy) -> None:
    policy = replace(policy, gang=False)
    expected = Reference(cluster, asked, policy)
    found = simulated(cluster, asked, policy)
    assert {each.job.name: Counter(each.where.values()) for each in expected.standings} == placed(found)


@settings(max_examples=300)
@given(nodes(max_nodes=3), jobs(max_jobs=1, alike=True))
def test_a_gang_of_like_pods_is_placed_whenever_there_is_any_way(cluster: list[Node], asked: list[Job]) -> None:
    (gang,) = asked
    whole = replace(gang, min_pods=len(gang.pods))
    for scoring in (ScoringPolicy(), ScoringPolicy(Scoring.MOST_ALLOCATED, {NVIDIA_GPU: 5})):
        found = simulated(cluster, [whole], Policy(gang=True, scoring=scoring))
        assert can_all_be_placed(cluster, gang.pods) == (found.jobs[0].state is JobState.RUNNING)


@settings(max_examples=200)
@given(nodes(max_nodes=3), jobs(max_jobs=1))
def test_a_gang_that_cannot_be_placed_never_is(cluster: list[Node], asked: list[Job]) -> None:
    (gang,) = asked
    assume(not can_all_be_placed(cluster, gang.pods))
    found = simulated(cluster, [replace(gang, min_pods=len(gang.pods))], Policy(gang=True))
    assert JobState.WAITING is found.jobs[0].state
