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

from qdialect.algebra.qparams import Layout, QParams
from qdialect.interpreter import evaluate_op
from qdialect.interpreter.values import storage_dtype
from qdialect.ir.context import QContext, new_context
from qdialect.ir.quant import UniformType

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
    per_group, kernel, size = w.shape[1], w.shape[2:], x.shape[2:]
    rank = len(kernel)
    out = [
        (size[d] + pads[d] + pads[d + rank] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1
        for d in range(rank)
    ]
    y = np.empty((x.shape[0], w.shape[0], *out), object)
    for b, f, *place in np.ndindex(y.shape):
        group = f // (w.shape[0] // groups)
        total = Fraction(0) if bias is None else bias[f]
        for c, *tap in np.ndindex(per_group, *kernel):
            at = [place[d] * strides[d] + tap[d] * dilations[d] - pads[d] for d in range(rank)]
            if all(0 <= i < n for i, n in zip(at, size, strict=True)):
                total += x[(b, group * per_group + c, *at)] * w[(f, c, *tap)]
        y[(b, f, *place)] = total
    return y


def naive_conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Transposed convolution by its definition: every element adds its kernel."""
    per_group, kernel, size = w.shape[1], w.shape[2:], x.shape[2:]
    rank = len(kernel)
    out = [
        (size[d] - 1) * strides[d]
        + (kernel[d] - 1) * dilations[d]
        + 1
        + output_padding[d]
        - pads[d]
        - pads[d + rank]
        for d in range(rank)
    ]
    y = np.full((x.shape[0], per_group * groups, *out), Fraction(0), object)
    if bias is not None:
        y = y + bias.reshape(-1, *(1,) * rank)
    for b, c, *place in np.ndindex(x.shape):
        group = c // (x.shape[1] // groups)
        for f, *tap in np.ndindex(per_group, *kernel):
            at = [place[d] * strides[d] + tap[d] * dilations[d] - pads[d] for d in range(rank)]
            if all(0 <= i < n for i, n in zip(at, out, strict=True)):
                y[(b, group * per_group + f, *at)] += x[(b, c, *place)] * w[(c, f, *tap)]
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
