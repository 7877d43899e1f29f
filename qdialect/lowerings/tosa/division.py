"""`nn.div` of integers whose quotient is the result, rounded half up.

    floor((2 n + d) / (2 d))        d > 0

`tosa.intdiv` truncates, which is rounding down where n >= 0. Else t = trunc(a / b) is one too
large where a < t b, that is where the sign bit of a - t b is set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import ranges
from qdialect.behaviors.shapes import shape_of
from qdialect.lowerings.errors import Unlowerable
from qdialect.lowerings.laid_out import LaidOut
from qdialect.lowerings.operands import check_quotient, common_order
from qdialect.lowerings.tosa.elementwise import narrowed, ranked
from qdialect.lowerings.tosa.emitter import Emitter, flag
from qdialect.lowerings.tosa.rescale import clamped, widened

_MAX = 2**31 - 1


def divide(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.div`; a step of the result is one of the quotient of codes."""
    lhs, rhs = (x.params for x in operands)
    result, shape = qparams_of(op.results[0]), shape_of(op.results[0])
    if lhs is None or rhs is None or result is None:
        raise Unlowerable("float", "it computes floats", "quantize it (qopt quantize)")
    check_quotient(e, op, (lhs, rhs), result)
    parts = [ranked(e, x, len(shape)) for x in operands]
    order = common_order(parts, len(shape))
    numerator, divisor = (widened(e, x, order) for x in parts)
    extents = [shape[axis] for axis in order]
    two = e.const(np.full((1,) * len(shape), 2, np.int32), i32)
    zero = e.scalar(0, 8)

    def doubled(value: SSAValue) -> SSAValue:
        return e.op("mul", [value, two, zero], shape_of(value), i32)

    twice = doubled(numerator)
    top = e.op("add", [twice, divisor], extents, i32)
    under = doubled(divisor)
    steps = e.op("intdiv", [top, under], extents, i32)
    known = ranges(e.session).of(op.operands[0])
    if known is None or known.low < lhs.zero_point_list()[0]:
        below = e.op("mul", [steps, under, zero], extents, i32)
        left = e.op("sub", [top, below], extents, i32)
        sign = e.const(np.full((1,) * len(shape), 31, np.int32), i32)
        borrow = e.op("arithmetic_right_shift", [left, sign], extents, i32, round=flag(False))
        steps = e.op("add", [steps, borrow], extents, i32)
    low, high = (bound - result.zero_point for bound in (result.storage.min, result.storage.max))
    out = narrowed(e, clamped(e, steps, low, high), result)
    return e.held(out, order, result, shape)
