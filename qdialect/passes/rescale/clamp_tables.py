"""Clamps and rescales that commute though the clamp's levels have no code.

    clamp_b(rescale_{a->b}(q)) = rescale_{a->b}(clamp_a(q))

holds whenever a's and b's codes name the levels. Where they do not, each side rounds the
level to a code of its own; on at most 16 bits all codes that occur are compared.
"""

from __future__ import annotations

from math import inf

import numpy as np
from xdsl.ir import Operation

from qdialect.behaviors import Behavior
from qdialect.numerics import requantize as exact
from qdialect.numerics.arithmetic import Arithmetic, quantized, requantized
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams


def clamp_commutes(
    behavior: Behavior,
    op: Operation,
    seen: QParams,
    a: QParams,
    b: QParams,
    rounding: Rounding,
    defined: Arithmetic,
) -> bool:
    """Whether the clamp that `op` is gives the same before and after a rescale a -> b of
    the codes `seen`, of a's parameters."""
    floats = defined.floats(a.expressed)
    if behavior.clamp is None or rounding is Rounding.GEMMLOWP:
        return False
    if not exact.tabulated(seen) or exact.unique_pairs(a, b) is None:
        return False
    low, high = behavior.clamp(op)
    for given, inside, result in exact.parameter_triples(seen, a, b):
        codes = exact.codes_of(given)
        moved = requantized(codes, inside, result, rounding, floats)
        clamped = _clamped(codes, low, high, inside, floats)
        if not np.array_equal(
            _clamped(moved, low, high, result, floats),
            requantized(clamped, inside, result, rounding, floats),
        ):
            return False
    return True


def _clamped(
    codes: exact.Codes, low: float, high: float, a: exact.QuantGrid, floats: str | None
) -> exact.Codes:
    """As the op does it: at the codes nearest to the levels, ties to even."""
    if low != -inf:
        codes = np.maximum(codes, quantized(low, a, Rounding.HALF_EVEN, floats))
    if high != inf:
        codes = np.minimum(codes, quantized(high, a, Rounding.HALF_EVEN, floats))
    return codes
