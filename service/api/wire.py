"""Answers with columns as the bytes of their message: arrays go into them as they lie in memory.

A packed field of doubles is, after its tag and its length, what an array of doubles is on a little-endian machine. To put the
items into a message one by one would cost some twenty times a copy of them. All else in the message is left to the library,
since the fields of a message may come in any order.
"""

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from service.api.descriptors import descriptor_of
from service.api.messages import filler_of, write_finite_check
from service.api.pairing import FieldPair, pairs
from service.function_source import FunctionSource

#: Pieces of a message's bytes, and how long they are together.
_Pieces: TypeAlias = tuple[list[Any], int]
_Dissect: TypeAlias = Callable[[Any], _Pieces]

_LENGTH_DELIMITED: Final = 2
_IS_LITTLE_ENDIAN: Final = sys.byteorder == "little"


def wire_writer(message: type[Message], kind: type) -> Callable[[Any], bytes]:
    """A function that turns the struct into the message's bytes. It raises NotFinite as ``writer`` does.

    Raises:
        TypeError: message and struct do not match.
    """
    dissect = _dissector(descriptor_of(message), kind)
    return lambda result: b"".join(dissect(result)[0])


def varint(number: int) -> bytes:
    r"""A number as the wire has it: seven bits a byte, the lowest first.

    >>> varint(300)
    b'\xac\x02'
    """
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _dissector(descriptor: Descriptor, kind: type) -> _Dissect:
    matched = pairs(descriptor, kind)
    columns = [pair for pair in matched if pair.is_column]
    inner = [pair for pair in matched if _holds_columns(pair)]
    head_of = _head_writer(descriptor, [pair for pair in matched if pair not in columns and pair not in inner])
    check = _finite_check(columns)
    inner_writers = [(pair.name, _tag(pair), _dissector(_inner(pair), pair.annotation)) for pair in inner]
    column_writers = [(pair.name, _tag(pair), _raw(pair)) for pair in columns]

    def dissect(result: Any) -> _Pieces:
        check(result)
        head = head_of(result)
        pieces: list[Any] = [head]
        length = len(head)
        for name, tag, write in inner_writers:
            value = getattr(result, name)
            if value is not None:
                within, size = write(value)
                prefix = _prefix(tag, size)
                pieces += (prefix, *within)
                length += len(prefix) + size
        for name, tag, raw in column_writers:
            memory = raw(getattr(result, name))
            size = memory.nbytes
            if size:
                prefix = _prefix(tag, size)
                pieces += (prefix, memory)
                length += len(prefix) + size
        return pieces, length

    return dissect


@lru_cache(maxsize=1024)
def _prefix(tag: bytes, size: int) -> bytes:
    """What is before a field of so many bytes; the chunks of a stream are mostly of one length."""
    return tag + varint(size)


def _head_writer(descriptor: Descriptor, plain: list[FieldPair]) -> Callable[[Any], bytes]:
    """A function that gives the bytes of the fields that are no columns."""
    if not plain:
        return lambda _: b""
    fill, make = filler_of(plain), GetMessageClass(descriptor)

    def head_of(result: Any) -> bytes:
        message = make()
        fill(message, result)
        return message.SerializeToString()

    return head_of


def _inner(pair: FieldPair) -> Descriptor:
    if pair.message is None:
        raise TypeError(f"{pair.name} holds no message")
    return pair.message


def _holds_columns(pair: FieldPair) -> bool:
    if pair.message is None or pair.is_struct or pair.descriptor.is_repeated:
        return False
    within = pairs(pair.message, pair.annotation)
    return any(each.is_column or _holds_columns(each) for each in within)


def _finite_check(columns: list[FieldPair]) -> Callable[[Any], None]:
    source = FunctionSource("result")
    write_finite_check(source, columns)
    source.line("return None")
    check: Callable[[Any], None] = source.compiled()
    return check


def _tag(pair: FieldPair) -> bytes:
    return varint(pair.descriptor.number << 3 | _LENGTH_DELIMITED)


def _raw(pair: FieldPair) -> Callable[[Any], npt.NDArray[Any]]:
    """A function that makes of a column the array whose memory is the packed field."""
    enum = pair.descriptor.enum_type
    if enum is not None:
        numbers = np.array([enum.values_by_name[str(member)].number for member in pair.item], np.uint8)
        if len(set(numbers - np.arange(len(numbers), dtype=np.uint8))) == 1:  # numbers that follow each other: much quicker
            return lambda column: column.places + numbers[0]
        return lambda column: numbers[column.places]
    if _IS_LITTLE_ENDIAN:
        return np.ascontiguousarray
    return lambda column: np.ascontiguousarray(column.astype(column.dtype.newbyteorder("<")))
