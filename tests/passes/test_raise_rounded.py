"""Composites of pieces that were quantized, and those of an op that is declared here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rewrite_support import apply, parse
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

import qdialect as qd
from qdialect.ir.ops import AddOp, MulOp, ReduceSumOp, keys_of
from qdialect.ir.ops.base import REAL, FunctionOp, integer, real
from qdialect.ir.ops.components import Components, Pieces
from qdialect.ir.ops.declare import values

HEAD = """
!f = tensor<4x8xf32>
!x = tensor<4x8x!quant.uniform<u8:f32, 0.05:128>>
!g = tensor<4x8x!quant.uniform<u8:f32, 0.00390625>>
!one = tensor<4x1xf32>
!s = tensor<4x1x!quant.uniform<u8:f32, 0.03125>>
func.func @main(%in: !f {nn.name = "x"}) -> !f {
  %q = quant.qcast %in : !f to !x
  %x = quant.dcast %q : !x to !f
"""
SWISH = """
  %0 = nn.sigmoid %x : (!f) -> !f
  %1 = quant.qcast %0 : !f to !g
  %2 = quant.dcast %1 : !g to !f
  %3 = nn.mul %x, %2 : (!f, !f) -> !f
  %4 = quant.qcast %3 : !f to !x
  %5 = quant.dcast %4 : !x to !f
"""
SOFTMAX = """
  %0 = nn.reduce_max %x axes [1] : (!f) -> !one
  %1 = nn.sub %x, %0 : (!f, !one) -> !f
  %2 = quant.qcast %1 : !f to !x
  %3 = quant.dcast %2 : !x to !f
  %4 = nn.exp %3 : (!f) -> !f
  %a = quant.qcast %4 : !f to !g
  %6 = quant.dcast %a : !g to !f
  %7 = nn.reduce_sum %6 axes [1] : (!f) -> !one
  %8 = quant.qcast %7 : !one to !s
  %9 = quant.dcast %8 : !s to !one
  %10 = nn.div %6, %9 : (!f, !one) -> !f
  %11 = quant.qcast %10 : !f to !g
  %5 = quant.dcast %11 : !g to !f
"""
END = "  func.return %5 : !f\n}\n"


@pytest.mark.parametrize(("body", "name"), [(SWISH, "swish"), (SOFTMAX, "softmax")])
def test_raised_and_lowered_again(tmp_path: Path, body: str, name: str) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(HEAD + body + END)
    model = qd.load(path)
    raised = qd.run_passes(model, "raise-composites{numerics=relaxed}")
    assert [op.name for op in raised.module.walk() if op.name == f"nn.{name}"]
    # The rounding behind the op is the model's, and stays.
    casts = [op.name for op in raised.module.walk()].count("quant.qcast")
    again = qd.run_passes(raised, "integerize,lower-composites{numerics=relaxed}")
    integers = qd.run_passes(model, "integerize")
    random, errors = np.random.default_rng(0), [0.0, 0.0]
    for _ in range(20):
        x = {"x": (random.normal(size=(4, 8)) * 2).astype("f4")}
        ((first,), (second,), (third,)) = (
            list(qd.run(m, x).values()) for m in (integers, again, raised)
        )
        assert (first == second).all()
        codes = np.rint(x["x"] / np.float32(0.05)) * 0.05
        power = np.exp(codes - codes.max(axis=1, keepdims=True))
        wanted = {
            "swish": codes / (1 + np.exp(-codes)),
            "softmax": power / power.sum(axis=1, keepdims=True),
        }[name]
        for index, got in enumerate((first, third)):
            errors[index] += float(((got - wanted) ** 2).sum())
    assert casts == 2 and errors[1] < errors[0]


@irdl_op_definition
class SoftGateOp(FunctionOp):
    """x * sum(x + offset) along the dimension `axis`, which no file of qdialect mentions."""

    name = "test.soft_gate"
    offset = prop_def(REAL, real(1.0))
    axis = prop_def(IntegerAttr.constr(i64), integer(1))

    @staticmethod
    def pieces(op: Operation, pieces: Pieces) -> SSAValue:
        x, v = op.operands[0], values(op)
        shifted = pieces.add("shifted", AddOp(x, pieces.number(v["offset"])))
        total = pieces.emit(ReduceSumOp(shifted, axes=(v["axis"],)))
        return pieces.add("result", MulOp(x, total))


def test_a_declaration_is_enough() -> None:
    """Properties and operands of an op that only declares its pieces are read from the graph."""
    text = """
    func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %n = nn.constant dense<0.25> : tensor<f32> : tensor<f32>
      %0 = nn.add %n, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %1 = nn.reduce_sum %0 axes [0] : (tensor<4x8xf32>) -> tensor<1x8xf32>
      %2 = nn.mul %1, %x {nn.key = "gate"} : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      func.return %2 : tensor<4x8xf32>
    }
    """
    module, ctx = parse(text)
    ctx.load_op(SoftGateOp)
    ctx.components[SoftGateOp.name] = Components(("shifted", "result"), SoftGateOp.pieces)
    apply(module, ctx, "raise-composites,dce")
    (op,) = (op for op in module.walk() if op.name.startswith(("nn.", "test.")))
    assert isinstance(op, SoftGateOp) and keys_of(op) == ("gate",)
    assert op.values == {"offset": 0.25, "axis": 0, "rounding": "half_even"}
