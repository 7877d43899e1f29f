"""What contractions, pools and normalizations compute, for their declarations.

Each function is `Behavior.arithmetic` (or `picks`, `transcendental`) of one op: it runs
on exact rationals and on numpy floats alike, hence masks as booleans and counts as f32,
which change the type of neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.dialects.nn.base import shape_of
from qdialect.dialects.nn.behaviors_movement import values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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


# -- windows ----------------------------------------------------------------------


def _taps(op: Operation, kernel: Sequence[int], d: int) -> Places:
    """Where each tap of each window along spatial dimension `d` reads, [kernel, out]."""
    import numpy as np

    v, out = values(op), shape_of(op.results[0])[2 + d]
    starts = np.arange(out) * v["strides"][d] - v["pads"][d]
    return np.arange(kernel[d])[:, None] * v["dilations"][d] + starts


def _windows(op: Operation, x: Any, kernel: Sequence[int]) -> tuple[Any, NDArray[np.bool_]]:
    """Windows [N, C, kernel, kernel, out, out] over x, and which of their elements are
    inside it ([kernel, kernel, out, out]; the others hold anything)."""
    import numpy as np

    size = shape_of(op.operands[0])[2:]
    if 0 in size:
        raise ValueError("windows over an empty input")
    rows, columns = (_taps(op, kernel, d) for d in (0, 1))
    inside = [(t >= 0) & (t < n) for t, n in zip((rows, columns), size, strict=True)]
    rows, columns = (np.clip(t, 0, n - 1) for t, n in zip((rows, columns), size, strict=True))
    mask = inside[0][:, None, :, None] & inside[1][None, :, None, :]
    return x[:, :, rows[:, None, :, None], columns[None, :, None, :]], mask


# -- contractions -----------------------------------------------------------------


def conv2d(op: Operation, x: Sequence[Any]) -> Any:
    """Rows of the weight times windows of the input, group by group."""
    weight, result = shape_of(op.operands[1]), shape_of(op.results[0])
    groups, depth = values(op)["groups"], prod(weight[1:])
    view, inside = _windows(op, x[0], weight[2:])
    columns = (view * inside).reshape(result[0], groups, depth, prod(result[2:]))
    rows = x[1].reshape(1, groups, weight[0] // groups, depth)
    y = (rows @ columns).reshape(*result)
    return y + x[2].reshape(1, weight[0], 1, 1) if len(x) > 2 else y


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


def avg_pool2d(op: Operation, x: Sequence[Any]) -> Any:
    """Sums of windows, by the number of elements inside the input, or the padded input."""
    import numpy as np

    v, size, result = values(op), shape_of(op.operands[0])[2:], shape_of(op.results[0])
    kernel = v["kernel"]
    counts: list[NDArray[np.int64]] = []
    for d in (0, 1):
        taps = _taps(op, kernel, d)
        before, after = (v["pads"][d], v["pads"][d + 2]) if v["count_include_pad"] else (0, 0)
        counts.append(((taps >= -before) & (taps < size[d] + after)).sum(0))
    count = np.maximum(np.outer(*counts), 1).astype(np.float32)
    view, inside = _windows(op, x[0], kernel)
    taken = (view * inside).reshape(*result[:2], prod(kernel), prod(result[2:]))
    ones = np.ones((1, 1, prod(kernel), 1), np.bool_)
    return (taken.swapaxes(2, 3) @ ones).reshape(*result) / count


def global_avg_pool2d(op: Operation, x: Sequence[Any]) -> Any:
    """Sums of channels by their area."""
    import numpy as np

    n, c = shape_of(op.results[0])[:2]
    if area(op) == 0:
        raise ValueError("a mean of nothing")
    sums = x[0].reshape(n, c, 1, area(op)) @ np.ones((1, 1, area(op), 1), np.bool_)
    return sums / np.array([area(op)], np.float32)


def max_pool2d(op: Operation, x: NDArray[Any], lowest: Any) -> NDArray[Any]:
    """The largest element of each window; of nothing but padding, the lowest number."""
    import numpy as np

    view, inside = _windows(op, x, values(op)["kernel"])
    filled: NDArray[Any] = np.where(inside, view, np.array(lowest, x.dtype))
    return np.maximum.reduce(filled, axis=(2, 3))


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


def softmax(op: Operation, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(x) / sum(exp(x)) along the axis."""
    import numpy as np

    axis = values(op)["axis"]
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=axis, keepdims=True)
