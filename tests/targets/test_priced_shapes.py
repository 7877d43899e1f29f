"""Prices of values whose extents are not known: numbers that are stated, never below zero."""

from __future__ import annotations

import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.analysis.cost import elements, products
from qdialect.ir.context import new_context
from qdialect.ir.ops.priced_shapes import priced_shape
from qdialect.plugins.mlir.read import read_module
from qdialect.report.graph import price
from qdialect.targets.installed import get_target, list_targets

ATTENTION = """
func.func @f(
    %x: tensor<?x?x8xf32> {onnx.dims = ["batch", "sequence", 8]},
    %w: tensor<8x8xf32>
) -> tensor<?x?x8xf32> {
  %q = nn.matmul %x, %w : (tensor<?x?x8xf32>, tensor<8x8xf32>) -> tensor<?x?x8xf32>
  %t = nn.transpose %q perm [0, 2, 1] : (tensor<?x?x8xf32>) -> tensor<?x8x?xf32>
  %s = nn.matmul %q, %t : (tensor<?x?x8xf32>, tensor<?x8x?xf32>) -> tensor<?x?x?xf32>
  %p = nn.softmax %s axis -1 : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %y = nn.matmul %p, %q : (tensor<?x?x?xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %h = nn.reshape %y shape [0, 0, 2, 4] : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
  %f = nn.reshape %h : (tensor<?x?x2x4xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x?x8xf32>
}
"""

TAKEN = """
func.func @f(%x: tensor<?xf32> {onnx.dims = ["n"]}, %y: tensor<4x?xf32> {onnx.dims = [4, "n"]},
             %z: tensor<?x3xf32>) -> () {
  %a = nn.slice %z starts [5, 0] stops [9, 3] steps [1, 1] : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %b = nn.add %x, %y : (tensor<?xf32>, tensor<4x?xf32>) -> tensor<4x?xf32>
  %c = "onnx.node"(%x) {op_type = "NonZero", domain = ""} : (tensor<?xf32>) -> tensor<1x?xi64>
  func.return
}
"""


def ops_of(text: str) -> tuple[FuncOp, dict[str, Operation]]:
    module = read_module(text, new_context())
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    named = {r.name_hint: op for op in function.body.block.ops for r in op.results}
    return function, {name: op for name, op in named.items() if name}


def test_one_name_is_one_number() -> None:
    _, ops = ops_of(ATTENTION)
    found = {name: priced_shape(op.results[0]) for name, op in ops.items()}
    assert found == {
        "q": (1, 128, 8),
        "t": (1, 8, 128),
        "s": (1, 128, 128),
        "p": (1, 128, 128),
        "y": (1, 128, 8),
        "h": (1, 128, 2, 4),
        "f": (128, 8),
    }


def test_an_argument_says_what_to_price_it_as() -> None:
    stated = ATTENTION.replace("%x: tensor<?x?x8xf32> {", "%x: tensor<?x?x8xf32> {PRICED, ")
    _, ops = ops_of(stated.replace("PRICED", "nn.priced_as = array<i64: 4, 16, 8>"))
    assert priced_shape(ops["s"].results[0]) == (4, 16, 16)
    assert priced_shape(ops["f"].results[0]) == (64, 8)


def test_extents_that_nothing_tells() -> None:
    function, ops = ops_of(TAKEN)
    x, y, z = function.body.block.args
    # `n` is no batch: it also stands second.
    assert [priced_shape(v) for v in (x, y, z)] == [(128,), (4, 128), (1, 3)]
    assert priced_shape(ops["a"].results[0]) == (0, 3)
    assert priced_shape(ops["b"].results[0]) == (4, 128)
    assert priced_shape(ops["c"].results[0]) == (1, 128)
    assert elements(ops["a"].results[0]) == 0


@pytest.mark.parametrize("name", list_targets())
def test_no_price_is_below_zero(name: str) -> None:
    _, ops = ops_of(ATTENTION)
    session = new_context()
    session.target = get_target(name)
    behavior = session.behaviors.get(ops["y"])
    assert behavior is not None and behavior.accumulator is not None
    assert products(ops["y"], behavior.accumulator) == 128
    prices = [price(op, session) for op in ops.values()]
    assert all(p is None or p >= 0 for p in prices)
    for op in ops.values():
        for activations in ("u8", "i8"):
            found = session.target.encoding_price(op, 8, activations, "i8")
            assert found is None or found > 0
