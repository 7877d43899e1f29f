"""Pooling over the spatial dimensions of tensors [N, C, spatial...].

    %y = nn.max_pool2d %x kernel [2, 2] strides [2, 2] : (...) -> tensor<1x8x2x2xf32>

No pool crosses batch or channels, so both may have parameters of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from math import lcm, prod
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.ir import Operation
from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.ir import behaviors
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops.base import FLAG, HALF_EVEN, INTS, TENSOR, NNOp, Values, boolean, ints
from qdialect.ir.ops.declare import nn_op, numbers_per_element, onnx, unit, values
from qdialect.ir.ops.shapes import Shape, require_rank, window_shape
from qdialect.ir.ops.windows import pads, taps, windows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.algebra.qparams import QParams
    from qdialect.ir.behaviors import Behavior


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


def _window(op: Operation) -> int:
    return prod(values(op)["kernel"])


# -- maxima ------------------------------------------------------------------------


def _max_pool(op: Operation, x: NDArray[Any], lowest: Any) -> NDArray[Any]:
    """The largest element of each window; of nothing but padding, the lowest number."""
    import numpy as np

    kernel = values(op)["kernel"]
    view, inside = windows(op, x, taps(op, kernel))
    places = tuple(range(2, 2 + len(kernel)))
    # Codes may lie below `lowest`, outside narrowed bounds; padding is never chosen.
    floor = np.array(-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min, x.dtype)
    filled: NDArray[Any] = np.where(inside, view, floor)
    largest: NDArray[Any] = np.maximum.reduce(filled, axis=places)
    some = np.logical_or.reduce(np.broadcast_to(inside, view.shape), axis=places)
    return np.where(some, largest, np.array(lowest, x.dtype))


def _padding_level(op: Operation) -> list[float]:
    """-infinity if a window may hold nothing but padding: no code names that."""
    v, spatial = values(op), shape_of(op.operands[0])[2:]
    for d, (kernel, dilation, size) in enumerate(
        zip(v["kernel"], v["dilations"], spatial, strict=True)
    ):
        padding = max(v["pads"][d], v["pads"][d + len(spatial)])
        # Taps reach from inside one end to inside the other, no further apart than the input.
        if padding and (padding > (kernel - 1) * dilation or dilation > max(size, 1)):
            return [-math.inf]
    return []


def _declare_max(name: str) -> Behavior:
    tied = behaviors.PortKind.TIED
    return behaviors.Selection(
        name,
        (behaviors.Port("input", tied, axes=behaviors.axes(0, 1)),),
        (behaviors.Port("result", tied, axes=behaviors.axes(0, 1)),),
        compared_constants=_padding_level,
        select=_max_pool,
        work=numbers_per_element(_window),
    )


@nn_op(_declare_max)
class MaxPool1DOp(Window1DOp):
    """Largest element of each window; padding never wins."""

    name = "nn.max_pool1d"


@nn_op(_declare_max)
class MaxPool2DOp(Window2DOp):
    """Largest element of each window; padding never wins."""

    name = "nn.max_pool2d"


@nn_op(_declare_max)
class MaxPool3DOp(Window3DOp):
    """Largest element of each window; padding never wins."""

    name = "nn.max_pool3d"


# -- means -------------------------------------------------------------------------


def window_counts(op: Operation) -> NDArray[np.int64]:
    """By how many elements each window's sum is divided, [spatial...]: those inside the
    input, or inside the padded input."""
    import numpy as np

    v, size = values(op), shape_of(op.operands[0])[2:]
    reads, rank = taps(op, v["kernel"]), len(size)
    counts: list[NDArray[np.int64]] = []
    for d in range(rank):
        before, after = (v["pads"][d], v["pads"][d + rank]) if v["count_include_pad"] else (0, 0)
        counts.append(((reads[d] >= -before) & (reads[d] < size[d] + after)).sum(0))
    return np.maximum(reduce(np.multiply.outer, counts), 1)


def _avg_pool(op: Operation, x: Sequence[Any]) -> Any:
    """Sums of windows, by the number of elements inside the input, or the padded input."""
    import numpy as np

    result, kernel = shape_of(op.results[0]), values(op)["kernel"]
    view, inside = windows(op, x[0], taps(op, kernel))
    taken = (view * inside).reshape(*result[:2], prod(kernel), prod(result[2:]))
    ones = np.ones((1, 1, prod(kernel), 1), np.bool_)
    sums = (taken.swapaxes(2, 3) @ ones).reshape(*result)
    return sums / window_counts(op).astype(np.float32)


def _mean_interval(op: Operation, x: Sequence[Any]) -> Any:
    """A mean of elements, and of zeros where windows reach outside."""
    from qdialect.algebra.ranges import Interval

    outside = pads(op) or values(op)["ceil_mode"]
    return x[0].join(Interval(0, 0)) if outside else x[0]


def _window_grid(op: Operation, params: Sequence[QParams]) -> Fraction | None:
    """The step of sums by the least common multiple of what they are divided by."""
    if DYNAMIC in shape_of(op.operands[0])[2:] or 0 in shape_of(op.results[0]):
        return None
    counts = lcm(*{int(n) for n in window_counts(op).reshape(-1)})
    return Fraction(params[0].scale) / counts


def _declare_average(name: str) -> Behavior:
    return behaviors.Computation(
        name,
        (behaviors.Port("input", axes=behaviors.axes(0, 1)),),
        (behaviors.Port("result", axes=behaviors.axes(0, 1)),),
        arithmetic=_avg_pool,
        linear=True,
        interval=_mean_interval,
        work=numbers_per_element(_window),
        gain=unit,
        grid=_window_grid,
    )


class AveragePoolOp(WindowOp):
    """Mean of each window, over the elements inside the input, or inside the padded
    input with `count_include_pad` (padding counts as real 0)."""

    count_include_pad: BoolAttr = prop_def(FLAG, boolean(False))
    rounding = prop_def(StringAttr, HALF_EVEN)


@nn_op(_declare_average)
class AvgPool1DOp(AveragePoolOp, Window1DOp):
    """Mean of each window over W."""

    name = "nn.avg_pool1d"


@nn_op(_declare_average)
class AvgPool2DOp(AveragePoolOp, Window2DOp):
    """Mean of each window over H and W."""

    name = "nn.avg_pool2d"


@nn_op(_declare_average)
class AvgPool3DOp(AveragePoolOp, Window3DOp):
    """Mean of each window over D, H and W."""

    name = "nn.avg_pool3d"


def _area(op: Operation) -> int:
    return prod(shape_of(op.operands[0])[2:])


def _global_avg_pool(op: Operation, x: Sequence[Any]) -> Any:
    """Sums of channels by their area."""
    import numpy as np

    result = shape_of(op.results[0])
    if _area(op) == 0:
        raise ValueError("a mean of nothing")
    ones = np.ones((1, 1, _area(op), 1), np.bool_)
    sums = (x[0].reshape(*result[:2], 1, _area(op)) @ ones).reshape(*result)
    return sums / np.array([_area(op)], np.float32)


def _area_grid(op: Operation, params: Sequence[QParams]) -> Fraction | None:
    extents = shape_of(op.operands[0])[2:]
    return None if DYNAMIC in extents or 0 in extents else Fraction(params[0].scale) / _area(op)


def _declare_global(name: str) -> Behavior:
    return behaviors.Computation(
        name,
        (behaviors.Port("input", axes=behaviors.axes(0, 1)),),
        (behaviors.Port("result", axes=behaviors.axes(0, 1)),),
        arithmetic=_global_avg_pool,
        linear=True,
        interval=lambda op, x: x[0],
        work=numbers_per_element(_area),
        gain=unit,
        grid=_area_grid,
    )


_GLOBAL = onnx("GlobalAveragePool", reads=False)


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


@nn_op(_declare_global, onnx=_GLOBAL)
class GlobalAvgPool1DOp(GlobalAveragePoolOp):
    """Mean over W."""

    name = "nn.global_avg_pool1d"
    SPATIAL: ClassVar[int] = 1


@nn_op(_declare_global, onnx=_GLOBAL)
class GlobalAvgPool2DOp(GlobalAveragePoolOp):
    """Mean over H and W."""

    name = "nn.global_avg_pool2d"
    SPATIAL: ClassVar[int] = 2


@nn_op(_declare_global, onnx=_GLOBAL)
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
