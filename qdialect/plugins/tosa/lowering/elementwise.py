"""Elementwise ops: integer arithmetic in 32 bits, clamps, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i8, i32
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import ranges
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.plugins.common.lowering.emitter import INTEGERS, Lowering, integers, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut
from qdialect.plugins.common.lowering.preconditions import (
    check_quotient,
    clamp_bounds,
    common_order,
    common_qparams,
    exact_result,
)
from qdialect.plugins.tosa.dialect import PROPAGATE
from qdialect.plugins.tosa.lowering.emitter import Emitter, flag
from qdialect.plugins.tosa.lowering.rescale import (
    UNIT,
    as_laid_out,
    clamped,
    rescaled,
    signed,
    widened,
)


def arithmetic(name: str) -> Lowering[Emitter]:
    """`nn.add`, `nn.sub` and `nn.mul`: exact, of codes less their zero points."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        exact_result(e, op)
        shape = shape_of(op.results[0])
        parts = [ranked(e, x, len(shape)) for x in operands]
        if any(x.params is None for x in parts):
            raise Unlowerable("float", "an operand is float", "quantize it (qopt quantize)")
        order = common_order(parts, len(shape))
        values: list[SSAValue] = [widened(e, x, order) for x in parts]
        if name == "mul":
            values.append(e.scalar(0, 8))
        out = e.op(name, values, [shape[d] for d in order], i32)
        return e.result(out, order, qparams_of(op.results[0]), shape)

    return lower


def extremum(name: str) -> Lowering[Emitter]:
    """`nn.maximum` and `nn.minimum` of codes on one scale, compared in 32 bits."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        shape = shape_of(op.results[0])
        parts = [ranked(e, x, len(shape)) for x in operands]
        result = common_qparams(parts, qparams_of(op.results[0]))
        order = common_order(parts, len(shape))
        values = [widened(e, x, order) for x in parts]
        out = e.op(name, values, [shape[d] for d in order], i32, nan_mode=PROPAGATE)
        return e.result(narrowed(e, out, result), order, result, shape)

    return lower


def narrowed(e: Emitter, steps: SSAValue, result: QParams) -> SSAValue:
    """Codes of `result` from codes less their zero point, which are within its bounds."""
    if result.storage.spelling == "i32" and not any(result.zero_point_list()):
        return steps
    source = QParams.per_tensor("i32", 1.0)
    full = result.with_storage(result.storage.spelling)
    return rescaled(e, steps, (source, full), [UNIT], Rounding.HALF_UP, 1 << 16)


def clamp(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.relu` and `nn.clip` of codes: their bounds are codes too, or never act."""
    (x,) = operands
    params, (low, high) = clamp_bounds(e, op, x)
    x = signed(e, x)
    assert x.params is not None
    shift = x.params.zero_point_list()[0] - params.zero_point_list()[0]
    value = e.value_of(x, x.order)
    width = max(params.storage.width, 8)
    if width == 32:
        out = clamped(e, value, low, high)
    else:
        out = e.op(
            "clamp",
            [value],
            shape_of(value),
            integers(width),
            min_val=IntegerAttr(low + shift, integers(width)),
            max_val=IntegerAttr(high + shift, integers(width)),
            nan_mode=PROPAGATE,
        )
    return e.result(restored(e, out, x.params, params), x.order, params, x.shape)


def restored(e: Emitter, value: SSAValue, source: QParams, target: QParams) -> SSAValue:
    """Signed codes as the unsigned ones they stand for."""
    if source == as_laid_out(target):
        return value
    return rescaled(e, value, (source, target), [UNIT], Rounding.HALF_UP, 1 << 16)


