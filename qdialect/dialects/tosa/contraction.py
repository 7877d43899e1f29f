"""Convolutions, matrix products and pools."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import TypeAttribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from qdialect.dialects.tosa.base import I64S, TENSOR, TosaOp


class _Convolution(TosaOp):
    input = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = operand_def(TENSOR)
    input_zp = operand_def(TENSOR)
    weight_zp = operand_def(TENSOR)
    stride = prop_def(I64S)
    acc_type = prop_def(TypeAttribute)
    local_bound = opt_prop_def(BoolAttr)
    output = result_def(TENSOR)


@irdl_op_definition
class Conv2DOp(_Convolution):
    """Input NHWC, weight OHWI, pad [top, bottom, left, right]."""

    name = "tosa.conv2d"
    pad = prop_def(I64S)
    dilation = prop_def(I64S)


@irdl_op_definition
class Conv3DOp(_Convolution):
    """Input NDHWC, weight ODHWI, pad [front, back, top, bottom, left, right]."""

    name = "tosa.conv3d"
    pad = prop_def(I64S)
    dilation = prop_def(I64S)


@irdl_op_definition
class DepthwiseConv2DOp(_Convolution):
    """Input NHWC, weight HWCM: M outputs of each channel."""

    name = "tosa.depthwise_conv2d"
    pad = prop_def(I64S)
    dilation = prop_def(I64S)


@irdl_op_definition
class TransposeConv2DOp(_Convolution):
    """Input NHWC, weight OHWI; `out_pad` widens the output, a negative one crops it."""

    name = "tosa.transpose_conv2d"
    out_pad = prop_def(I64S)


@irdl_op_definition
class MatMulOp(TosaOp):
    """[N, H, C] x [N, C, W] -> [N, H, W]; the zero points have the types of the operands."""

    name = "tosa.matmul"
    a = operand_def(TENSOR)
    b = operand_def(TENSOR)
    a_zp = operand_def(TENSOR)
    b_zp = operand_def(TENSOR)
    output = result_def(TENSOR)


OPS = [Conv2DOp, Conv3DOp, DepthwiseConv2DOp, TransposeConv2DOp, MatMulOp]
