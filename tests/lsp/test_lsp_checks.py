"""What is wrong in a text, with exact ranges; what is known of values."""

from __future__ import annotations

from typing import Any

import pytest

from qdialect.plugins.mlir.lsp.checks import Chunk, Options, split
from qdialect.plugins.mlir.lsp.hover import op_text, pass_text, value_text
from qdialect.plugins.mlir.lsp.worker import Worker, answer

QUANTIZED = """!q = !quant.uniform<i8:f32, 0.5:3>
!axis = !quant.uniform<i8<-127:127>:f32:0, {0.5, 0.25}>
func.func @main(%x: tensor<4x!q>, %w: tensor<2x4x!axis>) -> tensor<4xf32> {
  %c = nn.clip %x min 0.0 max 10.0 : (tensor<4x!q>) -> tensor<4x!q>
  %0 = quant.dcast %c {nn.key = "out"} : tensor<4x!q> to tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
PAIR = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def problems(text: str) -> list[tuple[str, str]]:
    """What is marked, and what is said of it."""
    return [
        (text[start + p.start : start + p.end], p.message)
        for start, chunk in split(text)
        for p in Chunk(chunk, Options()).problems
    ]


@pytest.mark.parametrize(
    ("text", "marked", "said"),
    [
        (QUANTIZED.replace("nn.clip", "nn.clipp"), "nn.clipp", "did you mean"),
        (QUANTIZED.replace("%c {", "%d {"), "%d", "undeclared"),
        (QUANTIZED.replace("return %0 : tensor<4xf32>", "return"), "return", ""),
        (QUANTIZED.replace("f32, 0.5:3", "f32, -0.5:3"), ":", "scale"),
        (
            QUANTIZED + "// -----\n" + QUANTIZED.replace("return %0 : tensor<4xf32>", "return"),
            "return",
            "",
        ),
    ],
)
def test_problems_are_marked_where_they_are(text: str, marked: str, said: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0][0].startswith(marked)
    assert said in found[0][1]


def test_an_error_at_the_end_is_on_the_last_character() -> None:
    ((marked, said),) = problems("func.func @f(\n\n")
    assert marked == "("
    assert said.startswith("expected ")


def test_a_second_symbol_has_a_note_at_the_first() -> None:
    text = "func.func private @f(i32)\nfunc.func private @f(i64)\n"
    (found,) = Chunk(text, Options()).problems
    (note,) = found.notes
    assert (note.start, found.start) == (0, text.rindex("func.func"))


def test_a_run_line_allows_unregistered_ops() -> None:
    text = '"some.op"() : () -> ()\n'
    assert problems(text) != []
    assert problems(f"// RUN: mlir-opt %s -allow-unregistered-dialect\n{text}") == []
    assert Chunk(text, Options(unregistered=True)).problems == []


def test_stated_locations_do_not_hide_where_ops_are() -> None:
    text = QUANTIZED.replace("return %0 : tensor<4xf32>", 'return loc("other":9:9)')
    (found,) = Chunk(text, Options()).problems
    assert text[found.start : found.end] == "return"


def test_values_are_told_in_numbers() -> None:
    chunk = Chunk(QUANTIZED, Options())
    at = chunk.places.values
    w = value_text(at[QUANTIZED.index("%w:")], None, "%w", chunk.ctx)
    assert "scales: 2 along axis 0, 0.25 to 0.5" in w
    assert "storage: i8, codes -127 to 127" in w
    assert "holds: -63.5 to 63.5" in w
    c = value_text(at[QUANTIZED.index("%c =")], None, "%c", chunk.ctx)
    assert "known range: codes 3 to 23, values 0 to 10" in c


def test_ops_and_passes_have_their_documentation() -> None:
    chunk = Chunk(QUANTIZED, Options())
    op = chunk.places.op_at(QUANTIZED.index("quant.dcast"))
    assert op is not None
    assert "x = (q - zero point) * scale" in op_text(op, None, chunk.ctx)
    assert "elements" in pass_text("fold-constants")
    assert pass_text("no-such-pass") == ""


def test_warnings_of_what_upstream_tools_do() -> None:
    found = list(Chunk(PAIR, Options()).findings("auto", False, 0))
    assert ("dcast-of-qcast", "information") in {(p.code, p.severity) for p in found}
    assert [PAIR[p.start : p.end] for p in found if p.code == "dcast-of-qcast"] == ["quant.dcast"]
    assert list(Chunk(PAIR, Options()).findings("off", False, 0)) == []
    # A module in our own ops is not handed over as it is.
    assert list(Chunk(QUANTIZED, Options()).findings("auto", False, 0)) == []
    assert list(Chunk(QUANTIZED, Options()).findings("all", False, 0)) != []


def test_where_codes_become_floats_has_the_pipeline_that_mends_it() -> None:
    found = list(Chunk(PAIR, Options()).findings("off", True, 100))
    (message,) = (p.message for p in found if p.code == "B6")
    assert message.endswith("; fix: fold-rescale{numerics=relaxed}")
    assert list(Chunk(PAIR, Options()).findings("off", True, 2)) == []


def test_types_are_those_of_the_text_that_last_parsed() -> None:
    worker = Worker()

    def ask(method: str, **arguments: Any) -> Any:
        return answer(worker, {"id": 1, "method": method, **arguments})["result"]

    broken = "\n" + QUANTIZED.replace("return %0", "retur %0")
    (report,) = ask("check", text=broken, earlier=[QUANTIZED], options={})
    assert not report["parses"]
    assert ask("types", offsets=[broken.index("%0 ="), 0, -1]) == ["tensor<4xf32>", "", ""]
    assert "x = (q - zero point)" in ask(
        "op", offset=broken.index("quant.dcast"), name="quant.dcast"
    )
    assert "min(max(x" in ask("op", offset=broken.index("retur"), name="nn.clip")
    assert answer(worker, {"id": 2, "method": "none"}) == {"id": 2, "error": "no such method"}
