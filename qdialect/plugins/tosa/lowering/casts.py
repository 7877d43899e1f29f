"""Quantizing and dequantizing in TOSA, to the codes and floats that ONNX gives.

`quant.dcast` is (code - zero point) * scale, which TOSA has: one rounding, that of the product.

`quant.qcast` is round(x / scale) + zero point, cut to the storage, with the quotient rounded to
a float. TOSA has no quotient of floats. The codes are the same all the same: a quantization is
monotone, so it is known by the smallest float of each code (`_first_floats`). Where the product
y = x * (1 / scale), rounded to the nearest integer, steps from code to code at the same floats,
it is what is written. That is certain for powers of two and decided for every other scale. Else
floor(y) is the code less its zero point, or one less, and a comparison says which:

    n = floor(x * (1 / scale))        n + 1 if x >= first[n + 1], else n

with `first` a constant table. x must not be NaN, which has no code. Where a quantize multiplies
by the reciprocal itself (`quant.rounding = "reciprocal"`), the product is all there is to write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, i1, i32
from xdsl.dialects.tosa import NanMode, NanModeAttr
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.float_path import reciprocals
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of, tensor_type
from qdialect.ir.quant import QCastOp, cast_rounding
from qdialect.plugins.common.lowering.emitter import element_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, Order
from qdialect.plugins.common.lowering.preconditions import quantized
from qdialect.plugins.tosa.lowering.elementwise import narrowed
from qdialect.plugins.tosa.lowering.emitter import Emitter
from qdialect.plugins.tosa.lowering.floats import TensorAlgebra
from qdialect.plugins.tosa.lowering.rescale import widened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

_DTYPES = {"f32": np.float32, "f16": np.float16}
_NEAR = 12
"""So many floats on both sides of (n - 1/2) * scale are looked at."""
_MOST = 1 << 20
_ROUNDED: Mapping[Rounding, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    Rounding.HALF_EVEN: np.rint,
    Rounding.HALF_UP: lambda v: np.floor(v + 0.5),
    Rounding.HALF_AWAY: lambda v: np.copysign(np.floor(np.abs(v) + 0.5), v),
}


def dequantize(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.dcast`."""
    (x,) = operands
    params, order = quantized(x), x.order
    element = tensor_type(op.results[0]).element_type
    _dtype(params)
    steps = widened(e, x, order)
    algebra = TensorAlgebra(e, x.rank, element)
    floats = e.op("cast", [steps], shape_of(steps), element)
    scales = _along(params, params.scale_array(), x.rank, order).astype(_dtype(params))
    out = algebra.pair("mul", floats, e.const(scales, element))
    return e.result(out, order, None, x.shape)


