"""Reductions over some dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.ops.base import FLAG, HALF_EVEN, INTS, TENSOR, NNOp, Values, boolean
from qdialect.ops.shapes import Shape, ShapeError, normalize_axes


class ReduceOp(NNOp):
    """Over the dimensions `axes` (none of them: every element by itself), which stay with
    extent 1 or, without `keepdims`, are removed."""

    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    axes = prop_def(INTS)
    keepdims: BoolAttr = prop_def(FLAG, boolean(True))
    traits = traits_def(Pure())

    #: whether the reduction of nothing is defined
    OF_NOTHING: ClassVar[bool] = False

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        axes = normalize_axes(values["axes"], len(x))
        empty = [axis for axis in axes if x[axis] == 0]
        if empty and not cls.OF_NOTHING:
            raise ShapeError(f"cannot reduce dimension {empty[0]} of extent 0")
        if values["keepdims"]:
            return [tuple(1 if d in axes else n for d, n in enumerate(x))]
        return [tuple(n for d, n in enumerate(x) if d not in axes)]


@irdl_op_definition
class ReduceMaxOp(ReduceOp):
    """Largest element; of codes, on the qparams of the input."""

    name = "nn.reduce_max"


@irdl_op_definition
class ReduceMinOp(ReduceOp):
    """Smallest element; of codes, on the qparams of the input."""

    name = "nn.reduce_min"


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """Mean; on quantized operands the exact mean is quantized with `rounding`."""

    name = "nn.reduce_mean"
    rounding = prop_def(StringAttr, HALF_EVEN)


@irdl_op_definition
class ReduceSumOp(ReduceOp):
    """Sum, 0 of nothing; on quantized operands the exact sum is quantized with
    `rounding`."""

    name = "nn.reduce_sum"
    rounding = prop_def(StringAttr, HALF_EVEN)
    OF_NOTHING: ClassVar[bool] = True


OPS = [ReduceMaxOp, ReduceMinOp, ReduceMeanOp, ReduceSumOp]
