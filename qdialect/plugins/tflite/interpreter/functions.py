"""Functions of one number as LiteRT computes them: from tables that it makes in floats.

Codes of 8 bits: a table of all of them. LiteRT's own kernels dequantize, apply the function in
f32, multiply by 1 / scale, round half away and add the zero point; XNNPACK adds the zero point in
f32 and rounds half to even. Codes of 16 bits: 513 numbers, between which it interpolates.

Functions are rounded to f32 once; LiteRT has what its C library gives, which may differ in the
last bit and so at most in codes beside ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from qdialect.errors import UnsupportedError
from qdialect.interpreter.quantize import properties
from qdialect.interpreter.values import Array
from qdialect.ir import ops as nn
from qdialect.plugins.tflite.interpreter import Row
from qdialect.plugins.tflite.interpreter.fixed_point import gemmlowp, half_away, quantize_multiplier
from qdialect.plugins.tflite.interpreter.per_tensor import Codes, Integers, codes_row

Singles = NDArray[np.float32]
Function = Callable[[Operation, Singles, Codes], Singles]
"""A function on f32; it may ask for the qparams of the result."""

single = np.float32


# -- in f32 -----------------------------------------------------------------------------


def exp(x: Singles) -> Singles:
    """The exponential function, rounded to f32."""
    return np.exp(x.astype(np.float64)).astype(single)


def tanh(x: Singles) -> Singles:
    """The hyperbolic tangent, rounded to f32."""
    return np.tanh(x.astype(np.float64)).astype(single)


def _exp(op: Operation, x: Singles, to: Codes) -> Singles:
    return exp(x)


def _tanh(op: Operation, x: Singles, to: Codes) -> Singles:
    return tanh(x)


def _logistic(op: Operation, x: Singles, to: Codes) -> Singles:
    return single(1) / (single(1) + exp(-x))


def _precise_logistic(op: Operation, x: Singles, to: Codes) -> Singles:
    """XNNPACK: in double, rounded once."""
    e = np.exp(np.clip(x.astype(np.float64), -100, 100))
    return np.where(x > 100, 1, np.where(x < -100, 0, e / (1 + e))).astype(single)


def _elu(op: Operation, x: Singles, to: Codes) -> Singles:
    if properties(op)["alpha"] != 1.0:
        raise UnsupportedError("LiteRT has this function on codes for alpha = 1 only")
    return np.where(x < 0, np.expm1(x.astype(np.float64)).astype(single), x)


_HALF: Any = single(0.5)
_UNIT: Any = single(1)
_CUBIC: Any = single(0.044715)
_HALF_ROOT: Any = single(-math.sqrt(0.5))
_ROOT_OF_2_BY_PI: Any = single(math.sqrt(2 / math.pi))


def _gelu(op: Operation, x: Singles, to: Codes) -> Singles:
    half: Singles = _HALF * x
    if properties(op)["approximate"] == "tanh":
        cubic: Singles = x + _CUBIC * x * x * x
        inner: Singles = _ROOT_OF_2_BY_PI * cubic
        return half * (tanh(inner) + _UNIT)
    wide = (x * _HALF_ROOT).astype(np.float64)
    return half * np.vectorize(math.erfc, otypes=[np.float64])(wide).astype(single)


def _log(op: Operation, x: Singles, to: Codes) -> Singles:
    """What has no logarithm becomes the lowest number of the result."""
    lowest = single(to.low - to.zero) * to.scale
    positive = np.where(x > 0, x, 1).astype(np.float64)
    return np.where(x > 0, np.log(positive).astype(single), lowest)


def _reciprocal_root(op: Operation, x: Singles, to: Codes) -> Singles:
    """What has no root becomes the largest number of the result."""
    root = np.sqrt(np.where(x > 0, x, single(1)))
    return np.where(x > 0, single(1) / root, single(32767) * to.scale)


# -- tables -----------------------------------------------------------------------------


def _table(op: Operation, function: Function, source: Codes, to: Codes) -> Integers:
    """The results of all codes of 8 bits."""
    x = source.scale * (source.all - source.zero).astype(single)
    steps = half_away(function(op, x, to) * (single(1) / to.scale)).astype(single)
    return half_away(np.clip(steps + single(to.zero), -(2.0**30), 2.0**30))


def _xnn_table(op: Operation, function: Function, source: Codes, to: Codes) -> Integers:
    """The same as XNNPACK makes it."""
    x = (source.all - source.zero).astype(single) * source.scale
    steps = function(op, x, to) * (single(1) / to.scale) + single(to.zero)
    return np.rint(np.clip(steps, to.low, to.high)).astype(np.int64)


def samples(
    function: Callable[[NDArray[Any]], NDArray[Any]], scale: Any, zero: int, to: Any, to_zero: int
) -> Integers:
    """513 samples of a function of codes of 16 bits, each moved by half of what interpolation
    is off in the middle; in the float type of the scales."""
    kind: Any = scale.dtype.type
    low, high = scale * kind(-32768 - zero), scale * kind(32767 - zero)
    step = (high - low) / kind(512)
    unit = kind(65536) / (to * kind(32767 - to_zero) - to * kind(-32768 - to_zero))
    index = np.arange(513).astype(kind)
    values = function(low + index * step) * unit
    here, following = _whole(values[:512]), values[1:]
    middle = _whole(function(low + index[:512] * step + step / kind(2)) * unit)
    between = _whole((following + here) / kind(2))
    moved = here - _whole((between - middle) / kind(2))
    last = _whole(function(np.array([high], kind)) * unit)
    kept = np.clip(np.concatenate([moved, last]), -32768, 32767)
    return np.where(np.isnan(kept), 0, kept).astype(np.int64)


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Rounded half away, in the same float type; infinities stay."""
    whole = np.trunc(values)
    up = np.abs(values - whole) >= 0.5
    return np.where(up, whole + np.copysign(values.dtype.type(1), values), whole)


