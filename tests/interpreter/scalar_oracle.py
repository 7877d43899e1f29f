"""Scalar definitions in Fractions: the slow and obvious version of everything."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.test_value import create_ssa_value

from qdialect.context import QContext, new_context
from qdialect.dialects.quant import UniformType
from qdialect.interpreter import evaluate_op
from qdialect.interpreter.values import storage_dtype
from qdialect.qparams import Layout, QParams

Index = tuple[int, ...]
MODES = ("half_even", "half_away", "half_up")
CONTEXT: QContext = new_context()


def round_fraction(x: Fraction, mode: str) -> int:
    floor = math.floor(x)
    part = x - floor
    if part == Fraction(1, 2):
        up = {"half_even": floor % 2 == 1, "half_away": x > 0, "half_up": True}[mode]
    else:
        up = part > Fraction(1, 2)
    return floor + up


def parameters(qparams: QParams, index: Index) -> tuple[Fraction, int]:
    """Scale and zero point at a tensor index, straight from the definition of the layouts."""
    if qparams.layout is Layout.TENSOR:
        cell = 0
    elif qparams.layout is Layout.AXIS:
        cell = index[qparams.blocks[0][0]]
    else:
        blocks = dict(qparams.blocks)
        cell = 0
        for axis, extent in enumerate(qparams.grid):
            cell = cell * extent + (index[axis] // blocks[axis] if axis in blocks else 0)
    return Fraction(qparams.scale_list()[cell]), qparams.zero_point_list()[cell]


def dequantized(stored: np.ndarray, qparams: QParams | None) -> np.ndarray:
    """Stored integers (or floats, without qparams) as an object array of Fractions."""
    result = np.empty(stored.shape, object)
    for index in np.ndindex(stored.shape):
        if qparams is None:
            result[index] = Fraction(float(stored[index]))
        else:
            scale, zero = parameters(qparams, index)
            result[index] = (int(stored[index]) - zero) * scale
    return result


def quantized(reals: np.ndarray, qparams: QParams, mode: str = "half_even") -> np.ndarray:
    result = np.empty(reals.shape, storage_dtype(qparams.storage))
    for index in np.ndindex(reals.shape):
        scale, zero = parameters(qparams, index)
        q = round_fraction(reals[index] / scale, mode) + zero
        result[index] = min(max(q, qparams.storage.min), qparams.storage.max)
    return result


def mapped(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """A scalar function over broadcast object arrays."""
    broadcast = np.broadcast_arrays(*arrays)
    result = np.empty(broadcast[0].shape, object)
    for index in np.ndindex(result.shape):
        result[index] = function(*(a[index] for a in broadcast))
    return result


def naive_conv(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Convolution by its formula, on object arrays; padding is 0."""
    n, _, height, width = x.shape
    o, per_group, kh, kw = w.shape
    oh = (height + pads[0] + pads[2] - dilations[0] * (kh - 1) - 1) // strides[0] + 1
    ow = (width + pads[1] + pads[3] - dilations[1] * (kw - 1) - 1) // strides[1] + 1
    y = np.empty((n, o, oh, ow), object)
    for b, f, i, j in np.ndindex(y.shape):
        group = f // (o // groups)
        total = Fraction(0) if bias is None else bias[f]
        for c, h, v in np.ndindex(per_group, kh, kw):
            row = i * strides[0] + h * dilations[0] - pads[0]
            column = j * strides[1] + v * dilations[1] - pads[1]
            if 0 <= row < height and 0 <= column < width:
                total += x[b, group * per_group + c, row, column] * w[f, c, h, v]
        y[b, f, i, j] = total
    return y


def build(
    op: type[Operation],
    operands: Iterable[tuple[Attribute, Sequence[int]]],
    element: Attribute,
    **properties: Any,
) -> Any:
    """An op on values of the given element types and shapes."""
    values = [create_ssa_value(TensorType(kind, shape)) for kind, shape in operands]
    return op(*values, element=element, **properties)


def run(
    op: type[Operation],
    operands: Sequence[tuple[np.ndarray, Attribute]],
    element: Attribute,
    floats: Any = "ieee",
    **properties: Any,
) -> np.ndarray:
    """The single result of an op on arrays with element types."""
    built = build(op, [(kind, a.shape) for a, kind in operands], element, **properties)
    (result,) = evaluate_op(built, [a for a, _ in operands], CONTEXT, floats)
    return result


def random_stored(rng: np.random.Generator, shape: Sequence[int], qparams: QParams) -> np.ndarray:
    storage = qparams.storage
    values = rng.integers(storage.min, storage.max, tuple(shape), endpoint=True)
    return values.astype(storage_dtype(storage))


def random_scales(rng: np.random.Generator, count: int, kind: str) -> list[float]:
    """`nice` scales are k/2^n and make ties; `wild` ones are random float32."""
    if kind == "nice":
        return [float(rng.integers(1, 8)) / float(2 ** rng.integers(0, 5)) for _ in range(count)]
    return [float(np.float32(10.0 ** rng.uniform(-3, 1))) for _ in range(count)]


def random_per_tensor(rng: np.random.Generator, storage: str, kind: str) -> QParams:
    q = QParams.per_tensor(storage, 1.0).storage
    zero = int(rng.integers(q.min, q.max, endpoint=True)) if q.width <= 16 else 0
    return QParams.per_tensor(storage, random_scales(rng, 1, kind)[0], zero)


def random_per_axis(
    rng: np.random.Generator, storage: str, axis: int, count: int, kind: str, zeros: bool
) -> QParams:
    zero_points = [int(z) for z in rng.integers(-9, 9, count)] if zeros else None
    return QParams.per_axis(storage, axis, random_scales(rng, count, kind), zero_points)


def uniform(qparams: QParams) -> UniformType:
    return UniformType(qparams)
