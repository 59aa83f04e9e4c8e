"""Fields of numbers with a fraction, and messages read back: what is not in ``wire_format``, likewise without any stub."""

import struct
from dataclasses import dataclass

from tests.api.autoscalers.wire_format import data, tag, whole


@dataclass(frozen=True)
class Float32:
    """A number that goes over the wire as float."""

    value: float


def field(number: int, value: str | bytes | int | float | Float32) -> bytes:
    """One field: text and nested messages by their length, whole numbers as varints, others as double or float."""
    if isinstance(value, str | bytes):
        return data(number, value)
    if isinstance(value, int):
        return whole(number, value)
    if isinstance(value, Float32):
        return tag(number, 5) + struct.pack("<f", value.value)
    return tag(number, 1) + struct.pack("<d", value)


def fields(message: bytes) -> list[tuple[int, bytes | int | float]]:
    """Number and value of every field, in the order of the wire."""
    found: list[tuple[int, bytes | int | float]] = []
    at = 0

    def read_varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = read_varint()
        kind = tag & 7
        if kind == 0:
            found.append((tag >> 3, read_varint()))
        elif kind == 2:
            length = read_varint()
            found.append((tag >> 3, message[at : at + length]))
            at += length
        else:
            size, form = {1: (8, "<d"), 5: (4, "<f")}[kind]
            found.append((tag >> 3, struct.unpack(form, message[at : at + size])[0]))
            at += size
    return found
