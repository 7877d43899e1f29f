"""Copies of modules against xDSL's own."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.formats.mlir.read import parse_text
from qdialect.pipeline.plugins import Plugins
from qdialect.rewrite.copying import copied

LOOP = """
%c = "test.op"() {a = 1 : i32} : () -> i32
%r = "test.outer"(%c) ({
^entry(%named: i32):
  "test.jump"(%named)[^later] : (i32) -> ()
^user:
  %late = "test.op"(%from_below, %c) : (i32, i32) -> i32
  "test.jump"()[^user] : () -> ()
^later:
  %from_below = "test.op"() {p = "x"} : () -> i32
  "test.jump"(%from_below)[^user] : (i32) -> ()
}) : (i32) -> i32
"test.end"(%r, %r) : (i32, i32) -> ()
"""
NETWORK = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @f(%x: tensor<4x!q>) -> (tensor<4x!q>, tensor<4x!q>) {
  %0 = nn.add %x, %x {nn.key = "sum"} : (tensor<4x!q>, tensor<4x!q>) -> tensor<4x!q>
  %named = nn.relu %0 : (tensor<4x!q>) -> tensor<4x!q>
  return %named, %0 : tensor<4x!q>, tensor<4x!q>
}
"""


def parsed(text: str) -> ModuleOp:
    return parse_text(text, Plugins().session(allow_unregistered=True), "t.mlir").module


def ops(module: ModuleOp) -> list[Operation]:
    return list(module.walk())


@pytest.mark.parametrize("text", [LOOP, NETWORK])
def test_a_copy_is_as_a_clone(text: str) -> None:
    module = parsed(text)
    made, clone = copied(module), module.clone()
    assert made.is_structurally_equivalent(module) == clone.is_structurally_equivalent(module)
    assert str(made) == str(clone)
    assert not {*ops(made)} & {*ops(module)}
    inside = {*ops(made)}
    for op, other in zip(ops(made), ops(clone), strict=True):
        assert op.location == other.location
        assert op.properties is not other.properties
        for one, its in zip(op.results, other.results, strict=True):
            assert one.name_hint == its.name_hint
            assert all(use.operation in inside for use in one.uses)
    for op in ops(module):
        assert all(use.operation not in inside for result in op.results for use in result.uses)


def test_what_is_outside_is_shared() -> None:
    module = parsed(LOOP)
    end = list(module.body.block.ops)[-1]
    made = copied(end)
    assert list(made.operands) == list(end.operands)
    assert made.parent is None
