"""From stored integers to exact reals and back.

Dequantizing is exact: (q - zero point) * scale with the scale a real number (the
double in the type). Storing rounds once: q = clamp(R(x / scale) + zero point),
R the declared rounding, ties decided exactly.

NaN, which only float operands can bring in, is stored as the lowest integer, as
ONNX Runtime does; infinities saturate. Float storage and tables: see `codes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation

from qdialect.algebra.qparams import Layout, QParams, Storage
from qdialect.algebra.rounding import Rounding
from qdialect.errors import UnsupportedError
from qdialect.interpreter.codes import codes_of, is_coded
from qdialect.interpreter.real import SLACK, Real
from qdialect.interpreter.values import Array, Evaluation, place, round_to_bf16, storage_dtype
from qdialect.ir import ops as nn
from qdialect.ir.quant import element_type, quant_element

_FORMATS = {"f64": (53, -1022), "f32": (24, -126), "f16": (11, -14), "bf16": (8, -126)}


def is_quantized(op: Operation) -> bool:
    """Whether any operand or result has a `!quant.uniform` element type."""
    return any(quant_element(v.type) for v in (*op.operands, *op.results))


def rounding_of(op: Operation) -> Rounding:
    """The declared rounding of an op that quantizes a real result; half even without one.

    UnsupportedError for `gemmlowp` and `ruy`, which round shifts and not real numbers.
    """
    declared = op.properties.get("rounding")
    rounding = Rounding(declared.data) if isinstance(declared, StringAttr) else Rounding.HALF_EVEN
    return real_rounding(op, rounding)


def real_rounding(op: Operation, rounding: Rounding) -> Rounding:
    """`rounding`, if it rounds real numbers; UnsupportedError otherwise."""
    if rounding.two_stage:
        raise UnsupportedError(
            f"'{op.name}' cannot round a real number with {rounding.value}: it is defined for "
            "multiplier and shift only",
            where=place(op),
        )
    return rounding


def spread(qparams: QParams, values: NDArray[Any], rank: int) -> NDArray[Any]:
    """One value per cell of the parameter field, shaped to broadcast to the tensor.

    `values` has the shape of the field's grid. Extents are 1 along dimensions the
    field does not vary on; ragged last blocks give a longer extent (cut it off).
    """
    if qparams.layout is Layout.TENSOR:
        return values.reshape((1,) * rank)
    if qparams.layout is Layout.AXIS:
        shape = [1] * rank
        shape[qparams.blocks[0][0]] = values.size
        return values.reshape(shape)
    for axis, block in qparams.blocks:
        if values.shape[axis] > 1:
            values = np.repeat(values, block, axis)
    return values


def field(
    qparams: QParams, shape: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Scales and zero points, broadcastable to `shape`."""
    cut = tuple(slice(extent) for extent in shape)
    scales = spread(qparams, qparams.scale_array(), len(shape))[cut]
    zero_points = spread(qparams, qparams.zero_point_array(), len(shape))[cut]
    return scales, zero_points


def offsets(stored: Array, qparams: QParams) -> NDArray[Any]:
    """q - zero point, exactly: int64, or float64 where codes stand for other numbers."""
    zero_points = field(qparams, stored.shape)[1]
    if not is_coded(qparams.storage):
        return stored.astype(np.int64) - zero_points
    steps = code_offsets(stored, qparams)
    if np.any(steps.error):
        raise UnsupportedError(
            f"numbers of {qparams.storage} less their zero points are not exact in float64"
        )
    return steps.approx


def code_offsets(stored: Array, qparams: QParams) -> Real:
    """v - zero point, v the number that a code stands for."""
    zero_points = field(qparams, stored.shape)[1]
    return Real.floats(codes_of(qparams.storage).read(stored)) + _minus(zero_points)


def _minus(zero_points: NDArray[np.int64]) -> Real:
    """Zero points to be added; none is -0, which leaves the sign of zeros alone."""
    return Real.floats(-zero_points.astype(np.float64))


def load(value: Array, type: Attribute) -> Real:
    """A runtime value as real numbers: stored integers dequantized, floats as they are."""
    element = quant_element(type)
    if element is None:
        return Real.floats(value) if value.dtype.kind == "f" else Real.integers(value)
    scales = field(element.qparams, value.shape)[0]
    if is_coded(element.qparams.storage):
        return code_offsets(value, element.qparams) * Real.floats(scales)
    return Real.integers(offsets(value, element.qparams)) * Real.floats(scales)


def store(value: Real, type: Attribute, rounding: Rounding, evaluation: Evaluation) -> Array:
    """Real numbers as a runtime value of `type`: quantized with `rounding`, or rounded
    once to the float type (with `floats="real"`, left in float64)."""
    if not value.shape:
        return store(value.reshape((1,)), type, rounding, evaluation).reshape(())
    element = quant_element(type)
    if element is not None:
        return quantize(value, element.qparams, rounding)
    if evaluation.floats == "real":
        return value.approx
    return evaluation.as_float(_nearest(value, str(element_type(type))), type)


