"""Composites of pieces that were quantized: nearer to the floats, and the same codes again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qdialect as qd

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
