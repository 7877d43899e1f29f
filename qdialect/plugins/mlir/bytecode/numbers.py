"""Elements of dense attributes: as bytecode holds them, and as xDSL does.

Bytecode takes as many whole bytes for an element as it needs, without sign, and 1 bit for i1; one
element alone stands for all. xDSL takes 1, 2, 4 or 8 bytes, with sign, and holds all elements.

    [-1, 1] : i4    0F 01 in bytecode    FF 01 in xDSL
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    Float80Type,
    Float128Type,
    IndexType,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute

_WIDEST = 64

Element = IntegerType | IndexType | AnyFloat | ComplexType[IntegerType] | ComplexType[AnyFloat]


def is_expressible(kind: Attribute) -> bool:
    """Whether xDSL holds the values of a type, not only the type."""
    if isinstance(kind, IntegerType):
        return cast("IntegerType[int, Signedness]", kind).width.data <= _WIDEST
    return not isinstance(kind, Float80Type | Float128Type)


def signed_value(bits: int, kind: IntegerType | IndexType) -> int:
    """The number with these bits; negative where the type is not unsigned and the top bit is 1."""
    if isinstance(kind, IndexType):
        width = 64
    elif kind.signedness.data is Signedness.UNSIGNED:
        return bits & (1 << kind.width.data) - 1
    else:
        width = kind.width.data
    if width == 0:
        return 0
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits


def dense_data(data: bytes, count: int, element: Element) -> bytes | None:
    """The bytes of xDSL for `count` elements; None if `data` is not of this many, or one."""
    if isinstance(element, IntegerType):
        if not 0 < element.width.data <= _WIDEST:
            return None
        if element.width.data == 1:
            return _from_bits(data, count, element)
        if element.width.data not in (8, 16, 32, 64):
            return _converted(data, count, element)
    try:
        size = element.compile_time_size
    except NotImplementedError:
        return None
    return _repeated(data, count, size)


def raw_data(data: bytes | memoryview, count: int, element: Element) -> bytes | None:
    """The bytes of bytecode for those of xDSL, one element if all are equal; None if they are
    not of `count` elements of such a type."""
    view = memoryview(data)
    try:
        size = element.compile_time_size
    except NotImplementedError:
        return None
    if view.nbytes != count * size:
        return None
    if count > 1 and view[size:] == view[:-size]:
        view, count = view[:size], 1
    if isinstance(element, IntegerType):
        width = element.width.data
        if width == 1:
            return _to_bits(bytes(view), count)
        if width < 8:
            return bytes(view).translate(_table(width, element.signedness.data, False))
        if width not in (8, 16, 32, 64):
            mask, stored = (1 << width) - 1, -(-width // 8)
            return b"".join(
                (int.from_bytes(view[at : at + size], "little") & mask).to_bytes(stored, "little")
                for at in range(0, view.nbytes, size)
            )
    return bytes(view)


def _repeated(data: bytes, count: int, size: int) -> bytes | None:
    if len(data) == count * size:
        return data
    return data * count if len(data) == size else None


def _converted(data: bytes, count: int, element: IntegerType) -> bytes | None:
    width = element.width.data
    stored, size = -(-width // 8), element.compile_time_size
    if len(data) not in (stored, stored * count):
        return None
    if width < 8:
        data = data.translate(_table(width, element.signedness.data, True))
    else:
        data = b"".join(
            signed_value(int.from_bytes(data[at : at + stored], "little"), element).to_bytes(
                size, "little", signed=element.signedness.data is not Signedness.UNSIGNED
            )
            for at in range(0, len(data), stored)
        )
    return _repeated(data, count, size)


@cache
def _table(width: int, signedness: Signedness, extend: bool) -> bytes:
    """What each byte becomes: with the sign of so many bits, or only these bits."""
    kind = IntegerType(width, signedness)
    values: Iterable[int] = (
        signed_value(byte, kind) if extend else byte & (1 << width) - 1 for byte in range(256)
    )
    return bytes(value & 0xFF for value in values)


def _from_bits(data: bytes, count: int, element: IntegerType) -> bytes | None:
    true = b"\x01" if element.signedness.data is Signedness.UNSIGNED else b"\xff"
    if len(data) == 1 and data[0] in (0, 0xFF):
        return (true if data[0] else b"\0") * count
    if len(data) != -(-count // 8):
        return None
    bits = int.from_bytes(data, "little")
    digits = f"{bits:0{8 * len(data)}b}"[::-1][:count].encode()
    return digits.translate(bytes.maketrans(b"01", b"\0" + true))


def _to_bits(data: bytes, count: int) -> bytes:
    if count == 1:
        return b"\xff" if data[0] else b"\0"
    digits = data.translate(b"0" + b"1" * 255)[::-1]
    return int(digits, 2).to_bytes(-(-count // 8), "little") if digits else b""