def quantize(value: Real, qparams: QParams, rounding: Rounding) -> Array:
    """clamp(R(value / scale) + zero point), exactly, at rank 1 or more."""
    return quantize_on(value, *field(qparams, value.shape), qparams.storage, rounding)


def quantize_on(
    value: Real,
    scales: NDArray[np.float64],
    zero_points: NDArray[np.int64],
    storage: Storage,
    rounding: Rounding,
) -> Array:
    """As `quantize`, on parameters that broadcast to the value."""
    steps = value / Real.floats(scales)
    if is_coded(storage):
        return store_codes(steps, zero_points, storage, rounding)
    low, high = storage.min - zero_points, storage.max - zero_points
    approx, bound = steps.approx, steps.error * SLACK
    rounded = np.clip(round_floats(approx, rounding), low, high)
    # Elements whose bound reaches a tie, unless they saturate all the same.
    near = (bound != 0) & ~(np.abs(approx - np.floor(approx) - 0.5) > bound)
    near &= ~((approx - bound > high + 1.0) | (approx + bound < low - 1.0))
    if steps.special is not None:
        near &= ~steps.special
        rounded = np.where(np.isnan(rounded), low, rounded)
    result = rounded.astype(np.int64)
    if near.any():
        index = np.nonzero(near)
        exact = steps.at(index).round(rounding)
        limits = (np.broadcast_to(b, result.shape)[index] for b in (low, high))
        result[index] = np.clip(exact, *(limit.astype(object) for limit in limits))
    return (result + zero_points).astype(storage_dtype(storage))


def store_codes(
    steps: Real, zero_points: NDArray[np.int64], storage: Storage, rounding: Rounding
) -> Array:
    """The codes nearest to `steps` + zero point, at rank 1 or more."""
    if rounding is not Rounding.HALF_EVEN:
        raise UnsupportedError(
            f"storage {storage} of floats or with a table knows no rounding {rounding.value}"
        )
    shifted = steps + _minus(-zero_points)
    return codes_of(storage).nearest(shifted).astype(storage_dtype(storage))


def real_zeros(qparams: QParams, shape: tuple[int, ...]) -> Array:
    """What stands for real 0 in each cell, broadcastable to `shape` (of rank 1 or more):
    the zero point; UnsupportedError where no code stands for it."""
    zero_points = field(qparams, shape)[1]
    if not is_coded(qparams.storage):
        return zero_points
    codes = codes_of(qparams.storage)
    zeros = codes.nearest(Real.integers(zero_points))
    if np.any(codes.read(zeros) != zero_points):
        raise UnsupportedError(f"no code of storage {qparams.storage} stands for real 0")
    return zeros


def round_floats(values: NDArray[np.float64], rounding: Rounding) -> NDArray[np.float64]:
    """Doubles rounded to integers, exactly as the doubles they are."""
    if rounding.in_reals is Rounding.HALF_EVEN:
        return np.rint(values)
    whole = np.floor(values)
    part = values - whole
    up = (
        part >= 0.5
        if rounding is Rounding.HALF_UP
        else (part > 0.5) | ((part == 0.5) & (values >= 0))
    )
    return whole + up


def _nearest(value: Real, name: str) -> NDArray[np.float64]:
    """The nearest numbers of a float format (infinite beyond it), as doubles."""
    bound = value.error * SLACK
    # The ends, rounded outwards, of the interval that holds the value.
    low = _to_format(np.nextafter(value.approx - bound, -np.inf), name)
    high = _to_format(np.nextafter(value.approx + bound, np.inf), name)
    near = (bound != 0) & ~(low == high)
    if value.special is not None:
        near &= ~value.special
    result = np.array(np.broadcast_to(_to_format(value.approx, name), value.shape))
    if near.any():
        index = np.nonzero(near)
        result[index] = value.at(index).to_floats(*_FORMATS[name])
    return result


def _to_format(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    if name == "bf16":
        return round_to_bf16(values).astype(np.float64)
    return values.astype({"f64": np.float64, "f32": np.float32, "f16": np.float16}[name]).astype(
        np.float64
    )


# -- of kernels -------------------------------------------------------------------


def properties(op: Operation) -> dict[str, Any]:
    """Properties of an `nn` op as Python values."""
    assert isinstance(op, nn.NNOp)
    return op.values


def widened(value: Array) -> Array:
    """f16 as f32, in which all f16 arithmetic is done; anything else itself."""
    return value.astype(np.float32) if value.dtype == np.float16 else value


def stored(op: Operation, value: Real, evaluation: Evaluation) -> list[Array]:
    """The single result of `op`, stored with its declared rounding."""
    return [store(value, op.results[0].type, rounding_of(op), evaluation)]


def plain(op: Operation, value: Array, evaluation: Evaluation) -> list[Array]:
    """The single result of an op without quantized types, in the result's dtype."""
    kind = op.results[0].type
    if value.dtype.kind == "f":
        return [evaluation.as_float(value, kind)]
    return [value.astype(evaluation.dtype(kind), copy=False)]
