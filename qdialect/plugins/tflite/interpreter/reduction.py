"""What LiteRT computes for means and sums of codes over dimensions.

With S the sum of the n codes q of one result, z and s of operand and result, float32 in fl():

    mean  ref  (m, e) = quantize_multiplier(s_x / s_y); k = min(bits(n) - 1, 32, 31 + e);
               gemmlowp(S - n z_x, floor(m 2^k / n), e - k) + z_y
          opt  over height and width of an image, kept: ruy(S, fl(s_x / fl(n s_y))) + b (gemmlowp
               in what is left of 16 channels), b = z_y - (fl(z_x s_x / s_y) half away); else as ref
          xnn  rint(fl(fl(S i) + z')), z' = fl(z_y - fl(fl(n z_x) i)), i = fl(fl(s_x / s_y) fl(1/n))
    sum   opt  half away of fl(fl(S r) + fl(fl(-z_x r) n)), r = fl(s_x / s_y)
          xnn  as its mean with i = r
          ref  gemmlowp(S - n z_x, s_x / s_y) + z_y of unsigned codes; of signed ones it reads other
               bytes, and nothing that anybody would want

A pool of whole channels stands for the mean that LiteRT has instead. Maxima and minima are those of
the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from qdialect.interpreter.quantize import properties
from qdialect.interpreter.reduction import largest, smallest
from qdialect.interpreter.values import Array, Evaluation
from qdialect.ir import ops as nn
from qdialect.plugins.tflite.interpreter.fixed_point import (
    Integers,
    gemmlowp,
    half_away,
    quantize_multiplier,
    ruy,
    wrapped,
)
from qdialect.plugins.tflite.interpreter.tensors import Quantized, all_quantized, file_order

if TYPE_CHECKING:
    from qdialect.plugins.tflite.interpreter import Row

_f32 = np.float32
_CODES = ("i8", "u8", "i16")


@dataclass(frozen=True)
class _Sums:
    """Sums of codes, shaped like the operand with extents 1 along `axes`."""

    sums: Integers
    count: int
    axes: tuple[int, ...]
    keep: bool
    x: Quantized
    y: Quantized

    @property
    def steps(self) -> Integers:
        """The sums of codes less zero points."""
        return self.sums - self.count * self.x.zero.reshape(())

    @property
    def ratio(self) -> np.float32:
        """s_x / s_y in float32."""
        return np.float32(self.x.scale.item()) / np.float32(self.y.scale.item())


Steps = Callable[[Operation, _Sums], Integers]
"""Codes less the zero point of the result, shaped like the sums."""


def _row(steps: Steps) -> Row:
    def run(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array] | None:
        codes = operands[0]
        known = all_quantized(op, operands, codes.ndim)
        if known is None or known[0].code_type not in _CODES:
            return None
        if any(one.scale.size != 1 for one in known):
            return None
        v = properties(op)
        axes = v.get("axes", range(2, codes.ndim))
        axes = tuple(sorted({axis % codes.ndim for axis in axes}))
        keep = bool(v.get("keepdims", True))
        sums = codes.sum(axis=axes, keepdims=True, dtype=np.int64)
        count = prod(codes.shape[axis] for axis in axes)
        result = known[1].codes(steps(op, _Sums(sums, count, axes, keep, *known)))
        return [result if keep else result.squeeze(axes)]

    return run


def _mean(op: Operation, v: _Sums) -> Integers:
    """With 1 / n in the multiplier."""
    q, e = quantize_multiplier(v.x.wide_scale.item() / v.y.wide_scale.item())
    shift = min(v.count.bit_length() - 1, 32, 31 + int(e))
    multiplier = np.array((int(q) << shift) // v.count)
    return gemmlowp(wrapped(v.steps), multiplier, e - shift)


def _image_mean(op: Operation, v: _Sums) -> Integers:
    """As `_mean`, but for images: the zero point is rounded by itself."""
    order = file_order(op, v.sums.ndim)
    places = sorted(order.index(axis) for axis in v.axes)
    if v.sums.ndim != 4 or places != [1, 2] or not v.keep or v.x.code_type == "i16":
        return _mean(op, v)
    s_x, s_y, zero = v.x.scale.item(), v.y.scale.item(), v.x.zero.item()
    shift = _f32(zero) * _f32(s_x) / _f32(s_y)
    pair = quantize_multiplier(float(_f32(s_x) / (_f32(v.count) * _f32(s_y))))
    last = order[3]
    channels = v.sums.shape[last]
    along = [-1 if d == last else 1 for d in range(4)]
    numbers = np.arange(channels, dtype=np.int64).reshape(along)
    whole: NDArray[np.bool_] = numbers < channels // 16 * 16
    rounded = np.where(whole, ruy(v.sums, *pair), gemmlowp(v.sums, *pair))
    return rounded - int(shift + _f32(0.5) if shift > 0 else shift - _f32(0.5))


def _in_floats(v: _Sums, factor: np.float32) -> Integers:
    """Sums times a factor plus what zero points add, all floats, less the zero point again."""
    zero = _f32(v.y.zero.item())
    shifted = zero - _f32(v.count) * _f32(v.x.zero.item()) * factor
    return np.rint(_bounded(v.sums.astype(_f32) * factor + shifted)) - int(zero)


def _bounded(values: Array) -> Array:
    return np.clip(values, -(2.0**30), 2.0**30).astype(np.float64)


def _xnn_mean(op: Operation, v: _Sums) -> Integers:
    return _in_floats(v, v.ratio * (_f32(1) / _f32(v.count))).astype(np.int64)


def _xnn_sum(op: Operation, v: _Sums) -> Integers:
    return _in_floats(v, v.ratio).astype(np.int64)


def _sum(op: Operation, v: _Sums) -> Integers:
    shift = _f32(-v.x.zero.item()) * v.ratio * _f32(v.count)
    return half_away(v.sums.astype(_f32) * v.ratio + shift)


def _unsigned_sum(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> Sequence[Array] | None:
    if operands[0].dtype != np.uint8:
        return None

    def steps(op: Operation, v: _Sums) -> Integers:
        pair = quantize_multiplier(v.x.wide_scale.item() / v.y.wide_scale.item())
        return gemmlowp(wrapped(v.steps), *pair)

    return _row(steps)(op, operands, evaluation)


def _extremum(kernel: Row) -> Row:
    def run(
        op: Operation, operands: Sequence[Array], evaluation: Evaluation
    ) -> Sequence[Array] | None:
        if all_quantized(op, operands, operands[0].ndim) is None:
            return None
        return kernel(op, operands, evaluation)

    return run


def _table(mean: Row, total: Row) -> dict[str, Row]:
    return {
        **{kind.name: mean for kind in nn.GLOBAL_AVERAGE_POOLS},
        nn.ReduceMeanOp.name: mean,
        nn.ReduceSumOp.name: total,
        nn.ReduceMaxOp.name: _extremum(largest),
        nn.ReduceMinOp.name: _extremum(smallest),
    }


ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": _table(_row(_mean), _unsigned_sum),
    "litert-opt": _table(_row(_image_mean), _row(_sum)),
    "litert-xnn": _table(_row(_xnn_mean), _row(_xnn_sum)),
}
"""The rows of this file."""
