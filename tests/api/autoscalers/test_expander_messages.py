"""What the expander reads: raw bytes of each wire generation, cut short, and such as no Cluster Autoscaler would send."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.autoscalers.expander import answer
from service.api.errors import Unreadable
from service.planning.errors import Undecided
from service.planning.node_groups.choose import NodeGroupChooser, always_in_time
from tests.api.autoscalers import wire_format as wire
from tests.api.autoscalers.expander_questions import GENERATIONS, GPU, H100, L4, chosen, machine, plain, plain_pods

#: Three pods want eight devices each, which nodes of eight have and nodes of four have not.
OPTIONS = {"small": (machine(L4, 4), 3, plain_pods(3, 8)), "large": (machine(H100, 8), 3, plain_pods(3, 8))}


def outcome(chooser: NodeGroupChooser, request: bytes) -> list[str] | Exception:
    """The ids that are answered, at least one, or the error."""
    try:
        answered = wire.chosen_ids(answer(chooser, request, always_in_time)[0])
    except (Unreadable, Undecided) as error:
        return error
    assert answered
    return answered


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_is_read(chooser: NodeGroupChooser, generation: str) -> None:
    assert ["large"] == chosen(chooser, OPTIONS, generation)


def test_where_both_forms_are_sent_the_new_one_is_read(chooser: NodeGroupChooser) -> None:
    pods = b"".join(wire.data(4, plain("old", 64)) + wire.data(5, plain("new", 8)) for _ in range(2))
    nodes = wire.mapping(2, {"a": machine(devices=4)}) + wire.mapping(3, {"a": machine(devices=8)})
    assert ["a"] == outcome(chooser, wire.data(1, wire.data(1, "a") + wire.whole(2, 1) + pods) + nodes)


def test_fields_come_in_any_order_and_unknown_ones_are_passed_over(chooser: NodeGroupChooser) -> None:
    unknown = wire.whole(99, 2**63) + wire.tag(98, 1) + bytes(8) + wire.tag(97, 5) + bytes(4) + wire.data(96, b"\xff")
    listed = b"".join(
        wire.data(
            1, unknown + b"".join(wire.data(5, pod + unknown) for pod in pods) + wire.whole(2, count) + wire.data(1, name)
        )
        for name, (_, count, pods) in OPTIONS.items()
    )
    nodes = wire.mapping(3, {name: node + unknown for name, (node, _, _) in OPTIONS.items()})
    assert ["large"] == outcome(chooser, unknown + nodes + listed + unknown)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_request_cut_short_is_an_error(chooser: NodeGroupChooser, generation: str) -> None:
    request = wire.request(OPTIONS, generation)
    whole = {len(request)}
    if generation == "both":  # without its last field it is a request as older versions send it
        nodes = {name: node for name, (node, _, _) in OPTIONS.items()}
        whole.add(len(request) - len(wire.mapping(3, nodes)))
    for length in range(len(request)):
        found = outcome(chooser, request[:length])
        assert (found == ["large"]) if length in whole else isinstance(found, Exception), length


@pytest.mark.parametrize("what", ["pod", "node"])
def test_a_pod_or_a_node_cut_short_is_no_crash(chooser: NodeGroupChooser, what: str) -> None:
    pod, node = plain("one", 8), machine()
    for length in range(len(pod if what == "pod" else node)):
        parts = (node, pod[:length]) if what == "pod" else (node[:length], pod)
        found = outcome(chooser, wire.request({"a": (parts[0], 1, [parts[1]])}))
        if not isinstance(found, Exception):  # cut between two fields, behind all that counts
            assert ["a"] == found
            needed = 2 if what == "pod" else 3
            assert needed in dict(wire.read_fields(pod[:length] if what == "pod" else node[:length]))


def test_no_options_are_no_answer(chooser: NodeGroupChooser) -> None:
    assert "no options" in str(outcome(chooser, b""))
    assert "template node" in str(outcome(chooser, wire.data(1, wire.data(1, "a"))))
    twice = wire.data(1, wire.data(1, "a")) * 2 + wire.mapping(3, {"a": machine()})
    assert "one id" in str(outcome(chooser, twice))
    no_pods = wire.request({"a": (machine(), 1, [])})
    assert "no pod fits" in str(outcome(chooser, no_pods))


def test_where_nothing_fits_the_error_says_why(chooser: NodeGroupChooser) -> None:
    found = outcome(
        chooser, wire.request({f"group-{number}": (machine(devices=4), 1, [plain("one", 8)]) for number in range(9)})
    )
    assert "group-0: too small" in str(found)
    assert "(and 6 more)" in str(found)


def in_option(content: bytes) -> bytes:
    return wire.data(1, wire.data(1, "a") + content) + wire.mapping(3, {"a": machine()})


def nested(depth: int) -> bytes:
    """Groups within groups, unknown ones: opened and closed again."""
    return wire.tag(77, 3) * depth + wire.tag(77, 4) * depth


def quantity(text: str | bytes, resource: str = GPU) -> bytes:
    resources = wire.data(2, wire.data(1, resource) + wire.data(2, wire.data(1, text)))
    return wire.pod("q", wire.data(1, "main") + wire.data(8, resources))


HOSTILE = {
    "length of 2^63": wire.tag(1, 2) + wire.varint(2**63) + b"x",
    "length of 2^31": wire.tag(1, 2) + wire.varint(2**31 - 1) + b"x",
    "length of a pod": in_option(wire.tag(5, 2) + wire.varint(2**40) + b"x"),
    "varint of 11 bytes": in_option(wire.tag(2, 0) + b"\xff" * 10 + b"\x01"),
    "field 0": b"\x02\x00",
    "wire type 6": bytes([1 << 3 | 6]),
    "wire type 7": bytes([1 << 3 | 7]),
    "options as a varint": wire.whole(1, 5),
    "a group that never ends": wire.tag(1, 3) * 50_000,
    "groups 100,000 deep": nested(100_000),
    "groups deep in an option": in_option(nested(100_000)),
    "groups deep in a pod": in_option(wire.data(5, wire.data(2, nested(100_000)))),
    "a group's end alone": wire.tag(1, 4),
    "an id that is no text": wire.data(1, wire.data(1, b"\xff\xfe")) + wire.mapping(3, {"a": machine()}),
    "a map key that is no text": wire.data(3, wire.data(1, b"\xff\xfe") + wire.data(2, machine())),
    "a label that is no text": in_option(wire.data(5, wire.data(1, wire.data(11, wire.data(1, b"\xff") + wire.data(2, "x"))))),
    "an argument that is no text": in_option(wire.data(5, wire.data(2, wire.data(2, wire.data(4, b"\xc3\x28"))))),
    "half a surrogate pair": in_option(wire.data(5, wire.data(1, wire.data(1, b"\xed\xa0\x80")))),
    "a pod of nothing": in_option(wire.data(5, b"")),
    "a pod without containers": in_option(wire.data(5, wire.pod("none"))),
    "half a device": in_option(wire.data(5, quantity("500m"))),
    "devices below zero": in_option(wire.data(5, quantity("-8"))),
    "a quantity of NaN": in_option(wire.data(5, quantity("NaN", "cpu"))),
    "a quantity of 10^999": in_option(wire.data(5, quantity("1e999", "memory"))),
    "a quantity of a million digits": in_option(wire.data(5, quantity("9" * 10**6, "memory"))),
    "random bytes": random.Random(7).randbytes(100_000),
    "text": b'{"options": []}',
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_no_autoscaler_sends_is_refused(chooser: NodeGroupChooser, what: str) -> None:
    found = outcome(chooser, HOSTILE[what])
    assert isinstance(found, Exception)
    assert len(str(found)) < 600  # quoted, not echoed


def test_numbers_at_their_ends_are_no_crash(chooser: NodeGroupChooser) -> None:
    every = {GPU: 2**53, "amd.com/gpu": 2**53, "cpu": 2**43, "memory": 2**53, "pods": 2**53}
    node, half = wire.node("n", {}, every), {GPU: 2**53, "amd.com/gpu": 2**53}
    many = [wire.pod(f"p-{place}", wire.container(half)) for place in range(2000)]  # 2^65 devices together
    beyond = wire.pod("p", wire.container({GPU: 2**63 - 1}), wire.container({GPU: 2**63 - 1}))
    for count in (2**31 - 1, 0, -1, -(2**31)):
        assert ["a"] == outcome(chooser, wire.request({"a": (node, count, many)}))
        found = outcome(chooser, wire.request({"a": (node, count, [beyond])}))
        assert "more nvidia.com/gpu than any node has" in str(found)


def test_words_nobody_knows_are_no_crash(chooser: NodeGroupChooser) -> None:
    operator = wire.data(1, "zone") + wire.data(2, "Near") + wire.data(3, "x")
    affinity = wire.data(18, wire.data(1, wire.data(1, wire.data(1, wire.data(1, operator)))))
    toleration = wire.data(22, wire.data(1, "x") + wire.data(2, "Perhaps"))
    for spec in (affinity, toleration, wire.data(18, b""), wire.data(18, wire.data(1, wire.data(1, b"")))):
        outcome(chooser, wire.request({"a": (machine(), 1, [plain("one", spec=spec)])}))
    numbers = wire.data(1, "pool") + wire.data(2, "Gt") + wire.data(3, "9" * 5000)
    gt = wire.data(18, wire.data(1, wire.data(1, wire.data(1, wire.data(1, numbers)))))
    outcome(chooser, wire.request({"a": (machine(pool="5"), 1, [plain("one", spec=gt)])}))


def test_secrets_stay_out_of_answers_and_errors(chooser: NodeGroupChooser) -> None:
    secret = "hf_SECRET"
    env = {"HF_TOKEN": secret, "MODEL_ID": "nobody/knows-this"}
    pod = wire.pod("p", wire.container({GPU: 9}, image="vllm", args=["--api-key", secret], env=env))
    assert secret not in str(outcome(chooser, wire.request({"a": (machine(), 1, [pod])})))
    answered, choice = answer(chooser, wire.request({"a": (machine(devices=16), 1, [pod])}), always_in_time)
    assert secret.encode() not in answered
    assert secret not in repr(choice)


_whole_request = wire.request(OPTIONS, "both")


@given(st.lists(st.tuples(st.integers(0, len(_whole_request) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes_give_an_error_or_some_of_the_options(chooser: NodeGroupChooser, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(_whole_request)
    for place, byte in changes:
        changed[place] = byte
    found = outcome(chooser, bytes(changed))
    if not isinstance(found, Exception):
        assert all(each.encode() in changed for each in found)


@given(st.binary(max_size=300))
def test_any_bytes_give_an_error_or_an_answer(chooser: NodeGroupChooser, request: bytes) -> None:
    outcome(chooser, request)
