"""Convolutions, matrix products, pools and resizes of TOSA: channels last.

Sums of integers are exact: products are added in doubles, which hold all integers of up to 53
bits.  Sums of floats are added in doubles and rounded once, so an engine that adds in f32
differs from them by what its additions round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from xdsl.ir import Operation

from qdialect.interpreter.values import Array, Evaluation, Kernel, op_name
from qdialect.ir.dialects.attributes import integers_of, keyword_of
from qdialect.plugins.tosa.interpreter.conversion import scaled
from qdialect.plugins.tosa.interpreter.values import (
    Doubles,
    Longs,
    bounds,
    ignores_nan,
    is_float,
    longs,
    reals,
    result,
    zero_point,
)


def _offset(op: Operation, operands: Sequence[Array], number: int, zero: int) -> Doubles:
    """An operand less its zero point (operand `zero`, if the op has it)."""
    kind = op.operands[number].type
    values = reals(operands[number], kind)
    if zero >= len(operands) or is_float(kind):
        return values
    return values - zero_point(operands[zero], operands[number].dtype.kind == "u")


def _as_sum(op: Operation, total: Doubles, evaluation: Evaluation) -> list[Array]:
    if is_float(op.results[0].type):
        return result(op, total, evaluation)
    return result(op, total.astype(np.int64), evaluation)


def _padded(x: Doubles, pad: Sequence[int], fill: float = 0.0) -> Doubles:
    widths = [(0, 0), *zip(pad[::2], pad[1::2], strict=True), (0, 0)]
    low = [tuple(max(n, 0) for n in pair) for pair in widths]
    return np.pad(x, low, constant_values=fill)


def _tap(x: Doubles, place: Sequence[int], count: Sequence[int], stride: Sequence[int]) -> Doubles:
    """What one tap of every window reads of x [N, spatial..., C]."""
    inner = [slice(p, p + (n - 1) * s + 1, s) for p, n, s in zip(place, count, stride, strict=True)]
    return x[(slice(None), *inner)]


def _counts(size: Sequence[int], reach: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    return tuple((n - r) // s + 1 for n, r, s in zip(size, reach, stride, strict=True))


def _convolution(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """conv2d, conv3d: weight [O, kernel..., I]; depthwise_conv2d: weight [kernel..., C, M]."""
    x, w = _offset(op, operands, 0, 3), _offset(op, operands, 1, 4)
    depthwise = op_name(op) == "tosa.depthwise_conv2d"
    kernel = w.shape[:2] if depthwise else w.shape[1:-1]
    stride, dilation = integers_of(op, "stride"), integers_of(op, "dilation")
    x = _padded(x, integers_of(op, "pad"))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    count = _counts(x.shape[1:-1], reach, stride)
    channels = w.shape[2] * w.shape[3] if depthwise else w.shape[0]
    total = np.zeros((x.shape[0], *count, channels))
    for tap in product(*map(range, kernel)):
        place = [t * d for t, d in zip(tap, dilation, strict=True)]
        read = _tap(x, place, count, stride)
        if depthwise:
            total += (read[..., None] * w[tap]).reshape(total.shape)
        else:
            total += read @ w[(slice(None), *tap)].T
    total += reals(operands[2], op.operands[2].type)
    return _as_sum(op, total, evaluation)


def _transposed(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Each element adds the kernel, weight [O, kernel, I], to where it lands."""
    x, w = _offset(op, operands, 0, 3), _offset(op, operands, 1, 4)
    stride, outer = integers_of(op, "stride"), integers_of(op, "out_pad")
    size = [
        (n - 1) * s + k + outer[2 * d] + outer[2 * d + 1]
        for d, (n, s, k) in enumerate(zip(x.shape[1:-1], stride, w.shape[1:-1], strict=True))
    ]
    total = np.zeros((x.shape[0], *size, w.shape[0]))
    for y, z in product(range(x.shape[1]), range(x.shape[2])):
        for tap in product(range(w.shape[1]), range(w.shape[2])):
            row = y * stride[0] + outer[0] + tap[0]
            column = z * stride[1] + outer[2] + tap[1]
            if 0 <= row < size[0] and 0 <= column < size[1]:
                total[:, row, column] += x[:, y, z] @ w[:, tap[0], tap[1]].T
    total += reals(operands[2], op.operands[2].type)
    return _as_sum(op, total, evaluation)


