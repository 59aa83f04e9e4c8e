"""What an answer depends on is in its key."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from service.cache.keys import KeySpace

KEYS = KeySpace(catalogue_revision="c0ffee", code_version="1.2.0")
OTHERS = [
    KEYS,
    structs.replace(KEYS, catalogue_revision="decade"),
    structs.replace(KEYS, code_version="1.2.1"),
]


def test_a_redis_key_can_be_read_by_a_person() -> None:
    key = KEYS.redis_key("FitNode", b"request").decode()
    *readable, digest = key.split(":")
    assert ["tonnage", "1", "c0ffee", "1.2.0", "FitNode"] == readable
    assert 64 == len(digest)
    assert set(digest) <= set("0123456789abcdef")


def test_whatever_differs_makes_another_redis_key() -> None:
    spaces = [*OTHERS, structs.replace(KEYS, prefix="staging:")]
    keys = {
        space.redis_key(rpc, request)
        for space, rpc, request in itertools.product(spaces, ("FitNode", "PlanFleet"), (b"", b"a", b"b"))
    }
    assert 4 * 2 * 3 == len(keys)


def test_whatever_differs_makes_another_local_tag_of_the_same_length() -> None:
    tags = {
        space.local_tag(rpc, flavour)
        for space, rpc, flavour in itertools.product(OTHERS, ("FitNode", "PlanFleet"), ("protobuf", "json"))
    }
    assert 3 * 2 * 2 == len(tags)
    assert {16} == {len(tag) for tag in tags}


def test_names_cannot_be_shifted_into_one_another() -> None:
    assert KEYS.local_tag("Fit", "Nodejson") != KEYS.local_tag("FitNode", "json")


@given(st.binary())
def test_keys_are_the_same_every_time(request: bytes) -> None:
    again = KeySpace(catalogue_revision="c0ffee", code_version="1.2.0")
    assert KEYS.redis_key("FitNode", request) == again.redis_key("FitNode", request)


@pytest.mark.parametrize("word", ["", "a:b", "a b", "a\nb"])
def test_words_that_would_make_two_keys_alike_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match="without ':'"):
        KeySpace(catalogue_revision=word, code_version="1")
    with pytest.raises(ValueError, match="without ':'"):
        KeySpace(catalogue_revision="1", code_version=word)


@pytest.mark.parametrize("prefix", ["", "a b", "a\r\nb"])
def test_a_prefix_is_a_word(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        KeySpace(catalogue_revision="1", code_version="1", prefix=prefix)
