"""How far the result of an op moves when one of its operands does, at most."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.behaviors import Accumulator, Behavior, Size, Sizes
from qdialect.behaviors.shapes import DYNAMIC
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.quantize import spread
from qdialect.ops import constant_array, constant_of
from qdialect.qparams import QParams

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: what float64 sums and products of bounds may have lost, many times over
_ROUNDED = 1 + 2.0**-32


def gain_of(
    session: QContext, op: Operation, behavior: Behavior, index: int, held: Sequence[QParams]
) -> float | None:
    """Largest change of the result, in real units, per unit of change of operand `index`
    between two values of the qparams `held`; None if there is no bound."""

    def sizes(number: int) -> Size:
        if number != index:
            return size_of(op.operands[number], session)
        return _any_of([size_of_codes(params) for params in held])

    if behavior.gain is not None:
        gain = behavior.gain(op, index, sizes)
    elif behavior.accumulator is not None:
        gain = _of_sums(op, behavior, behavior.accumulator, index, sizes)
    else:
        gain = None
    return gain * _ROUNDED if gain is not None and isfinite(gain) else None


def size_of(value: SSAValue, session: QContext) -> Size:
    """|x| of the elements of `value`: of a constant what they are, of codes what their
    bounds allow, of other floats nothing."""
    constant, params = constant_of(value), qparams_of(value)
    if constant is not None:
        array = constant_array(constant, session.blobs)
        elements = _absolute(array) if params is None else absolute_real(array, params)
        if not elements.size:
            return Size(inf, 0.0, elements)
        return Size(float(elements.min()), float(elements.max()), elements)
    seen = narrowed_qparams(value, session)
    return Size() if seen is None else size_of_codes(seen)


def size_of_codes(params: QParams) -> Size:
    """|x| of what codes within their bounds name."""
    return _any_of([_size(affine) for affine in exact.quant_grids(params)])


def _size(affine: exact.QuantGrid) -> Size:
    low, high = (abs(float(end)) for end in exact.real_range(affine))
    inside = affine.low <= affine.zero <= affine.high
    return Size(0.0 if inside else min(low, high), max(low, high))


def _any_of(sizes: Sequence[Size]) -> Size:
    return Size(min(size.low for size in sizes), max(size.high for size in sizes))


def absolute_real(codes: NDArray[Any], params: QParams) -> NDArray[np.float64]:
    """|real value| of each code, in float64."""
    import numpy as np

    zero = spread(params.zero_point_array(), params, codes.shape)
    scale = spread(params.scale_array(), params, codes.shape)
    return np.abs((codes.astype(np.float64) - zero) * scale)


def _absolute(array: NDArray[Any]) -> NDArray[np.float64]:
    import numpy as np

    return np.abs(array.astype(np.float64))


def _of_sums(
    op: Operation, behavior: Behavior, acc: Accumulator, index: int, sizes: Sizes
) -> float | None:
    """sum |w| over the products of one element of the result: of a constant w no more
    than along each index of its own dimension of the result."""
    if index not in (acc.lhs, acc.rhs):
        return None
    other = sizes(acc.rhs if index == acc.lhs else acc.lhs)
    depth = acc.depth(op)
    bounds = [] if depth == DYNAMIC else [depth * other.high]
    if index == acc.lhs and other.elements is not None:
        axis, allowed = acc.rhs_axis(op), behavior.operand_port(acc.rhs).axes
        # A vector on the right has no output dimension of its own: all of it is summed.
        kept = {axis} if allowed is None or axis in allowed(op) else set[int]()
        summed = tuple(d for d in range(other.elements.ndim) if d not in kept)
        bounds.append(float(other.elements.sum(axis=summed).max(initial=0.0)))
    return min(bounds, default=None)
