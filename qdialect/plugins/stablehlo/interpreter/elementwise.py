"""Elementwise ops of StableHLO, which the bodies of reductions are made of too.

Floats are computed by numpy in their type (f16, bf16 and smaller ones in f32) and rounded once;
integers wrap. Functions on bools are those of the specification: `add` is or, `multiply` and.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import IndexType

from qdialect.errors import UnsupportedError
from qdialect.interpreter.values import Array
from qdialect.ir.quant import element_type
from qdialect.plugins.stablehlo.interpreter.call import (
    Call,
    Function,
    as_numbers,
    is_complex,
    is_integer,
    is_unsigned,
    width_of,
    wrapped,
)


def _numbers(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [as_numbers(x, t) for x, t in zip(operands, call.operand_types, strict=True)]


def numeric(function: Callable[..., Array]) -> Function:
    """A function of numpy on numbers of every kind."""

    def kernel(call: Call, operands: Sequence[Array]) -> list[Array]:
        return [call.stored(function(*_numbers(call, operands)))]

    return kernel


def _by_kind(
    floats: Callable[..., Array],
    integers: Callable[..., Array] | None = None,
    bools: Callable[..., Array] | None = None,
) -> Function:
    """Functions for floats (and complex numbers), integers and bools."""

    def kernel(call: Call, operands: Sequence[Array]) -> list[Array]:
        values = _numbers(call, operands)
        kind = values[0].dtype.kind
        chosen = {"b": bools or integers, "i": integers, "u": integers}.get(kind, floats)
        if chosen is None:
            raise UnsupportedError(f"'{call.name}' is not defined on {call.operand_types[0]}")
        return [call.stored(chosen(*values))]

    return kernel


# -- integers -----------------------------------------------------------------


def _quotient(a: Array, b: Array) -> Array:
    """Towards 0; all ones where the divisor is 0."""
    safe = np.where(b == 0, 1, b)
    result = a // safe
    if a.dtype.kind == "i":
        result = result + ((a % safe != 0) & ((a < 0) != (safe < 0)))
    return np.where(b == 0, np.array(-1).astype(a.dtype), result).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    """With the sign of the dividend; the dividend where the divisor is 0."""
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, a, np.fmod(a, safe)).astype(a.dtype)


def _integer_power(a: Array, b: Array) -> Array:
    """By squaring, modulo the width; of a negative exponent the whole part."""
    result = np.ones(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    base, exponent = a + np.zeros_like(result), np.maximum(b, 0) + np.zeros_like(result)
    while exponent.any():
        result = np.where(exponent & 1, result * base, result)
        base, exponent = base * base, exponent >> 1
    if a.dtype.kind == "i":
        below = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0))
        result = np.where(b < 0, below, result)
    return result.astype(a.dtype)


def _shift(how: str) -> Function:
    def kernel(call: Call, operands: Sequence[Array]) -> list[Array]:
        x, by = operands
        width = width_of(call.result_types[0])
        wide = x.astype(np.int64 if x.dtype.kind != "u" else np.uint64)
        amount = by.astype(np.int64)
        far = (amount < 0) | (amount >= width)
        safe = np.where(far, 0, amount)
        if how == "left":
            result = np.where(far, 0, wide << safe.astype(wide.dtype))
        elif how == "arithmetic":
            signed = _as_signed(wide, width)
            result = signed >> np.where(far, width - 1, amount)
        else:
            mask = np.uint64((1 << width) - 1)
            bits = wide.astype(np.uint64) & mask
            result = np.where(far, np.uint64(0), bits >> safe.astype(np.uint64))
        return [wrapped(result, call.result_types[0])]

    return kernel


def _as_signed(wide: Array, width: int) -> Array:
    shift = 64 - width
    return (wide.astype(np.int64) << shift) >> shift


def _count(count: Callable[[int, int], int]) -> Function:
    """A function of the bits of each integer and their number."""

    def kernel(call: Call, operands: Sequence[Array]) -> list[Array]:
        width = width_of(call.result_types[0])
        bits = (int(v) & ((1 << width) - 1) for v in operands[0].reshape(-1).tolist())
        counted = np.array([count(b, width) for b in bits], np.int64)
        return [wrapped(counted.reshape(operands[0].shape), call.result_types[0])]

    return kernel


# -- floats and complex numbers -----------------------------------------------------


def double(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function computed in f64 (complex128), the result rounded once to the type."""

    def wide(*operands: Array) -> Array:
        return function(
            *(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in operands)
        )

    return wide