def quantize(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.qcast`; see the module."""
    assert isinstance(op, QCastOp)
    (x,), params = operands, qparams_of(op.result)
    if params is None:
        raise Unlowerable("type", "its result has no scale")
    rounding, dtype = cast_rounding(op), _dtype(params)
    reciprocal = rounding is Rounding.RECIPROCAL
    if rounding.in_reals not in _ROUNDED:
        raise Unlowerable("rounding", f"it rounds floats {rounding.value}", "rounding half_even")
    if len(set(params.zero_point_list())) > 1:
        raise Unlowerable("zero-points", "zero points that differ between channels")
    value, order = e.value_of(x, x.order), x.order
    with np.errstate(over="ignore", divide="ignore"):
        scales = np.atleast_1d(params.scale_array()).astype(dtype).reshape(-1)
        inverse = (dtype(1) / scales).astype(dtype)
    if reciprocal:
        if params.expressed != "f32":
            raise Unlowerable("expressed", "reciprocals of floats of 16 bits are of 32")
        inverse = reciprocals(params.scale_array(), np.dtype("f4")).reshape(-1)
    if not (np.isfinite(scales) & np.isfinite(inverse)).all():
        raise Unlowerable("scale", f"its scale or what that divides is no {params.expressed}")
    low, high = (bound - params.zero_point_list()[0] for bound in _bounds(params))
    element = element_of(value)
    factor = e.const(_along(params, inverse, x.rank, order), element)
    ratio = TensorAlgebra(e, x.rank, element).pair("mul", value, factor)
    plain = rounding.in_reals is Rounding.HALF_EVEN
    if plain and (_is_power_of_two(scales) or (reciprocal and params.storage.width <= 16)):
        steps = _nearest(e, ratio, low, high)
    elif params.storage.width > 16 or (high - low) * scales.size > _MOST:
        raise Unlowerable(
            "storage",
            f"TOSA divides no floats, and a quotient with {params.storage} is not looked up",
            "a scale that is a power of 2",
        )
    else:
        first = _first_floats(scales, (low, high), rounding)
        if rounding is Rounding.HALF_EVEN and _steps_alike(first, inverse, low):
            steps = _nearest(e, ratio, low, high)
        else:
            steps = _compared(e, (value, ratio), first, low, _axis_place(params, order))
    result = params.with_axis(params.axis) if params.axis is not None else params
    return e.result(narrowed(e, steps, result), order, params, x.shape)


def _dtype(params: QParams) -> Any:
    dtype = _DTYPES.get(params.expressed)
    if dtype is None or params.layout.value == "block":
        what = "it has parameters of blocks" if dtype else f"it casts {params.expressed}"
        raise Unlowerable("expressed", what)
    return dtype


def _bounds(params: QParams) -> tuple[int, int]:
    return params.storage.min, params.storage.max


def _is_power_of_two(scales: Floats) -> bool:
    return bool((np.frexp(scales)[0] == 0.5).all())


def _axis_place(params: QParams, order: Order) -> int | None:
    return None if params.axis is None else order.index(params.axis)


def _along(params: QParams, values: NDArray[Any], rank: int, order: Order) -> NDArray[Any]:
    """One number per channel along its dimension, or one for all."""
    shape = [1] * rank
    place = _axis_place(params, order)
    if place is not None:
        shape[place] = values.size
    return values.reshape(shape)


def _first_floats(scales: Floats, bounds: tuple[int, int], rounding: Rounding) -> Floats:
    """The smallest float that is quantized to n or more, of n from the second of `bounds` to
    the last, for each scale: [scales, n]. Decided by the division itself."""
    dtype = scales.dtype.type
    numbers = np.arange(bounds[0] + 1, bounds[1] + 1, dtype=np.float64)
    rounded = _ROUNDED[rounding]
    column = scales.reshape(-1, 1, 1)
    with np.errstate(over="ignore"):  # the largest floats of narrow types
        middle = ((numbers - 0.5) * scales.astype(np.float64)[:, None]).astype(dtype)
        near = [middle]
        for direction in (-np.inf, np.inf):
            value = middle
            for _ in range(_NEAR):
                value = np.nextafter(value, dtype(direction))
                near.append(value)
        candidates = np.sort(np.stack(near, axis=-1), axis=-1)
        quotients = (candidates / column).astype(dtype)
    reached = rounded(quotients.astype(np.float64)) >= numbers[None, :, None]
    if not (reached[..., -1].all() and not reached[..., 0].any()):
        raise Unlowerable("scale", "floats do not tell all codes of its scale")
    place = reached.argmax(axis=-1)[..., None]
    return np.take_along_axis(candidates, place, axis=-1)[..., 0]


def _steps_alike(first: Floats, inverse: Floats, low: int) -> bool:
    """Whether the nearest integer to a product with `inverse` steps where the codes do."""
    dtype = first.dtype.type
    numbers: NDArray[np.int64] = np.arange(low + 1, low + 1 + len(first[0]), dtype=np.int64)
    column = inverse[:, None]
    with np.errstate(over="ignore"):
        below = np.nextafter(first, dtype(-np.inf))
        reached: NDArray[np.bool_] = np.rint((first * column).astype(dtype)) >= numbers
        left: NDArray[np.bool_] = np.rint((below * column).astype(dtype)) < numbers
    return bool(reached.all() and left.all())


def _cut(e: Emitter, value: SSAValue, low: int, high: int) -> SSAValue:
    """Floats between two bounds; NaN is the lower one."""
    from xdsl.dialects.builtin import FloatAttr

    element = element_of(value)
    assert isinstance(element, AnyFloat)
    return e.op(
        "clamp",
        [value],
        shape_of(value),
        element,
        min_val=FloatAttr(float(low), element),
        max_val=FloatAttr(float(high), element),
        nan_mode=NanModeAttr(NanMode.IGNORE),
    )


def _nearest(e: Emitter, ratio: SSAValue, low: int, high: int) -> SSAValue:
    """`tosa.cast` rounds to the nearest integer, halves to even."""
    return e.op("cast", [_cut(e, ratio, low, high)], shape_of(ratio), i32)


def _compared(
    e: Emitter,
    values: tuple[SSAValue, SSAValue],
    first: Floats,
    low: int,
    place: int | None,
) -> SSAValue:
    """floor(ratio), and one more where the value has reached the next code."""
    value, ratio = values
    shape, element, count = shape_of(value), element_of(value), first.shape[1]
    floor = e.op("floor", [ratio], shape, element)
    below = e.op("cast", [_cut(e, floor, low, low + count - 1)], shape, i32)
    ones = (1,) * len(shape)
    index = e.op("sub", [below, e.number(low, i32, ones)], shape, i32)
    if place is not None:
        rows = np.arange(first.shape[0], dtype=np.int32) * count
        starts = list(ones)
        starts[place] = rows.size
        index = e.op("add", [index, e.const(rows.reshape(starts), i32)], shape, i32)
    flat = e.reshaped(index, (1, prod(shape)))
    table = e.const(first.reshape(1, -1, 1), element)
    following = e.op("gather", [table, flat], (1, prod(shape), 1), element)
    reached = e.op("greater_equal", [value, e.reshaped(following, shape)], shape, i1)
    return e.op("add", [below, e.op("cast", [reached], shape, i32)], shape, i32)
