"""The ops of the accelerator."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, StringAttr, TensorType
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


@irdl_op_definition
class SplatMaxOp(IRDLOperation):
    """max(x, floor) for one number."""

    name = "acme.splat_max"
    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    floor = prop_def(FloatAttr)
    traits = traits_def(Pure())
    assembly_format = "$input `floor` $floor attr-dict `:` functional-type(operands, results)"


@irdl_op_definition
class RotateOp(IRDLOperation):
    """Reverses the last dimension."""

    name = "acme.rotate"
    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"


@irdl_op_definition
class ConvReluOp(IRDLOperation):
    """relu(convolution), 1x1: `input` NCHW, `weight` [O, C, 1, 1], `bias` [O]."""

    name = "acme.conv_relu"
    input = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    result = result_def(TENSOR)
    rounding = prop_def(StringAttr, StringAttr("half_even"))
    traits = traits_def(Pure())
    assembly_format = (
        "$input `,` $weight (`,` $bias^)? (`rounding` $rounding^)? attr-dict "
        "`:` functional-type(operands, results)"
    )


ACME = Dialect("acme", [SplatMaxOp, RotateOp, ConvReluOp])
