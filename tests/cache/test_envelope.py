"""Only what was sealed for a key, with the same secret, opens under it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cache.envelope import HEADER_BYTES, Envelope

SECRETS = [None, b"secret", b"a secret longer than the sixty-four bytes that BLAKE2b takes as its key itself"]


@pytest.mark.parametrize("secret", SECRETS)
@given(key=st.binary(), message=st.binary())
def test_what_was_sealed_opens(secret: bytes | None, key: bytes, message: bytes) -> None:
    sealed = Envelope(secret).seal(key, message)
    assert HEADER_BYTES + len(message) == len(sealed)
    assert message == Envelope(secret).open(key, sealed)


@pytest.mark.parametrize("secret", SECRETS)
def test_no_single_byte_can_change(secret: bytes | None) -> None:
    envelope = Envelope(secret)
    sealed = envelope.seal(b"key", b"message")
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 0x01
        assert envelope.open(b"key", bytes(changed)) is None, f"byte {position}"


def test_neither_truncated_nor_extended_values_open() -> None:
    envelope = Envelope()
    sealed = envelope.seal(b"key", b"message")
    assert [None] * len(sealed) == [envelope.open(b"key", sealed[:length]) for length in range(len(sealed))]
    assert envelope.open(b"key", sealed + b"\0") is None


def test_a_value_moved_to_another_key_does_not_open() -> None:
    envelope = Envelope()
    assert envelope.open(b"another key", envelope.seal(b"key", b"message")) is None


def test_the_end_of_a_key_cannot_pass_for_the_start_of_a_message() -> None:
    envelope = Envelope()
    digests = {envelope.seal(key, message)[10:HEADER_BYTES] for key, message in ((b"ab", b"cd"), (b"abc", b"d"))}
    assert 2 == len(digests)


@pytest.mark.parametrize("writer", SECRETS)
@pytest.mark.parametrize("reader", SECRETS)
def test_another_secret_opens_nothing(writer: bytes | None, reader: bytes | None) -> None:
    opened = Envelope(reader).open(b"key", Envelope(writer).seal(b"key", b"message"))
    assert (b"message" if writer == reader else None) == opened


@given(st.binary())
def test_garbage_does_not_open(value: bytes) -> None:
    assert Envelope().open(b"key", value) is None
