"""What docs/howto/add-an-op-or-a-target.md says of elementwise functions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from rewrite_support import apply, parse, quant, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.algebra import elementary_functions as words
from qdialect.ir.behaviors import Elementwise, Port
from qdialect.ir.context import new_context
from qdialect.ir.ops import constant_array, constant_of


@irdl_op_definition
class SoftSine(IRDLOperation):
    name = "vendor.softsine"
    input = operand_def(TensorType.constr())
    result = result_def(TensorType.constr())
    traits = traits_def(Pure())
    assembly_format: ClassVar[str] = "$input attr-dict `:` type($input) `to` type($result)"


def test_a_function_of_somebody_else_becomes_a_lookup() -> None:
    ctx = new_context()
    ctx.load_dialect(Dialect("vendor", [SoftSine]))
    ctx.behaviors.register(
        Elementwise(
            SoftSine.name,
            operands=(Port("input"),),
            analytic=lambda op, x: words.tanh(x[0] * 0.5) * words.exp(x[0] * x[0] * -1.0),
        )
    )
    a, b = (tensor((4,), quant(*q)) for q in (("i8", 0.05, 3), ("i8", 0.001, 0)))
    f = tensor((4,), "f32")
    module, _ = parse(
        f"func.func @main(%x: {a}) -> {b} {{\n"
        f"  %0 = quant.dcast %x : {a} to {f}\n"
        f"  %1 = vendor.softsine %0 : {f} to {f}\n"
        f"  %2 = quant.qcast %1 : {f} to {b}\n"
        f"  func.return %2 : {b}\n}}\n",
        ctx,
    )
    apply(module, ctx, "form-tables")
    (table,) = (op for op in module.walk() if op.name == "nn.table")
    entries = constant_of(table.operands[1])
    assert entries is not None
    x = (np.arange(-128, 128) - 3) * 0.05
    real = np.tanh(x / 2) * np.exp(-x * x) / 0.001
    assert np.abs(constant_array(entries, ctx.blobs) - np.clip(real, -128, 127)).max() <= 0.5
