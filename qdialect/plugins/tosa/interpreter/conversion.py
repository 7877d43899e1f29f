"""Ops of TOSA that change numbers' types: rescales, tables, casts.

rescale    clamp(((x - input_zp) * m + 2**(k-1) [+- 2**30]) >> k) + output_zp)
table      i8: one of 256 entries; i16: between two of 513, 7 bits finer
cast       between floats: nearest even; to integers: nearest even, saturated; between
           integers: the lowest bits
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect.errors import UnsupportedError
from qdialect.interpreter.values import Array, Evaluation, Kernel, place
from qdialect.ir.dialects.attributes import flag_of, keyword_of
from qdialect.plugins.tosa.interpreter.values import (
    bounds,
    is_float,
    longs,
    reals,
    result,
    width_of,
    zero_point,
)

_FURTHER = 31
"""DOUBLE_ROUND rounds twice where the shift is larger."""
_EXACT_BITS = 62


def scaled(steps: Array, multiplier: Array, shift: Array, double: bool = False) -> Array:
    """Integers times multiplier * 2**-shift, rounded half up, or as gemmlowp does."""
    half = np.left_shift(np.int64(1), np.maximum(shift - 1, 0)) * (shift > 0)
    reach = int(np.abs(steps).max(initial=0)).bit_length()
    if reach + int(np.abs(multiplier).max(initial=0)).bit_length() > _EXACT_BITS:
        steps, multiplier = steps.astype(object), multiplier.astype(object)
    total = steps * multiplier + half
    if double:
        more = np.where(steps >= 0, 1 << 30, -(1 << 30))
        total = total + np.where(shift > _FURTHER, more, 0)
    return total >> shift


def _rescale(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """One pair (multiplier, shift), or one for each place along the last dimension."""
    if len(operands) < 5:
        raise UnsupportedError(
            "'tosa.rescale' op has its parameters in attributes, as before TOSA 1.0",
            where=place(op),
        )
    x, multiplier, shift, z_in, z_out = operands
    kind = op.results[0].type
    unsigned_in, unsigned_out = (flag_of(op, f"{end}_unsigned") for end in ("input", "output"))
    steps = longs(x)
    if unsigned_in and x.dtype.kind == "i":
        steps = steps & ((1 << width_of(op.operands[0].type)) - 1)
    steps = steps - zero_point(z_in, unsigned_in)
    double = keyword_of(op, "rounding_mode", "SINGLE_ROUND") == "DOUBLE_ROUND"
    if not flag_of(op, "per_channel"):
        multiplier, shift = multiplier.reshape(-1)[:1], shift.reshape(-1)[:1]
    values = scaled(np.atleast_1d(steps), longs(multiplier), longs(shift), double)
    values = values.reshape(x.shape) + zero_point(z_out, unsigned_out)
    if evaluation.dtype(kind).kind == "u":
        unsigned_out = True
    return result(op, np.clip(values, *bounds(kind, unsigned_out)).astype(np.int64), evaluation)


def _table(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """What a table holds for 8-bit integers; for 16 bits, what lies between two entries."""
    x, table = longs(operands[0]), longs(operands[1]).reshape(-1)
    if width_of(op.operands[0].type) == 8:
        return result(op, table[x & 255 if operands[0].dtype.kind == "u" else x + 128], evaluation)
    place_of, part = (x >> 7) + 256, x & 127
    base = table[place_of]
    return result(op, (base << 7) + (table[place_of + 1] - base) * part, evaluation)


def _cast(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The nearest number of another type."""
    (x,), source, target = operands, op.operands[0].type, op.results[0].type
    if is_float(source):
        values = reals(x, source)
        if is_float(target):
            return result(op, values, evaluation)
        if width_of(target) == 1:
            return [values != 0]
        low, high = bounds(target)
        whole = np.where(np.isnan(values), 0, np.rint(values))
        inner = np.clip(whole, float(low), float(high))
        integers = np.where(inner >= 2.0**63, high, np.minimum(inner, 2.0**62).astype(np.int64))
        return result(op, np.where(whole >= high, high, integers), evaluation)
    if not is_float(target) and width_of(target) == 1:
        return [x != 0]
    values = longs(x)
    if is_float(target):
        return result(op, values.astype(np.float64), evaluation)
    return result(op, values, evaluation)


def _apply_scale(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """`tosa.apply_scale`: a rescale of i32 without zero points, elementwise."""
    values, multiplier, shift = (longs(np.atleast_1d(x)) for x in operands)
    double = keyword_of(op, "rounding_mode", "SINGLE_ROUND") == "DOUBLE_ROUND"
    found = scaled(values, multiplier, shift, double).astype(np.int64)
    return result(op, found.reshape(operands[0].shape), evaluation)


KERNELS: Mapping[str, Kernel] = {
    "tosa.rescale": _rescale,
    "tosa.apply_scale": _apply_scale,
    "tosa.table": _table,
    "tosa.cast": _cast,
}
