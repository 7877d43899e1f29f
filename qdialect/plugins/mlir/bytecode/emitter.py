"""Writes the numbers of bytecode: see `cursor` for their form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from qdialect.plugins.mlir.bytecode.layout import PADDING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import DenseResourceAttr
    from xdsl.ir import Attribute

    from qdialect.algebra.qparams.parameters import Storage


class Numbering(Protocol):
    """What an encoding asks for the numbers of the entries that it refers to."""

    heads: dict[tuple[Storage, str], bytes]
    """Of quantized types: the bytes of storage and expressed type."""

    def string(self, text: str | bytes) -> int:
        """The number of a string."""
        ...

    def attribute(self, attribute: Attribute) -> int:
        """The number of an attribute."""
        ...

    def type(self, kind: Attribute) -> int:
        """The number of a type."""
        ...

    def name(self, name: str) -> int:
        """The number of a string as an attribute."""
        ...

    def named_resource(self, attribute: DenseResourceAttr) -> int:
        """The number of the resource that an attribute names."""
        ...


def _number(value: int) -> bytes:
    size = max(-(-value.bit_length() // 7), 1)
    if size < 9:
        return ((value << 1 | 1) << (size - 1)).to_bytes(size, "little")
    return b"\0" + value.to_bytes(8, "little")


_SMALL = tuple(map(_number, range(1 << 12)))
"""The numbers that are most of a file."""
_FEW = len(_SMALL)


def number(value: int) -> bytes:
    """A number, 0 to 2**64 - 1."""
    return _SMALL[value] if value < _FEW else _number(value)


def put(out: bytearray, value: int) -> None:
    """Append a number to `out`."""
    out += _SMALL[value] if value < _FEW else _number(value)


def signed(value: int) -> bytes:
    """A signed number, -2**63 to 2**63 - 1, its sign in the lowest bit."""
    return number(value << 1 if value >= 0 else (-value << 1) - 1)


def numbers(values: list[int]) -> bytes:
    """How many numbers, and each."""
    return number(len(values)) + b"".join(map(number, values))


def signed_numbers(values: list[int] | tuple[int, ...]) -> bytes:
    """How many signed numbers, and each."""
    return number(len(values)) + b"".join(map(signed, values))


def section(kind: int, contents: bytes | bytearray) -> bytes:
    """A section that need not be aligned."""
    return bytes((kind,)) + number(len(contents)) + bytes(contents)


def padding(at: int, alignment: int) -> bytes:
    """What stands from byte `at` of the file to the next multiple of `alignment`."""
    return bytes((PADDING,)) * (-at % alignment)
