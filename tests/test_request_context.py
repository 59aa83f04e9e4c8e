import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.request_context import CURRENT, RequestContext, current_id, request_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
HEX = re.compile(r"[0-9a-f]+")


def test_a_callers_ids_are_taken() -> None:
    request = request_of([("accept", "*/*"), ("x-request-id", "batch-7/item:3"), ("traceparent", PARENT)])
    assert ("batch-7/item:3", TRACE, SPAN, True) == (
        request.request_id,
        request.trace_id,
        request.parent_id,
        request.is_sampled,
    )
    assert SPAN != request.span_id  # its own part of the trace
    assert request.span_id == request.span_id


def test_without_any_the_request_and_its_trace_have_one_new_number() -> None:
    one, other = request_of([]), request_of([])
    assert one.request_id == one.trace_id
    assert one.request_id != other.request_id
    for text, length in ((one.request_id, 32), (one.span_id, 16)):
        assert length == len(text)
        assert HEX.fullmatch(text)
    assert (None, False) == (one.parent_id, one.is_sampled)


def test_an_id_without_a_trace_gets_a_trace_of_its_own() -> None:
    request = RequestContext("mine")
    assert "mine" == request.request_id
    assert 32 == len(request.trace_id)
    assert request.trace_id == request.trace_id


@pytest.mark.parametrize("given_id", ["", "x" * 129, "two words", "line\nbreak", 'quote"', "naïve", "\x00", "{curly}", "a\r"])
def test_ids_that_could_forge_something_are_made_anew(given_id: str) -> None:
    assert HEX.fullmatch(request_of([("x-request-id", given_id)]).request_id)


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True)])
def test_only_the_last_bit_says_that_the_trace_is_kept(flags: str, sampled: bool) -> None:
    assert sampled is RequestContext(None, f"00-{TRACE}-{SPAN}-{flags}").is_sampled


@pytest.mark.parametrize(
    "parent",
    [
        "",
        TRACE,
        PARENT.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",  # the first version has four parts
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f" {PARENT}",
        f"{PARENT}\n",
        f"01-{TRACE}-{SPAN}-01-{'x' * 300}",
    ],
)
def test_a_parent_that_is_none_begins_a_trace(parent: str) -> None:
    request = RequestContext(None, parent)
    assert (None, False) == (request.parent_id, request.is_sampled)
    assert request.request_id == request.trace_id
    assert TRACE != request.trace_id


def test_a_later_version_may_say_more() -> None:
    assert TRACE == RequestContext(None, f"01-{TRACE}-{SPAN}-01-what comes later").trace_id


def test_two_parents_are_none() -> None:
    assert TRACE != request_of([("traceparent", PARENT), ("traceparent", PARENT)]).trace_id


@given(request_id=st.text(max_size=200), parent=st.text(max_size=100))
def test_whatever_is_sent_what_goes_on_is_harmless(request_id: str, parent: str) -> None:
    request = request_of([("x-request-id", request_id), ("traceparent", parent)])
    assert re.fullmatch(r"[\x21-\x7e]{1,128}", request.request_id)
    assert re.fullmatch(r"[0-9a-f]{32}", request.trace_id)
    assert re.fullmatch(r"[0-9a-f]{16}", request.span_id)


def test_between_requests_there_is_none() -> None:
    assert current_id() is None
    token = CURRENT.set(RequestContext("mine"))
    assert "mine" == current_id()
    CURRENT.reset(token)