def _matmul(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """[N, H, C] x [N, C, W], or x [N, W, C] (matmul_t)."""
    a, b = _offset(op, operands, 0, 2), _offset(op, operands, 1, 3)
    total = np.matmul(a, b.swapaxes(1, 2) if op_name(op) == "tosa.matmul_t" else b)
    return _as_sum(op, total, evaluation)


Window = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Kernel, stride and pad."""


def _window(op: Operation, operands: Sequence[Array]) -> Window:
    """From attributes, or from the last operands of an adaptive pool."""
    if op_name(op).endswith("_adaptive"):
        kernel, stride, pad = ([int(n) for n in x] for x in operands[-3:])
        return kernel, stride, pad
    return integers_of(op, "kernel"), integers_of(op, "stride"), integers_of(op, "pad")


def _pool_taps(window: Window, x: Doubles, fill: float) -> list[Doubles]:
    kernel, stride, pad = window
    padded = _padded(x, pad, fill)
    count = _counts(padded.shape[1:-1], kernel, stride)
    return [_tap(padded, tap, count, stride) for tap in product(*map(range, kernel))]


def _max_pool(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The largest of each window; padding never is. A NaN is, unless it is ignored."""
    x = reals(operands[0], op.operands[0].type)
    taps = _pool_taps(_window(op, operands), x, -np.inf)
    values = taps[0]
    for tap in taps[1:]:
        values = np.fmax(values, tap) if ignores_nan(op) else np.maximum(values, tap)
    return _as_sum(op, values, evaluation)


def _average_pool(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The mean of what each window reads of the input; of integers by a multiplication with
    the reciprocal of the count in 31 bits, rounded half up."""
    x = _offset(op, operands, 0, 1)
    window = _window(op, operands)
    taps = _pool_taps(window, x, 0.0)
    total = sum(taps[1:], taps[0])
    ones = _pool_taps(window, np.ones((1, *x.shape[1:-1], 1)), 0.0)
    counts = sum(ones[1:], ones[0])
    kind = op.results[0].type
    if is_float(kind):
        return result(op, total / counts, evaluation)
    number = counts.astype(np.int64)
    places = np.frexp((number - 1).astype(np.float64))[1].astype(np.int64)
    multiplier = (((np.int64(1) << 30) + 1) << places) // number
    mean = scaled(total.astype(np.int64), multiplier, 30 + places)
    unsigned = operands[0].dtype.kind == "u"
    zero = zero_point(operands[2], unsigned) if len(operands) > 2 else 0
    return result(op, np.clip(mean + zero, *bounds(kind, unsigned)).astype(np.int64), evaluation)


def _resize(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """[N, H, W, C]: nearest pixels, or weighted ones, of integers not divided by the weights."""
    kind = op.operands[0].type
    x: Doubles = reals(operands[0], kind)
    scale, offset, border = (longs(operand) for operand in operands[1:4])
    bilinear = keyword_of(op, "mode", "NEAREST_NEIGHBOR") == "BILINEAR"
    for axis in (0, 1):
        above, below = int(scale[2 * axis]), int(scale[2 * axis + 1])
        size = operands[0].shape[axis + 1]
        count: int = ((size - 1) * above - int(offset[axis]) + int(border[axis])) // below + 1
        at: Longs = np.arange(count) * below + int(offset[axis])
        first, part = at // above, at % above
        low, high = (np.clip(first + n, 0, size - 1) for n in (0, 1))
        if bilinear:
            along = [1] * x.ndim
            along[axis + 1] = count
            weight, unit = part.reshape(along).astype(np.float64), float(above)
            if is_float(kind):
                weight, unit = weight / above, 1.0
            x = np.take(x, low, axis + 1) * (unit - weight) + np.take(x, high, axis + 1) * weight
        else:
            chosen = np.where(2 * part >= above, high, low)
            x = np.take(x, chosen, axis + 1)
    return _as_sum(op, x, evaluation)


KERNELS: Mapping[str, Kernel] = {
    **{f"tosa.{name}": _convolution for name in ("conv2d", "conv3d", "depthwise_conv2d")},
    "tosa.transpose_conv2d": _transposed,
    **dict.fromkeys(("tosa.matmul", "tosa.matmul_t"), _matmul),
    **dict.fromkeys(("tosa.max_pool2d", "tosa.max_pool2d_adaptive"), _max_pool),
    **dict.fromkeys(("tosa.avg_pool2d", "tosa.avg_pool2d_adaptive"), _average_pool),
    "tosa.resize": _resize,
}
