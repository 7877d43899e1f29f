"""What is what in `.mlir`: one table for every editor."""

from __future__ import annotations

from typing import Any, NamedTuple


class Pattern(NamedTuple):
    """A kind of word: its TextMate scope, its Pygments token, and how it looks."""

    scope: str
    token: str
    regex: str


_NUMBER = r"-?[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?"

PATTERNS = (
    Pattern("comment.line.double-slash", "Comment.Single", r"//[^\n]*"),
    Pattern("string.quoted.double", "String", r'"(?:[^"\\\n]|\\.)*"'),
    Pattern(
        "storage.type.quant",
        "Keyword.Type",
        r"!(?:quant\.)?[A-Za-z_][\w$.]*",
    ),
    Pattern("support.constant.attribute", "Name.Decorator", r"#[A-Za-z_][\w$.]*"),
    Pattern("variable.other.value", "Name.Variable", r"%[\w$.\-]+(?:#[0-9]+)?"),
    Pattern("entity.name.function.symbol", "Name.Function", r'@(?:[\w$.\-]+|"[^"\n]*")'),
    Pattern("entity.name.label.block", "Name.Label", r"\^[\w$.\-]+"),
    Pattern("variable.other.resource", "Name.Attribute", r"\{-#|#-\}"),
    Pattern(
        "storage.type.shaped",
        "Keyword.Type",
        r"\b(?:tensor|memref|vector|tuple|complex)(?=<)",
    ),
    # In `2x?xf32` an extent stands before an `x`, and the `x` before what goes on.
    Pattern("constant.numeric.extent", "Number.Integer", r"(?<=[<x])(?:[0-9]+|\?|\*)(?=x)"),
    Pattern("storage.type.extent", "Keyword.Type", r"(?<=[0-9?*])x(?=[!0-9?*a-z])"),
    Pattern(
        "storage.type.scalar",
        "Keyword.Type",
        r"(?:(?<![\w.$])|(?<=[0-9?*]x))(?:[su]?i[0-9]+|u[0-9]+|bf16|tf32|f[0-9]+(?:E[0-9]M[0-9](?:FN|FNUZ|B11FNUZ)?)?"
        r"|index|none)(?![\w.])",
    ),
    Pattern(
        "entity.name.operation",
        "Name.Builtin",
        r"\b[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)+",
    ),
    Pattern(
        "keyword.control",
        "Keyword",
        r"\b(?:module|attributes|loc|unknown|fused|callsite|dense|dense_resource|array|true|false|"
        r"return|private|nested|public|to|affine_map|affine_set|unit|opaque|resource|strided)\b",
    ),
    Pattern("constant.numeric", "Number", rf"(?<![\w.])(?:0x[0-9a-fA-F]+|{_NUMBER})"),
    Pattern("keyword.operator", "Operator", r"->|=|::|:"),
)


def textmate() -> dict[str, Any]:
    """The TextMate grammar, as JSON has it."""
    return {
        "name": "MLIR (qdialect)",
        "scopeName": "source.mlir",
        "fileTypes": ["mlir"],
        "patterns": [
            {"name": f"{pattern.scope}.mlir", "match": pattern.regex} for pattern in PATTERNS
        ],
    }
