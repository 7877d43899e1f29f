"""The op of the accelerator: a convolution that applies its activation before it stores."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Dialect
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

TENSOR = TensorType.constr()
INTS = DenseArrayBase.constr(i64)


@irdl_op_definition
class ConvReluOp(IRDLOperation):
    """max(conv2d(input, weight, bias), 0): NCHW, OIHW and [O]; pads top, left, bottom, right.

    On quantized operands: dequantize exactly, sum, limit, quantize half to even.
    """

    name = "acme.conv_relu"
    input = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    result = result_def(TENSOR)
    strides = prop_def(INTS)
    pads = prop_def(INTS)
    # Without this trait, passes would keep the op and its order: it might have effects.
    traits = traits_def(Pure())
    assembly_format = (
        "$input `,` $weight (`,` $bias^)? `strides` $strides `pads` $pads attr-dict "
        "`:` functional-type(operands, results)"
    )


ACME = Dialect("acme", [ConvReluOp])
