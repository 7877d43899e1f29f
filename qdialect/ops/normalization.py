"""Batch, layer and local response normalization, and softmax."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from qdialect.ops.base import (
    HALF_EVEN,
    REAL,
    TENSOR,
    FunctionOp,
    NNOp,
    UnaryOp,
    Values,
    integer,
    real,
)
from qdialect.ops.shapes import DYNAMIC, Shape, ShapeError, broadcast, normalize_axis


@irdl_op_definition
class BatchNormOp(NNOp):
    """(x - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c], c on dimension 1.

    `scale`, `bias`, `mean` and `variance` are float vectors.
    """

    name = "nn.batch_norm"
    input = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    bias = operand_def(TENSOR)
    mean = operand_def(TENSOR)
    variance = operand_def(TENSOR)
    result = result_def(TENSOR)
    epsilon = prop_def(REAL, real(1e-5))
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        if len(x) < 2:
            raise ShapeError("expects an input of rank 2 or more")
        for name, shape in zip(("scale", "bias", "mean", "variance"), operands[1:], strict=True):
            if len(shape) != 1 or (DYNAMIC not in (shape[0], x[1]) and shape[0] != x[1]):
                raise ShapeError(f"expects {name} of shape {x[1]}, but got {list(shape)}")
        return [x]


@irdl_op_definition
class LayerNormOp(NNOp):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, over the dimensions from `axis` on.

    `scale` and `bias` are floats that broadcast to the shape of x.
    """

    name = "nn.layer_norm"
    input = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    result = result_def(TENSOR)
    axis = prop_def(IntegerAttr.constr(i64), integer(-1))
    epsilon = prop_def(REAL, real(1e-5))
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        normalize_axis(values["axis"], len(x))
        for name, shape in zip(("scale", "bias"), operands[1:], strict=False):
            known = DYNAMIC not in (*x, *shape)
            if len(shape) > len(x) or (known and broadcast([x, shape]) != x):
                raise ShapeError(f"{name} of shape {list(shape)} does not broadcast to {list(x)}")
        return [x]


@irdl_op_definition
class SoftmaxOp(FunctionOp):
    """exp(x) / sum(exp(x)) along `axis`."""

    name = "nn.softmax"
    axis = prop_def(IntegerAttr.constr(i64), integer(-1))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        normalize_axis(values["axis"], len(operands[0]))
        return [operands[0]]


@irdl_op_definition
class LrnOp(UnaryOp):
    """x / (bias + alpha / size * sum of squares)^beta, summed over the `size` channels
    around each (dimension 1), (size - 1) // 2 of them before it.

    On quantized tensors the result has the qparams of the input.
    """

    name = "nn.lrn"
    size = prop_def(IntegerAttr.constr(i64))
    alpha = prop_def(REAL, real(1e-4))
    beta = prop_def(REAL, real(0.75))
    bias = prop_def(REAL, real(1.0))
    rounding = prop_def(StringAttr, HALF_EVEN)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if len(operands[0]) < 2:
            raise ShapeError("expects an input of rank 2 or more")
        if values["size"] < 1:
            raise ShapeError(f"size must be at least 1, but is {values['size']}")
        return [operands[0]]


OPS = [BatchNormOp, LayerNormOp, SoftmaxOp, LrnOp]
