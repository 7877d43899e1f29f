"""Bits of the multipliers of a target: rescales get such, and larger ones are refused."""

from __future__ import annotations

import pytest
from rewrite_support import apply, parse

from qdialect.analysis.index import every_op
from qdialect.interpreter import Interpreter
from qdialect.ir.quant import RescaleOp
from qdialect.targets.base import Target

RESCALE = """
!a = tensor<256x!quant.uniform<i16:f32, 0.3:3>>
!b = tensor<256x!quant.uniform<i8:f32, 7.1:-4>>
func.func @f(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  func.return %0 : !b
}"""


@pytest.mark.parametrize("bits", [None, 24, 16, 8, 5])
def test_rescales_multiply_with_so_many_bits(bits: int | None) -> None:
    import numpy as np

    module, ctx = parse(RESCALE)
    ctx.target = Target("npu", "", multiplier_bits=bits)
    x = np.linspace(-32768, 32767, 256).astype(np.int16)
    before = Interpreter(ctx, module, "real").run([x])[0].astype(int)
    expanded, _ = parse(RESCALE)
    (remark,) = apply(module, ctx, "convert-rescale{numerics=relaxed}")
    (rescale,) = [op for op in every_op(module) if isinstance(op, RescaleOp)]
    assert rescale.fixed_point is not None
    ((multiplier, _),) = rescale.fixed_point
    used = bits or 32
    assert multiplier.bit_length() == used - 1
    after = Interpreter(ctx, module, "real").run([x])[0].astype(int)
    off = np.abs(after - before).max()
    assert off <= remark.steps and (off > 0) == (used <= 8)
    # On another target, the multiplier is too large.
    for other in (used, used - 1):
        target = Target("npu", "", multiplier_bits=other)
        reason = target.refuses(rescale, rescale.operand_types, rescale.result_types)
        assert reason == (None if other == used else f"multipliers have {other} bits, not {used}")
    apply(expanded, ctx, "expand-rescale{numerics=relaxed}")
    constants = [n for n in str(expanded).split() if n.isdigit()]
    assert bits is None or str(multiplier) in constants
