"""The Pygments lexer; imported by Pygments only, which is not a dependency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pygments.lexer import RegexLexer
from pygments.token import Name, Punctuation, Whitespace, string_to_tokentype

from qdialect.plugins.mlir.syntax.patterns import PATTERNS


class MLIRLexer(RegexLexer):
    """MLIR with the custom forms of quant and nn."""

    name = "MLIR"
    aliases: ClassVar[Sequence[str]] = ["mlir"]
    filenames: ClassVar[Sequence[str]] = ["*.mlir"]
    mimetypes: ClassVar[Sequence[str]] = ["text/x-mlir"]
    url = "https://mlir.llvm.org"
    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Whitespace),
            *((each.regex, string_to_tokentype(each.token)) for each in PATTERNS),
            (r"[A-Za-z_$][\w$]*", Name),
            (r".", Punctuation),
        ]
    }
