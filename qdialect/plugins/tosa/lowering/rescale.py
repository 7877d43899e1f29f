"""`quant.rescale` as `tosa.rescale`, whatever it rounds, bit for bit.

    y = (v * m + 2**(k-1)) >> k          v = x - z, m and k the pair        SINGLE_ROUND

rounds half up. DOUBLE_ROUND is gemmlowp. Of ruy, which rounds half up twice, two are made, by
2**-31 and by the rest of the shift. TOSA has no other rounding, so ties are put right
after: with m = m' 2**t, m' odd, and s = k - t, v is a tie exactly if its s lowest bits are
2**(s-1) (an odd factor maps that class to itself), and there

    half_even    y - (y & 1)
    half_away    y - (1 if v < 0)

is the result. Where no v that occurs is a tie, nothing is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.dialects.tosa import RoundingMode, RoundingModeAttr
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.fixed_point import MAX_SHIFT, MIN_SHIFT
from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.ranges import ranges
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.quant import RescaleOp
from qdialect.plugins.common.lowering.emitter import integers
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, Order, identity_order
from qdialect.plugins.tosa.lowering.emitter import Emitter, flag

Pair = tuple[int, int]
UNIT: Pair = (1 << 30, 30)
"""A factor of 1."""
_MAX32 = 2**31 - 1
_WIDTHS = (8, 16, 32)


def lower_rescale(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.rescale` in the fixed-point form."""
    assert isinstance(op, RescaleOp)
    (x,) = operands
    pairs = op.fixed_point
    if pairs is None:
        raise Unlowerable(
            "real-form", "the rescale is a real number", "run convert-rescale{form=fixed}"
        )
    source, result = op.input_qparams, op.result_qparams
    steps = ranges(e.session).of(op.input)
    reach = _MAX32 if steps is None else int((steps - source.zero_point_list()[0]).largest)
    order = _order(x, source, result, len(pairs))
    value = rescaled(e, e.value_of(x, order), (source, result), pairs, op.rounding, reach)
    return e.result(value, order, result, x.shape)


def _order(x: LaidOut, source: QParams, result: QParams, pairs: int) -> Order:
    """The order to rescale in: as it is, but with the dimension of the parameters last."""
    axes = {q.axis for q in (source, result) if q.axis is not None and q.count > 1}
    if "block" in (source.layout.value, result.layout.value) or len(axes) > 1:
        raise Unlowerable("grid", "its parameters vary along more than one dimension")
    for params in (source, result):
        if len(set(params.zero_point_list())) > 1:
            raise Unlowerable("zero-points", "zero points that differ between channels")
    if not axes or pairs == 1:
        return x.order
    (axis,) = axes
    return x.order if x.order[-1] == axis else (*(d for d in x.order if d != axis), axis)


def rescaled(
    e: Emitter,
    value: SSAValue,
    ends: tuple[QParams, QParams],
    pairs: Sequence[Pair],
    rounding: Rounding,
    reach: int,
) -> SSAValue:
    """`value` rescaled; `reach` is the largest |code - zero point| that occurs, and pairs
    that differ are along the last dimension."""
    source, result = (as_laid_out(params) for params in ends)
    ends = source, result
    z_in, z_out = source.zero_point_list()[0], result.zero_point_list()[0]
    _check(source.storage, z_in)
    _check(result.storage, z_out)
    for m, k in pairs:
        if not (MIN_SHIFT <= k <= MAX_SHIFT) or m < 0:
            raise Unlowerable("shift", f"multiplier {m} and shift {k} are out of range")
    if rounding is Rounding.RUY:
        return _twice_up(e, value, ends, pairs, reach)
    pairs = [_normal(pair, reach, rounding) for pair in pairs]
    source, value, reach = _within(e, value, ends, pairs, reach)
    z_in = source.zero_point_list()[0]
    if any((reach * m >> k) + 1 > _MAX32 for m, k in pairs):
        raise Unlowerable("overflow", "a rescaled code may not fit 32 bits")
    corrected = rounding in (Rounding.HALF_EVEN, Rounding.HALF_AWAY) and any(
        _may_tie(pair, reach) for pair in pairs
    )
    low, high = result.storage.min - z_out, result.storage.max - z_out
    narrow = not result.storage.is_full_range
    double = rounding is Rounding.GEMMLOWP
    if not corrected and not narrow:
        return _rescale(e, value, (source.storage, z_in), (result.storage, z_out), pairs, double)
    wide = Storage.of("i32")
    steps = _rescale(e, value, (source.storage, z_in), (wide, 0), pairs, double)
    if corrected:
        v = value
        if source.storage.spelling != "i32" or z_in:
            v = _rescale(e, value, (source.storage, z_in), (wide, 0), [UNIT], False)
        steps = _corrected(e, v, steps, pairs, rounding)
    if narrow:
        steps = clamped(e, steps, low, high)
    return _rescale(e, steps, (wide, 0), (result.storage, z_out), [UNIT], False)


