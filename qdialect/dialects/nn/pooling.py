"""Pooling over the spatial dimensions of NCHW tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, IntegerType, StringAttr
from xdsl.irdl import (
    AttrConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from qdialect.dialects.nn.base import INTS, TENSOR, NNOp, Values, boolean, ints
from qdialect.dialects.nn.contraction import HALF_EVEN
from qdialect.dialects.nn.shapes import Shape, require_rank, window_shape

FLAG = cast("AttrConstraint[BoolAttr]", IntegerAttr.constr(IntegerType(1)))


class WindowOp(NNOp):
    """A window slid over H and W; `pads` are top, left, bottom, right."""

    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    kernel = prop_def(INTS)
    strides = prop_def(INTS, ints(1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1))
    ceil_mode: BoolAttr = prop_def(FLAG, boolean(False))
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        require_rank(x, 4, "an input")
        spatial = window_shape(
            x[2:],
            values["kernel"],
            values["strides"],
            values["pads"],
            values["dilations"],
            values["ceil_mode"],
        )
        return [(x[0], x[1], *spatial)]


@irdl_op_definition
class MaxPool2DOp(WindowOp):
    """Largest element of each window; padding never wins."""

    name = "nn.max_pool2d"


@irdl_op_definition
class AvgPool2DOp(WindowOp):
    """Mean of each window, over the elements inside the input, or inside the padded
    input with `count_include_pad` (padding counts as real 0)."""

    name = "nn.avg_pool2d"
    count_include_pad: BoolAttr = prop_def(FLAG, boolean(False))
    rounding = prop_def(StringAttr, HALF_EVEN)


@irdl_op_definition
class GlobalAvgPool2DOp(NNOp):
    """Mean over H and W, kept as extents of 1."""

    name = "nn.global_avg_pool2d"
    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        require_rank(x, 4, "an input")
        return [(x[0], x[1], 1, 1)]


OPS = [MaxPool2DOp, AvgPool2DOp, GlobalAvgPool2DOp]
