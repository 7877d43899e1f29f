"""The colours of `.mlir`: nothing is an error, and words are what they are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qdialect.ir.dialects import load
from qdialect.plugins.mlir.syntax.patterns import PATTERNS, textmate

pytest.importorskip("pygments", reason="no Pygments: pip install pygments")

from qdialect.plugins.mlir.syntax.pygments_lexer import MLIRLexer

LIT = Path(__file__).parents[1] / "lit_tests"
TEXT = """// a comment
func.func @main(%x: tensor<2x?x!quant.uniform<i8<-127:127>:f32, 0.5:3>>) -> tensor<4xf32> {
  %0 = nn.relu %x {nn.key = "a \\" b"} : tensor<4xbf16>
  return %0#1 : !q
}
"""


def tokens(text: str) -> list[tuple[str, str]]:
    return [(str(kind).removeprefix("Token."), word) for kind, word in MLIRLexer().get_tokens(text)]


def test_words_are_what_they_are() -> None:
    found = tokens(TEXT)
    for word, kind in (
        ("// a comment", "Comment.Single"),
        ("func.func", "Name.Builtin"),
        ("@main", "Name.Function"),
        ("%x", "Name.Variable"),
        ("tensor", "Keyword.Type"),
        ("2", "Literal.Number.Integer"),
        ("?", "Literal.Number.Integer"),
        ("!quant.uniform", "Keyword.Type"),
        ("i8", "Keyword.Type"),
        ("-127", "Literal.Number"),
        ("f32", "Keyword.Type"),
        ("0.5", "Literal.Number"),
        ("nn.relu", "Name.Builtin"),
        ('"a \\" b"', "Literal.String"),
        ("bf16", "Keyword.Type"),
        ("%0#1", "Name.Variable"),
        ("!q", "Keyword.Type"),
    ):
        assert (kind, word) in found, word


@pytest.mark.parametrize("path", sorted(LIT.glob("*/*.mlir"))[::7], ids=lambda path: path.name)
def test_nothing_is_lost_or_an_error(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    found = tokens(text)
    assert "".join(word for _, word in found).strip("\n") == text.strip("\n")
    assert not [word for kind, word in found if kind == "Error"]


def test_the_grammar_for_editors_has_the_same_patterns() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "qdialect.plugins.mlir.syntax"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == textmate()
    assert [each["match"] for each in textmate()["patterns"]] == [p.regex for p in PATTERNS]
    for pattern in PATTERNS:
        re.compile(pattern.regex)
        # Oniguruma, which editors use, takes lookbehinds of one width only.
        assert "(?<=" not in pattern.regex or not re.search(r"\(\?<=[^)]*[*+]", pattern.regex[:8])


def test_every_op_of_ours_that_lit_tests_have_is_coloured() -> None:
    ours = {op.name for name in ("nn", "quant") for op in load(name)().operations}
    written, coloured = set[str](), set[str]()
    for path in sorted(LIT.rglob("*.mlir")):
        text = path.read_text(encoding="utf-8", errors="replace")
        code = [line for line in text.splitlines() if re.search(r"= *(nn|quant)\.\w+", line)]
        code = [line for line in code if not line.lstrip().startswith("//")]
        written |= {name for line in code for name in re.findall(r"= *((?:nn|quant)\.\w+)", line)}
        coloured |= {word for kind, word in tokens("\n".join(code)) if kind == "Name.Builtin"}
    assert len(written & ours) >= 90
    assert written & ours <= coloured