def _twice_up(
    e: Emitter, value: SSAValue, ends: tuple[QParams, QParams], pairs: Sequence[Pair], reach: int
) -> SSAValue:
    """As `rescaled`, rounded half up by a shift of 31 first where it is longer, and then by the
    rest of it."""
    if all(k <= 31 for _, k in pairs):
        return rescaled(e, value, ends, pairs, Rounding.HALF_UP, reach)
    source, result = ends
    wide = QParams.per_tensor("i32", 1.0, 0, source.expressed)
    first = [(m, min(k, 31)) for m, k in pairs]
    value = rescaled(e, value, (source, wide), first, Rounding.HALF_UP, reach)
    reach = max((reach * m >> k) + 1 for m, k in first)
    rest = [(1 << 30, 30 + k - shift) for (_, k), (_, shift) in zip(pairs, first, strict=True)]
    return rescaled(e, value, (wide, result), rest, Rounding.HALF_UP, reach)


def _normal(pair: Pair, reach: int, rounding: Rounding) -> Pair:
    """The same factor, with a shift that TOSA takes for numbers up to `reach`: it wants
    |v| < 2**(k-1).  gemmlowp rounds in another way where the shift is above 31."""
    m, k = pair
    furthest = MAX_SHIFT if rounding is not Rounding.GEMMLOWP else max(k, 31)
    while reach >= 1 << (k - 1) and k < furthest and m < 1 << 30:
        m, k = m * 2, k + 1
    return m, k


def _within(
    e: Emitter, value: SSAValue, ends: tuple[QParams, QParams], pairs: Sequence[Pair], reach: int
) -> tuple[QParams, SSAValue, int]:
    """`value` cut to the |v| < 2**(k-1) that TOSA takes, if what is cut off saturates."""
    source, result = ends
    bound = min(1 << (k - 1) for _, k in pairs) - 1
    if reach <= bound:
        return source, value, reach
    zero = result.zero_point_list()[0]
    furthest = max(abs(result.storage.min - zero), abs(result.storage.max - zero)) + 1
    if any(bound * m >> k < furthest for m, k in pairs):
        raise Unlowerable("range", f"TOSA takes numbers up to {bound} with such a shift")
    wide = QParams.per_tensor("i32", 1.0, 0, source.expressed)
    zero = source.zero_point_list()[0]
    if source.storage.width < 32 or zero:
        value = _rescale(e, value, (source.storage, zero), (wide.storage, 0), [UNIT], False)
    return wide, clamped(e, value, -bound, bound), bound


def as_laid_out(params: QParams) -> QParams:
    """The same codes with storage of at least 8 bits: those of less are laid out in i8."""
    storage = params.storage
    if storage.width >= 8 or storage.is_float:
        return params
    return params.with_storage(Storage("i", 8, storage.min, storage.max))


def _check(storage: Storage, zero: int) -> None:
    if storage.width not in _WIDTHS:
        raise Unlowerable("storage", f"TOSA rescales no {storage.spelling}")
    if storage.width == 32 and not storage.signed:
        raise Unlowerable("storage", "TOSA has no u32")
    if zero and not (storage.width <= 8 or (storage.width == 16 and not storage.signed)):
        raise Unlowerable("zero-point", f"the zero point of {storage.spelling} is 0 in TOSA")


def _rescale(
    e: Emitter,
    value: SSAValue,
    source: tuple[Storage, int],
    result: tuple[Storage, int],
    pairs: Sequence[Pair],
    double: bool,
) -> SSAValue:
    """One `tosa.rescale`; between unsigned and 32 bits, which TOSA does not have, two."""
    multipliers, shifts = zip(*pairs, strict=True)
    (source_storage, z_in), (result_storage, z_out) = source, result
    if 32 in (source_storage.width, result_storage.width) and not (
        source_storage.signed and result_storage.signed
    ):
        unsigned, zero = result if source_storage.signed else source
        between = Storage.of(f"i{unsigned.width}"), zero - (1 << (unsigned.width - 1))
        if source_storage.signed:
            value = _rescale(e, value, source, between, pairs, double)
            return _rescale(e, value, between, result, [UNIT], False)
        value = _rescale(e, value, source, between, [UNIT], False)
        return _rescale(e, value, between, result, pairs, double)
    widths = max(source_storage.width, 8), max(result_storage.width, 8)
    mode = RoundingMode.DOUBLE_ROUND if double else RoundingMode.SINGLE_ROUND
    return e.op(
        "rescale",
        [
            value,
            e.const(np.array(multipliers, np.int32), i32),
            e.const(np.array(shifts, np.int8), i8),
            e.scalar(_as_signed(z_in, widths[0]), widths[0]),
            e.scalar(_as_signed(z_out, widths[1]), widths[1]),
        ],
        shape_of(value),
        integers(widths[1]),
        scale32=flag(True),
        rounding_mode=RoundingModeAttr(mode),
        per_channel=flag(len(pairs) > 1),
        input_unsigned=flag(not source_storage.signed),
        output_unsigned=flag(not result_storage.signed),
    )


