"""Reads numbers and bytes of a bytecode file, in order, and never beyond the end.

Numbers are in the PrefixVarInt form: the zeros below the lowest 1 of the first byte count the
bytes that follow, the bits above it are the lowest of the number:

    xxxxxxx1                 7 bits
    xxxxxx10 yyyyyyyy        14 bits
    00000000 and 8 bytes     64 bits
"""

from __future__ import annotations

from mmap import mmap
from typing import NoReturn

from qdialect.plugins.mlir.bytecode.layout import PADDING

Data = bytes | mmap


class Malformed(Exception):
    """What is wrong, and the byte of the file at which it was noticed."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message


class Cursor:
    """A position in `data`, from `at` to `end`."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: Data, at: int, end: int) -> None:
        self.data = data
        self.at = at
        self.end = end

    def fail(self, message: str) -> NoReturn:
        """Raise `Malformed` at this position."""
        raise Malformed(self.at, message)

    @property
    def left(self) -> int:
        """How many bytes follow."""
        return self.end - self.at

    def byte(self) -> int:
        """The next byte."""
        at = self.at
        if at >= self.end:
            self.fail("a byte is missing")
        self.at = at + 1
        return self.data[at]

    def number(self) -> int:
        """The next number, 0 to 2**64 - 1."""
        at = self.at
        if at >= self.end:
            self.fail("a number is missing")
        first = self.data[at]
        if first & 1:
            self.at = at + 1
            return first >> 1
        size = 9 if first == 0 else (first & -first).bit_length()
        if self.end - at < size:
            self.fail("a number ends beyond its section")
        self.at = at + size
        bits = int.from_bytes(self.data[at : at + size], "little")
        return bits >> (8 if first == 0 else size)

    def signed(self) -> int:
        """The next signed number, its sign in the lowest bit; -2**63 to 2**63 - 1."""
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def flagged(self) -> tuple[int, bool]:
        """The next number without its lowest bit, and that bit."""
        value = self.number()
        return value >> 1, bool(value & 1)

    def count(self) -> int:
        """The next number, how many things follow, of which each takes a byte at least."""
        value = self.number()
        if value > self.end - self.at:
            self.fail(f"{value} entries are claimed in {self.left} bytes")
        return value

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        at = self.skip(length)
        return self.data[at : self.at]

    def skip(self, length: int) -> int:
        """Go over `length` bytes; where they begin."""
        if length > self.end - self.at:
            self.fail(f"{length} bytes are claimed where {self.left} follow")
        at = self.at
        self.at = at + length
        return at

    def part(self, length: int) -> Cursor:
        """A cursor of its own for the next `length` bytes."""
        at = self.skip(length)
        return Cursor(self.data, at, self.at)

    def align(self, alignment: int) -> None:
        """Go over padding to the next multiple of `alignment`, a power of two."""
        if alignment <= 0 or alignment & (alignment - 1):
            self.fail(f"the alignment {alignment} is no power of two")
        for _ in range(-self.at % alignment):
            if self.byte() != PADDING:
                self.at -= 1
                self.fail("padding of another byte than 0xCB")

    def section(self) -> tuple[int, Cursor]:
        """The next section: its kind and its contents."""
        kind = self.byte()
        length = self.number()
        if kind & 0x80:
            self.align(self.number())
        return kind & 0x7F, self.part(length)

    def finish(self, what: str) -> None:
        """Nothing may follow."""
        if self.at != self.end:
            self.fail(f"{self.left} bytes follow {what}")