def table(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.table`: 8-bit codes to codes, byte by byte where results have several; of wider
    codes those within 256 of 0."""
    x, entries = operands
    result = qparams_of(op.results[0])
    if x.params is None or entries.array is None or result is None:
        raise Unlowerable("table", "its table is no constant")
    numbers = entries.array.astype(np.int64)
    if x.params.storage.width == 16 and x.params.storage.signed:
        return _wide_table(e, op, x, numbers, result)
    if x.params.storage.width != 8:
        raise Unlowerable("table", f"it looks up {x.params.storage}", "8-bit or 16-bit storage")
    x = signed(e, x)
    value, order = e.value_of(x, x.order), x.order
    width = max(result.storage.width, 8)
    if width == 8:
        # Bits in place of unsigned numbers: a lookup copies them.
        out = _looked_up(e, value, numbers.astype(np.uint8).view(np.int8))
    else:
        out = _assembled(e, value, numbers, width)
    return e.result(out, order, result, x.shape)


_HALF = 1 << 15
_REACH = 256
"""A table of 16-bit codes has 513 entries, 128 codes apart: codes times 128 hit them."""


def _wide_table(e: Emitter, op: Operation, x: LaidOut, numbers: Any, result: QParams) -> LaidOut:
    """Codes in [-256, 256], exactly: what lies between entries is not used.

    An entry of 16 bits comes out times 128; entries of 31 bits are made of two tables.
    """
    from qdialect.analysis.ranges import ranges

    known = ranges(e.session).of(op.operands[0])
    if known is None or known.low < -_REACH or known.high > _REACH:
        return _gathered(e, op, x, numbers, result)
    entries = numbers[_HALF - _REACH : _HALF + _REACH + 1]
    if entries.min() < 0 and result.storage.width == 32:
        raise Unlowerable("table", "its 32-bit entries are negative")
    value, shape = e.value_of(x, x.order), shape_of(e.value_of(x, x.order))
    i16 = integers(16)
    unit, wide = QParams.per_tensor("i16", 1.0), QParams.per_tensor("i32", 1.0)
    spread = rescaled(e, value, (unit, unit), [(128 << 20, 20)], Rounding.HALF_UP, _REACH)

    def look_up(digits: Any) -> SSAValue:
        entries = e.const(digits.astype(np.int16), i16)
        return e.op("table", [spread, entries], shape, i32)

    if result.storage.width < 32:
        out = rescaled(
            e,
            look_up(entries),
            (wide, QParams.per_tensor(result.storage.spelling, 1.0)),
            [(1 << 20, 27)],
            Rounding.HALF_UP,
            1 << 22,
        )
        return e.result(out, x.order, result, x.shape)
    # 15 bits each; the lower ones are taken back to units, the upper ones to 2**15.
    low = rescaled(
        e, look_up(entries & 0x7FFF), (wide, wide), [(1 << 20, 27)], Rounding.HALF_UP, 1 << 22
    )
    rank = (1,) * len(shape)
    factor = e.const(np.full(rank, 1 << 8, np.int32), i32)
    high = e.op("mul", [look_up(entries >> 15), factor, e.scalar(0, 8)], shape, i32)
    return e.result(e.op("add", [high, low], shape, i32), x.order, result, x.shape)


def _gathered(e: Emitter, op: Operation, x: LaidOut, numbers: Any, result: QParams) -> LaidOut:
    """Any 16-bit codes: rows of one entry, of which `tosa.gather` takes those at the codes
    less the smallest that occurs."""
    from qdialect.analysis.ranges import ranges

    known = ranges(e.session).of(op.operands[0])
    low, high = (-_HALF, _HALF - 1) if known is None else (int(known.low), int(known.high))
    value = e.value_of(x, x.order)
    shape, flat = shape_of(value), prod(x.shape)
    # A code c is read with zero point `low`: its row.
    source, wide = QParams.per_tensor("i16", 1.0), QParams.per_tensor("i32", 1.0)
    steps = rescaled(e, value, (source, wide), [UNIT], Rounding.HALF_UP, _HALF)
    first = e.const(np.full((1,) * len(shape), low, np.int32), i32)
    rows = e.reshaped(e.op("sub", [steps, first], shape, i32), (1, flat))
    width = max(result.storage.width, 8)
    entries = numbers[_HALF + low : _HALF + high + 1].astype(INTEGERS[width])
    element = integers(width)
    rows_of_one = e.const(entries.reshape(1, -1, 1), element)
    out = e.op("gather", [rows_of_one, rows], (1, flat, 1), element)
    return e.result(e.reshaped(out, shape), x.order, result, x.shape)


def _looked_up(e: Emitter, value: SSAValue, entries: Any) -> SSAValue:
    return e.op("table", [value, e.const(entries, i8)], shape_of(value), i8)


def _assembled(e: Emitter, value: SSAValue, numbers: Any, width: int) -> SSAValue:
    """Entries of several bytes: the highest is signed, each below adds 0 to 255."""
    shape, total = shape_of(value), None
    rank = (1,) * len(shape)
    for place in reversed(range(width // 8)):
        digit = numbers >> (8 * place)
        last = place == width // 8 - 1
        # A byte b is stored as b - 128, and read back with that zero point.
        byte = digit if last else (digit & 255) - 128
        source = QParams.per_tensor("i8", 1.0, 0 if last else -128)
        part = _looked_up(e, value, byte.astype(np.int8))
        wide = rescaled(
            e, part, (source, QParams.per_tensor("i32", 1.0)), [UNIT], Rounding.HALF_UP, 255
        )
        if total is None:
            total = wide
        else:
            factor = e.const(np.full(rank, 256, np.int32), i32)
            scaled = e.op("mul", [total, factor, e.scalar(0, 8)], shape, i32)
            total = e.op("add", [scaled, wide], shape, i32)
    assert total is not None
    if width == 32:
        return total
    ends = QParams.per_tensor("i32", 1.0), QParams.per_tensor(f"i{width}", 1.0)
    return rescaled(e, total, ends, [UNIT], Rounding.HALF_UP, 1 << 16)


def read_as(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.scast`: the same bits, as codes of another meaning or as plain integers."""
    (x,) = operands
    result = qparams_of(op.results[0])
    sides = [q.storage for q in (x.params, result) if q is not None]
    if any(storage.width < 8 for storage in sides) and len({s.signed for s in sides}) > 1:
        raise Unlowerable("storage", "it reads narrow codes with another sign")
    if x.array is not None:
        signed = result is None or result.storage.signed
        kind = f"{'i' if signed else 'u'}{x.array.dtype.itemsize}"
        return LaidOut(x.shape, x.order, result, None, x.array.view(kind))
    return LaidOut(x.shape, x.order, result, x.value)


def divide(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.div` of integers whose quotient is the result, rounded half up.

        floor((2 n + d) / (2 d))        d > 0

    `tosa.intdiv` truncates, which rounds down where n >= 0. Else t = trunc(a / b) is one too
    large where a < t b, that is where the sign bit of a - t b is set.
    """
    lhs, rhs = (x.params for x in operands)
    result, shape = qparams_of(op.results[0]), shape_of(op.results[0])
    if lhs is None or rhs is None or result is None:
        raise Unlowerable("float", "it computes floats", "quantize it (qopt quantize)")
    check_quotient(e, op, (lhs, rhs), result)
    parts = [ranked(e, x, len(shape)) for x in operands]
    order = common_order(parts, len(shape))
    numerator, divisor = (widened(e, x, order) for x in parts)
    extents = [shape[axis] for axis in order]
    two = e.const(np.full((1,) * len(shape), 2, np.int32), i32)
    zero = e.scalar(0, 8)

    def doubled(value: SSAValue) -> SSAValue:
        return e.op("mul", [value, two, zero], shape_of(value), i32)

    twice = doubled(numerator)
    top = e.op("add", [twice, divisor], extents, i32)
    under = doubled(divisor)
    steps = e.op("intdiv", [top, under], extents, i32)
    known = ranges(e.session).of(op.operands[0])
    if known is None or known.low < lhs.zero_point_list()[0]:
        below = e.op("mul", [steps, under, zero], extents, i32)
        left = e.op("sub", [top, below], extents, i32)
        sign = e.const(np.full((1,) * len(shape), 31, np.int32), i32)
        borrow = e.op("arithmetic_right_shift", [left, sign], extents, i32, round=flag(False))
        steps = e.op("add", [steps, borrow], extents, i32)
    low, high = (bound - result.zero_point for bound in (result.storage.min, result.storage.max))
    out = narrowed(e, clamped(e, steps, low, high), result)
    return e.result(out, order, result, shape)