def _maximum(a: Array, b: Array) -> Array:
    if a.dtype.kind != "c":
        return np.maximum(a, b)
    larger = (np.real(a) > np.real(b)) | ((np.real(a) == np.real(b)) & (np.imag(a) >= np.imag(b)))
    return np.where(larger, a, b)


def _minimum(a: Array, b: Array) -> Array:
    return np.minimum(a, b) if a.dtype.kind != "c" else np.where(_maximum(a, b) == a, b, a)


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.where(x == 0, 0, x / np.abs(np.where(x == 0, 1, x)))
    return np.where(np.isnan(x) | (x == 0), x, np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)


def _cube_root(x: Array) -> Array:
    return np.cbrt(x) if x.dtype.kind != "c" else x ** (1 / 3)


def _inverse_root(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _log_plus_one(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.log1p(x)
    # |1 + x|^2 - 1 = a (a + 2) + b^2 keeps what 1 + a would round off.
    a, b = np.real(x), np.imag(x)
    return 0.5 * np.log1p(a * (a + 2) + b * b) + 1j * np.arctan2(b, 1 + a)


def _exp_minus_one(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.expm1(x)
    a, b = np.real(x), np.imag(x)
    real = np.expm1(a) * np.cos(b) - 2 * np.sin(b / 2) ** 2
    return real + 1j * np.exp(a) * np.sin(b)


def _atan2(a: Array, b: Array) -> Array:
    if a.dtype.kind != "c":
        return np.arctan2(a, b)
    return -1j * np.log((b + 1j * a) / np.sqrt(b * b + a * a))


def _select(call: Call, operands: Sequence[Array]) -> list[Array]:
    chosen, a, b = operands
    return [np.where(chosen, a, b).astype(a.dtype)]


def _clamp(call: Call, operands: Sequence[Array]) -> list[Array]:
    low, x, high = _numbers(call, operands)
    return [call.stored(_minimum(_maximum(x, low), high))]


def _compare(call: Call, operands: Sequence[Array]) -> list[Array]:
    a, b = _numbers(call, operands)
    if call.word("compare_type") == "TOTALORDER":
        a, b = _total_order(a), _total_order(b)
    functions = {
        "EQ": np.equal,
        "NE": np.not_equal,
        "GE": np.greater_equal,
        "GT": np.greater,
        "LE": np.less_equal,
        "LT": np.less,
    }
    return [functions[call.word("comparison_direction")](a, b)]


def _total_order(x: Array) -> Array:
    """Integers in the total order of floats: -NaN < -inf < .. < -0 < 0 < .. < inf < NaN."""
    bits = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    return bits ^ ((bits >> (8 * x.dtype.itemsize - 1)) & np.iinfo(bits.dtype).max)


def _convert(call: Call, operands: Sequence[Array]) -> list[Array]:
    (x,), target = _numbers(call, operands), call.result_types[0]
    if x.dtype.kind == "c" and not is_complex(target):
        x = np.real(x)
    if is_integer(target):
        if width_of(target) == 1 and not is_unsigned(target):
            return [x != 0]
        if x.dtype.kind == "f":
            x = _whole(x, width_of(target), is_unsigned(target))
        return [wrapped(x.astype(np.int64) if x.dtype.kind == "b" else x, target)]
    if isinstance(element_type(target), IndexType):
        return [x.astype(np.int64)]
    if x.dtype.kind in "biu" and not is_complex(target):
        x = x.astype(np.float64)
    return [call.stored(x)]


def _whole(x: Array, width: int, unsigned: bool) -> Array:
    """Floats towards 0 as 64-bit integers, saturating; NaN is 0."""
    low = 0 if unsigned else -(1 << (width - 1))
    high = (1 << (width - (not unsigned))) - 1
    wide = np.trunc(np.where(np.isnan(x), 0.0, x.astype(np.float64)))
    dtype = np.uint64 if unsigned else np.int64
    inside = (wide > low) & (wide < high)
    result = np.where(inside, wide, 0.0).astype(dtype)
    return np.where(inside, result, np.where(wide >= high, dtype(high), dtype(low)))


def _reduce_precision(call: Call, operands: Sequence[Array]) -> list[Array]:
    (x,) = _numbers(call, operands)
    exponent_bits, mantissa_bits = call.integer("exponent_bits"), call.integer("mantissa_bits")
    bias = (1 << (exponent_bits - 1)) - 1
    wide = x.astype(np.float64)
    fraction, exponent = np.frexp(wide)
    # 1 + mantissa bits, in the format's range of exponents; what is below becomes 0.
    rounded = np.ldexp(np.rint(np.ldexp(fraction, mantissa_bits + 1)), exponent - mantissa_bits - 1)
    largest = np.ldexp(2.0 - 2.0**-mantissa_bits, bias)
    rounded = np.where(np.abs(rounded) > largest, np.copysign(np.inf, wide), rounded)
    smallest = np.ldexp(1.0, 1 - bias)
    rounded = np.where(np.abs(rounded) < smallest, np.copysign(0.0, wide), rounded)
    # Without a mantissa there is no NaN.
    others = np.where(np.isnan(wide) & (mantissa_bits == 0), np.inf, wide)
    return [call.stored(np.where(np.isfinite(wide), rounded, others).astype(x.dtype))]


def _complex(call: Call, operands: Sequence[Array]) -> list[Array]:
    real, imaginary = operands
    # Not real + 1j * imaginary, which makes NaN of infinities.
    parts = np.stack([real, imaginary], -1)
    return [np.ascontiguousarray(parts).view(call.dtype).reshape(real.shape)]


def _is_finite(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [np.isfinite(_numbers(call, operands)[0])]


def _negated(x: Array) -> Array:
    return np.logical_not(x) if x.dtype.kind == "b" else ~x


FUNCTIONS: dict[str, Function] = {
    "abs": numeric(np.abs),
    "add": _by_kind(np.add, np.add, np.logical_or),
    "and": numeric(np.bitwise_and),
    "atan2": numeric(double(_atan2)),
    "cbrt": numeric(double(_cube_root)),
    "ceil": numeric(np.ceil),
    "clamp": _clamp,
    "compare": _compare,
    "complex": _complex,
    "convert": _convert,
    "cosine": numeric(double(np.cos)),
    "count_leading_zeros": _count(lambda bits, width: width - bits.bit_length()),
    "divide": _by_kind(np.divide, _quotient),
    "exponential": numeric(double(np.exp)),
    "exponential_minus_one": numeric(double(_exp_minus_one)),
    "floor": numeric(np.floor),
    "imag": numeric(np.imag),
    "is_finite": _is_finite,
    "log": numeric(double(np.log)),
    "log_plus_one": numeric(double(_log_plus_one)),
    "logistic": numeric(double(_logistic)),
    "maximum": _by_kind(_maximum, np.maximum, np.logical_or),
    "minimum": _by_kind(_minimum, np.minimum, np.logical_and),
    "multiply": _by_kind(np.multiply, np.multiply, np.logical_and),
    "negate": numeric(np.negative),
    "not": numeric(_negated),
    "or": numeric(np.bitwise_or),
    "popcnt": _count(lambda bits, width: bits.bit_count()),
    "power": _by_kind(double(np.power), _integer_power),
    "real": numeric(np.real),
    "reduce_precision": _reduce_precision,
    "remainder": _by_kind(np.fmod, _remainder),
    "round_nearest_afz": numeric(_round_away),
    "round_nearest_even": numeric(np.rint),
    "rsqrt": numeric(double(_inverse_root)),
    "select": _select,
    "shift_left": _shift("left"),
    "shift_right_arithmetic": _shift("arithmetic"),
    "shift_right_logical": _shift("logical"),
    "sign": numeric(_sign),
    "sine": numeric(double(np.sin)),
    "sqrt": numeric(double(np.sqrt)),
    "subtract": _by_kind(np.subtract, np.subtract),
    "tan": numeric(double(np.tan)),
    "tanh": numeric(double(np.tanh)),
    "xor": numeric(np.bitwise_xor),
}
"""By name, without the dialect."""
