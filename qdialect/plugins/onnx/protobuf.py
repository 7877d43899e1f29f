"""The outlines of protobuf messages (https://protobuf.dev/programming-guides/encoding): what is
where, without the bytes in between, for messages with weights that nobody should copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

VARINT, BYTES = 0, 2
_SIZES = {1: 8, 5: 4}
"""Of numbers of fixed size, by wire type."""


class Field(NamedTuple):
    """A field of a message: its number, its wire type, where it begins, and where its content
    begins and ends."""

    number: int
    kind: int
    start: int
    begin: int
    end: int


def fields(data: memoryview, begin: int, end: int) -> Iterator[Field]:
    """Those of the message there, of all of them; ValueError if it is none."""
    at = begin
    while at < end:
        start = at
        tag, at = _number(data, at, end)
        kind = tag & 7
        if kind == BYTES:
            size, at = _number(data, at, end)
        elif kind == VARINT:
            size = _number(data, at, end)[1] - at
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise ValueError(f"wire type {kind}")
        if size > end - at or not tag >> 3:
            raise ValueError("a field that is none")
        yield Field(tag >> 3, kind, start, at, at + size)
        at += size


def _number(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number without an end")


def varint(value: int) -> bytes:
    """A number of variable length."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def header(number: int, size: int) -> bytes:
    """What stands before the `size` bytes of a field that is a text, bytes or a message."""
    return varint(number << 3 | BYTES) + varint(size)


def number_field(number: int, value: int) -> bytes:
    """A field that is a number."""
    return varint(number << 3 | VARINT) + varint(value)


def text_field(number: int, text: str) -> bytes:
    """A field that is a text."""
    encoded = text.encode()
    return header(number, len(encoded)) + encoded