def _as_signed(number: int, width: int) -> int:
    return number - (1 << width) if number >= 1 << (width - 1) else number


def _tie_bits(pair: Pair) -> int:
    """s: ties are the v whose s lowest bits are 2**(s-1); none if s < 1."""
    m, k = pair
    return k - ((m & -m).bit_length() - 1) if m else 0


def _may_tie(pair: Pair, reach: int) -> bool:
    s = _tie_bits(pair)
    return s >= 1 and 1 << (s - 1) <= reach


def _corrected(
    e: Emitter, v: SSAValue, y: SSAValue, pairs: Sequence[Pair], rounding: Rounding
) -> SSAValue:
    """`y`, rounded half up from `v`, with ties rounded as `rounding` says."""
    masks: list[int] = []
    halves: list[int] = []
    for pair in pairs:
        s = _tie_bits(pair)
        # A pattern that no v has, where there are no ties.
        masks.append((1 << s) - 1 if 1 <= s <= 31 else 0)
        halves.append(1 << (s - 1) if 1 <= s <= 31 else 1)
    shape = shape_of(y)
    along = (*(1 for _ in shape[1:]), len(pairs)) if shape else ()
    low = e.op(
        "bitwise_and", [v, e.const(np.array(masks, np.int32).reshape(along), i32)], shape, i32
    )
    half = e.const(np.array(halves, np.int32).reshape(along), i32)
    # 1 where they are equal: only 0 has 32 leading zeros. (Booleans in memory are where some
    # engines fail.)
    apart = e.op("bitwise_xor", [low, half], shape, i32)
    tie = _logical_shift(e, e.op("clz", [apart], shape, i32), 5)
    even = rounding is Rounding.HALF_EVEN
    one = e.const(np.ones((1,) * len(shape), np.int32), i32)
    off = e.op("bitwise_and", [y, one], shape, i32) if even else _logical_shift(e, v, 31)
    return e.op("sub", [y, e.op("bitwise_and", [tie, off], shape, i32)], shape, i32)


def _logical_shift(e: Emitter, value: SSAValue, by: int) -> SSAValue:
    """The bits of `value` shifted right, zeros coming in."""
    shape = shape_of(value)
    amount = e.const(np.full((1,) * len(shape), by, np.int32), i32)
    return e.op("logical_right_shift", [value, amount], shape, i32)


def clamped(e: Emitter, value: SSAValue, low: int, high: int) -> SSAValue:
    """min(max(value, low), high) of 32-bit integers."""
    shape = shape_of(value)
    rank = (1,) * len(shape)
    for name, bound in (("maximum", low), ("minimum", high)):
        value = e.op(name, [value, e.const(np.full(rank, bound, np.int32), i32)], shape, i32)
    return value


# -- exact changes of storage ------------------------------------------------------


def widened(e: Emitter, x: LaidOut, order: Order | None = None) -> SSAValue:
    """Codes less their zero point, as i32."""
    assert x.params is not None
    params = as_laid_out(x.params)
    order = identity_order(x.rank) if order is None else order
    zero = params.zero_point_list()[0]
    if len(set(params.zero_point_list())) > 1:
        raise Unlowerable("zero-points", "zero points that differ between channels")
    if x.array is not None:
        steps = x.array.astype(np.int64) - zero
        return e.const(steps.transpose(order).astype(np.int32), i32)
    value = e.value_of(x, order)
    if params.storage.spelling == "i32" and not zero:
        return value
    _check(params.storage, zero)
    return _rescale(e, value, (params.storage, zero), (Storage.of("i32"), 0), [UNIT], False)


def signed(e: Emitter, x: LaidOut) -> LaidOut:
    """The same with signed storage: u8 as i8, the zero point shifted along."""
    assert x.params is not None
    params = as_laid_out(x.params)
    if params.storage.signed:
        if x.array is None:
            return LaidOut(x.shape, x.order, params, x.value)
        return LaidOut(
            x.shape, x.order, params, None, x.array.astype(f"i{params.storage.width // 8}")
        )
    width = params.storage.width
    half = 1 << (width - 1)
    shifted = params.with_signedness(True)
    if x.array is not None:
        codes: Any = (x.array.astype(np.int64) - half).astype(f"i{width // 8}")
        return LaidOut(x.shape, x.order, shifted, None, codes)
    assert x.value is not None
    zero = params.zero_point_list()[0]
    value = _rescale(
        e, x.value, (params.storage, zero), (shifted.storage, zero - half), [UNIT], False
    )
    return LaidOut(x.shape, x.order, shifted, value)