def interpolated(codes: Integers, found: Integers) -> Integers:
    """Codes of 16 bits through 513 samples, in the 16 bits that the kernel has."""
    index = 256 + (codes >> 7)
    base = found[index]
    slope = _short(found[index + 1] - base)
    return _short(base + ((slope * (codes & 127) + 64) >> 7))


def _short(values: Integers) -> Integers:
    return values.astype(np.int16).astype(np.int64)


def _from_table(function: Function, make: Any, *types: str) -> Row:
    def compute(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
        source, to = found
        return make(op, function, source, to)[operands[0].astype(np.int64) - source.low]

    return codes_row(compute, *types)


def _from_samples(function: Function) -> Row:
    def compute(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
        source, to = found
        curve = samples(lambda x: function(op, x, to), source.scale, source.zero, to.scale, to.zero)
        return interpolated(operands[0].astype(np.int64), curve)

    return codes_row(compute, "i16")


def either(*rows: Row) -> Row:
    """The first of the rows that says something."""

    def row(op: Operation, operands: Sequence[Array], evaluation: Any) -> Sequence[Array] | None:
        results = (one(op, operands, evaluation) for one in rows)
        return next((found for found in results if found is not None), None)

    return row


# -- in integers ------------------------------------------------------------------------


def _absolute(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    """|q - z|, scaled if the scales differ."""
    source, to = found
    steps = np.abs(source.steps(operands[0]))
    if source.scale != to.scale:
        steps = gemmlowp(steps, *quantize_multiplier(float(source.scale / to.scale)))
    return steps + to.zero


def _negative(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    """-q, whatever the qparams are; the lowest code stays."""
    return np.negative(operands[0])


def _rooted(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Integers:
    steps = found[0].steps(operands[0])
    if np.any(steps < 0):
        raise UnsupportedError("LiteRT refuses roots of negative numbers")
    return steps


def _root(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    """In f32, truncated."""
    source, to = found
    root = np.sqrt(source.scale * _rooted(op, operands, found).astype(single))
    return np.trunc(np.minimum(root / to.scale, single(1 << 30))).astype(np.int64) + to.zero


_PLACES = 20


def _power(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    """1 / sqrt(x): by samples of 16 bits, or by Newton's method from codes of 8."""
    if properties(op)["exponent"] != -0.5:
        raise UnsupportedError("LiteRT has a kernel on codes for the power -1/2 only")
    source, to = found
    steps = _rooted(op, operands, found)
    if source.type == "i16":
        curve = samples(
            lambda x: _reciprocal_root(op, x, to), source.scale, source.zero, to.scale, to.zero
        )
        return interpolated(operands[0].astype(np.int64), curve)
    q, e = quantize_multiplier(1 / float(np.sqrt(source.scale) * to.scale))
    results = [to.high]
    for step in range(1, int(steps.max(initial=0)) + 1):
        part, places = _inverse_root(step)
        wide = gemmlowp(*(np.array(n) for n in (1, part, places + _PLACES)))
        results.append(int(gemmlowp(wide, q, e - _PLACES)) + to.zero)
    return np.array(results)[steps]


def _inverse_root(steps: int) -> tuple[int, int]:
    """1 / sqrt(steps) as a fraction of 31 bits and an exponent, by five steps of Newton's
    method on numbers with 3 integer bits."""
    if steps <= 1:
        return (1 << 31) - 1, 0
    pairs = (31 - steps.bit_length()) // 2 - 1
    shift = 11 - pairs
    operand = (steps << 2 * pairs) >> 1
    half, x = (operand + 1) >> 1, 1 << 28
    for _ in range(5):
        cube = _raised(_high(_high(x, x), x), 6)
        x = _raised(_high(3 << 27, x) - _high(half, cube), 3)
    x = _high(x, 1518500250)
    return (x << -shift, 0) if shift < 0 else (x, -shift)


def _high(a: int, b: int) -> int:
    return (a * b + (1 << 30)) >> 31


def _raised(value: int, places: int) -> int:
    return max(min(value << places, (1 << 31) - 1), -(1 << 31))


_OWN: Mapping[str, Row] = {
    nn.SigmoidOp.name: _from_table(_logistic, _table, "i8", "u8"),
    nn.TanhOp.name: _from_table(_tanh, _table, "i8", "u8"),
    nn.ExpOp.name: either(_from_table(_exp, _table, "i8"), _from_samples(_exp)),
    nn.GeluOp.name: either(_from_table(_gelu, _table, "i8", "u8"), _from_samples(_gelu)),
    nn.LogOp.name: either(_from_table(_log, _table, "i8"), _from_samples(_log)),
    nn.AbsOp.name: codes_row(_absolute, "i8", "i16"),
    nn.NegOp.name: codes_row(_negative, "i8", "i16"),
    nn.SqrtOp.name: codes_row(_root, "i8", "i16"),
    nn.PowOp.name: codes_row(_power, "i8", "i16"),
}
"""What both resolvers compute."""

ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": _OWN,
    "litert-opt": {**_OWN, nn.EluOp.name: _from_table(_elu, _table, "i8")},
    "litert-xnn": {
        nn.SigmoidOp.name: _from_table(_precise_logistic, _xnn_table, "i8", "u8"),
        nn.TanhOp.name: _from_table(_tanh, _xnn_table, "i8", "u8"),
        nn.EluOp.name: _from_table(_elu, _xnn_table, "i8"),
    },
}
