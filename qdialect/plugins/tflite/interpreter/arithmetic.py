"""What LiteRT computes for sums, differences, products and quotients of codes of 8 bits.

With S = 2 * max(s_a, s_b), g one of `fixed_point` and a, b codes less their zero points:

    add, sub   ref  g(g(2^20 a, s_a / S) +- g(2^20 b, s_b / S), S / (2^20 s_y)), g = gemmlowp
               opt  sub: as ref; add: see `_optimized_add`
               xnn  (m_a a +- m_b b + 2^(k-1)) >> k, m_i = rint(s_i / s_y * 2^k),
                    k = 20 - floor(log2(max(s_a, s_b) / s_y)), ratios in float32
    mul        ref and opt  gemmlowp(a b, M32), M32 = s_a s_b / s_y in float32
               xnn  rint(float32(a b) * M32)
    div        ref and opt  see `_divide`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from qdialect.errors import InputError
from qdialect.interpreter.values import Array, Evaluation
from qdialect.ir import ops as nn
from qdialect.plugins.tflite.interpreter.fixed_point import (
    Integers,
    gemmlowp,
    in_floats,
    quantize_multiplier,
    single,
    wrapped,
)
from qdialect.plugins.tflite.interpreter.tensors import (
    Quantized,
    all_quantized,
    file_order,
    in_order,
    whole_vectors,
)

if TYPE_CHECKING:
    from qdialect.plugins.tflite.interpreter import Row

_BYTES = ("i8", "u8")
_LEFT = 20

Steps = Callable[[Integers, Integers, Sequence[Quantized]], Integers]
"""Steps of the result from codes of operands less zero points, and all qparams."""


def _scaled(a: Quantized, b: Quantized, y: Quantized) -> tuple[float, float, float]:
    scales = [one.wide_scale.item() for one in (a, b, y)]
    return scales[0], scales[1], scales[2]


def _one(multiply: Callable[..., Integers], values: Integers, ratio: float) -> Integers:
    return multiply(values, *quantize_multiplier(ratio))


def _floored(a: Integers, q: Integers, e: Integers) -> Integers:
    """The high half rounded, the shift not: what SIMD does beside a broadcast scalar."""
    return gemmlowp(a, q, np.zeros_like(e)) >> -e


def _sum(
    sign: int, inner: Callable[..., Integers] = gemmlowp
) -> Callable[[Integers, Integers, Sequence[Quantized]], Integers]:
    def steps(a: Integers, b: Integers, qparams: Sequence[Quantized]) -> Integers:
        s_a, s_b, s_y = _scaled(*qparams)
        most = 2 * max(s_a, s_b)
        left = _one(inner, a << _LEFT, s_a / most)
        right = _one(inner, b << _LEFT, s_b / most)
        return _one(gemmlowp, left + sign * right, most / (s_y * (1 << _LEFT)))

    return steps


def _xnn_sum(sign: int) -> Steps:
    def steps(a: Integers, b: Integers, qparams: Sequence[Quantized]) -> Integers:
        s_a, s_b, s_y = (one.scale.reshape(()) for one in qparams)
        ratios = (s_a / s_y, s_b / s_y)
        shift = _LEFT + 1 - int(np.frexp(max(ratios))[1])
        m_a, m_b = (int(np.rint(np.ldexp(np.float64(ratio), shift))) for ratio in ratios)
        return (m_a * a + sign * m_b * b + (1 << (shift - 1))) >> shift

    return steps


def _product(a: Integers, b: Integers, qparams: Sequence[Quantized]) -> Integers:
    s_a, s_b, s_y = (one.scale.reshape(()) for one in qparams)
    return _one(gemmlowp, a * b, float(s_a * s_b / s_y))


def _xnn_product(a: Integers, b: Integers, qparams: Sequence[Quantized]) -> Integers:
    s_a, s_b, s_y = (one.scale.reshape(()) for one in qparams)
    return in_floats(a * b, s_a * s_b / s_y)


def _typed(op: Operation, operands: Sequence[Array]) -> list[Quantized] | None:
    """The qparams, of bytes and per tensor."""
    rank = max(operand.ndim for operand in operands)
    known = all_quantized(op, operands, rank)
    if known is None:
        return None
    types = {one.code_type for one in known}
    tensors = all(one.scale.size == 1 for one in known)
    return known if tensors and len(types) == 1 and types <= set(_BYTES) else None


def _row(steps: Steps) -> Row:
    def run(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array] | None:
        known = _typed(op, operands)
        if known is None:
            return None
        a, b = (one.offsets(codes) for one, codes in zip(known, operands, strict=False))
        return [known[2].codes(steps(a, b, known))]

    return run


# -- sums of the optimized kernels ------------------------------------------------


def _optimized_add(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array] | None:
    """By the ways in which SIMD and scalar code round, each where it computes."""
    known = _typed(op, operands)
    if known is None:
        return None
    a, b = (one.offsets(codes) for one, codes in zip(known, operands, strict=False))
    order = file_order(op, max(a.ndim, b.ndim))
    shape_a, shape_b = (in_order(value.shape, order) for value in (a, b))
    steps = _sum(1)(a, b, known)
    for way, places in _vectorized(shape_a, shape_b, known[0].code_type).items():
        back = np.argsort(order)
        steps = np.where(places.transpose(back), _sum(1, way)(a, b, known), steps)
    return [known[2].codes(steps)]


def _vectorized(
    a: tuple[int, ...], b: tuple[int, ...], code_type: str
) -> dict[Callable[..., Integers], NDArray[np.bool_]]:
    """Which elements of the result SIMD computes, by how it rounds: all but the rest of each run
    of memory beyond whole vectors. A run is what both operands have alike in their innermost
    dimensions, or where that is nothing, what one repeats an element of the other along."""
    shape = np.broadcast_shapes(a, b)
    elementwise, length = (single, 16) if code_type == "i8" else (_floored, 8)
    if a == b:
        return {elementwise: whole_vectors(shape, prod(shape), length)}
    folds = _five_folds(a, b)
    if folds is None:
        return {}
    repeated, alike = folds
    if alike > 1:
        return {elementwise: whole_vectors(shape, alike, length)}
    return {_floored: whole_vectors(shape, repeated, 8)}


def _five_folds(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, int] | None:
    """How many elements are repeated in a row, and how many inside are alike; None where shapes
    alternate more often than LiteRT's five loops can."""
    differ = [d for d in range(len(a)) if a[d] != b[d]]
    if not differ:
        return 1, prod(a)
    if a[differ[-1]] != 1:
        a, b = b, a
    extents: list[int] = []
    d = len(a) - 1
    folds: tuple[Callable[[int], bool], ...] = (
        lambda d: a[d] == b[d],
        lambda d: a[d] == 1,
        lambda d: a[d] == b[d],
        lambda d: b[d] == 1,
        lambda d: a[d] == b[d],
    )
    for belongs in folds:
        first = d
        while d >= 0 and belongs(d):
            d -= 1
        extents.append(prod(b[d + 1 : first + 1]))
    return (extents[1], extents[0]) if d < 0 else None


