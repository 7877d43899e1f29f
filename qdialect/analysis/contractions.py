"""Bounds of the sums a contraction makes, from the weights it has.

    sum_k x_k w_k  <=  sum of positive w * max x  +  sum of negative w * min x

per output channel where the weight is constant; its depth times the largest product
otherwise. Padding is real 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import constant_values, is_integer, qparams_of
from qdialect.behaviors import Accumulator, Port
from qdialect.behaviors.shapes import DYNAMIC
from qdialect.context import QContext
from qdialect.dialects.nn import constant_of
from qdialect.dialects.nn.constants import BlobAttr
from qdialect.numerics.ranges import Interval
from qdialect.qparams import QParams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.numerics.channels import Channels

    Numbers = NDArray[Any]

_KEPT = "qdialect signed sums"

CodesOf = Callable[[SSAValue], Interval | None]


@dataclass(frozen=True)
class Sums:
    """Integer sums from `low` to `high`, one per output channel (or one for all); a sum of
    1 means there the product of the `scales`."""

    low: Numbers
    high: Numbers
    scales: tuple[Numbers, Numbers]
    assuming: str

    def reals(self) -> Channels:
        from qdialect.numerics.channels import Channels

        low, high = ((side, *self.scales) for side in (self.low, self.high))
        return Channels((low,), (high,), self.assuming)

    @property
    def largest(self) -> int:
        """The largest absolute value of all."""
        return max(-int(self.low.min()), int(self.high.max()), 0)


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
    axis = acc.rhs_axis(op)
    if not lhs.is_per_tensor or not (rhs.is_per_tensor or rhs.axis == axis):
        return None
    codes = codes_of(sides[0])
    if codes is None:
        return None
    x, zero = codes - lhs.zero_point, Interval(0, 0)
    if 0 not in x and (partial or (acc.pads is not None and acc.pads(op))):
        x = x.join(zero)
    scales = lhs.scale_array().reshape(-1), rhs.scale_array().reshape(-1)
    weights = constant_values(sides[1], session)
    if weights is None:
        found = _of_depth(acc.depth(op), x, codes_of(sides[1]), rhs)
        return None if found is None else _sums(found, scales)
    if not weights.size:
        return None
    # A vector on the right has no output dimension of its own: all of it is summed.
    kept = port.axes is None or axis in port.axes(op)
    if 0 not in x and weights.size // (weights.shape[axis] if kept else 1) != acc.depth(op):
        x = x.join(zero)
    up, down = _signed_sums(sides[1], weights, rhs, axis if kept else None, session)
    low, high = int(x.low), int(x.high)
    furthest = max(-low, high) * max(int(up.max()), -int(down.min()))
    if furthest >= 1 << 61:
        up, down = up.astype(object), down.astype(object)
    return Sums(up * low + down * high, up * high + down * low, scales, x.assuming)


def _signed_sums(
    value: SSAValue, weights: Numbers, rhs: QParams, axis: int | None, session: QContext
) -> tuple[Numbers, Numbers]:
    """Sums of the positive and of the negative weights, along all dimensions but `axis`;
    kept with the weights."""
    constant = constant_of(value)
    if constant is None:
        return _add_up(weights, rhs, axis)
    question = ("signed sums", rhs.zero_points, rhs.axis, axis)
    if not isinstance(constant.value, BlobAttr):
        kept: dict[Hashable, tuple[Numbers, Numbers]] = vars(constant.value).setdefault(_KEPT, {})
        if question not in kept:
            kept[question] = _add_up(weights, rhs, axis)
        return kept[question]
    key = constant.value.key.data
    return session.blobs.derived(key, question, lambda: _add_up(weights, rhs, axis))


def _add_up(weights: Numbers, rhs: QParams, axis: int | None) -> tuple[Numbers, Numbers]:
    import numpy as np

    from qdialect.numerics.quantize import spread
    from qdialect.numerics.slabs import slabs

    zeros = spread(rhs.zero_point_array(), rhs, weights.shape)
    small = weights.itemsize <= 2 and int(np.abs(zeros).max()) < 1 << 30
    kind = np.int32 if small else np.int64
    zeros = np.broadcast_to(zeros.astype(kind), weights.shape)
    others = tuple(d for d in range(weights.ndim) if d != axis)
    up, total = (np.zeros(1 if axis is None else weights.shape[axis], np.int64) for _ in range(2))
    for where in slabs(weights.shape):
        steps = weights[where].astype(kind) - zeros[where]
        rows = slice(None) if axis is None else where[axis]
        total[rows] += steps.sum(others, np.int64).reshape(-1)
        up[rows] += np.maximum(steps, 0).sum(others, np.int64).reshape(-1)
    return up, total - up


def _of_depth(
    depth: int, x: Interval, weights: Interval | None, rhs: QParams
) -> list[Interval] | None:
    if depth == DYNAMIC or weights is None:
        return None
    return [x * (weights - zero) * depth for zero in rhs.zero_point_list()]


def _sums(found: Sequence[Interval], scales: tuple[Numbers, Numbers]) -> Sums:
    import numpy as np

    low, high = (
        np.array(side, object) for side in zip(*((x.low, x.high) for x in found), strict=True)
    )
    return Sums(low, high, scales, next((x.assuming for x in found if x.assuming), ""))


def result_range(
    session: QContext, op: Operation, acc: Accumulator, port: Port, codes_of: CodesOf
) -> Channels | None:
    """Bounds of the real result of a contraction on quantized operands, for all of it or
    per output channel."""
    found = sums_of(session, op, acc, port, (op.operands[acc.lhs], op.operands[acc.rhs]), codes_of)
    if found is None:
        return None
    results = found.reals()
    if acc.bias is None or acc.bias >= len(op.operands):
        return results
    bias = bias_reals(session, op.operands[acc.bias], codes_of)
    if bias is None or (bias.count % results.count and results.count % bias.count):
        return None
    # Groups share the weight's channels, one after another.
    return results + bias


def bias_reals(session: QContext, bias: SSAValue, codes_of: CodesOf) -> Channels | None:
    """The real numbers of a bias, element by element where it is constant."""
    import numpy as np

    from qdialect.numerics.channels import Channels

    params, array = qparams_of(bias), constant_values(bias, session)
    if params is None:
        if array is None or array.dtype.kind != "f" or not array.size:
            return None
        if not np.isfinite(array).all():
            return None
        reals = (array.reshape(-1).astype(np.float64),)
        return Channels((reals,), (reals,))
    if not is_integer(params):
        return None
    scales, zeros = params.scale_array().reshape(-1), params.zero_point_array().reshape(-1)
    if array is not None and array.size:
        codes = array.reshape(-1).astype(np.int64 if array.itemsize <= 4 else object)
        if zeros.any():
            codes = codes.astype(object) - np.resize(zeros.astype(object), codes.size)
        term = (codes, np.resize(scales, codes.size) if scales.size > 1 else scales)
        return Channels((term,), (term,))
    found = codes_of(bias)
    if found is None:
        return None
    low, high = ((int(end) - zeros.astype(object), scales) for end in (found.low, found.high))
    return Channels((low,), (high,), found.assuming)
