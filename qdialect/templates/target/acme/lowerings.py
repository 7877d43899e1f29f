"""The op written with ops of the `nn` dialect: how other targets, TOSA and ONNX get it."""

from __future__ import annotations

from qdialect.ir.ops import Conv2DOp, ReluOp
from qdialect.ir.ops.components import Components, Pieces
from xdsl.ir import Operation, SSAValue


def build(op: Operation, pieces: Pieces) -> SSAValue:
    """relu(conv2d(x, w, b)); the pieces are named, so that each may have qparams of its own."""
    strides, pads = op.properties["strides"], op.properties["pads"]
    sums = pieces.add("conv", Conv2DOp(*op.operands, strides=strides, pads=pads))
    return pieces.add("relu", ReluOp(sums))


# On codes, the convolution is stored as the result is: relu commutes with rounding.
CONV_RELU = Components(("conv", "relu"), build, as_result=frozenset({"conv"}))
