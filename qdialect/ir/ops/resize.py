"""Resampling over height and width: nearest, which copies elements, and bilinear.

%y = nn.resize_nearest %x scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor
     : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor, gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation
from xdsl.irdl import opt_prop_def, prop_def

from qdialect.algebra.float_text import round_to_format
from qdialect.ir import behaviors
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import INTS, REALS, FunctionOp, UnaryOp, Values
from qdialect.ir.ops.declare import nn_op, unit, values
from qdialect.ir.ops.movement import moves
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, require_rank

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.algebra.qparams import QParams
    from qdialect.algebra.qparams.maps import IndexMap
    from qdialect.ir.behaviors import Behavior

NEAREST_COORDINATES = ("asymmetric", "half_pixel", "align_corners")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
LINEAR_COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
_LARGEST_RESIZED = 1 << 24


def resized(x: Shape, values: Values) -> Shape:
    """The shape that `sizes` or `scales`, one per dimension, give."""
    sizes: tuple[int, ...] | None = values.get("sizes")
    scales: tuple[float, ...] | None = values.get("scales")
    given = sizes or scales or ()
    if (sizes is None) == (scales is None) or len(given) != len(x):
        raise ShapeError(f"expects either {len(x)} sizes or {len(x)} scales")
    if sizes is not None:
        if min((0, *sizes)) < 0 or any(n == 0 != size for n, size in zip(x, sizes, strict=True)):
            raise ShapeError(f"cannot resize {list(x)} to {list(sizes)}")
        return _bounded(sizes)
    if any(not 0.0 < scale < math.inf for scale in given):
        raise ShapeError(f"scales must be positive, but are {list(given)}")
    return _bounded(tuple(_scaled(n, scale) for n, scale in zip(x, given, strict=True)))


def _bounded(shape: Shape) -> Shape:
    if max((0, *shape)) > _LARGEST_RESIZED:
        raise ShapeError(f"resizes to {list(shape)}, but dimensions end at {_LARGEST_RESIZED}")
    return shape


def _scaled(size: int, scale: float) -> int:
    """floor(size * scale), the product in f32"""
    if size == DYNAMIC:
        return DYNAMIC
    return floor(round_to_format(size * round_to_format(scale, "f32"), "f32"))


# -- nearest -----------------------------------------------------------------------


class NearestIndices(NamedTuple):
    """Per dimension the indices read, None for all in order; and the dimensions where
    neither the size nor the indices are known (their entry is empty)."""

    indices: tuple[tuple[int, ...] | None, ...]
    unknown: tuple[int, ...]


def nearest_indices(shape: Shape, values: Mapping[str, Any]) -> NearestIndices:
    """What an `nn.resize_nearest` with properties `values` reads of an input of `shape`;
    the formulas are those of `ResizeNearestOp`."""
    rank = len(shape)
    sizes: Sequence[int | None] = values.get("sizes") or (None,) * rank
    scales: Sequence[float | None] = values.get("scales") or (None,) * rank
    result: list[tuple[int, ...] | None] = []
    unknown: list[int] = []
    for k, (size, out, scale) in enumerate(zip(shape, sizes, scales, strict=True)):
        if size != DYNAMIC:
            result.append(_along(size, out, scale, values))
        elif scale == 1.0:
            result.append(None)
        else:
            result.append(())
            unknown.append(k)
    return NearestIndices(tuple(result), tuple(unknown))


def _along(
    size: int, out: int | None, scale: float | None, values: Mapping[str, Any]
) -> tuple[int, ...] | None:
    import numpy as np

    one, half = np.float32(1), np.float32(0.5)
    factor = np.float32(scale) if scale is not None else np.float32(out) / np.float32(size or 1)
    count = out if out is not None else int(np.floor(np.float32(size) * factor))
    if count == size and factor == one:
        return None
    j = np.arange(count, dtype=np.float32)
    if values["coordinates"] == "asymmetric":
        x = j / factor
    elif values["coordinates"] == "half_pixel":
        x = (j + half) / factor - half
    else:
        x = j * np.float32(size - 1) / np.float32(max(count - 1, 1))
    index = np.clip(_nearest(x, values["nearest"]), 0, size - 1).astype(np.int64)
    return tuple(index.tolist())


def _nearest(x: NDArray[np.float32], mode: str) -> NDArray[np.float32]:
    import numpy as np

    if mode == "floor":
        return np.floor(x)
    if mode == "ceil":
        return np.ceil(x)
    half = np.float32(0.5)
    if mode == "round_prefer_floor":
        return np.ceil(x - half)
    return np.floor(x + half)


def _resize_nearest(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import ResizeNearest

    return ResizeNearest(*nearest_indices(shape_of(op.operands[0]), values(op)))


def _keeps_coordinates(op: Operation) -> bool:
    shape = shape_of(op.operands[0])
    if shape_of(op.results[0]) != shape:
        return False
    found = nearest_indices(shape, values(op))
    return all(index is None for index in found.indices)


@nn_op(moves(_resize_nearest, _keeps_coordinates))
class ResizeNearestOp(UnaryOp):
    """Nearest-neighbour resampling to `sizes`, or by `scales` (one of the two, one entry
    per dimension), as ONNX Resize.

    Along each dimension result index j reads the input near coordinate

        asymmetric     j / scale
        half_pixel     (j + 0.5) / scale - 0.5
        align_corners  j * (in - 1) / (out - 1), 0 if out = 1

    rounded by `nearest` and clamped to [0, in). scale is out / in when `sizes` are
    given. All in f32, as ONNX Runtime evaluates it.
    """

    name = "nn.resize_nearest"
    sizes = opt_prop_def(INTS)
    scales = opt_prop_def(REALS)
    coordinates = prop_def(StringAttr, StringAttr("half_pixel"))
    nearest = prop_def(StringAttr, StringAttr("round_prefer_floor"))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        for what, known in (("coordinates", NEAREST_COORDINATES), ("nearest", NEAREST)):
            if values[what] not in known:
                raise ShapeError(f"unknown {what} '{values[what]}' (one of {', '.join(known)})")
        return [resized(operands[0], values)]


# -- bilinear ----------------------------------------------------------------------


def _places(op: Operation, dim: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Any]:
    """Per result index along `dim` the two elements it reads, and the weight of the second."""
    import numpy as np

    v = values(op)
    size, out = shape_of(op.operands[0])[dim], shape_of(op.results[0])[dim]
    single = np.float32
    given = v.get("scales")
    scale = single(given[dim]) if given else single(out) / single(max(size, 1))
    j, half, mode = np.arange(out, dtype=single), single(0.5), v["coordinates"]
    if mode == "asymmetric":
        at = j / scale
    elif mode == "align_corners":
        at = j * single(size - 1) / single(max(out - 1, 1))
    elif mode == "pytorch_half_pixel" and out == 1:
        at = np.zeros(1, single)
    else:
        at = (j + half) / scale - half
    at = np.clip(at, 0, size - 1).astype(np.float64)
    first = np.floor(at).astype(np.int64)
    return first, np.minimum(first + 1, size - 1), at - first


class Ratio(NamedTuple):
    """Result index j lies at (j * step + offset) / parts of the input."""

    parts: int
    step: int
    offset: int


def ratios(op: Operation) -> tuple[Ratio, Ratio] | None:
    """Where rows and columns lie, in whole parts of a row and a column, if that is where
    the definition has them, in f32."""
    found = [_ratio(op, dim) for dim in (2, 3)]
    rows, columns = found
    return None if rows is None or columns is None else (rows, columns)


def _ratio(op: Operation, dim: int) -> Ratio | None:
    import numpy as np

    v = values(op)
    size, out = shape_of(op.operands[0])[dim], shape_of(op.results[0])[dim]
    if size < 1 or out < 1:
        return None
    given, mode = v.get("scales"), v["coordinates"]
    scale = Fraction(float(np.float32(given[dim]))) if given else Fraction(out, size)
    a, b = scale.numerator, scale.denominator
    if mode == "asymmetric":
        parts, step, offset = a, b, 0
    elif mode == "align_corners":
        parts, step, offset = (out - 1, size - 1, 0) if out > 1 and size > 1 else (1, 0, 0)
    elif mode == "pytorch_half_pixel" and out == 1:
        parts, step, offset = 1, 0, 0
    else:
        parts, step, offset = 2 * a, 2 * b, b - a
    common = gcd(parts, step, offset)
    ratio = Ratio(parts // common, step // common, offset // common)
    first, _, weights = _places(op, dim)
    places = [
        min(max(Fraction(j * ratio.step + ratio.offset, ratio.parts), Fraction(0)), size - 1)
        for j in range(out)
    ]
    at = [int(i) + Fraction(float(w)) for i, w in zip(first, weights, strict=True)]
    return ratio if places == at else None


def _grid(op: Operation, given: Sequence[QParams]) -> Fraction | None:
    """The product of a part of a row and a part of a column."""
    found = ratios(op)
    return Fraction(given[0].scale) / (found[0].parts * found[1].parts) if found else None


def _linear(op: Operation, x: Sequence[Any]) -> Any:
    """Between rows, then between columns; float64 holds the weights and their rests."""
    if 0 in shape_of(op.results[0]):
        raise ValueError("resizes nothing")
    first, second, weight = _places(op, 2)
    weight = weight.reshape(-1, 1)
    rows = x[0][:, :, first] * (1.0 - weight) + x[0][:, :, second] * weight
    first, second, weight = _places(op, 3)
    return rows[:, :, :, first] * (1.0 - weight) + rows[:, :, :, second] * weight


def _declare_linear(name: str) -> Behavior:
    return behaviors.Computation(
        name,
        (behaviors.Port("input", axes=behaviors.axes(0, 1)),),
        (behaviors.Port("result", axes=behaviors.axes(0, 1)),),
        arithmetic=_linear,
        linear=True,
        interval=lambda op, x: x[0],
        work=lambda op: 4 * prod(shape_of(op.results[0])),
        gain=unit,
        grid=_grid,
    )


@nn_op(_declare_linear)
class ResizeLinearOp(FunctionOp):
    """Bilinear resampling over H and W of NCHW tensors to `sizes`, or by `scales` (one of
    the two, one entry per dimension, batch and channels as they are), as ONNX Resize.

    Along H and W result index j lies in the input at coordinate

        asymmetric          j / scale
        half_pixel          (j + 0.5) / scale - 0.5
        pytorch_half_pixel  the same, 0 if out = 1
        align_corners       j * (in - 1) / (out - 1), 0 if out = 1

    in f32, clamped to [0, in - 1]: with i its floor and w the rest, it is (1 - w) of
    element i and w of element i + 1. scale is out / in when `sizes` are given. On a
    quantized operand the exact result is quantized with `rounding`.
    """

    name = "nn.resize_linear"
    sizes = opt_prop_def(INTS)
    scales = opt_prop_def(REALS)
    coordinates = prop_def(StringAttr, StringAttr("half_pixel"))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        require_rank(x, 4, "an input")
        known = values["coordinates"]
        if known not in LINEAR_COORDINATES:
            raise ShapeError(
                f"unknown coordinates '{known}' (one of {', '.join(LINEAR_COORDINATES)})"
            )
        shape, scales = resized(x, values), values.get("scales")
        kept = scales[:2] == (1.0, 1.0) if scales else _fit(x[:2], shape[:2])
        if not kept:
            raise ShapeError("resizes over height and width only")
        return [shape]


def _fit(a: Shape, b: Shape) -> bool:
    return all(n == m or DYNAMIC in (n, m) for n, m in zip(a, b, strict=True))
