"""Bounds of the sums a contraction makes, from the weights it has.

    sum_k x_k w_k  <=  sum of positive w * max x  +  sum of negative w * min x

per output channel where the weight is constant; its depth times the largest product
otherwise. Padding is real 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import constant_values, is_integer, qparams_of
from qdialect.behaviors import Accumulator, Port
from qdialect.behaviors.shapes import DYNAMIC, shape_of
from qdialect.context import QContext
from qdialect.numerics.ranges import Interval
from qdialect.qparams import QParams

CodesOf = Callable[[SSAValue], Interval | None]


@dataclass(frozen=True)
class Sums:
    """Integer sums, one interval per output channel (or one for all), and the real
    number that a sum of 1 means there."""

    channels: list[Interval]
    scales: list[Fraction]

    def reals(self) -> list[Interval]:
        count = max(len(self.channels), len(self.scales))
        return [
            self.channels[c % len(self.channels)] * self.scales[c % len(self.scales)]
            for c in range(count)
        ]


def sums_of(
    session: QContext,
    op: Operation,
    acc: Accumulator,
    port: Port,
    sides: tuple[SSAValue, SSAValue],
    codes_of: CodesOf,
    *,
    partial: bool = False,
) -> Sums | None:
    """What `op` sums when the quantized values `sides` are its operands; with `partial`
    also every intermediate sum, in any order. `port` is that of the right side."""
    lhs, rhs = (qparams_of(side) for side in sides)
    if lhs is None or rhs is None or not (is_integer(lhs) and is_integer(rhs)):
        return None
    axis, rank = acc.rhs_axis(op), len(shape_of(sides[1]))
    if not lhs.is_per_tensor or not (rhs.is_per_tensor or rhs.axis == axis):
        return None
    codes = codes_of(sides[0])
    if codes is None:
        return None
    x = codes - lhs.zero_point
    padded = partial or (acc.pads is not None and acc.pads(op))
    scales = [Fraction(lhs.scale) * Fraction(s) for s in rhs.scale_list()]
    weights = constant_values(sides[1], session)
    if weights is None:
        return _of_depth(acc.depth(op), x, codes_of(sides[1]), rhs, scales, padded)
    import numpy as np

    zeros = rhs.zero_point_array().reshape(
        () if rhs.is_per_tensor else [-1 if d == axis else 1 for d in range(rank)]
    )
    steps = weights.astype(np.int64) - zeros
    # A vector on the right has no output dimension of its own: all of it is summed.
    kept = port.axes is None or axis in port.axes(op)
    rows = np.moveaxis(steps, axis, 0).reshape(steps.shape[axis], -1) if kept else steps[None]
    if 0 in rows.shape:
        return None
    if padded or rows.shape[1] != acc.depth(op):
        x = x.join(Interval(0, 0))
    up, down = (np.where(s * rows > 0, rows, 0).sum(1).tolist() for s in (1, -1))
    found = [x * p + x * n for p, n in zip(up, down, strict=True)]
    return Sums(found, scales)


def _of_depth(
    depth: int,
    x: Interval,
    weights: Interval | None,
    rhs: QParams,
    scales: list[Fraction],
    padded: bool,
) -> Sums | None:
    if depth == DYNAMIC or weights is None:
        return None
    products = [x * (weights - zero) for zero in rhs.zero_point_list()]
    if padded:
        products = [product.join(Interval(0, 0)) for product in products]
    return Sums([product * depth for product in products], scales)


def result_range(
    session: QContext, op: Operation, acc: Accumulator, port: Port, codes_of: CodesOf
) -> list[Interval] | None:
    """Bounds of the real result of a contraction on quantized operands, for all of it or
    per output channel."""
    found = sums_of(session, op, acc, port, (op.operands[acc.lhs], op.operands[acc.rhs]), codes_of)
    if found is None:
        return None
    results = found.reals()
    if acc.bias is None or acc.bias >= len(op.operands):
        return results
    bias = bias_reals(session, op.operands[acc.bias], codes_of)
    if bias is None or (len(bias) % len(results) and len(results) % len(bias)):
        return None
    # Groups share the weight's channels, one after another.
    count = max(len(bias), len(results))
    return [results[c % len(results)] + bias[c % len(bias)] for c in range(count)]


def bias_reals(session: QContext, bias: SSAValue, codes_of: CodesOf) -> list[Interval] | None:
    """The real numbers of a bias, element by element where it is constant."""
    params, array = qparams_of(bias), constant_values(bias, session)
    if array is not None and array.ndim > 1:
        array = array.reshape(-1)
    if params is None:
        if array is None or array.dtype.kind != "f" or not array.size:
            return None
        try:
            return [Interval.exactly(v) for v in array.astype("float64").tolist()]
        except ValueError:
            return None
    if not is_integer(params):
        return None
    scales = [Fraction(s) for s in params.scale_list()]
    zeros = params.zero_point_list()
    if array is not None and array.size:
        return [
            Interval.exactly((int(code) - zeros[c % len(zeros)]) * scales[c % len(scales)])
            for c, code in enumerate(array.tolist())
        ]
    codes = codes_of(bias)
    if codes is None:
        return None
    return [(codes - z) * s for s, z in zip(scales, zeros, strict=True)]
