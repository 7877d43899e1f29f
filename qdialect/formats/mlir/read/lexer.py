"""xDSL's lexer with strings mended."""

from __future__ import annotations

import re

from typing_extensions import override
from xdsl.utils.lexer import Position, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

assert hasattr(MLIRLexer, "_unescaped_characters_regex")
assert hasattr(MLIRLexer, "_lex_string_literal")


class Lexer(MLIRLexer):
    """The stock lexer's pattern of a string takes exponential time on an open quote, and
    text with escapes beyond ASCII is a string of bytes to it."""

    _unescaped_characters_regex = re.compile(
        r'"[^"\\\n\v\f]*(?:\\(?:["nt\\]|[0-9A-Fa-f]{2})[^"\\\n\v\f]*)*"'
    )

    @override
    def _lex_string_literal(self, start_pos: Position) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is not MLIRTokenKind.BYTES_LIT:
            return token
        literal = StringLiteral.from_span(token.span)
        try:
            literal.bytes_contents.decode()
        except UnicodeDecodeError:
            return token
        return Token(MLIRTokenKind.STRING_LIT, literal)
