"""Transposed convolutions, as convolutions of what is spread out.

    y[i s + h d - p] += x[i] w[h]      =      y[j] = sum_h x'[j + p - h d]

where x' has s - 1 zeros behind each element: the sums of a convolution with stride 1 and the
kernel backwards, over x' with (K - 1) d - p zeros around it. A zero is the zero point.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors.shapes import shape_of
from qdialect.lowerings.errors import Unlowerable
from qdialect.lowerings.laid_out import LaidOut, plain
from qdialect.lowerings.linalg.arithmetic import quantized
from qdialect.lowerings.linalg.contraction import Sides, bits_of, convolved, differences
from qdialect.lowerings.linalg.emitter import Emitter
from qdialect.lowerings.operands import exact_result
from qdialect.lowerings.windows import Geometry
from qdialect.ops.base import NNOp
from qdialect.qparams import QParams


def lower_transposed(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.conv_transpose1d`, `nn.conv_transpose2d`, `nn.conv_transpose3d`, in groups or not."""
    exact_result(e, op)
    assert isinstance(op, NNOp)
    v, result = op.values, shape_of(op.results[0])
    x, w = operands[:2]
    spatial, groups = x.rank - 2, v["groups"]
    weight = _backwards(w, groups)
    sides = Sides(e, x, weight, operands[2] if len(operands) > 2 else None)
    params = sides.params[0]
    zero = bits_of(sides.x_zero, params)
    value, spread = _spread(e, sides.x, v["strides"], zero)
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], v["dilations"], strict=True)]
    pads, cut, left = [(0, 0), (0, 0)], [0, 0], list(spread)
    for d in range(spatial):
        before = reach[d] - v["pads"][d]
        # What stands behind the last element is as much as the result has windows.
        after = result[d + 2] + reach[d] - spread[d + 2] - before
        pads.append((max(before, 0), max(after, 0)))
        cut.append(max(-before, 0))
        left[d + 2] += min(before, 0) + min(after, 0)
    if min(left) < 1:
        raise Unlowerable("pads", "its pads cut off all that it reads")
    value = e.padded(e.box(value, cut, left), pads, zero)
    ones = (1,) * spatial
    geometry = Geometry(pads[2:], ones, v["dilations"], (0,) * spatial, result[2:])
    out = convolved(e, sides, value, (geometry, groups), result)
    return e.held(out, plain(x.rank), qparams_of(op.results[0]), result)


def _spread(
    e: Emitter, value: SSAValue, strides: Sequence[int], zero: int
) -> tuple[SSAValue, list[int]]:
    """`value` with s - 1 zeros between elements, and its extents: each element is padded to a
    row of s."""
    shape = shape_of(value)
    spread = [*shape[:2], *((n - 1) * s + 1 for n, s in zip(shape[2:], strides, strict=True))]
    if spread == list(shape):
        return value, spread
    split = [*shape[:2], *(m for n in shape[2:] for m in (n, 1))]
    pads = [(0, 0), (0, 0), *(p for s in strides for p in ((0, 0), (0, s - 1)))]
    rows = e.padded(e.reshaped(value, split), pads, zero)
    whole = [*shape[:2], *(n * s for n, s in zip(shape[2:], strides, strict=True))]
    return e.box(e.reshaped(rows, whole), [0] * len(shape), spread), spread


def _backwards(w: LaidOut, groups: int) -> LaidOut:
    """[in, out / groups, kernel...] as [out, in / groups, kernel backwards...], less its zero
    points."""
    params = quantized(w, "weight")
    if w.array is None:
        raise Unlowerable("weight", "its weight is no constant", "constant weights")
    steps = differences(w.array, params).astype(np.int16)
    kernel = w.shape[2:]
    steps = steps.reshape(groups, w.shape[0] // groups, w.shape[1], *kernel).swapaxes(1, 2)
    steps = np.flip(steps, tuple(range(3, steps.ndim)))
    steps = steps.reshape(groups * w.shape[1], w.shape[0] // groups, *kernel)
    unit = QParams.per_tensor("i16", 1.0)
    return LaidOut(steps.shape, plain(w.rank), unit, None, np.ascontiguousarray(steps))
