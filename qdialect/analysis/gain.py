"""How far the result of an op moves when its operands do, at most, in real units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, inf, isfinite
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation, SSAValue

from qdialect.algebra import requantize as exact
from qdialect.algebra.qparams import QParams
from qdialect.algebra.quantize import spread
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.ir.behaviors import Accumulator, Behavior, Size, Sizes
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.behaviors.shapes import DYNAMIC
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_array, constant_of
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp, element_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: what a few roundings in f32 add, relative
_FLOATS = 1 + 2.0**-20
#: what float64 sums and products of bounds may have lost, many times over
_ROUNDED = 1 + 2.0**-32


def gain_of(
    session: QContext, op: Operation, behavior: Behavior, index: int, qparams: Sequence[QParams]
) -> float | None:
    """Largest change of the result, in real units, per unit of change of operand `index`
    between two values of one of these `qparams`; None if there is no bound."""

    def sizes(number: int) -> Size:
        if number != index:
            return size_of(op.operands[number], session)
        return _any_of([size_of_codes(params) for params in qparams])

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
    narrowed = narrowed_qparams(value, session)
    return Size() if narrowed is None else size_of_codes(narrowed)


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
        remaining = {axis} if allowed is None or axis in allowed(op) else set[int]()
        summed = tuple(d for d in range(other.elements.ndim) if d not in remaining)
        bounds.append(float(other.elements.sum(axis=summed).max(initial=0.0)))
    return min(bounds, default=None)


def influence(session: QContext, op: Operation, index: int) -> tuple[float, float] | None:
    """(a, b): results move by at most a * d + b when operand `index` moves by d > 0;
    None if there is no bound. b is the rounding of results to codes."""
    factor = _factor(session, op, index)
    if factor is None or not isfinite(factor):
        return None
    return factor, max((_rounding(session, op, result) for result in op.results), default=0.0)


def moved(session: QContext, op: Operation, by: Callable[[SSAValue], float]) -> float:
    """How far results of `op` move when its operands move by `by`, rounded to codes."""
    total = 0.0
    for index, operand in enumerate(op.operands):
        change = by(operand)
        if change:
            factor = _factor(session, op, index) if isfinite(change) else None
            total += inf if factor is None else factor * change
    if not total or not isfinite(total):
        return total
    step = max((_rounding(session, op, result) for result in op.results), default=0.0)
    if isinstance(op, QCastOp):
        step += step * 2.0**-10  # floats below have lost a little
    params = qparams_of(op.results[0]) if len(op.results) == 1 else None
    if step and params is not None and params.count == 1 and not isinstance(op, QCastOp):
        return _whole(total / step) * step
    return total + step


def _whole(steps: float) -> int:
    """Rounded up, but for what float64 bounds have lost."""
    nearest = round(steps)
    return nearest if abs(steps - nearest) <= steps * 2.0**-30 else ceil(steps)


def _rounding(session: QContext, op: Operation, result: SSAValue) -> float:
    """The largest step of a result that is rounded to codes."""
    params = qparams_of(result)
    if isinstance(op, SCastOp):
        return 0.0
    if isinstance(op, DCastOp):
        source = qparams_of(op.input)
        # Two products of a code and a scale, each off by half a unit in the last place.
        return max(source.scale_list()) * 2.0 ** (source.storage.width - 22) if source else inf
    if params is None:
        return 0.0
    behavior = session.behaviors.get(op)
    if behavior is not None and behavior.commutes and _only_copies(op, behavior, params):
        return 0.0
    return max(params.scale_list())


def _only_copies(op: Operation, behavior: Behavior, result: QParams) -> bool:
    if not behavior.requantizes_inputs:
        return True
    return all(qparams_of(op.operands[i]) == result for i in tied_operands(op, behavior))


def _factor(session: QContext, op: Operation, index: int) -> float | None:
    if isinstance(op, QCastOp | RescaleOp | DCastOp):
        floats = isinstance(op, QCastOp | DCastOp)
        wide = not floats or isinstance(
            element_type(op.input.type if isinstance(op, QCastOp) else op.result.type),
            Float32Type | Float64Type,
        )
        return (_FLOATS if floats or op.fixed_point else 1.0) if wide else None
    if isinstance(op, SCastOp):
        # Integers that are read as codes move by steps.
        source, result = qparams_of(op.input), qparams_of(op.result)
        if source is not None:
            return 1 / min(source.scale_list()) if is_integer(source) else None
        return max(result.scale_list()) if result is not None and is_integer(result) else None
    behavior = session.behaviors.get(op)
    if behavior is None:
        return None
    if behavior.commutes:
        return 1.0 if index in tied_operands(op, behavior) else None
    acc = behavior.accumulator
    if acc is not None and index == acc.bias:
        return 1.0
    params = qparams_of(op.operands[index])
    if params is not None and not is_integer(params):
        return None
    if params is None:
        return None
    low, high = params.storage.full_range
    whole = params.with_storage(replace(params.storage, min=low, max=high))
    gain = gain_of(session, op, behavior, index, [whole])
    return gain if qparams_of(op.results[0]) is not None else None
