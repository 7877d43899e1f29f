"""Pooling over the spatial dimensions of tensors [N, C, spatial...]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from qdialect.ops.base import FLAG, HALF_EVEN, INTS, TENSOR, NNOp, Values, boolean, ints
from qdialect.ops.shapes import Shape, require_rank, window_shape


class WindowOp(NNOp):
    """A window slid over the spatial dimensions; `pads` lists all begins, then all ends."""

    SPATIAL: ClassVar[int]
    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        require_rank(x, cls.SPATIAL + 2, "an input")
        spatial = window_shape(
            x[2:],
            values["kernel"],
            values["strides"],
            values["pads"],
            values["dilations"],
            values["ceil_mode"],
        )
        return [(x[0], x[1], *spatial)]


class Window1DOp(WindowOp):
    """A window over W."""

    SPATIAL: ClassVar[int] = 1
    kernel = prop_def(INTS)
    strides = prop_def(INTS, ints(1))
    pads = prop_def(INTS, ints(0, 0))
    dilations = prop_def(INTS, ints(1))
    ceil_mode: BoolAttr = prop_def(FLAG, boolean(False))


class Window2DOp(WindowOp):
    """A window over H and W."""

    SPATIAL: ClassVar[int] = 2
    kernel = prop_def(INTS)
    strides = prop_def(INTS, ints(1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1))
    ceil_mode: BoolAttr = prop_def(FLAG, boolean(False))


class Window3DOp(WindowOp):
    """A window over D, H and W."""

    SPATIAL: ClassVar[int] = 3
    kernel = prop_def(INTS)
    strides = prop_def(INTS, ints(1, 1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1, 1))
    ceil_mode: BoolAttr = prop_def(FLAG, boolean(False))


@irdl_op_definition
class MaxPool1DOp(Window1DOp):
    """Largest element of each window; padding never wins."""

    name = "nn.max_pool1d"


@irdl_op_definition
class MaxPool2DOp(Window2DOp):
    """Largest element of each window; padding never wins."""

    name = "nn.max_pool2d"


@irdl_op_definition
class MaxPool3DOp(Window3DOp):
    """Largest element of each window; padding never wins."""

    name = "nn.max_pool3d"


class AveragePoolOp(WindowOp):
    """Mean of each window, over the elements inside the input, or inside the padded
    input with `count_include_pad` (padding counts as real 0)."""

    count_include_pad: BoolAttr = prop_def(FLAG, boolean(False))
    rounding = prop_def(StringAttr, HALF_EVEN)


@irdl_op_definition
class AvgPool1DOp(AveragePoolOp, Window1DOp):
    """Mean of each window over W."""

    name = "nn.avg_pool1d"


@irdl_op_definition
class AvgPool2DOp(AveragePoolOp, Window2DOp):
    """Mean of each window over H and W."""

    name = "nn.avg_pool2d"


@irdl_op_definition
class AvgPool3DOp(AveragePoolOp, Window3DOp):
    """Mean of each window over D, H and W."""

    name = "nn.avg_pool3d"


class GlobalAveragePoolOp(NNOp):
    """Mean over the spatial dimensions, kept as extents of 1."""

    SPATIAL: ClassVar[int]
    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        require_rank(x, cls.SPATIAL + 2, "an input")
        return [(x[0], x[1], *(1,) * cls.SPATIAL)]


@irdl_op_definition
class GlobalAvgPool1DOp(GlobalAveragePoolOp):
    """Mean over W."""

    name = "nn.global_avg_pool1d"
    SPATIAL: ClassVar[int] = 1


@irdl_op_definition
class GlobalAvgPool2DOp(GlobalAveragePoolOp):
    """Mean over H and W."""

    name = "nn.global_avg_pool2d"
    SPATIAL: ClassVar[int] = 2


@irdl_op_definition
class GlobalAvgPool3DOp(GlobalAveragePoolOp):
    """Mean over D, H and W."""

    name = "nn.global_avg_pool3d"
    SPATIAL: ClassVar[int] = 3


MAX_POOLS = (MaxPool1DOp, MaxPool2DOp, MaxPool3DOp)
"""By the number of spatial dimensions."""

AVERAGE_POOLS = (AvgPool1DOp, AvgPool2DOp, AvgPool3DOp)
"""By the number of spatial dimensions."""

GLOBAL_AVERAGE_POOLS = (GlobalAvgPool1DOp, GlobalAvgPool2DOp, GlobalAvgPool3DOp)
"""By the number of spatial dimensions."""

OPS = [*MAX_POOLS, *AVERAGE_POOLS, *GLOBAL_AVERAGE_POOLS]