# -- quotients --------------------------------------------------------------------


def _divide(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array] | None:
    """The quotient through a reciprocal of 31 bits; InputError where a divisor is 0, which LiteRT
    refuses."""
    known = _typed(op, operands)
    if known is None:
        return None
    a, b = (one.offsets(codes) for one, codes in zip(known, operands, strict=False))
    if not b.all():
        raise InputError("LiteRT divides by no code that stands for 0", code="division-by-zero")
    a, b = np.broadcast_arrays(np.where(b < 0, -a, a), np.abs(b))
    s_a, s_b, s_y = (one.scale.reshape(()) for one in known)
    q, e = quantize_multiplier(np.float64(s_a / (s_b * s_y)))
    inverse, exponent = _reciprocal(b)
    headroom = 31 - _bits(np.where(a < 0, -a - 1, a))
    quotient = gemmlowp(a << headroom, inverse, np.zeros_like(a))
    return [known[2].codes(_shifted_as_x86(_high(quotient, q), exponent + headroom - e))]


def _shifted_as_x86(h: Integers, right: Integers) -> Integers:
    """h / 2^right half away from zero, for `right` in [0, 31].  LiteRT shifts by more where the
    dividend is small, and the processor takes that modulo 32 (64 for the mask): the quotients are
    wrong then, and these."""
    mask = wrapped((np.int64(1) << (right % 64)) - 1)
    return (h >> (right % 32)) + ((h & mask) > (mask >> 1) + (h < 0))


def _bits(values: Integers) -> Integers:
    """The number of bits of integers in [0, 2^31)."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _reciprocal(x: Integers) -> tuple[Integers, Integers]:
    """1 / x of positive integers as a multiplier m and an exponent n, m * 2^-(31 + n).

    x = (1 + f) 2^n; 1 / (1 + f) by three steps of Newton in numbers of 2 integer bits.
    """
    exponent = _bits(x) - 1
    fraction = (x << (31 - exponent)) - (1 << 31)
    half = (fraction + (1 << 31) - 1 + 1) >> 1
    inverse = 1515870810 + _high(half, np.int64(-1010580540))
    for _ in range(3):
        rest = (1 << 29) - _high(half, inverse)
        inverse = inverse + _saturated(_high(inverse, rest) << 2)
    return _saturated(inverse << 1), exponent


def _high(a: Integers, b: Integers | np.int64) -> Integers:
    return (a * b + (1 << 30)) >> 31


def _saturated(a: Integers) -> Integers:
    return np.clip(a, -(1 << 31), (1 << 31) - 1)


def _table(add: Row, sub: Row, mul: Row) -> dict[str, Row]:
    return {nn.AddOp.name: add, nn.SubOp.name: sub, nn.MulOp.name: mul}


ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": {
        **_table(_row(_sum(1)), _row(_sum(-1)), _row(_product)),
        nn.DivOp.name: _divide,
    },
    "litert-opt": {
        **_table(_optimized_add, _row(_sum(-1)), _row(_product)),
        nn.DivOp.name: _divide,
    },
    "litert-xnn": _table(_row(_xnn_sum(1)), _row(_xnn_sum(-1)), _row(_xnn_product)),
}
"""The rows of this file. XNNPACK divides no codes."""
