"""Elementwise ops of TOSA: arithmetic, bits, comparisons, functions, and clamps.

Operands of extent 1 are repeated.  Floats are computed in doubles and rounded once: for add,
sub, mul of f32, f16 and bf16 that is the IEEE result, and what functions give is within one unit
in the last place of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir.dialects.attributes import flag_of, number_of
from qdialect.plugins.tosa.interpreter.values import (
    bounds,
    broadcast_ranks,
    ignores_nan,
    is_float,
    longs,
    reals,
    result,
    width_of,
    zero_point,
)

_Unary = Callable[[Array], Array]
_Binary = Callable[[Array, Array], Array]


def _number(op: Operation, operands: Sequence[Array], number: int) -> Array:
    """An operand as doubles or 64-bit integers; booleans as they are."""
    kind, array = op.operands[number].type, operands[number]
    if is_float(kind):
        return reals(array, kind)
    return array if array.dtype == np.bool_ else longs(array)


def _unary(function: _Unary) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        return result(op, function(_number(op, operands, 0)), evaluation)

    return kernel


def _binary(function: _Binary) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        a, b = broadcast_ranks([_number(op, operands, n) for n in (0, 1)])
        return result(op, function(a, b), evaluation)

    return kernel


def _mul(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Products; of i32 shifted right, half up."""
    a, b = broadcast_ranks([_number(op, operands, n) for n in (0, 1)])
    shift = int(operands[2].reshape(-1)[0]) if len(operands) > 2 else 0
    product = a * b
    if shift and product.dtype.kind == "i":
        product = (product + (1 << (shift - 1))) >> shift
    return result(op, product, evaluation)


def _extremum(function: _Binary, ignoring: _Binary) -> Kernel:
    """The larger or smaller one; a NaN is the result, or ignored."""

    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        a, b = broadcast_ranks(operands)
        return [(ignoring if ignores_nan(op) else function)(a, b)]

    return kernel


def _clamp(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """min(max(x, min_val), max_val); NaN stays, or becomes min_val where it is ignored."""
    low, high = number_of(op, "min_val"), number_of(op, "max_val")
    x = _number(op, operands, 0)
    values = np.minimum(np.maximum(x, low), high)
    if x.dtype.kind == "f" and ignores_nan(op):
        values = np.where(np.isnan(x), low, values)
    return result(op, values, evaluation)


def _negate(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """output_zp - (x - input1_zp), within the type where it has zero points."""
    kind, x = op.results[0].type, _number(op, operands, 0)
    if x.dtype.kind == "f" or len(operands) < 3:
        return result(op, -x, evaluation)
    values = zero_point(operands[2]) - (x - zero_point(operands[1]))
    return result(op, np.clip(values, *bounds(kind)), evaluation)


def _right_shift(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Towards negative infinity, or half up with `round`."""
    a, b = broadcast_ranks([longs(x) for x in operands])
    values = a >> b
    if flag_of(op, "round"):
        values = values + np.where(b > 0, (a >> np.maximum(b - 1, 0)) & 1, 0)
    return result(op, values, evaluation)


def _logical_right_shift(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    a, b = broadcast_ranks([longs(x) for x in operands])
    return result(
        op, _unsigned(a, width_of(op.operands[0].type)) >> b.astype(np.uint64), evaluation
    )


def _unsigned(x: Array, width: int) -> Array:
    return x.astype(np.uint64) & np.uint64((1 << width) - 1)


def _truncated(a: Array, b: Array) -> Array:
    """The quotient towards 0; 0 where the divisor is 0, which TOSA forbids."""
    divisor = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(divisor)
    return np.where(b == 0, 0, np.where((a < 0) != (divisor < 0), -quotient, quotient))


def _clz(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    width = width_of(op.operands[0].type)
    bits, count = _unsigned(longs(operands[0]), width), np.full(operands[0].shape, width)
    for place in range(width):
        count = np.where(bits >> np.uint64(place) != 0, width - 1 - place, count)
    return result(op, count, evaluation)


def _select(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The second operand where the first is true, else the third."""
    condition, a, b = broadcast_ranks(operands)
    return [np.where(condition, a, b)]


def _identity(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [operands[0]]


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _power(a: Array, b: Array) -> Array:
    return np.power(a, b)


KERNELS: Mapping[str, Kernel] = {
    "tosa.add": _binary(lambda a, b: a + b),
    "tosa.sub": _binary(lambda a, b: a - b),
    "tosa.mul": _mul,
    "tosa.intdiv": _binary(_truncated),
    "tosa.pow": _binary(_power),
    "tosa.maximum": _extremum(np.maximum, np.fmax),
    "tosa.minimum": _extremum(np.minimum, np.fmin),
    "tosa.bitwise_and": _binary(np.bitwise_and),
    "tosa.bitwise_or": _binary(np.bitwise_or),
    "tosa.bitwise_xor": _binary(np.bitwise_xor),
    "tosa.logical_and": _binary(np.logical_and),
    "tosa.logical_or": _binary(np.logical_or),
    "tosa.logical_xor": _binary(np.logical_xor),
    "tosa.logical_left_shift": _binary(np.left_shift),
    "tosa.logical_right_shift": _logical_right_shift,
    "tosa.arithmetic_right_shift": _right_shift,
    "tosa.equal": _binary(np.equal),
    "tosa.greater": _binary(np.greater),
    "tosa.greater_equal": _binary(np.greater_equal),
    "tosa.select": _select,
    "tosa.clamp": _clamp,
    "tosa.negate": _negate,
    "tosa.clz": _clz,
    "tosa.identity": _identity,
    "tosa.abs": _unary(np.abs),
    "tosa.bitwise_not": _unary(np.invert),
    "tosa.logical_not": _unary(np.logical_not),
    "tosa.ceil": _unary(np.ceil),
    "tosa.floor": _unary(np.floor),
    "tosa.exp": _unary(np.exp),
    "tosa.log": _unary(np.log),
    "tosa.sin": _unary(np.sin),
    "tosa.cos": _unary(np.cos),
    "tosa.tanh": _unary(np.tanh),
    "tosa.erf": _unary(_erf),
    "tosa.sigmoid": _unary(lambda x: 1.0 / (1.0 + np.exp(-x))),
    "tosa.reciprocal": _unary(lambda x: 1.0 / x),
    "tosa.rsqrt": _unary(lambda x: 1.0 / np.sqrt(x)),
}
