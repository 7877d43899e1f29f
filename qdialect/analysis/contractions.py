"""Bounds of the sums a contraction makes, from the weights it has.

    sum_k x_k w_k  <=  sum of positive w * max x  +  sum of negative w * min x

per output channel where the weight is constant; its depth times the largest product
otherwise. Padding is real 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.algebra.ranges import Interval
from qdialect.analysis.codes import constant_values, is_integer, qparams_of
from qdialect.ir.behaviors import Accumulator, Behavior, Port
from qdialect.ir.behaviors.shapes import DYNAMIC
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_of
from qdialect.ir.ops.constants import BlobAttr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.channels import Channels

    Numbers = NDArray[Any]

_ZERO = Interval(0, 0)

_SLACK = 2.0**-40

_CACHE = "qdialect signed sums"

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
        """The sums times their scales, in real units."""
        from qdialect.algebra.channels import Channels

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
    factors = _factors(op, acc, sides, codes_of, partial=partial)
    if factors is None:
        return None
    x, lhs, rhs = factors
    scales = lhs.scale_array().reshape(-1), rhs.scale_array().reshape(-1)
    weights = constant_values(sides[1], session)
    if weights is None:
        found = _of_depth(acc.depth(op), x, codes_of(sides[1]), rhs)
        return None if found is None else _sums(found, scales)
    if not weights.size:
        return None
    x, signed = _weighted(session, op, acc, port, sides[1], weights, x, rhs)
    up, down = signed.up, signed.down
    low, high = int(x.low), int(x.high)
    if max(-low, high) * signed.most >= 1 << 61:
        up, down = up.astype(object), down.astype(object)
    return Sums(up * low + down * high, up * high + down * low, scales, x.assuming)


def passes(
    session: QContext,
    op: Operation,
    acc: Accumulator,
    port: Port,
    codes_of: CodesOf,
    low: float,
    high: float,
) -> bool:
    """Whether the real result of a contraction certainly reaches below `low` and above
    `high`, in the channel whose sums have the widest range: most do, and there is no need
    to look at others."""
    sides = op.operands[acc.lhs], op.operands[acc.rhs]
    factors = _factors(op, acc, sides, codes_of)
    weights = constant_values(sides[1], session)
    if factors is None or weights is None or not weights.size:
        return False
    x, lhs, rhs = factors
    x, signed = _weighted(session, op, acc, port, sides[1], weights, x, rhs)
    channel, up, down = signed.widest
    scales = rhs.scale_list()
    scale = lhs.scale * scales[channel % len(scales)]
    ends = [(up * int(a) + down * int(b)) * scale for a, b in ((x.low, x.high), (x.high, x.low))]
    room = max(map(abs, (*ends, low, high)))
    if acc.bias is not None and acc.bias < len(op.operands):
        bias, count = bias_reals(session, op.operands[acc.bias], codes_of), signed.up.size
        if bias is None or (bias.count % count and count % bias.count):
            return False
        more = bias.near(channel)
        room += max(map(abs, more))
        ends = [end + other for end, other in zip(ends, more, strict=True)]
    # Of doubles, each a few roundings off, and with room for many more.
    return ends[0] < low - room * _SLACK and ends[1] > high + room * _SLACK


def _factors(
    op: Operation,
    acc: Accumulator,
    sides: tuple[SSAValue, SSAValue],
    codes_of: CodesOf,
    *,
    partial: bool = False,
) -> tuple[Interval, QParams, QParams] | None:
    """What the left codes less their zero point can be, and the qparams of both sides; None
    where they are not ones whose products are summed in integers."""
    lhs, rhs = (qparams_of(side) for side in sides)
    if lhs is None or rhs is None or not (is_integer(lhs) and is_integer(rhs)):
        return None
    if not lhs.is_per_tensor or not (rhs.is_per_tensor or rhs.axis == acc.rhs_axis(op)):
        return None
    codes = codes_of(sides[0])
    if codes is None:
        return None
    x = codes - lhs.zero_point
    if 0 not in x and (partial or (acc.pads is not None and acc.pads(op))):
        x = x.join(_ZERO)
    return x, lhs, rhs


class _Signed(NamedTuple):
    """Sums of the positive and of the negative weights, per channel."""

    up: Numbers
    down: Numbers
    #: the number and the two sums of the channel where they are furthest apart
    widest: tuple[int, int, int]
    #: the largest absolute value of all
    most: int


def _weighted(
    session: QContext,
    op: Operation,
    acc: Accumulator,
    port: Port,
    value: SSAValue,
    weights: Numbers,
    x: Interval,
    rhs: QParams,
) -> tuple[Interval, _Signed]:
    """What is multiplied by constant weights, padding included, and their sums."""
    axis = acc.rhs_axis(op)
    # A vector on the right has no output dimension of its own: all of it is summed.
    has_axis = port.axes is None or axis in port.axes(op)
    if 0 not in x and weights.size // (weights.shape[axis] if has_axis else 1) != acc.depth(op):
        x = x.join(_ZERO)
    return x, _signed_sums(value, weights, rhs, axis if has_axis else None, session)


def _signed_sums(
    value: SSAValue, weights: Numbers, rhs: QParams, axis: int | None, session: QContext
) -> _Signed:
    """Along all dimensions but `axis`; kept with the weights."""
    constant = constant_of(value)
    if constant is None:
        return _add_up(weights, rhs, axis)
    question = ("signed sums", rhs.storage, rhs.zero_points, rhs.axis, axis)
    if not isinstance(constant.value, BlobAttr):
        known: dict[Hashable, _Signed] = vars(constant.value).setdefault(_CACHE, {})
        if question not in known:
            known[question] = _add_up(weights, rhs, axis)
        return known[question]
    key = constant.value.key.data
    return session.blobs.derived(key, question, lambda: _add_up(weights, rhs, axis))


def _add_up(weights: Numbers, rhs: QParams, axis: int | None) -> _Signed:
    import numpy as np

    from qdialect.algebra.quantize import chunks, spread

    zeros = spread(rhs.zero_point_array(), rhs, weights.shape)
    small = weights.itemsize <= 2 and int(np.abs(zeros).max()) < 1 << 30
    kind = np.int32 if small else np.int64
    zeros = np.broadcast_to(zeros.astype(kind), weights.shape)
    others = tuple(d for d in range(weights.ndim) if d != axis)
    up, total = (np.zeros(1 if axis is None else weights.shape[axis], np.int64) for _ in range(2))
    for where in chunks(weights.shape):
        steps = weights[where].astype(kind) - zeros[where]
        rows = slice(None) if axis is None else where[axis]
        total[rows] += steps.sum(others, np.int64).reshape(-1)
        up[rows] += np.maximum(steps, 0).sum(others, np.int64).reshape(-1)
    down = total - up
    channel = int((up - down).argmax())
    widest = channel, int(up[channel]), int(down[channel])
    return _Signed(up, down, widest, max(int(up.max()), -int(down.min())))


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


def keeps_activation(behavior: Behavior, op: Operation) -> bool:
    """Whether an activation of `op` limits exact sums as it does their reals: at 0, which has a
    code of them, or nowhere."""
    return behavior.activation is None or all(
        bound == 0 or isinf(bound) for bound in behavior.activation(op)
    )


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

    from qdialect.algebra.channels import Channels

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
