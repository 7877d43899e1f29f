"""Ops of `arith` and `math` on arrays of any shape: on tensors, scalars, and all at once on the
scalars that the iterations of a loop nest have.

Signless integers are read as the op says, and wrap around in their width.  Floats are computed in
doubles and rounded once: arithmetic is that of IEEE, functions are within one unit in the last
place.  What upstream leaves undefined is an error (a division by zero), or any one value (a shift
by the width or more, a float that no integer holds).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from qdialect.errors import InputError
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.plugins.stablehlo.interpreter.bits import bitcast
from qdialect.plugins.tosa.interpreter.values import (
    bounds,
    elements,
    is_float,
    reals,
    stored,
    width_of,
)

Doubles = NDArray[np.float64]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]


# -- numbers in and out ---------------------------------------------------------------


def signed(array: Array) -> Longs:
    """Signless integers as signed ones; a true i1 is -1."""
    numbers = array.astype(np.int64)
    return -numbers if array.dtype == np.bool_ else numbers


def unsigned(array: Array, kind: Attribute) -> Words:
    """Signless integers as unsigned ones."""
    words, width = array.astype(np.int64).view(np.uint64), width_of(kind)
    return words if width >= 64 else words & np.uint64((1 << width) - 1)


def _wrapped(numbers: Array, kind: Attribute, evaluation: Evaluation) -> Array:
    """The lowest bits of integers, or truth values."""
    if evaluation.dtype(kind) == np.bool_:
        return numbers if numbers.dtype == np.bool_ else (numbers & numbers.dtype.type(1)) != 0
    return stored(numbers.astype(np.int64), kind, evaluation)


def _one(op: Operation, numbers: Array, evaluation: Evaluation) -> list[Array]:
    """The result of `op`, brought to its type."""
    kind = op.results[0].type
    array = np.asarray(numbers)
    if is_float(kind):
        return [np.asarray(stored(array, kind, evaluation))]
    return [np.asarray(_wrapped(array, kind, evaluation))]


def _on_signed(function: Callable[..., Array]) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        return _one(op, function(*(signed(x) for x in operands)), evaluation)

    return kernel


def _on_unsigned(function: Callable[..., Array]) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        words = (unsigned(x, v.type) for x, v in zip(operands, op.operands, strict=True))
        return _one(op, function(*words), evaluation)

    return kernel


def _on_floats(function: Callable[..., Array]) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        doubles = (reals(x, v.type) for x, v in zip(operands, op.operands, strict=True))
        return _one(op, function(*doubles), evaluation)

    return kernel


# -- integers -------------------------------------------------------------------------


def _nonzero(divisor: Array) -> Array:
    if not np.all(divisor):
        raise InputError("an integer is divided by zero", code="zero-divisor")
    return divisor


def _quotient(a: Longs, b: Longs) -> Array:
    """Towards zero."""
    floor, left = a // _nonzero(b), a % b
    return floor + ((left != 0) & ((a < 0) != (b < 0)))


def _floor(a: Array, b: Array) -> Array:
    return a // _nonzero(b)


def _ceiling(a: Array, b: Array) -> Array:
    return a // _nonzero(b) + (a % b != 0).astype(a.dtype)


def _remainder(a: Longs, b: Longs) -> Array:
    """With the sign of the dividend."""
    return a - _quotient(a, b) * b


def _modulo(a: Words, b: Words) -> Array:
    return a % _nonzero(b)


def _shift(function: Callable[[Array, Array], Array], is_signed: bool) -> Kernel:
    """Shifts; the second operand is unsigned."""

    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        kind = op.operands[0].type
        places = np.minimum(unsigned(operands[1], kind), np.uint64(63))
        if is_signed:
            return _one(op, function(signed(operands[0]), places.astype(np.int64)), evaluation)
        return _one(op, function(unsigned(operands[0], kind), places), evaluation)

    return kernel


_ORDERS: Sequence[Callable[[Array, Array], Array]] = (
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)


def _predicate(op: Operation) -> int:
    return cast("IntegerAttr[Any]", op.properties["predicate"]).value.data


def _cmpi(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """eq, ne, then slt, sle, sgt, sge, then the unsigned ones."""
    number = _predicate(op)
    if number < 6:
        a, b = (signed(x) for x in operands)
    else:
        a, b = (unsigned(x, op.operands[0].type) for x in operands)
    compare = (np.equal, np.not_equal, *_ORDERS, *_ORDERS)[number]
    return [np.asarray(compare(a, b))]


def _cmpf(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """false; oeq, ogt, oge, olt, ole, one, ord; ueq, ugt, uge, ult, ule, une, uno; true.

    Ordered ones are false of a NaN, unordered ones true.
    """
    number = _predicate(op)
    a, b = (reals(x, v.type) for x, v in zip(operands, op.operands, strict=True))
    unordered = np.isnan(a) | np.isnan(b)
    compare = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
    if number in (0, 15):
        holds = np.full(unordered.shape, number == 15)
    elif number in (7, 14):
        holds = ~unordered if number == 7 else unordered
    else:
        holds = compare[(number - 1) % 7](a, b) & ~unordered
        holds = holds | unordered if number > 7 else holds
    return [np.asarray(holds)]


def _select(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    condition, a, b = operands
    return [np.asarray(np.where(condition, a, b))]


# -- floats ---------------------------------------------------------------------------


def _larger(a: Doubles, b: Doubles) -> Array:
    """NaN of a NaN; 0 is larger than -0."""
    return np.where((a == 0) & (b == 0), a + b, np.maximum(a, b))


def _smaller(a: Doubles, b: Doubles) -> Array:
    return -_larger(-a, -b)


def _larger_number(a: Doubles, b: Doubles) -> Array:
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, _larger(a, b)))


def _smaller_number(a: Doubles, b: Doubles) -> Array:
    return -_larger_number(-a, -b)


def _reciprocal_root(x: Doubles) -> Array:
    return np.reciprocal(np.sqrt(x))


def _half_away(x: Doubles) -> Array:
    whole = np.trunc(x)
    return np.copysign(whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0), x)


def _on_each(function: Callable[[float], float]) -> Callable[[Doubles], Array]:
    def run(x: Doubles) -> Array:
        values = [function(v) for v in x.reshape(-1).tolist()]
        return np.array(values, np.float64).reshape(x.shape)

    return run


def _to_integers(op: Operation, x: Doubles, evaluation: Evaluation, low: int, high: int) -> Array:
    """Towards zero; the nearest integer of the type where none is."""
    whole = np.trunc(np.where(np.isnan(x), 0.0, x))
    inside = (whole >= float(low)) & (whole < float(high + 1))
    ends = np.where(whole < 0, np.int64(low), np.uint64(high).astype(np.int64))
    kept = np.where(inside, whole, 0.0)
    plain = kept.astype(np.uint64).view(np.int64) if low == 0 else kept.astype(np.int64)
    return _one(op, np.where(inside, plain, ends), evaluation)[0]


def _fptosi(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    low, high = bounds(op.results[0].type)
    x = reals(operands[0], op.operands[0].type)
    return [_to_integers(op, x, evaluation, low, high)]


def _fptoui(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    low, high = bounds(op.results[0].type, unsigned=True)
    x = reals(operands[0], op.operands[0].type)
    return [_to_integers(op, x, evaluation, low, high)]


def _to_float(numbers: Array, kind: Attribute, evaluation: Evaluation) -> Array:
    """Rounded once: numbers of more than 53 bits go to f32 directly."""
    if evaluation.dtype(kind) == np.float32 and not str(kind).endswith("bf16>"):
        return np.asarray(numbers.astype(np.float32))
    return np.asarray(stored(numbers.astype(np.float64), kind, evaluation))


def _sitofp(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [_to_float(signed(operands[0]), op.results[0].type, evaluation)]


def _uitofp(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    numbers = unsigned(operands[0], op.operands[0].type)
    return [_to_float(numbers, op.results[0].type, evaluation)]


def _bitcast(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    source, target = op.operands[0].type, op.results[0].type
    return [np.asarray(bitcast(operands[0], source, target, evaluation))]


def _constant(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    value = op.properties["value"]
    if isinstance(value, IntegerAttr):
        number = cast("IntegerAttr[Any]", value).value.data
        return _one(op, np.asarray(number, np.int64), evaluation)
    if isinstance(value, FloatAttr):
        number = cast("FloatAttr[Any]", value).value.data
        return _one(op, np.asarray(number, np.float64), evaluation)
    return [elements(op, "value", evaluation)]


KERNELS: Mapping[str, Kernel] = {
    "arith.constant": _constant,
    "arith.addi": _on_signed(np.add),
    "arith.subi": _on_signed(np.subtract),
    "arith.muli": _on_signed(np.multiply),
    "arith.divsi": _on_signed(_quotient),
    "arith.floordivsi": _on_signed(_floor),
    "arith.ceildivsi": _on_signed(_ceiling),
    "arith.remsi": _on_signed(_remainder),
    "arith.divui": _on_unsigned(_floor),
    "arith.ceildivui": _on_unsigned(_ceiling),
    "arith.remui": _on_unsigned(_modulo),
    "arith.maxsi": _on_signed(np.maximum),
    "arith.minsi": _on_signed(np.minimum),
    "arith.maxui": _on_unsigned(np.maximum),
    "arith.minui": _on_unsigned(np.minimum),
    "arith.andi": _on_signed(np.bitwise_and),
    "arith.ori": _on_signed(np.bitwise_or),
    "arith.xori": _on_signed(np.bitwise_xor),
    "arith.shli": _shift(np.left_shift, is_signed=True),
    "arith.shrsi": _shift(np.right_shift, is_signed=True),
    "arith.shrui": _shift(np.right_shift, is_signed=False),
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _select,
    "arith.extsi": _on_signed(np.asarray),
    "arith.trunci": _on_signed(np.asarray),
    "arith.index_cast": _on_signed(np.asarray),
    "arith.extui": _on_unsigned(np.asarray),
    "arith.index_castui": _on_unsigned(np.asarray),
    "arith.sitofp": _sitofp,
    "arith.uitofp": _uitofp,
    "arith.fptosi": _fptosi,
    "arith.fptoui": _fptoui,
    "arith.extf": _on_floats(np.asarray),
    "arith.truncf": _on_floats(np.asarray),
    "arith.bitcast": _bitcast,
    "arith.addf": _on_floats(np.add),
    "arith.subf": _on_floats(np.subtract),
    "arith.mulf": _on_floats(np.multiply),
    "arith.divf": _on_floats(np.divide),
    "arith.remf": _on_floats(np.fmod),
    "arith.negf": _on_floats(np.negative),
    "arith.maximumf": _on_floats(_larger),
    "arith.minimumf": _on_floats(_smaller),
    "arith.maxnumf": _on_floats(_larger_number),
    "arith.minnumf": _on_floats(_smaller_number),
    "math.absi": _on_signed(np.abs),
    "math.absf": _on_floats(np.abs),
    "math.copysign": _on_floats(np.copysign),
    "math.ceil": _on_floats(np.ceil),
    "math.floor": _on_floats(np.floor),
    "math.trunc": _on_floats(np.trunc),
    "math.round": _on_floats(_half_away),
    "math.roundeven": _on_floats(np.rint),
    "math.sqrt": _on_floats(np.sqrt),
    "math.rsqrt": _on_floats(_reciprocal_root),
    "math.cbrt": _on_floats(np.cbrt),
    "math.exp": _on_floats(np.exp),
    "math.exp2": _on_floats(np.exp2),
    "math.expm1": _on_floats(np.expm1),
    "math.log": _on_floats(np.log),
    "math.log2": _on_floats(np.log2),
    "math.log10": _on_floats(np.log10),
    "math.log1p": _on_floats(np.log1p),
    "math.powf": _on_floats(np.power),
    "math.sin": _on_floats(np.sin),
    "math.cos": _on_floats(np.cos),
    "math.tan": _on_floats(np.tan),
    "math.asin": _on_floats(np.arcsin),
    "math.acos": _on_floats(np.arccos),
    "math.atan": _on_floats(np.arctan),
    "math.atan2": _on_floats(np.arctan2),
    "math.sinh": _on_floats(np.sinh),
    "math.cosh": _on_floats(np.cosh),
    "math.tanh": _on_floats(np.tanh),
    "math.asinh": _on_floats(np.arcsinh),
    "math.acosh": _on_floats(np.arccosh),
    "math.atanh": _on_floats(np.arctanh),
    "math.erf": _on_floats(_on_each(math.erf)),
    "math.erfc": _on_floats(_on_each(math.erfc)),
}
