"""What contractions, pools and normalizations compute, for their declarations.

Each function is `Behavior.arithmetic` (or `picks`, `transcendental`) of one op: it runs
on exact rationals and on numpy floats alike, hence masks as booleans and counts as f32,
which change the type of neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from math import lcm, prod
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.behaviors.shapes import DYNAMIC
from qdialect.ops.base import shape_of
from qdialect.ops.behaviors_movement import values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.qparams import QParams

    Places = NDArray[np.int64]


def products(depth: Callable[[Operation], int]) -> Callable[[Operation], int]:
    """`Behavior.work` of an op that takes `depth` numbers per element of its result."""
    return lambda op: prod(shape_of(op.results[0])) * depth(op)


def window(op: Operation) -> int:
    """Elements under the window of a pool."""
    return prod(values(op)["kernel"])


def area(op: Operation) -> int:
    """Elements of one channel."""
    return prod(shape_of(op.operands[0])[2:])


def pads(op: Operation) -> bool:
    """Whether windows reach outside the input."""
    return any(values(op)["pads"])


def mean_interval(op: Operation, x: Sequence[Any]) -> Any:
    """A mean of elements, and of zeros where windows reach outside."""
    from qdialect.numerics.ranges import Interval

    outside = pads(op) or values(op)["ceil_mode"]
    return x[0].join(Interval(0, 0)) if outside else x[0]


def between(low: int, high: int) -> Callable[[Operation, Sequence[Any]], Any]:
    """`Behavior.interval` of a function whose values lie between two numbers."""

    def interval(op: Operation, x: Sequence[Any]) -> Any:
        from qdialect.numerics.ranges import Interval

        return Interval(low, high)

    return interval


# -- windows ----------------------------------------------------------------------


def _taps(op: Operation, kernel: Sequence[int]) -> list[Places]:
    """Where each tap of each window reads, [kernel, out] along each spatial dimension."""
    import numpy as np

    v, out = values(op), shape_of(op.results[0])[2:]
    return [
        np.arange(k)[:, None] * dilation + np.arange(n) * stride - pad
        for k, n, stride, dilation, pad in zip(
            kernel, out, v["strides"], v["dilations"], v["pads"][: len(out)], strict=True
        )
    ]


def _transposed_taps(op: Operation, kernel: Sequence[int]) -> list[Places]:
    """The same for a transposed convolution; -1 where a tap meets no input element."""
    import numpy as np

    v, out = values(op), shape_of(op.results[0])[2:]
    result: list[Places] = []
    for d, (k, n) in enumerate(zip(kernel, out, strict=True)):
        places = np.arange(n) + v["pads"][d] - np.arange(k)[:, None] * v["dilations"][d]
        stride = v["strides"][d]
        result.append(np.where(places % stride == 0, places // stride, -1))
    return result


def _windows(op: Operation, x: Any, taps: Sequence[Places]) -> tuple[Any, NDArray[np.bool_]]:
    """Windows [N, C, kernel..., out...] over x, and which of their elements are inside
    it ([kernel..., out...]; the others hold anything)."""
    import numpy as np

    size = shape_of(op.operands[0])[2:]
    if 0 in size:
        raise ValueError("windows over an empty input")
    rank = len(size)
    mask: NDArray[np.bool_] = np.ones((1,) * (2 * rank), np.bool_)
    index: list[Places] = []
    for d, (places, extent) in enumerate(zip(taps, size, strict=True)):
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = places.shape
        mask = mask & ((places >= 0) & (places < extent)).reshape(shape)
        index.append(np.clip(places, 0, extent - 1).reshape(shape))
    return x[(slice(None), slice(None), *index)], mask


# -- contractions -----------------------------------------------------------------


def conv(op: Operation, x: Sequence[Any]) -> Any:
    """Rows of the weight times windows of the input, group by group."""
    weight, groups = shape_of(op.operands[1]), values(op)["groups"]
    rows = x[1].reshape(1, groups, weight[0] // groups, prod(weight[1:]))
    return _grouped(op, x, rows, _taps(op, weight[2:]))


def conv_transpose(op: Operation, x: Sequence[Any]) -> Any:
    """The same, a window being what an element of the result is summed from."""
    weight, groups = shape_of(op.operands[1]), values(op)["groups"]
    inner, kernel = weight[0] // groups, prod(weight[2:])
    rows = x[1].reshape(groups, inner, weight[1], kernel).swapaxes(1, 2)
    rows = rows.reshape(1, groups, weight[1], inner * kernel)
    return _grouped(op, x, rows, _transposed_taps(op, weight[2:]))


def _grouped(op: Operation, x: Sequence[Any], rows: Any, taps: Sequence[Places]) -> Any:
    result, (_, groups, _, depth) = shape_of(op.results[0]), rows.shape
    view, inside = _windows(op, x[0], taps)
    columns = (view * inside).reshape(result[0], groups, depth, prod(result[2:]))
    y = (rows @ columns).reshape(*result)
    return y + x[2].reshape(1, result[1], *(1 for _ in result[2:])) if len(x) > 2 else y


def fully_connected(op: Operation, x: Sequence[Any]) -> Any:
    """input @ weight^T + bias."""
    y = x[0] @ x[1].swapaxes(0, 1)
    return y + x[2].reshape(1, shape_of(op.operands[1])[0]) if len(x) > 2 else y


def matmul(op: Operation, x: Sequence[Any]) -> Any:
    """The matrix product; vectors are matrices with a unit dimension."""
    lhs, rhs = (shape_of(operand) for operand in op.operands)
    rows = x[0].reshape(1, *lhs) if len(lhs) == 1 else x[0]
    columns = x[1].reshape(*rhs, 1) if len(rhs) == 1 else x[1]
    return (rows @ columns).reshape(*(shape_of(op.results[0]) or (1,)))


# -- pools ------------------------------------------------------------------------


def window_counts(op: Operation) -> NDArray[np.int64]:
    """By how many elements each window's sum is divided, [spatial...]: those inside the
    input, or inside the padded input."""
    import numpy as np

    v, size = values(op), shape_of(op.operands[0])[2:]
    taps, rank = _taps(op, v["kernel"]), len(size)
    counts: list[NDArray[np.int64]] = []
    for d in range(rank):
        before, after = (v["pads"][d], v["pads"][d + rank]) if v["count_include_pad"] else (0, 0)
        counts.append(((taps[d] >= -before) & (taps[d] < size[d] + after)).sum(0))
    return np.maximum(reduce(np.multiply.outer, counts), 1)


def avg_pool(op: Operation, x: Sequence[Any]) -> Any:
    """Sums of windows, by the number of elements inside the input, or the padded input."""
    import numpy as np

    result, kernel = shape_of(op.results[0]), values(op)["kernel"]
    view, inside = _windows(op, x[0], _taps(op, kernel))
    taken = (view * inside).reshape(*result[:2], prod(kernel), prod(result[2:]))
    ones = np.ones((1, 1, prod(kernel), 1), np.bool_)
    sums = (taken.swapaxes(2, 3) @ ones).reshape(*result)
    return sums / window_counts(op).astype(np.float32)


def window_grid(op: Operation, params: Sequence[QParams]) -> Fraction | None:
    """The step of sums by the least common multiple of what they are divided by."""
    if DYNAMIC in shape_of(op.operands[0])[2:] or 0 in shape_of(op.results[0]):
        return None
    counts = lcm(*{int(n) for n in window_counts(op).reshape(-1)})
    return Fraction(params[0].scale) / counts


def area_grid(op: Operation, params: Sequence[QParams]) -> Fraction | None:
    """The step of means over channels."""
    extents = shape_of(op.operands[0])[2:]
    return None if DYNAMIC in extents or 0 in extents else Fraction(params[0].scale) / area(op)


def global_avg_pool(op: Operation, x: Sequence[Any]) -> Any:
    """Sums of channels by their area."""
    import numpy as np

    result = shape_of(op.results[0])
    if area(op) == 0:
        raise ValueError("a mean of nothing")
    ones = np.ones((1, 1, area(op), 1), np.bool_)
    sums = (x[0].reshape(*result[:2], 1, area(op)) @ ones).reshape(*result)
    return sums / np.array([area(op)], np.float32)


def max_pool(op: Operation, x: NDArray[Any], lowest: Any) -> NDArray[Any]:
    """The largest element of each window; of nothing but padding, the lowest number."""
    import numpy as np

    kernel = values(op)["kernel"]
    view, inside = _windows(op, x, _taps(op, kernel))
    taps = tuple(range(2, 2 + len(kernel)))
    # Codes may lie below `lowest`, outside narrowed bounds; padding is never chosen.
    floor = np.array(-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min, x.dtype)
    filled: NDArray[Any] = np.where(inside, view, floor)
    largest: NDArray[Any] = np.maximum.reduce(filled, axis=taps)
    some = np.logical_or.reduce(np.broadcast_to(inside, view.shape), axis=taps)
    return np.where(some, largest, np.array(lowest, x.dtype))


# -- normalizations -----------------------------------------------------------------


def batch_norm(op: Operation, x: Sequence[Any]) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, along dimension 1."""
    import numpy as np

    shape = shape_of(op.operands[0])
    along = (1, shape[1], *(1 for _ in shape[2:]))
    scale, bias, mean, variance = (statistic.reshape(*along) for statistic in x[1:])
    spread = variance + values(op)["epsilon"]
    root = spread.sqrt() if hasattr(spread, "sqrt") else np.sqrt(spread)
    return (x[0] - mean) / root * scale + bias


def lrn(op: Operation, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """x / (bias + alpha / size * sum of squares)^beta over the channels around each."""
    import numpy as np

    v = values(op)
    size, channels = v["size"], x.shape[1]
    sums = np.zeros_like(x)
    for shift in range(-((size - 1) // 2), size // 2 + 1):
        low, high = max(0, -shift), min(channels, channels - shift)
        if low < high:
            sums[:, low:high] += np.square(x[:, low + shift : high + shift])
    return x / np.power(v["bias"] + v["alpha"] / size * sums, v["beta"])


def lrn_interval(op: Operation, x: Sequence[Any]) -> Any:
    """Each element is at most as far from 0 as it was, if the divisor is at least 1."""
    from qdialect.numerics.ranges import Interval

    v = values(op)
    if v["alpha"] < 0 or v["beta"] < 0 or v["bias"] < 1:
        raise ValueError("an element may become larger")
    return x[0].join(Interval(0, 0))


def softmax(op: Operation, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(x) / sum(exp(x)) along the axis."""
    import numpy as np

    axis = values(op)["axis"]
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=axis, keepdims=True)
