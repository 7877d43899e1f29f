"""A folded interface against the old one: the caller does what the casts did."""

from __future__ import annotations

import numpy as np
import pytest
from rewrite_support import apply, evaluate, parse
from xdsl.dialects.builtin import TensorType, f64
from xdsl.dialects.func import FuncOp

from qdialect.errors import UnsupportedError
from qdialect.ir.quant import QCastOp
from qdialect.plugins.mlir.write import module_text
from qdialect.rewrite.summary import summarize
from qdialect.workflows.validation.translation import compared, converted, drawn

TEXT = """
!q = tensor<6x!quant.uniform<i8:f32, 0.5:3>>
!f = tensor<6xf32>
func.func @main(%x: !f, %y: !f) -> (!f, !f) {
  %0 = quant.qcast %x HOW : !f to !q
  %1 = nn.relu %0 : (!q) -> !q
  %2 = quant.dcast %1 : !q to !f
  %3 = nn.add %y, %2 : (!f, !f) -> !f
  func.return %2, %3 : !f, !f
}
func.func @other(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !q
  %1 = quant.dcast %0 : !q to !f
  func.return %1 : !f
}
"""
TIES = np.array([0.25, 0.75, -0.25, -1.25, 1e9, -7.0], np.float32)


@pytest.mark.parametrize(
    "how", ["", '{quant.rounding = "half_away"}', '{quant.rounding = "half_up"}']
)
def test_ties_at_the_interface(how: str) -> None:
    module, ctx = parse(TEXT.replace("HOW", how))
    before = module.clone()
    wanted = evaluate(module, ctx, [TIES, TIES])
    apply(module, ctx, "fold-interface")
    main, other = (op for op in module.ops if isinstance(op, FuncOp))
    assert main.arg_attrs is not None
    rounding = main.arg_attrs.data[0].data.get("nn.rounding")
    old, new = (
        next(f for f in m.ops if isinstance(f, FuncOp)).function_type for m in (before, module)
    )
    codes = converted(ctx, TIES, old.inputs.data[0], new.inputs.data[0], rounding=rounding)
    got = evaluate(module, ctx, [codes, TIES])
    back = converted(ctx, got[0], new.outputs.data[0], old.outputs.data[0])
    assert np.array_equal(back, wanted[0])
    assert np.array_equal(got[1], wanted[1])
    for function in (main, other):
        bounds = [b for b in summarize(ctx, module) if b.function == function.sym_name.data]
        was = next(f for f in before.ops if f.sym_name == function.sym_name)
        inputs = drawn(was, 8)
        found = compared(ctx, before, module, function, bounds, inputs)
        assert found
        assert all(one.worst.is_equal for one in found)


def test_twice_is_once() -> None:
    module, ctx = parse(TEXT.replace("HOW", ""))
    apply(module, ctx, "fold-interface")
    once = module_text(module, ctx)
    assert not any(isinstance(op, QCastOp) for op in module.walk())
    apply(module, ctx, "fold-interface")
    assert module_text(module, ctx) == once


def test_another_change_of_the_interface_is_not_compared() -> None:
    module, ctx = parse(TEXT.replace("HOW", ""))
    kind = next(op for op in module.ops if isinstance(op, FuncOp)).function_type.inputs.data[0]
    with pytest.raises(UnsupportedError, match="at the interface"):
        converted(ctx, TIES, kind, TensorType(f64, [6]))
