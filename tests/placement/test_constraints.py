"""Where a pod may go, resources aside, and what it takes of a node."""

from typing import Any

import pytest

from service.placement.cluster import Node, NodeSelectorTerm, Pod, Requirement, Taint, Toleration
from service.placement.constraints import Container, effective_requests, obstacle, scored_requests

GPU = Taint("nvidia.com/gpu", "present", "NoSchedule")


def kept_away(pod: dict[str, Any], **node: Any) -> str:
    found = obstacle(Pod("ml", "p", **pod), Node("n", **node))
    return "" if found is None else str(found.kind)


@pytest.mark.parametrize(
    ("toleration", "passes"),
    [
        (Toleration("nvidia.com/gpu", "Exists"), True),
        (Toleration("nvidia.com/gpu", "Exists", effect="NoSchedule"), True),
        (Toleration("nvidia.com/gpu", "Exists", effect="NoExecute"), False),
        (Toleration("nvidia.com/gpu", "Equal", "present"), True),
        (Toleration("nvidia.com/gpu", "Equal", "absent"), False),
        (Toleration("nvidia.com/gpu", "", "present"), True),
        (Toleration("", "Exists"), True),  # every taint
        (Toleration("", "Equal", "present"), False),
        (Toleration("amd.com/gpu", "Exists"), False),
        (Toleration("nvidia.com/gpu", "Sometimes"), False),
    ],
)
def test_tolerations(toleration: Toleration, passes: bool) -> None:
    assert ("" if passes else "taint") == kept_away({"tolerations": (toleration,)}, taints=(GPU,))


def test_taints_that_block_and_that_do_not() -> None:
    assert "taint" == kept_away({}, taints=(Taint("a", "", "NoExecute"),))
    assert "" == kept_away({}, taints=(Taint("a", "", "PreferNoSchedule"),))
    every = {"tolerations": (Toleration(GPU.key, "Exists"),)}
    assert "taint" == kept_away(every, taints=(GPU, Taint("other")))  # one tolerated is not all tolerated


def test_cordoned_and_not_ready() -> None:
    assert "unschedulable" == kept_away({}, unschedulable=True)
    assert "" == kept_away({"tolerations": (Toleration("", "Exists"),)}, unschedulable=True)
    assert "" == kept_away({"tolerations": (Toleration("node.kubernetes.io/unschedulable", "Exists"),)}, unschedulable=True)
    assert "not ready" == kept_away({"tolerations": (Toleration("", "Exists"),)}, ready=False)


def test_node_selector_needs_every_label() -> None:
    selector = {"node_selector": {"a": "1", "b": ""}}
    assert "" == kept_away(selector, labels={"a": "1", "b": "", "c": "3"})
    assert "node selector" == kept_away(selector, labels={"a": "1"})
    assert "node selector" == kept_away(selector, labels={"a": "2", "b": ""})


@pytest.mark.parametrize(
    ("requirement", "labels", "holds"),
    [
        (Requirement("k", "In", ("a", "b")), {"k": "b"}, True),
        (Requirement("k", "In", ("a", "b")), {"k": "c"}, False),
        (Requirement("k", "In", ("a",)), {}, False),
        (Requirement("k", "NotIn", ("a",)), {"k": "b"}, True),
        (Requirement("k", "NotIn", ("a",)), {"k": "a"}, False),
        (Requirement("k", "NotIn", ("a",)), {}, True),  # a label that is missing is none of them
        (Requirement("k", "Exists"), {"k": ""}, True),
        (Requirement("k", "Exists"), {}, False),
        (Requirement("k", "DoesNotExist"), {}, True),
        (Requirement("k", "DoesNotExist"), {"k": ""}, False),
        (Requirement("k", "Gt", ("80000",)), {"k": "81559"}, True),
        (Requirement("k", "Gt", ("81559",)), {"k": "81559"}, False),
        (Requirement("k", "Gt", ("9",)), {"k": "10"}, True),  # numbers, not texts
        (Requirement("k", "Lt", ("9",)), {"k": "-10"}, True),
        (Requirement("k", "Gt", ("1", "2")), {"k": "3"}, False),
        (Requirement("k", "Gt", ("1",)), {"k": "many"}, False),
        (Requirement("k", "Gt", ("1",)), {}, False),
        (Requirement("k", "Gt", ("1",)), {"k": "9223372036854775808"}, False),  # beyond 64 bits
    ],
)
def test_expressions(requirement: Requirement, labels: dict[str, str], holds: bool) -> None:
    terms = (NodeSelectorTerm((requirement,)),)
    assert ("" if holds else "node affinity") == kept_away({"required_node_terms": terms}, labels=labels)


def test_terms_are_or_expressions_are_and() -> None:
    a, b = Requirement("a", "Exists"), Requirement("b", "Exists")
    both, either = (NodeSelectorTerm((a, b)),), (NodeSelectorTerm((a,)), NodeSelectorTerm((b,)))
    assert "node affinity" == kept_away({"required_node_terms": both}, labels={"a": ""})
    assert "" == kept_away({"required_node_terms": either}, labels={"b": ""})
    assert "node affinity" == kept_away({"required_node_terms": ()}, labels={"a": ""})
    assert "node affinity" == kept_away({"required_node_terms": (NodeSelectorTerm(),)})
    named = NodeSelectorTerm(match_fields=(Requirement("metadata.name", "In", ("n",)),))
    assert "" == kept_away({"required_node_terms": (named,)})
    other = NodeSelectorTerm(match_fields=(Requirement("metadata.name", "In", ("m",)),))
    assert "node affinity" == kept_away({"required_node_terms": (other,)})


def of(cpu: int, restartable: bool = False) -> Container:
    return Container({"cpu": cpu}, restartable)


@pytest.mark.parametrize(
    ("containers", "stages", "expected"),
    [
        ([of(100), of(200)], [], 300),
        ([of(100)], [of(500), of(300)], 500),  # stages run one after the other
        ([of(100)], [of(50, True)], 150),  # a sidecar stays beside the containers
        ([of(100)], [of(50, True), of(400)], 450),  # and beside later stages
        ([of(100)], [of(400), of(50, True)], 400),  # not beside earlier ones
        ([of(100)], [of(50, True), of(60, True), of(10)], 210),
    ],
)
def test_what_a_pod_takes(containers: list[Container], stages: list[Container], expected: int) -> None:
    assert {"cpu": expected} == effective_requests(containers, stages)
    assert {"cpu": expected + 7} == effective_requests(containers, stages, overhead={"cpu": 7})
    assert {"cpu": 1000} == effective_requests(containers, stages, pod_level={"cpu": 1000})


def test_scores_count_silent_containers() -> None:
    assert {"cpu": 100 + 500, "memory": 2 * 200 * 2**20} == scored_requests([Container({}), of(500)])
    assert {"cpu": 100 + 100, "memory": 2 * 200 * 2**20} == scored_requests([Container({})], [Container({}, restartable=True)])
