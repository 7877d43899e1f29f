"""Scanning MLIR text: just the tokens that occur inside quant types.

A `Scanner` is a cursor on a string.  Every method skips white space and `//`
comments first; the ones named `accept` return None and stay where they are when
the token is not there, the ones named `expect` raise `QuantSyntaxError`.
"""

from __future__ import annotations

import re

from qdialect.numerics.float_text import float_from_bits

_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
_ALIAS = re.compile(r"![A-Za-z$._-][\w$.-]*", re.ASCII)
_INTEGER = re.compile(r"0x[0-9a-fA-F]+|[0-9]+")
_F32_BITS = re.compile(r"0x[0-9a-fA-F]{8}(?![0-9a-fA-F])")
_FLOAT = re.compile(r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?")


class QuantSyntaxError(Exception):
    """Text that is not a quant type, or breaks one of its rules."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class Scanner:
    """A cursor (`position`) on `content`."""

    def __init__(self, content: str, position: int) -> None:
        self.content = content
        self.position = position

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.content, self.here())
        if found is None:
            return None
        self.position = found.end()
        return found.group()

    def here(self) -> int:
        """The position of the next token."""
        space = _SPACE.match(self.content, self.position)
        if space is not None:
            self.position = space.end()
        return self.position

    def accept(self, character: str) -> bool:
        """Step over one punctuation character, if it is next."""
        if not self.content.startswith(character, self.here()):
            return False
        self.position += len(character)
        return True

    def expect(self, character: str) -> None:
        if not self.accept(character):
            raise QuantSyntaxError(f"expected '{character}'", self.position)

    def accept_identifier(self) -> str | None:
        return self._match(_IDENTIFIER)

    def accept_alias(self) -> str | None:
        """`!name`, with the exclamation mark."""
        return self._match(_ALIAS)

    def expect_integer(self, bits: int = 64) -> int:
        """A decimal or hexadecimal integer that fits `bits` bits, signed."""
        start = self.here()
        negative = self.accept("-")
        text = self._match(_INTEGER)
        if text is None or _FLOAT.match(self.content, self.position - len(text)):
            self.position = start
            raise QuantSyntaxError("expected integer value", start)
        value = int(text, 0) if text.startswith("0x") else int(text)
        value = -value if negative else value
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise QuantSyntaxError("integer value too large", start)
        return value

    def accept_f32_bits(self) -> float | None:
        """An f32 written as exactly eight hexadecimal digits."""
        text = self._match(_F32_BITS)
        return None if text is None else float_from_bits(int(text, 16), "f")

    def expect_float(self) -> float:
        """A literal with a point, or the bits of a double in hexadecimal."""
        start = self.here()
        negative = self.accept("-")
        text = self._match(_FLOAT)
        if text is not None:
            return -float(text) if negative else float(text)
        text = self._match(_INTEGER)
        if text is None:
            raise QuantSyntaxError("expected floating point literal", start)
        if not text.startswith("0x"):
            raise QuantSyntaxError(
                "unexpected decimal integer literal for a floating point value", start
            )
        if negative:
            raise QuantSyntaxError(
                "hexadecimal float literal should not have a leading minus", start
            )
        if int(text, 16) >> 64:
            raise QuantSyntaxError("hexadecimal float constant out of range for type", start)
        return float_from_bits(int(text, 16), "d")
